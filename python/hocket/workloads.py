"""The workload catalogue: the 13 models of NSDI'24 Table 3 and what one iteration of each does.

Each number carries its source. An iteration starts with Down (the forward pass) and ends with its last Up
phase. Whoever has counters of the real job profiles it instead; the catalogue is for when nobody has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import Generic, Literal, Protocol, TypeVar

import polars as pl

from hocket.errors import InputError
from hocket.units import format_rate, shown

T = TypeVar("T")
Kind = Literal["paper", "calculation", "calibration"]

PS_PER_MS = 10**9
PS_PER_S = 10**12
BPS_PER_GBPS = 10**9


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and where it is from: printed in a paper, calculated from parameters, or calibrated."""

    value: T
    kind: Kind
    source: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.source}"


LINE_RATE_BPS = Sourced(50 * BPS_PER_GBPS, "paper", "NSDI'24 §5.1: one 50 Gbps NIC in each server")

MOST_WORKERS = Sourced(24, "paper", "NSDI'24 §5.1: 24 servers with one GPU each")

REFERENCE_WORKERS = Sourced(
    2,
    "calibration",
    "NSDI'24 Table 2 does not say how many workers its jobs have; two, as the VGG19 jobs of HotNets'22 "
    "Fig 1, whose slowdown of 1.23 when sharing fairly is that of VGG19 (1024) in the consistent reading",
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
_BITS_PER_BYTE = 8


@dataclass(frozen=True)
class PhaseSpec:
    """An Up phase on an idle network: from `start_ps` in the iteration, `rate_bps` for `duration_ps`."""

    start_ps: int
    duration_ps: int
    rate_bps: int

    @property
    def size_bytes(self) -> int:
        """What the phase sends, to the nearest byte."""
        return round(Fraction(self.rate_bps * self.duration_ps, _BITS_PER_BYTE * PS_PER_S))


@dataclass(frozen=True)
class WorkloadProfile:
    """One iteration on an idle network; `phases` in order of start, apart, and inside the period.

    `sources` says where the numbers are from, one sentence each.
    """

    period_ps: int
    phases: tuple[PhaseSpec, ...]
    sources: tuple[str, ...]
    notes: str = ""

    @property
    def up_ps(self) -> int:
        """The time in an iteration in which the job sends, in picoseconds."""
        return sum(phase.duration_ps for phase in self.phases)

    @property
    def size_bytes(self) -> int:
        """What one worker's NIC sends in an iteration, in bytes."""
        return sum(phase.size_bytes for phase in self.phases)


@dataclass(frozen=True)
class Point:
    """One calibration point: at `batch_size` and two workers, Down for `down_ms`, then Up at `rate_gbps`."""

    batch_size: int
    down_ms: Fraction
    up_ms: Fraction
    rate_gbps: Fraction
    source: Sourced[str]


class Strategy(Protocol):
    """A way to parallelise a model, and what it sends."""

    @property
    def name(self) -> str:
        """What a plan calls it."""

    @property
    def workers(self) -> Sourced[tuple[int, ...]]:
        """The numbers of workers that it runs on, in rising order."""

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`, one of those that `workers` lists."""


def ring_all_reduce_share(workers: int) -> Fraction:
    """What each of `workers` sends in a ring all-reduce, relative to the buffer: 2(n − 1)/n.

    Source: nccl-tests, doc/PERFORMANCE.md.

    >>> ring_all_reduce_share(4)
    Fraction(3, 2)
    """
    return Fraction(2 * (workers - 1), workers)


_ANY_WORKERS = Sourced(tuple(range(1, MOST_WORKERS.value + 1)), MOST_WORKERS.kind, MOST_WORKERS.source)


@dataclass(frozen=True)
class DataParallel:
    """Down for the forward pass, then one Up phase for backpropagation and ring all-reduce together.

    Through the calibration points, Down, Up and rate are linear in the batch size. Past the last points Down
    goes on along the nearest segment, or in proportion to the batch size where there is one point only (GPUs
    are kept above 80% busy, NSDI'24 §2.1, so samples per second hardly change); Up and rate stay, because the
    gradients' bytes do not depend on the batch size. More workers send what a ring all-reduce sends more, at
    the same rate, in a longer Up phase: HotNets'22 Fig 1 shows two workers at 30 Gbps already.
    """

    points: tuple[Point, ...]
    name: str = "data"
    workers: Sourced[tuple[int, ...]] = _ANY_WORKERS

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`."""
        down_ms = self._down_ms(batch_size)
        up_ms = self._between(batch_size, [point.up_ms for point in self.points])
        rate_gbps = self._between(batch_size, [point.rate_gbps for point in self.points])
        # With one worker nothing is sent, and the papers do not say how much of Up is backpropagation:
        # the Up phase of two workers is its upper bound.
        growth = ring_all_reduce_share(max(workers, 2)) / ring_all_reduce_share(REFERENCE_WORKERS.value) - 1
        up_ms += growth * self._mean_megabits() / rate_gbps
        segments = [(down_ms, Fraction(0)), (up_ms, rate_gbps if workers > 1 else Fraction(0))]
        notes = "" if workers > 1 else "one worker sends nothing; its period is an upper bound"
        return _in_sequence(segments, self._sources(batch_size), notes)

    def _mean_megabits(self) -> Fraction:
        # The points of one model differ in bytes, which the batch size cannot explain; their mean keeps
        # an iteration from getting shorter where the batch grows.
        return sum((point.up_ms * point.rate_gbps for point in self.points), Fraction(0)) / len(self.points)

    def _down_ms(self, batch_size: int) -> Fraction:
        if len(self.points) == 1:
            return self.points[0].down_ms * Fraction(batch_size, self.points[0].batch_size)
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
        return (*(str(point.source) for point in exact or self.points), str(REFERENCE_WORKERS))


@dataclass(frozen=True)
class EmbeddingExchange:
    """DLRM: partitioned embedding tables, so an all-to-all whose bytes grow with the batch.

    Compute and bytes are proportional to the batch size; the Up phase grows with workers like the bytes of an
    all-to-all, (n − 1)/n. The all-reduce of the replicated layers is inside the calibrated Up phase.
    """

    point: Point
    name: str = "hybrid"
    workers: Sourced[tuple[int, ...]] = _ANY_WORKERS

    def profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` on `workers`."""
        scale = Fraction(batch_size, self.point.batch_size)
        growth = Fraction(workers - 1, workers) / Fraction(
            REFERENCE_WORKERS.value - 1, REFERENCE_WORKERS.value
        )
        segments = [
            (self.point.down_ms * scale, Fraction(0)),
            (self.point.up_ms * scale * growth, self.point.rate_gbps),
        ]
        return _in_sequence(segments, (str(self.point.source), str(REFERENCE_WORKERS)))


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
        up_ms = max(2 * forward_ms, _sending_ms(size, GRADIENT_RATE_BPS.value))
        segments = [(forward_ms, Fraction(0)), (up_ms, size * _BITS_PER_BYTE / up_ms / 10**6)]
        return _in_sequence(segments, (str(self.shape.source), str(GRADIENT_RATE_BPS), *_GPT_SOURCES))


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
        return _in_sequence(peak * self.minibatches.value + last, sources)


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
        size = all_reduces * self.shape.activation_bytes(tokens) * ring_all_reduce_share(workers)
        up_ms = _sending_ms(size, TENSOR_RATE_BPS.value)
        segments = [
            (Fraction(DATA_LOADING_PS.value, PS_PER_MS), Fraction(0)),
            (up_ms, _gbps(TENSOR_RATE_BPS)),
        ]
        sources = (str(self.shape.source), str(TENSOR_RATE_BPS), str(DATA_LOADING_PS), *_GPT_SOURCES)
        return _in_sequence(segments, sources)


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
        # Half the layers are in a stage, with two all-reduces each way; two halves each send their buffer.
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
        return _in_sequence(segments, sources)


def _gbps(rate: Sourced[int]) -> Fraction:
    return Fraction(rate.value, BPS_PER_GBPS)


def _sending_ms(size_bytes: Fraction | int, rate_bps: int) -> Fraction:
    return Fraction(size_bytes) * _BITS_PER_BYTE * 1000 / rate_bps


def _in_sequence(
    segments: list[tuple[Fraction, Fraction]], sources: tuple[str, ...], notes: str = ""
) -> WorkloadProfile:
    """The profile of `segments` of (ms, Gbps) one after another, rounded to ps and bits/s; rate 0 is Down."""
    end_ms, phases = Fraction(0), []
    for length_ms, rate_gbps in segments:
        start_ps, end_ms = round(end_ms * PS_PER_MS), end_ms + length_ms
        duration_ps, rate_bps = round(end_ms * PS_PER_MS) - start_ps, round(rate_gbps * BPS_PER_GBPS)
        if duration_ps > 0 and rate_bps > 0:
            phases.append(PhaseSpec(start_ps, duration_ps, rate_bps))
    return WorkloadProfile(round(end_ms * PS_PER_MS), tuple(phases), sources, notes)


@dataclass(frozen=True)
class Model:
    """One row of the catalogue: a model of NSDI'24 Table 3 and its ways to be parallelised."""

    name: str
    memory_mb: Sourced[tuple[int, int]]
    batch_sizes: Sourced[tuple[int, int]]
    parallelisation: Sourced[str]
    field_of_use: Sourced[str]
    strategies: Mapping[str, Strategy]
    reference: tuple[int, int]
    """Batch size and workers that the catalogue's table shows."""
    more_batch_sizes: tuple[Sourced[int], ...] = field(default=())
    """Batch sizes that the papers run outside Table 3's range; they widen it."""

    def batch_size_limits(self) -> tuple[int, int]:
        """The smallest and the largest batch size per GPU that the papers run."""
        smallest, largest = self.batch_sizes.value
        more = [each.value for each in self.more_batch_sizes]
        return min([smallest, *more]), max([largest, *more])

    def check_batch_size(self, batch_size: int) -> None:
        """Raises `InputError` if `batch_size` is outside the catalogue's range for this model."""
        smallest, largest = self.batch_size_limits()
        if not smallest <= batch_size <= largest:
            raise InputError(
                f"{shown(batch_size)} is outside the catalogue's batch sizes for {self.name}, "
                f"{smallest} to {largest}"
            )

    def check_strategy(self, strategy: str | None) -> None:
        """Raises `InputError` if `strategy` is given and not one of this model's."""
        if strategy is not None and strategy not in self.strategies:
            known = ", ".join(self.strategies)
            raise InputError(f"{shown(strategy)} is not a strategy of {self.name}; known are {known}")

    def check_workers(self, workers: int, strategy: str | None = None) -> None:
        """Raises `InputError` if `strategy`, or any where none is given, does not run on `workers`."""
        self.strategy_for(workers, strategy)

    def strategy_for(self, workers: int, strategy: str | None = None) -> Strategy:
        """The strategy named, or the first that runs on so many workers.

        Raises `InputError` if there is none.
        """
        self.check_strategy(strategy)
        offered = [each for name, each in self.strategies.items() if strategy in (None, name)]
        for each in offered:
            if workers in each.workers.value:
                return each
        allowed = sorted({count for each in offered for count in each.workers.value})
        raise InputError(
            f"{shown(workers)} is outside the catalogue's numbers of workers for {self.name}, "
            f"{_ranges(allowed)}"
        )


def _ranges(counts: list[int]) -> str:
    if len(counts) > 1 and counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return ", ".join(str(count) for count in counts)


def _table_2(snapshot: int, batch_size: int, period_ms: int, up_ms: int, rate_gbps: int) -> Point:
    source = Sourced(
        f"snapshot {snapshot}",
        "calibration",
        f"the consistent reading of NSDI'24 Table 2, snapshot {snapshot}, and HotNets'22 Table 1 "
        f"at batch size {batch_size}: {period_ms} ms with {up_ms} ms Up at {rate_gbps} Gbps",
    )
    return Point(batch_size, Fraction(period_ms - up_ms), Fraction(up_ms), Fraction(rate_gbps), source)


def _scaled(point: Point, compute: Fraction, size: Fraction, why: str) -> DataParallel:
    source = Sourced(point.source.value, "calculation", f"{why}; from {point.source.source}")
    scaled = Point(point.batch_size, point.down_ms * compute, point.up_ms * size, point.rate_gbps, source)
    return DataParallel((scaled,))


_VGG16 = (_table_2(3, 1200, 270, 168, 35), _table_2(1, 1400, 274, 148, 29), _table_2(2, 1700, 330, 163, 33))
_VGG19 = (_table_2(3, 1024, 270, 166, 35), _table_2(2, 1400, 330, 168, 33))
_ROBERTA = (_table_2(4, 12, 200, 160, 32),)

# Multiply-adds of one forward pass in 10⁷, as torchvision's model table lists them.
_VGG11_WORK, _VGG16_WORK = 761, 1547

_VGG11 = _scaled(
    _VGG16[1],
    Fraction(_VGG11_WORK, _VGG16_WORK),
    Fraction(507, 528),
    "VGG16 (1400) with Down by multiply-adds (7.61 against 15.47 GMAC, torchvision) "
    "and Up by model size (507 against 528 MB)",
)

_BERT = (
    Point(
        8,
        Fraction(157 - 135),
        Fraction(135),
        Fraction(40),
        Sourced(
            "snapshot 5",
            "calibration",
            "157 ms, HotNets'22 Table 1 as the most aggressive of its group; 135 ms Up at 40 Gbps, which "
            "gives snapshot 5 of NSDI'24 Table 2 a score near its 0.6",
        ),
    ),
)

_WIDE_RESNET = (_table_2(1, 800, 274, 138, 29),)
_RESNET50 = (_table_2(2, 1600, 165, 55, 6),)

_DLRM = Point(
    2000,
    Fraction(500),
    Fraction(500),
    Fraction(40),
    Sourced(
        "group 2",
        "calibration",
        "HotNets'22 Table 1: two alike take 1001 ms in turn, so Up is at most half of 1000 ms, and 1301 ms "
        "when sharing 50 Gbps fairly: 500 ms at 40 Gbps stretch to 800 ms",
    ),
)


def _by_size(name: str, memory_mb: int) -> DataParallel:
    scale = Fraction(memory_mb, 800)
    why = f"RoBERTa with Down and Up by model size ({memory_mb} against 800 MB): {name} has its architecture"
    return _scaled(_ROBERTA[0], scale, scale, why)


def _gpt(layers: int, hidden: int, vocabulary: int, memory: str, figure: str) -> Transformer:
    source = Sourced(
        figure,
        "calculation",
        f"NSDI'24 {figure}: {layers} layers and {memory}; a hidden size of {hidden} gives that memory at "
        f"{STATE_BYTES_PER_PARAMETER.value} bytes a parameter",
    )
    return Transformer(layers, hidden, vocabulary, source)


_GPT_VOCABULARY, _GPT2_VOCABULARY = 40_478, 50_257  # tokens of the published models; GPT-3 uses GPT-2's
_GPT1 = _gpt(12, 1856, _GPT_VOCABULARY, "9 GB", "Fig 1(a)")
_GPT2 = _gpt(24, 2304, _GPT2_VOCABULARY, "27 GB", "Fig 1(b)")
_GPT3_TENSOR = _gpt(96, 1344, _GPT2_VOCABULARY, "35 GB", "Fig 1(c)")
_GPT3_HYBRID = _gpt(96, 2048, _GPT2_VOCABULARY, "155 GB in two replicas", "Fig 1(d)")


def _model(
    name: str,
    memory_mb: tuple[int, int],
    batch_sizes: tuple[int, int],
    labels: tuple[str, str],
    strategies: list[Strategy],
    reference: tuple[int, int],
    *more_batch_sizes: Sourced[int],
) -> Model:
    table = f"NSDI'24 Table 3, row {name}"
    return Model(
        name,
        Sourced(memory_mb, "paper", table),
        Sourced(batch_sizes, "paper", table),
        Sourced(labels[0], "paper", table),
        Sourced(labels[1], "paper", table),
        MappingProxyType({strategy.name: strategy for strategy in strategies}),
        reference,
        more_batch_sizes,
    )


_VISION = ("data parallel", "vision")
_LANGUAGE = ("data parallel", "language")
_MODEL_PARALLEL = ("model parallel", "language")

_MODELS = (
    _model("VGG11", (507, 507), (512, 1800), _VISION, [_VGG11], (1400, 2)),
    _model("VGG16", (528, 528), (512, 1800), _VISION, [DataParallel(_VGG16)], (1400, 2)),
    _model("VGG19", (549, 549), (512, 1800), _VISION, [DataParallel(_VGG19)], (1400, 2)),
    _model("WideResNet101", (243, 243), (256, 1200), _VISION, [DataParallel(_WIDE_RESNET)], (800, 2)),
    _model("ResNet50", (98, 98), (256, 1800), _VISION, [DataParallel(_RESNET50)], (1600, 2)),
    _model("BERT", (450, 450), (8, 32), _LANGUAGE, [DataParallel(_BERT)], (8, 2)),
    _model("RoBERTa", (800, 800), (8, 32), _LANGUAGE, [DataParallel(_ROBERTA)], (12, 2)),
    _model("CamemBERT", (266, 266), (8, 32), _LANGUAGE, [_by_size("CamemBERT", 266)], (12, 2)),
    _model("XLM", (1116, 1116), (4, 32), _LANGUAGE, [_by_size("XLM", 1116)], (12, 2)),
    _model("GPT1", (650, 9000), (32, 80), _MODEL_PARALLEL, [GptData(_GPT1)], (32, 4)),
    _model(
        "GPT2",
        (1623, 27000),
        (32, 80),
        _MODEL_PARALLEL,
        [GptPipeline(_GPT2)],
        (48, 2),
        Sourced(24, "paper", "NSDI'24 §5.2: GPT2-A has a batch size of 24"),
    ),
    _model(
        "GPT3",
        (1952, 155000),
        (16, 48),
        _MODEL_PARALLEL,
        [GptTensor(_GPT3_TENSOR), GptHybrid(_GPT3_HYBRID)],
        (16, 2),
    ),
    _model(
        "DLRM",
        (890, 1962),
        (16, 1024),
        ("model parallel", "recommendation"),
        [EmbeddingExchange(_DLRM)],
        (2000, 2),
        Sourced(2000, "paper", "HotNets'22 Table 1: DLRM (2000)"),
    ),
)

CATALOGUE: Mapping[str, Model] = MappingProxyType({model.name: model for model in _MODELS})
"""The models by name, in the order of NSDI'24 Table 3."""

# HotNets'22 Table 1 calls WideResNet101 by its family's name.
_ALIASES = {"wideresnet": "WideResNet101"}


def find_model(name: str) -> Model:
    """The model called `name`, in any case, with or without hyphens.

    Raises `InputError` with the closest name if there is none.

    >>> find_model("gpt-3").name
    'GPT3'
    """
    names = {_plain(known): known for known in CATALOGUE} | _ALIASES
    plain = _plain(name)
    if plain in names:
        return CATALOGUE[names[plain]]
    close = [names[each] for each in get_close_matches(plain, list(names), n=3)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(CATALOGUE)}"
    raise InputError(f"{shown(name)} is not a workload of the catalogue; {hint}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def profile(name: str, batch_size: int, workers: int, strategy: str | None = None) -> WorkloadProfile:
    """One iteration of the model `name` at `batch_size` per GPU on `workers` servers of one GPU each.

    Without a `strategy`, the model's first that runs on so many workers. Raises `InputError` for an unknown
    name or strategy and for values outside the catalogue's range.

    >>> vgg16 = profile("VGG16", 1400, 2)
    >>> vgg16.period_ps, vgg16.phases
    (274000000000, (PhaseSpec(start_ps=126000000000, duration_ps=148000000000, rate_bps=29000000000),))
    """
    model = find_model(name)
    model.check_batch_size(batch_size)
    return model.strategy_for(workers, strategy).profile(batch_size, workers)


def figure_3_profile() -> WorkloadProfile:
    """The VGG16 job of HotNets'22 Fig 3 and NSDI'24 Fig 3: 255 ms, of which the first 141 ms are Down.

    >>> figure_3_profile().up_ps
    114000000000
    """
    size_bytes = 528 * 10**6 * ring_all_reduce_share(2)
    up_ms = Fraction(255 - 141)
    sources = (
        "paper: HotNets'22 Fig 3: an iteration of 255 ms whose first 141 ms are pure computation",
        "calculation: a ring all-reduce of 528 MB (NSDI'24 Table 3) between two workers, "
        "spread over the 114 ms of Up",
    )
    rate_gbps = size_bytes * _BITS_PER_BYTE / up_ms / 10**6
    return _in_sequence([(Fraction(141), Fraction(0)), (up_ms, rate_gbps)], sources)


def catalogue_frame() -> pl.DataFrame:
    """The catalogue as a table: one row per model and strategy, with its iteration at the reference point.

    >>> catalogue_frame().filter(pl.col("model") == "VGG16")["period_ms"].item()
    274.0
    """
    return pl.DataFrame([_row(model, each) for model in _MODELS for each in model.strategies.values()])


def _row(model: Model, strategy: Strategy) -> dict[str, str | int | float]:
    batch_size, workers = model.reference
    workers = workers if workers in strategy.workers.value else strategy.workers.value[0]
    each = strategy.profile(batch_size, workers)
    smallest, largest = model.batch_size_limits()
    return {
        "model": model.name,
        "type": model.field_of_use.value,
        "parallelisation": model.parallelisation.value,
        "memory_mb_min": model.memory_mb.value[0],
        "memory_mb_max": model.memory_mb.value[1],
        "batch_size_min": smallest,
        "batch_size_max": largest,
        "strategy": strategy.name,
        "batch_size": batch_size,
        "workers": workers,
        "period_ms": each.period_ps / PS_PER_MS,
        "up_ms": each.up_ps / PS_PER_MS,
        "up_phases": len(each.phases),
        "highest_rate": format_rate(max(phase.rate_bps for phase in each.phases)),
        "bytes_per_iteration": each.size_bytes,
        "source": each.sources[0],
    }
