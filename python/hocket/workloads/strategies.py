"""Parallelisation strategies and the profile of an iteration with each: the formulas of the catalogue.

An iteration starts with Down (the forward pass) and ends with its last Up phase."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from hocket.profiles import BITS_PER_BYTE, BPS_PER_GBPS, PS_PER_MS, PhaseSpec, WorkloadProfile
from hocket.workloads.sourced import Sourced

LINE_RATE_BPS = Sourced(50 * BPS_PER_GBPS, "paper", "NSDI'24 §5.1: one 50 Gbps NIC in each server")


MOST_WORKERS = Sourced(24, "paper", "NSDI'24 §5.1: 24 servers with one GPU each")


REFERENCE_WORKERS = Sourced(
    2,
    "calibration",
    "NSDI'24 Table 2 does not say how many workers its jobs have; two, the fewest that communicate",
)


EFFECTIVE_FLOPS = Sourced(
    125 * 10**12,
    "calculation",
    "40% of the 312 TFLOP/s (16 bit) of an A100, the GPU of NSDI'24 §5.1; large models train at 30 to 50%",
)


STATE_BYTES_PER_PARAMETER = Sourced(
    16,
    "calculation",
    "mixed-precision Adam keeps 2 + 2 + 12 bytes (ZeRO, SC'20 §3.1), the setting of DeepSpeed",
)


SEQUENCE_TOKENS = Sourced(
    512,
    "calibration",
    "GPT-1's context; the paper gives no length, and longer ones lengthen all phases alike",
)


TENSOR_RATE_BPS = Sourced(
    25 * BPS_PER_GBPS,
    "paper",
    "NSDI'24 §2.1: forward and backpropagation introduce roughly 25 Gbps in Fig 1(c)",
)


GRADIENT_RATE_BPS = Sourced(
    35 * BPS_PER_GBPS,
    "calibration",
    "the highest demand of a data parallel job in the consistent reading of NSDI'24 Table 2",
)


DATA_LOADING_PS = Sourced(
    100 * PS_PER_MS, "calibration", "NSDI'24 §2.1 says a short period; Fig 1(c) prints no length"
)


_BYTES_PER_VALUE = 2  # 16-bit weights, activations and gradients


@dataclass(frozen=True)
class Point:
    """One calibration point: at `batch_size` on `workers`, Down for `down_ms`, then Up at `rate_gbps`."""

    batch_size: int
    down_ms: Fraction
    up_ms: Fraction
    rate_gbps: Fraction
    source: Sourced[str]
    workers: Sourced[int] = REFERENCE_WORKERS


class Strategy(Protocol):
    """A parallelisation of a model, with the profile of an iteration."""

    @property
    def name(self) -> str:
        """The name of the strategy in a plan."""

    @property
    def workers(self) -> Sourced[tuple[int, ...]]:
        """The numbers of workers that the strategy supports, in ascending order."""

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`, one of those that `workers` lists."""


def ring_all_reduce_share(workers: int) -> Fraction:
    """The bytes that each of `workers` sends in a ring all-reduce, relative to the buffer: 2(n − 1)/n.

    Source: nccl-tests, doc/PERFORMANCE.md.

    >>> ring_all_reduce_share(4)
    Fraction(3, 2)
    """
    return Fraction(2 * (workers - 1), workers)


_ANY_WORKERS = Sourced(tuple(range(1, MOST_WORKERS.value + 1)), MOST_WORKERS.kind, MOST_WORKERS.source)


@dataclass(frozen=True)
class DataParallel:
    """Down for the forward pass, then one Up phase for backpropagation and ring all-reduce together.

    Between calibration points, Down, Up and rate are linear in the batch size. Beyond them, Down follows the
    nearest segment, or is proportional to the batch size if there is only one point (GPUs are kept above 80%
    busy, NSDI'24 §2.1, so samples per second hardly change); Up and rate stay the same, because the bytes of
    gradients do not depend on the batch size. More workers than at a point lengthen the Up phase, at the same
    rate, by the additional bytes of the ring all-reduce, and fewer shorten it: HotNets'22 Fig 1 shows two
    workers at 30 Gbps already.
    """

    points: tuple[Point, ...]
    name: str = "data"
    workers: Sourced[tuple[int, ...]] = _ANY_WORKERS

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`."""
        down_ms = self._down_ms(batch_size)
        # With one worker nothing is sent, and the papers do not say how much of Up is backpropagation:
        # the Up phase of two workers is its upper bound.
        up_ms = self._between(batch_size, self._up_ms(max(workers, 2)))
        rate_gbps = self._between(batch_size, [point.rate_gbps for point in self.points])
        segments = [(down_ms, Fraction(0)), (up_ms, rate_gbps if workers > 1 else Fraction(0))]
        notes = "" if workers > 1 else "one worker sends nothing; its period is an upper bound"
        return in_sequence(segments, self._sources(batch_size), notes)

    def nearest_point(self, batch_size: int) -> Point:
        """The calibration point at the nearest batch size; the smaller one if two are as near."""
        return min(self.points, key=lambda point: abs(point.batch_size - batch_size))

    def _up_ms(self, workers: int) -> list[Fraction]:
        """The Up phase of each point on `workers`."""
        shares = [ring_all_reduce_share(point.workers.value) for point in self.points]
        # The time to send the gradients once differs between the points of one model, although no batch size
        # changes them. Using the mean for all keeps an iteration from getting shorter as the batch grows.
        once_ms = [point.up_ms / share for point, share in zip(self.points, shares, strict=True)]
        mean_ms = sum(once_ms, Fraction(0)) / len(once_ms)
        more = ring_all_reduce_share(workers)
        return [
            point.up_ms + (more - share) * mean_ms for point, share in zip(self.points, shares, strict=True)
        ]

    def _down_ms(self, batch_size: int) -> Fraction:
        if len(self.points) == 1:
            return self.points[0].down_ms * Fraction(batch_size, self.points[0].batch_size)
        # Below the first point, this is the first segment; beyond the last one, −1 makes it the last segment.
        upper = next((i for i, point in enumerate(self.points[1:], 1) if point.batch_size >= batch_size), -1)
        last = self.points[upper]
        first = self.points[upper - 1]
        slope = (last.down_ms - first.down_ms) / (last.batch_size - first.batch_size)
        return last.down_ms + slope * (batch_size - last.batch_size)

    def _between(self, batch_size: int, values: list[Fraction]) -> Fraction:
        for i in range(len(values) - 1):
            low, high = self.points[i].batch_size, self.points[i + 1].batch_size
            if low <= batch_size <= high:
                return values[i] + (values[i + 1] - values[i]) * Fraction(batch_size - low, high - low)
        return values[0] if batch_size < self.points[0].batch_size else values[-1]

    def _sources(self, batch_size: int) -> tuple[str, ...]:
        exact = [point for point in self.points if point.batch_size == batch_size]
        used = exact or self.points
        workers = dict.fromkeys(str(point.workers) for point in used)
        return (*(str(point.source) for point in used), *workers)


@dataclass(frozen=True)
class EmbeddingExchange:
    """DLRM: partitioned embedding tables, so an all-to-all whose bytes grow with the batch.

    Compute and bytes are proportional to the batch size; the Up phase grows with the number of workers n like
    the bytes of an all-to-all, (n − 1)/n. The calibrated Up phase includes the all-reduce of the replicated
    layers.
    """

    point: Point
    name: str = "hybrid"
    workers: Sourced[tuple[int, ...]] = _ANY_WORKERS

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` on `workers`."""
        scale = Fraction(batch_size, self.point.batch_size)
        # 0 for one worker, which exchanges nothing: its iteration has no Up phase.
        growth = Fraction(workers - 1, workers) / Fraction(
            REFERENCE_WORKERS.value - 1, REFERENCE_WORKERS.value
        )
        segments = [
            (self.point.down_ms * scale, Fraction(0)),
            (self.point.up_ms * scale * growth, self.point.rate_gbps),
        ]
        return in_sequence(segments, (str(self.point.source), str(REFERENCE_WORKERS)))


@dataclass(frozen=True)
class Transformer:
    """The shape of a GPT: parameters = 12 · layers · hidden² + vocabulary · hidden."""

    layers: int
    hidden: int
    vocabulary: int
    source: Sourced[str]

    @property
    def parameters(self) -> int:
        """Weights of all layers and of the token embedding, without biases."""
        return 12 * self.layers * self.hidden**2 + self.embedding_parameters

    @property
    def embedding_parameters(self) -> int:
        """Weights of the token embedding."""
        return self.vocabulary * self.hidden

    def forward_ms(self, tokens: Fraction, gpus: int) -> Fraction:
        """The forward pass of `tokens` split over `gpus`, in ms: 2 operations per parameter and token.

        Backpropagation takes twice as long.
        """
        return 2 * self.parameters * tokens * 1000 / (gpus * EFFECTIVE_FLOPS.value)

    def activation_bytes(self, tokens: Fraction) -> Fraction:
        """The activations of `tokens` at a layer boundary."""
        return tokens * self.hidden * _BYTES_PER_VALUE


_GPT_SOURCES = (str(EFFECTIVE_FLOPS), str(SEQUENCE_TOKENS), str(STATE_BYTES_PER_PARAMETER))


@dataclass(frozen=True)
class GptData:
    """Data parallel GPT (NSDI'24 Fig 1a): forward, then backpropagation with the gradients' all-reduce."""

    shape: Transformer
    name: str = "data"
    workers: Sourced[tuple[int, ...]] = _ANY_WORKERS

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`; Up is no shorter than backpropagation."""
        forward_ms = self.shape.forward_ms(Fraction(batch_size * SEQUENCE_TOKENS.value), 1)
        size = self.shape.parameters * _BYTES_PER_VALUE * ring_all_reduce_share(workers)
        # Fig 1(a) shows one Up phase for backpropagation and all-reduce. If the bytes at the calibrated rate
        # take less time than backpropagation, the phase lasts as long as that, at a lower rate.
        up_ms = max(2 * forward_ms, _sending_ms(size, GRADIENT_RATE_BPS.value))
        segments = [(forward_ms, Fraction(0)), (up_ms, size * BITS_PER_BYTE / up_ms / 10**6)]
        return in_sequence(segments, (str(self.shape.source), str(GRADIENT_RATE_BPS), *_GPT_SOURCES))


@dataclass(frozen=True)
class GptPipeline:
    """GPT in two pipeline stages (NSDI'24 Fig 1b): three small peaks, then a large one.

    Each of three minibatches is computed, then its activations are sent; after backpropagation the two
    embedding layers are all-reduced. The gradients of the activations travel the other way and do not
    load the sender's NIC.
    """

    shape: Transformer
    name: str = "pipeline"
    workers: Sourced[tuple[int, ...]] = Sourced(
        (2,), "paper", "NSDI'24 Fig 1(b): the model in halves on two servers"
    )
    minibatches: Sourced[int] = Sourced(3, "paper", "NSDI'24 §2.1: the activations of three minibatches")

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size`, on two workers."""
        tokens = Fraction(batch_size * SEQUENCE_TOKENS.value, self.minibatches.value)
        forward_ms = self.shape.forward_ms(tokens, workers)
        peak_ms = _sending_ms(self.shape.activation_bytes(tokens), TENSOR_RATE_BPS.value)
        peak = [(forward_ms, Fraction(0)), (peak_ms, _gbps(TENSOR_RATE_BPS))]
        embedding = self.shape.embedding_parameters * _BYTES_PER_VALUE * ring_all_reduce_share(workers)
        last = [
            (2 * forward_ms * self.minibatches.value, Fraction(0)),
            (_sending_ms(embedding, GRADIENT_RATE_BPS.value), _gbps(GRADIENT_RATE_BPS)),
        ]
        sources = (str(self.shape.source), str(TENSOR_RATE_BPS), str(GRADIENT_RATE_BPS), *_GPT_SOURCES)
        return in_sequence(peak * self.minibatches.value + last, sources)


@dataclass(frozen=True)
class GptTensor:
    """GPT split within its layers over two servers (NSDI'24 Fig 1c): steady traffic, then a short gap.

    Each layer all-reduces its activations twice forward and twice backward (Megatron-LM §3). The iteration
    starts in the gap, in which data is loaded.
    """

    shape: Transformer
    name: str = "tensor"
    workers: Sourced[tuple[int, ...]] = Sourced((2,), "paper", "NSDI'24 Fig 1(c): two servers")

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size`, on two workers."""
        tokens = Fraction(batch_size * SEQUENCE_TOKENS.value)
        all_reduces = 4 * self.shape.layers
        # The figure shows steady traffic through both passes, so their length follows from the bytes and its
        # rate. Computation is not added: it happens within that time, between the all-reduces.
        size = all_reduces * self.shape.activation_bytes(tokens) * ring_all_reduce_share(workers)
        up_ms = _sending_ms(size, TENSOR_RATE_BPS.value)
        segments = [
            (Fraction(DATA_LOADING_PS.value, PS_PER_MS), Fraction(0)),
            (up_ms, _gbps(TENSOR_RATE_BPS)),
        ]
        sources = (str(self.shape.source), str(TENSOR_RATE_BPS), str(DATA_LOADING_PS), *_GPT_SOURCES)
        return in_sequence(segments, sources)


@dataclass(frozen=True)
class GptHybrid:
    """GPT in two pipeline stages of two tensor halves, replicated (NSDI'24 Fig 1d): six Up-Down phases.

    Two minibatches forward and two backward, each with its layers' tensor all-reduces, then the replicas'
    all-reduce of gradients, then the stages' all-reduce of the embedding. Between two minibatches a stage
    waits for the other; the gaps are the compute time of a minibatch there.
    """

    shape: Transformer
    name: str = "hybrid"
    workers: Sourced[tuple[int, ...]] = Sourced(
        tuple(range(8, MOST_WORKERS.value + 1, 4)),
        "paper",
        "NSDI'24 §2.1: four partitions, replicated on another four of eight servers; more replicas alike",
    )
    partitions: Sourced[int] = Sourced(4, "paper", "NSDI'24 §2.1: a total of four partitions")
    minibatches: Sourced[int] = Sourced(2, "calibration", "two give the six phases of NSDI'24 Fig 1(d)")

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size`, on a multiple of four workers."""
        tokens = Fraction(batch_size * SEQUENCE_TOKENS.value, self.minibatches.value)
        wait_ms = self.shape.forward_ms(tokens, self.partitions.value)
        # A stage has half the layers, each with two all-reduces per pass; in a ring of two, an all-reduce
        # sends its buffer once. So a stage sends layers × activations per pass.
        layer_ms = _sending_ms(self.shape.layers * self.shape.activation_bytes(tokens), TENSOR_RATE_BPS.value)
        forward = [(wait_ms, Fraction(0)), (layer_ms, _gbps(TENSOR_RATE_BPS))]
        backward = [(2 * wait_ms, Fraction(0)), (layer_ms, _gbps(TENSOR_RATE_BPS))]
        share = Fraction(_BYTES_PER_VALUE, self.partitions.value)
        gradients = self.shape.parameters * share * ring_all_reduce_share(workers // self.partitions.value)
        # The embedding is split over the two tensor halves, and all-reduced between two stages.
        embedding = self.shape.embedding_parameters * Fraction(_BYTES_PER_VALUE, 2)
        reduced = [
            segment
            for size in (gradients, embedding)
            for segment in (
                (wait_ms, Fraction(0)),
                (_sending_ms(size, GRADIENT_RATE_BPS.value), _gbps(GRADIENT_RATE_BPS)),
            )
        ]
        sources = (str(self.shape.source), str(TENSOR_RATE_BPS), str(GRADIENT_RATE_BPS), *_GPT_SOURCES)
        segments = forward * self.minibatches.value + backward * self.minibatches.value + reduced
        return in_sequence(segments, sources)


def _gbps(rate: Sourced[int]) -> Fraction:
    return Fraction(rate.value, BPS_PER_GBPS)


def _sending_ms(size_bytes: Fraction | int, rate_bps: int) -> Fraction:
    return Fraction(size_bytes) * BITS_PER_BYTE * 1000 / rate_bps


def in_sequence(
    segments: list[tuple[Fraction, Fraction]], sources: tuple[str, ...], notes: str = ""
) -> WorkloadProfile:
    """The profile of `segments` of (ms, Gbps) one after another, rounded to ps and bits/s; rate 0 is Down."""
    # Borders are rounded, not lengths, so that rounding errors do not add up over the segments.
    end_ms, phases = Fraction(0), []
    for length_ms, rate_gbps in segments:
        start_ps, end_ms = round(end_ms * PS_PER_MS), end_ms + length_ms
        duration_ps, rate_bps = round(end_ms * PS_PER_MS) - start_ps, round(rate_gbps * BPS_PER_GBPS)
        if duration_ps > 0 and rate_bps > 0:
            phases.append(PhaseSpec(start_ps, duration_ps, rate_bps))
    return WorkloadProfile(round(end_ms * PS_PER_MS), tuple(phases), sources, notes)
