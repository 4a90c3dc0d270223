"""C21: models profiled by the counters of a port, and the effect on scores (NSDI'24 §5.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from hocket import _hocket
from hocket.compat import Compatibility, compatibility
from hocket.engines.run import simulate
from hocket.engines.specs import native_profile
from hocket.errors import InputError
from hocket.figures.profile import evidence_figure
from hocket.profiles import WorkloadProfile
from hocket.profiling import JobProfile, profile_counters
from hocket.results import Run
from hocket.workloads import CATALOGUE, Model, calibrated_workers, profile
from hocket.workloads.strategies import Strategy
from hocket_reproduce.targets.measure import PS_PER_S, by_job
from hocket_reproduce.targets.setting import (
    CAPACITY,
    JITTER,
    SEED,
    SNAPSHOTS,
    Tables,
    in_time,
    link_plan,
    snapshot,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row

ITERATIONS = 50
"""NSDI'24 §5.1: "a few iterations". Hocket: 50, which take 10 to 60 s with most models."""

LIFESPAN_S = 0.01
"""Time for which mlx5 caches a counter's value by default: an earlier read returns the same value."""

INTERVAL_S = 0.005
"""Hocket: half of that lifespan, as a poller reads that does not know of the cache."""

READING_JITTER = 0.01
"""Hocket: standard deviation of the times of readings, as a share of the interval."""

OCTETS_PER_COUNT = 4
"""InfiniBand's PortXmitData counts in words."""

DRAWN = "GPT2"
"""The model of the figure: it has four Up phases, three of them shorter than two readings."""


@dataclass(frozen=True)
class Setting:
    """A model of the catalogue with its parallelisation strategy, batch size and number of workers."""

    model: str
    strategy: str
    batch_size: int
    workers: int

    @property
    def title(self) -> str:
        """Its name in rows."""
        return f"{self.model} ({self.strategy}, batch {self.batch_size}, {self.workers} workers)"

    @property
    def truth(self) -> WorkloadProfile:
        """Its iteration in the catalogue."""
        return profile(self.model, self.batch_size, self.workers, self.strategy)

    @property
    def job(self) -> Tables:
        """The setting as a plan's job."""
        return {
            "name": self.model,
            "workload": self.model,
            "strategy": self.strategy,
            "batch_size": self.batch_size,
            "workers": self.workers,
        }


@dataclass(frozen=True)
class Measured:
    """A setting, its true mean iteration, and the profile from its counter; None if profiling failed."""

    setting: Setting
    period_s: float
    profile: JobProfile | None

    @property
    def sure(self) -> bool:
        """Whether the profile's confidence is at least 0.5, below which Hocket warns."""
        return self.profile is not None and self.profile.confidence >= 0.5

    def errors(self) -> tuple[float, float, float]:
        """Relative errors of the period, the Up time and the bytes of an iteration."""
        assert self.profile is not None, "only profiles that were found are compared"
        truth = self.setting.truth
        return (
            abs(self.profile.period_s / self.period_s - 1),
            abs(up_s(self.profile) * PS_PER_S / truth.up_ps - 1),
            abs(sent_bytes(self.profile) / truth.size_bytes - 1),
        )


def reproduce(progress: Progress) -> Reproduction:
    """Every model of the catalogue profiled by its port's counter, and scores of snapshots from profiles."""
    measured: list[list[Measured]] = []
    for model in CATALOGUE.values():
        for strategy in model.strategies.values():
            progress(f"{model.name}, {strategy.name}")
            measured.append([measure(setting) for setting in settings(model, strategy)])
    rows = [*_summary_rows([each for group in measured for each in group])]
    rows += [row for reference, *others in measured for row in _rows(reference, others)]
    for number in SNAPSHOTS:
        progress(f"snapshot {number}")
        rows += _snapshot_rows(number)
    return Reproduction(
        "C21",
        "Profiling by port counters (NSDI'24 §5.1)",
        tuple(rows),
        partial(_figure, measured),
        (
            "The paper profiles each model with PyTorch and InfiniBand port counters over a few iterations "
            "and prints no values. Here each model of the catalogue runs alone on the flow engine, on a link "
            f"of {CAPACITY}, for {ITERATIONS} iterations with {JITTER:.0%} jitter; truth is what was run.",
            f"The counter is port_xmit_data: words of {OCTETS_PER_COUNT} octets, a value kept for "
            f"{LIFESPAN_S * 1e3:g} ms, read every {INTERVAL_S * 1e3:g} ms, {READING_JITTER:.0%} of that "
            "early or late. The profiler knows none of this.",
            "Sure profiles are those with a confidence of 0.5 or more; Hocket warns of all others.",
        ),
        columns=("truth", "measured"),
    )


def settings(model: Model, strategy: Strategy) -> Iterator[Setting]:
    """The model's reference setting, then other batch sizes, then other numbers of workers."""
    batch_size, workers = model.reference
    possible = strategy.workers.value
    workers = workers if workers in possible else possible[0]
    yield Setting(model.name, strategy.name, batch_size, workers)
    for other in dict.fromkeys(model.batch_sizes.value):
        if other != batch_size:
            yield Setting(model.name, strategy.name, other, workers)
    for more in (4, 8):
        if more in possible and more != workers:
            yield Setting(model.name, strategy.name, batch_size, more)


def measure(setting: Setting) -> Measured:
    """Runs a setting alone and profiles it by the counter of its port."""
    # No job alone takes twice its period, so rates are recorded until the end.
    longest_s = 2 * ITERATIONS * setting.truth.period_ps / PS_PER_S
    plan = link_plan(
        setting.model,
        [{**setting.job, "jitter": JITTER}],
        iterations=ITERATIONS,
        rates_until=in_time(longest_s),
    )
    run = simulate(plan)
    try:
        profiled = profile_counters(counter(run), name=setting.model)
    except InputError:
        profiled = None
    return Measured(setting, by_job(run, "mean_iteration_s")[setting.model], profiled)


def counter(run: Run) -> pl.DataFrame:
    """A poller's readings `time_s` and `port_xmit_data` while the only job of `run` runs."""
    rates = run.tables["rates"]
    end_s = float(run.tables["iterations"]["end_s"].to_numpy().max())
    changes_s = np.concatenate([[0.0], rates["start_s"].to_numpy(), [end_s]])
    rates_bps = np.concatenate([[0.0], rates["rate_bps"].to_numpy()])
    sent = np.concatenate([[0.0], np.cumsum(np.diff(changes_s) * rates_bps / 8)])
    readings_s = reading_times_s(end_s)
    # Between changes of the rate, sent bytes grow linearly.
    octets = np.interp(refreshed_s(readings_s), changes_s, sent)
    return pl.DataFrame(
        {"time_s": readings_s, "port_xmit_data": (octets // OCTETS_PER_COUNT).astype(np.uint64)}
    )


def reading_times_s(end_s: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Times at which a poller reads until `end_s` (n)."""
    count = int(end_s / INTERVAL_S)
    late = np.random.default_rng(SEED).normal(0.0, READING_JITTER, count - 1)
    return (np.arange(1, count) + late) * INTERVAL_S


def refreshed_s(
    readings_s: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """For values read at `readings_s` (n), the times when they were taken (n): earlier if cached."""
    # A loop: whether a read refreshes the value depends on which earlier read did.
    times_s = []
    last_s = -LIFESPAN_S
    for now_s in readings_s.tolist():
        if now_s - last_s >= LIFESPAN_S:
            last_s = now_s
        times_s.append(last_s)
    return np.array(times_s)


def up_s(measured: JobProfile) -> float:
    """Seconds of an iteration in which the job sends."""
    return sum(phase.duration_s for phase in measured.phases)


def sent_bytes(measured: JobProfile) -> float:
    """Bytes of an iteration in its Up phases."""
    return sum(phase.duration_s * phase.rate_bps for phase in measured.phases) / 8


def _summary_rows(measured: Sequence[Measured]) -> Iterator[Row]:
    sure = [each for each in measured if each.sure]
    yield Row(
        "profiles that are sure",
        len(measured),
        len(sure),
        comment="the others' Up phases last few readings or are hardly apart: their confidence is low",
    )
    for limit in (0.01, 0.001):
        wrong = sum(each.errors()[0] > limit for each in sure)
        yield Row(f"sure profiles whose period is off by more than {limit:.1%}", 0, wrong)
    for place, what in enumerate(("period", "Up time", "bytes")):
        worst = max(sure, key=lambda each: each.errors()[place])
        yield Row(
            f"{what}, the largest error of a sure profile",
            0,
            100 * worst.errors()[place],
            "%",
            worst.setting.title,
        )


def _rows(reference: Measured, others: Sequence[Measured]) -> Iterator[Row]:
    """The profile of a model at its reference setting, with errors at its other settings in a comment."""
    setting, measured = reference.setting, reference.profile
    title = setting.title
    if measured is None:
        yield Row(f"{title}: period", 1e3 * reference.period_s, "none found", "ms")
        return
    comment = f"confidence {measured.confidence:.2f}"
    yield Row(f"{title}: period", 1e3 * reference.period_s, 1e3 * measured.period_s, "ms", comment)
    truth = setting.truth
    yield Row(f"{title}: Up", truth.up_ps / 1e9, 1e3 * up_s(measured), "ms", _phases(truth, measured))
    yield Row(f"{title}: sent", truth.size_bytes / 1e6, sent_bytes(measured) / 1e6, "MB", _elsewhere(others))


def _phases(truth: WorkloadProfile, measured: JobProfile) -> str:
    """The number of Up phases, the shortest of them, and the number measured if it differs."""
    there, seen = len(truth.phases), len(measured.phases)
    shortest_ms = min(phase.duration_ps for phase in truth.phases) / 1e9
    counted = "one phase" if there == 1 else f"{there} phases, the shortest of {shortest_ms:.3g} ms"
    return counted if there == seen else f"{counted}; {seen} were seen"


def _elsewhere(others: Sequence[Measured]) -> str:
    """The largest errors of sure profiles at other batch sizes and worker counts."""
    sure = [each for each in others if each.sure]
    if not sure:
        return f"of {len(others)} other batch sizes and worker counts none is sure"
    period, up, sent = (100 * max(errors) for errors in zip(*(each.errors() for each in sure), strict=True))
    return (
        f"{len(sure)} of {len(others)} other batch sizes and worker counts are sure: off by at most "
        f"{period:.2g}% (period), {up:.2g}% (Up), {sent:.2g}% (bytes)"
    )


def _snapshot_rows(number: int) -> Iterator[Row]:
    """A snapshot's score by true and by measured profiles, and the true score at the measured shifts."""
    jobs = snapshot(number)
    truth = compatibility(link_plan(f"snapshot {number}", jobs))
    profiles = [
        measure(Setting(model, "data", batch_size, calibrated_workers(model, batch_size))).profile
        for _, model, batch_size in SNAPSHOTS[number]
    ]
    described = [
        {**profiled.to_job(), "name": job["name"]}
        for job, profiled in zip(jobs, profiles, strict=True)
        if profiled is not None
    ]
    answer = compatibility(link_plan(f"snapshot {number}", described))
    here = f"snapshot {number}"
    yield Row(f"{here}: score", truth.score, answer.score, comment=_periods_differ(truth, answer))
    yield Row(
        f"{here}: score of the shifts",
        truth.score,
        _score_of_shifts(truth, answer),
        comment="with the true profiles",
    )


def _periods_differ(truth: Compatibility, answer: Compatibility) -> str:
    rounds = [[job.rounds for job in each.jobs] for each in (truth, answer)]
    return "" if rounds[0] == rounds[1] else f"{rounds[1]} iterations per circle instead of {rounds[0]}"


def _score_of_shifts(truth: Compatibility, answer: Compatibility) -> float:
    """The score of the true profiles if the shifts of `answer` place their Up phases."""
    # A measured iteration starts with its Up phase, the catalogue's with the Down phase before it.
    shifts_ps = [
        (measured.time_shift_ps - job.profile.phases[0].start_ps) % job.profile.period_ps
        for job, measured in zip(truth.jobs, answer.jobs, strict=True)
    ]
    return _hocket.score(truth.capacity_bps, [native_profile(job.profile) for job in truth.jobs], shifts_ps)


def _figure(measured: Sequence[Sequence[Measured]]) -> Figure:
    """The evidence for one model: the counter's readings and the iteration derived from them."""
    drawn = next(reference.profile for reference, *_ in measured if reference.setting.model == DRAWN)
    assert drawn is not None, f"{DRAWN} has a period"
    return evidence_figure(drawn)
