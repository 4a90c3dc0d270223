"""C1: the traffic of data, pipeline, tensor and hybrid parallel jobs (NSDI'24 Fig 1), each on its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from hocket.engines.run import simulate
from hocket.figures.timeline import TimelinePanel, timeline_figure
from hocket.profiling import profile_counters
from hocket.profiling.job import JobProfile, UpPhase
from hocket.results import Run
from hocket.results.times import in_ps
from hocket.units import format_duration, parse_duration, parse_rate
from hocket_reproduce.targets.target import Progress, Reproduction, Row

_NIC = "50 Gbps"  # §2.1: one A100 and one 50 Gbps NIC in each server
_READING_PS = parse_duration("25 ms")
# Enough iterations for a profile of high confidence.
_ITERATIONS = 20
# A peak counts as large if it sends at least twice the bytes of each other peak.
_LARGE = 2
_PS_PER_S = 10**12


@dataclass(frozen=True)
class Pattern:
    """A job of Fig 1: its training on servers of one GPU each, and the port whose counter is read."""

    job: str
    strategy: str
    servers: int
    training: Mapping[str, object]
    port: str = "s0->tor0"

    @property
    def title(self) -> str:
        """Its name in the figure and in progress messages."""
        return f"{self.job}, {self.strategy} parallel, {self.servers} servers"

    def plan(self) -> dict[str, object]:
        """A plan of the job alone below one switch, with its traffic sampled."""
        clos = {
            "racks": 1,
            "servers_per_rack": self.servers,
            "gpus_per_server": 1,
            "spines": 0,
            "nic": _NIC,
        }
        return {
            "fabric": {"clos": clos},
            "run": {"sample_every": format_duration(_READING_PS)},
            "jobs": [{"name": self.job, "iterations": _ITERATIONS, "training": dict(self.training)}],
        }


DATA = Pattern("GPT-1", "data", 4, {"model": "GPT-1 (NSDI'24 Fig 1a)"})
PIPELINE = Pattern(
    "GPT-2",
    "pipeline",
    2,
    {
        "model": "GPT-2 (NSDI'24 Fig 1b)",
        "parallel": {"pipeline": 2},
        "microbatches": 3,
        # §2.1 has all three peaks in the forward pass; 1F1B would have the third after a backward pass.
        "schedule": "gpipe",
    },
)
TENSOR = Pattern(
    "GPT-3",
    "tensor",
    2,
    {"model": "GPT-3 (NSDI'24 Fig 1c)", "parallel": {"tensor": 2}, "loading": "100 ms"},
)
HYBRID = Pattern(
    "GPT-3",
    "hybrid",
    8,
    {
        "model": "GPT-3 (NSDI'24 Fig 1d)",
        "parallel": {"data": 2, "tensor": 2, "pipeline": 2},
        "microbatches": 2,
    },
)


@dataclass(frozen=True)
class Traffic:
    """Traffic of the port of `pattern` in `run`."""

    pattern: Pattern
    run: Run

    @cached_property
    def readings(self) -> pl.DataFrame:
        """Readings of the port's counter every 25 ms, as `time_s` and `tx_bytes`."""
        end_ps = int(self.run.tables["iterations"].select(in_ps("end_s").max()).item())
        of_port = self.run.tables["utilisation"].filter(pl.col("link") == self.pattern.port)
        sent = of_port.select(in_ps("at_s").alias("at_ps"), "bytes")
        steps = np.zeros(end_ps // _READING_PS + 1, dtype=np.int64)
        within = sent.filter(pl.col("at_ps") <= end_ps)
        np.add.at(steps, within["at_ps"].to_numpy() // _READING_PS, within["bytes"].to_numpy())
        time_s = np.arange(steps.size) * (_READING_PS / _PS_PER_S)
        return pl.DataFrame({"time_s": time_s, "tx_bytes": np.cumsum(steps)})

    @cached_property
    def profile(self) -> JobProfile:
        """The job's profile from these readings."""
        return profile_counters(self.readings, name=self.pattern.title)

    @property
    def stretches(self) -> list[list[UpPhase]]:
        """The Up phases of an iteration, grouped with those that they touch."""
        together: list[list[UpPhase]] = []
        end_s = -1.0
        for phase in self.profile.phases:
            # The counter cannot show a gap shorter than half a reading.
            if phase.start_s - end_s > _READING_PS / _PS_PER_S / 2:
                together.append([])
            together[-1].append(phase)
            end_s = phase.start_s + phase.duration_s
        return together

    @property
    def steps(self) -> list[str]:
        """The steps for which rank 0 sends in the first iteration, in order, repetitions merged."""
        operations = self.run.tables["operations"].filter(
            (pl.col("iteration") == 0) & (pl.col("rank") == 0) & ~pl.col("kind").is_in(["compute", "recv"])
        )
        names = [_step(name) for name in operations.sort("start_s", "operation")["name"]]
        return [step for step, _ in groupby(names)]

    @property
    def panel(self) -> TimelinePanel:
        """Three iterations of the readings."""
        start_s = self.readings["time_s"].to_numpy()[:-1]
        rate_bps = np.diff(self.readings["tx_bytes"].to_numpy()) * (8 * _PS_PER_S / _READING_PS)
        job = self.pattern.job
        rates = pl.DataFrame(
            {
                "job": [job] * start_s.size,
                "start_s": start_s,
                "rate_bps": np.rint(rate_bps).astype(np.int64),
            }
        )
        return TimelinePanel(self.pattern.title, (job,), rates, 0.0, 3 * self.profile.period_s)


def _step(name: str) -> str:
    """The step of an iteration that an operation belongs to: a microbatch's forward or backward pass, or the
    operation.

    >>> _step("block7 mlp input gradient all-reduce #1"), _step("activations send #0")
    ('backward #1', 'forward #0')
    """
    _, hash_sign, microbatch = name.partition(" #")
    if not hash_sign:
        return name
    direction = "forward" if " forward" in name or "activations" in name else "backward"
    return f"{direction} #{microbatch}"


def measure(pattern: Pattern, progress: Progress) -> Traffic:
    """Runs `pattern` alone on the flow engine."""
    progress(pattern.title)
    return Traffic(pattern, simulate(pattern.plan()))


def reproduce(progress: Progress) -> Reproduction:
    """The number, height and order of the Up phases of the four patterns."""
    data, pipeline, tensor, hybrid = (
        measure(pattern, progress) for pattern in (DATA, PIPELINE, TENSOR, HYBRID)
    )
    return Reproduction(
        "C1",
        "Traffic of four parallelisation strategies (NSDI'24 Fig 1)",
        (*_data_rows(data), *_pipeline_rows(pipeline), *_tensor_rows(tensor), *_hybrid_rows(hybrid)),
        partial(_figure, (data, pipeline, tensor, hybrid)),
        (
            "Training loops on the flow engine with ring all-reduces, one 50 Gbps NIC and one GPU in each "
            f"server; traffic as the port's counter shows it every {format_duration(_READING_PS)}.",
            "Layers are the paper's, hidden sizes follow from the memory that it prints, batch sizes are "
            "those of the catalogue of phases (32, 48, 16, 16); Fig 1 prints neither batch sizes nor times. "
            "Compute times are calculated for A100s (docs/model.md, Training workloads), nothing is fitted.",
        ),
    )


def _data_rows(data: Traffic) -> Iterator[Row]:
    yield Row("GPT-1 (data): stretches of traffic per iteration", 1, len(data.stretches))
    period_s, up_s = data.profile.period_s, sum(phase.duration_s for phase in data.profile.phases)
    yield Row(
        "GPT-1 (data): share of the iteration before it",
        None,
        1 - up_s / period_s,
        "",
        "the update and the forward pass",
    )


def _pipeline_rows(pipeline: Traffic) -> Iterator[Row]:
    sent = sorted(sum(phase.duration_s * phase.rate_bps for phase in each) for each in pipeline.stretches)
    large = all(sent[-1] >= _LARGE * each for each in sent[:-1])
    yield Row("GPT-2 (pipeline): small peaks beside the large one", 3, len(sent) - 1, "", "activations")
    yield Row(
        "GPT-2 (pipeline): the all-reduce of the embedding is the large one", "yes", "yes" if large else "no"
    )


def _tensor_rows(tensor: Traffic) -> Iterator[Row]:
    up_s = sum(phase.duration_s for phase in tensor.profile.phases)
    yield Row(
        "GPT-3 (tensor): rate forward and backward",
        25,
        tensor.profile.bytes_per_iteration * 8 / up_s / 1e9,
        "Gbps",
        "all-reduces at line rate; compute in between takes a quarter of the time at 40% of the GPU's peak",
    )
    yield Row(
        "GPT-3 (tensor): share of time without traffic",
        None,
        1 - up_s / tensor.profile.period_s,
        "",
        "paper: a short period; data are loaded for 100 ms, as in the catalogue of phases",
    )


def _hybrid_rows(hybrid: Traffic) -> Iterator[Row]:
    yield Row(
        "GPT-3 (hybrid): phases by purpose",
        6,
        len(hybrid.steps),
        "",
        f"{', '.join(hybrid.steps)}; minibatches are not printed, two is the catalogue's number",
    )
    phases = hybrid.profile.phases
    yield Row(
        "GPT-3 (hybrid): phases that the port's counter tells apart",
        None,
        len(phases),
        "",
        f"in {len(hybrid.stretches)} stretches: a stage goes forward twice without a rest",
    )
    differ = len({round(phase.rate_bps / 1e9) for phase in phases}) > 1
    yield Row("GPT-3 (hybrid): phases differ in height", "yes", "yes" if differ else "no")


def _figure(traffic: tuple[Traffic, ...]) -> Figure:
    panels = [each.panel for each in traffic]
    return timeline_figure(panels, parse_rate(_NIC), "Three iterations alone on the network")
