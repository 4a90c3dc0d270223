"""What the reproductions of NSDI'24 §5 share: runs of a trace under several schedulers and seeds, statistics
of their iterations, and rows made from these.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, stdev
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import parse_trace
from hocket.results import Run
from hocket_reproduce.figures.scheduler_comparison import Distribution, SeriesPanel
from hocket_reproduce.targets.setting import Tables
from hocket_reproduce.targets.target import Progress, Row

SEEDS = (1, 2, 3, 4, 5)
"""The first five: each draws other jobs, arrivals, ties and jitter."""

# Student's t by degrees of freedom: quantiles of 97.5%, for two-sided intervals of 95%.
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class ConfiguredScheduler:
    """A scheduler with its options, under the name that rows and figures give it."""

    name: str
    policy: str
    """As `hocket cluster --scheduler` takes it."""
    settings: Tables = field(default_factory=dict)
    """Tables of a trace; their keys override those of the trace."""

    def trace(self, tables: Tables, seed: int) -> Tables:
        """The trace in `tables` with this seed and these settings."""
        return {**overlaid(tables, self.settings), "seed": seed}


def overlaid(tables: Tables, changes: Tables) -> Tables:
    """`tables` with the keys of the tables in `changes` instead of its own.


    >>> overlaid({"poisson": {"load": 0.9, "jobs": 5}}, {"poisson": {"load": 1.0}})
    {'poisson': {'load': 1.0, 'jobs': 5}}
    """
    # A fabric has one key for its kind (testbed, clos, …); merged, it would have two.
    changed = {
        name: table if name == "fabric" else {**tables.get(name, {}), **table}
        for name, table in changes.items()
    }
    return {**tables, **changed}


DRAWN: Tables = {"themis": {"placement": "drawn"}}
"""Winners of Themis anywhere in the region that they won: NSDI'20 knows no distances within it, and NSDI'24
§4.1 calls the placements of jobs frequently fragmented."""
PACKED: Tables = {"themis": {"placement": "packed"}}
"""Winners of Themis in as few racks and servers of their region as possible."""
FROM_PROFILES: Tables = {"themis": {"slowdown": "profile"}}
"""Themis's S from profiles for all models: NSDI'24 §5.1 profiles each on its testbed, where idle paths are
alike, so that S knows no distance. The published S is from NSDI'20's cluster."""
LOSSY: Tables = {"fabric": {"testbed": "cassini", "contended_goodput": "testbed"}}
"""The testbed with links that lose goodput to contention, as the papers' do."""

_PAPER: Tables = {"cassini": {"aggregate": "mean", "loops": "discard"}}
"""NSDI'24 Algorithm 2: the mean over shared links, and no loops (lines 24 and 15)."""
_FABRIC: Tables = {"cassini": {"aggregate": "fabric", "loops": "solve"}}
"""Hocket's default: all links count, unshared ones with a score of 1, and loops are solved jointly."""

THEMIS = ConfiguredScheduler("Themis", "themis")
TH_CASSINI = ConfiguredScheduler("Th+CASSINI", "themis+cassini", _PAPER)
TH_FABRIC = ConfiguredScheduler("Th+CASSINI (fabric)", "themis+cassini", _FABRIC)
POLLUX = ConfiguredScheduler("Pollux", "pollux")
PO_CASSINI = ConfiguredScheduler("Po+CASSINI", "pollux+cassini", _PAPER)
PO_FABRIC = ConfiguredScheduler("Po+CASSINI (fabric)", "pollux+cassini", _FABRIC)
RANDOM = ConfiguredScheduler("Random", "random")
RANDOM_CASSINI = ConfiguredScheduler("Random+CASSINI", "random+cassini", _PAPER)
RANDOM_FABRIC = ConfiguredScheduler("Random+CASSINI (fabric)", "random+cassini", _FABRIC)
IDEAL = ConfiguredScheduler("Ideal", "ideal")


class SchedulerRun:
    """Statistics of one run of a trace under one scheduler, over all iterations of all jobs."""

    def __init__(self, run: Run) -> None:
        # All seeds of all schedulers are in memory at once: only what rows and figures need is kept of a run.
        columns = ["job", "model", "count", "start_s", "iteration_s", "ideal_s", "communication_s", "marks"]
        self.iterations = run.tables["iterations"].select(columns)
        """Those columns of the run's table of this name."""
        self.link_scores = run.tables["link_scores"]
        self.decisions = run.tables["decisions"].select("candidates", "chosen", "discarded")
        self.slotted = _slotted(run.tables["decisions"])
        """The share of sets of jobs that share links with each other and got slots."""
        self.adjustments_per_minute = 60 * run.tables["adjustments"].height / run.manifest["simulated_s"]
        self.shared = _shared(self.iterations, run.tables["placements"])
        """The share of iterations that began while another job was placed on one of the job's links."""

    @cached_property
    def _count(self) -> npt.NDArray[np.int64]:
        # With `merge` in `[cluster]` a row stands for several similar iterations: each counts.
        return self.iterations["count"].to_numpy()

    @cached_property
    def ideal_s(self) -> npt.NDArray[np.float64]:
        """Each iteration on as many workers and an idle network, in seconds."""
        return np.repeat(self.iterations["ideal_s"].to_numpy(), self._count)

    @cached_property
    def iteration_s(self) -> npt.NDArray[np.float64]:
        """Each iteration, its wait for a slot included, in seconds."""
        return np.repeat(self.iterations["iteration_s"].to_numpy(), self._count)

    @cached_property
    def slowdowns(self) -> npt.NDArray[np.float64]:
        """Each of `iteration_s` ÷ that of `ideal_s`."""
        return self.iteration_s / self.ideal_s

    @property
    def mean_s(self) -> float:
        """The mean iteration in seconds."""
        return float(self.iteration_s.mean())

    @property
    def slowdown(self) -> float:
        """The total time of all iterations ÷ their total time on an idle network."""
        # A ratio of sums: in a mean of ratios, the many iterations of fast jobs would outweigh all others.
        return float(self.iteration_s.sum() / self.ideal_s.sum())

    @property
    def p99_slowdown(self) -> float:
        """The 99th percentile of `slowdowns`."""
        return percentile(self.slowdowns)

    @property
    def single(self) -> float:
        """The share of decisions with a single candidate; 0 if there are no decisions."""
        return float((self.decisions["candidates"] == 1).sum()) / max(1, self.decisions.height)

    def of_model(self, model: str) -> pl.DataFrame:
        """The iterations of jobs of `model`."""
        return self.iterations.filter(pl.col("model") == model)

    def marks(self, model: str | None = None) -> float:
        """ECN-marked packets per iteration, of jobs of `model` if one is named."""
        rows = self.iterations if model is None else self.of_model(model)
        return float(rows["marks"].sum()) / int(rows["count"].sum())


Outcomes: TypeAlias = Mapping[str, Sequence[SchedulerRun]]
"""By the name of the scheduler: one run for each seed, in the order of the seeds."""


def outcomes(
    tables: Tables,
    schedulers: Sequence[ConfiguredScheduler],
    progress: Progress,
    *,
    seeds: Sequence[int] = SEEDS,
    prefix: str = "",
) -> dict[str, list[SchedulerRun]]:
    """Runs the trace in `tables` under `schedulers` with `seeds`; `prefix` starts progress messages."""
    measured: dict[str, list[SchedulerRun]] = {scheduler.name: [] for scheduler in schedulers}
    for seed in seeds:
        for scheduler in schedulers:
            progress(f"{prefix}{scheduler.name}, seed {seed}")
            measured[scheduler.name].append(outcome(tables, scheduler, seed))
    return measured


def outcome(tables: Tables, scheduler: ConfiguredScheduler, seed: int) -> SchedulerRun:
    """Runs the trace in `tables` under `scheduler` with `seed`."""
    return SchedulerRun(simulate_cluster(parse_trace(scheduler.trace(tables, seed)), scheduler.policy))


def percentile(
    values: npt.NDArray[np.float64], at: float = 99, weights: npt.NDArray[np.float64] | None = None
) -> float:
    """The percentile by nearest rank, which is one of `values`; by default all weigh the same."""
    # No interpolation: a tail between two models' iterations would be a time that no iteration took.
    return float(np.percentile(values, at, method="inverted_cdf", weights=weights))


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and half the width of its 95% interval by Student's t."""

    mean: float
    half: float | None
    """None for a single seed."""
    seeds: int

    def __str__(self) -> str:
        """The interval, for the comment of a row."""
        return "one seed" if self.half is None else f"95%: {self._interval}"

    @property
    def factor(self) -> str:
        """The mean as a factor with its interval, such as `1.2× (1.1 to 1.3)`."""
        return f"{self.mean:.4g}×" if self.half is None else f"{self.mean:.4g}× ({self._interval})"

    @property
    def _interval(self) -> str:
        assert self.half is not None, "a single seed has no interval"
        return f"{self.mean - self.half:.4g} to {self.mean + self.half:.4g}"


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of `values`, one for each of up to ten seeds, with its interval.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.48433820832296, seeds=3)
    """
    count = len(values)
    half = _T_95[count - 2] * stdev(values) / math.sqrt(count) if count > 1 else None
    return Estimate(mean(values), half, count)


def ratio(
    over: Sequence[SchedulerRun], under: Sequence[SchedulerRun], quantity: Callable[[SchedulerRun], float]
) -> Estimate:
    """`quantity` of `over` ÷ that of `under`, by seed: both have a run for each seed, in the same order."""
    # Pairs share jobs, arrivals and jitter, so ratios by seed vary less than a ratio of two means would.
    return estimate([quantity(one) / quantity(other) for one, other in zip(over, under, strict=True)])


def row(
    quantity: str, paper: float | None, ours: Estimate, unit: str = "", why: str = "", scale: float = 1.0
) -> Row:
    """A row with the mean of `ours` × `scale`; its comment starts with the interval."""
    scaled = Estimate(scale * ours.mean, None if ours.half is None else scale * ours.half, ours.seeds)
    return Row(quantity, paper, scaled.mean, unit, f"{scaled}; {why}" if why else str(scaled))


@dataclass(frozen=True)
class Published:
    """The paper's factors over the baseline: of the mean iteration, and of the 99th percentile."""

    mean: float
    p99: float


def factor_rows(
    measured: Outcomes,
    baseline: ConfiguredScheduler,
    augmented: ConfiguredScheduler,
    published: Published | None = None,
    why: str = "",
    prefix: str = "",
) -> Iterator[Row]:
    """How many times faster iterations are under `augmented`: over all iterations, by time, and as slowdowns.

    The paper's factors stand beside both of the first, as its text allows both; the comments of these rows
    have the gain of iterations without any contention, and `why`. Quantities start with `prefix`.
    """
    over, under = measured[baseline.name], measured[augmented.name]
    pair = f"{prefix}{baseline.name} ÷ {augmented.name}"
    for quantity, measure in _MEASURES.items():
        ours = estimate(
            [measure(a.iteration_s) / measure(b.iteration_s) for a, b in zip(over, under, strict=True)]
        )
        if published is None:
            yield row(f"{pair}: {quantity}", None, ours, "×")
            continue
        most = mean(measure(each.iteration_s) / measure(each.ideal_s) for each in over)
        reason = f"without any contention {most:.3g}×"
        paper = published.p99 if "percentile" in quantity else published.mean
        yield row(f"{pair}: {quantity}", paper, ours, "×", f"{reason}; {why}" if why else reason)
    for quantity, value in _SLOWDOWNS.items():
        yield row(f"{pair}: {quantity}", None, ratio(over, under, value), "×")


def _mean_by_time(values: npt.NDArray[np.float64]) -> float:
    return float(np.average(values, weights=values))


# NSDI'24 Fig 11b is of all points of a time series. If these are iterations, each counts once; if they are
# instants, a longer iteration has more of them.
_MEASURES: Mapping[str, Callable[[npt.NDArray[np.float64]], float]] = {
    "mean iteration": lambda values: float(values.mean()),
    "99th percentile of iterations": percentile,
    "mean iteration by time": _mean_by_time,
    "99th percentile of iterations by time": lambda values: percentile(values, weights=values),
}
BY_TIME_NOTE = (
    "'By time' weighs each iteration by the time that it takes. NSDI'24 Fig 11b is of all points of a time "
    "series: if these are instants, a long iteration has more of them than a short one."
)

_SLOWDOWNS: Mapping[str, Callable[[SchedulerRun], float]] = {
    "mean slowdown": lambda each: each.slowdown,
    "99th percentile of slowdowns": lambda each: each.p99_slowdown,
}


def pair_rows(name: str, measured: Outcomes, *schedulers: ConfiguredScheduler) -> Iterator[Row]:
    """The mean slowdown of the first scheduler ÷ that of each other, and the 99th percentiles.

    Quantities start with `name`; comments have the slowdowns of both schedulers.
    """
    baseline, *others = schedulers
    for augmented in others:
        over, under = measured[baseline.name], measured[augmented.name]
        for quantity, value in _SLOWDOWNS.items():
            before, after = (estimate([value(each) for each in runs]).factor for runs in (over, under))
            yield row(
                f"{name}: {baseline.name} ÷ {augmented.name}, {quantity}",
                None,
                ratio(over, under, value),
                "×",
                f"slowdowns {before} and {after}",
            )


Sensitivities: TypeAlias = Mapping[str, tuple[Tables, tuple[ConfiguredScheduler, ...]]]
"""By name: changes to a trace, as `overlaid` takes them, and a scheduler with those to compare it with."""


def sensitivity_rows(
    tables: Tables,
    sensitivities: Sensitivities,
    measured: Outcomes,
    progress: Progress,
    seeds: Sequence[int] = SEEDS,
) -> Iterator[Row]:
    """`pair_rows` for each of `sensitivities`; `measured` has runs of the unchanged trace."""
    for name, (changes, schedulers) in sensitivities.items():
        known: Outcomes = {}
        # Without CASSINI a scheduler does not read its options, and would run as on the unchanged trace.
        if set(changes) == {"cassini"}:
            known = {schedulers[0].name: measured[schedulers[0].name]}
        rerun = [each for each in schedulers if each.name not in known]
        changed = outcomes(overlaid(tables, changes), rerun, progress, seeds=seeds, prefix=f"{name}: ")
        yield from pair_rows(name, {**known, **changed}, *schedulers)


Readings: TypeAlias = Mapping[str, Tables]
"""By name: changes to a trace that the paper's text supports, so that its factors stand beside their rows."""


def reading_rows(
    tables: Tables, readings: Readings, published: Published, progress: Progress, seeds: Sequence[int] = SEEDS
) -> Iterator[Row]:
    """For each of `readings`: the factors over Themis, slowdowns, and decisions without a choice."""
    for name, changes in readings.items():
        prefix = f"{name}: "
        schedulers = (THEMIS, TH_CASSINI, TH_FABRIC)
        measured = outcomes(overlaid(tables, changes), schedulers, progress, seeds=seeds, prefix=prefix)
        for augmented in (TH_CASSINI, TH_FABRIC):
            yield from factor_rows(measured, THEMIS, augmented, published, prefix=prefix)
        yield from idle_rows(measured, prefix)
        for augmented in (TH_CASSINI, TH_FABRIC):
            yield single_row(measured, augmented, prefix)


def idle_rows(measured: Outcomes, prefix: str = "") -> Iterator[Row]:
    """The slowdown of each scheduler against an idle network; Ideal's is 1. Names start with `prefix`."""
    for name, runs in measured.items():
        tail = estimate([each.p99_slowdown for each in runs])
        shared = mean(each.shared for each in runs)
        comment = (
            f"99th percentile {tail.factor}; {shared:.0%} of iterations on shared links; "
            f"mean iteration {_mean_ms(runs)} ms"
        )
        yield row(f"{prefix}{name}: slowdown", None, estimate([each.slowdown for each in runs]), "×", comment)


def _slotted(decisions: pl.DataFrame) -> float:
    """The share of sets of jobs that share links, new in a decision, that got slots; 0 if there are none."""
    reasons = (json.loads(why)["cassini"] for why in decisions["why"].to_list())
    # A set kept from the decision before was counted there.
    components = [part for each in reasons if each for part in each["components"] if not part["kept"]]
    return sum(part["why_none"] is None for part in components) / max(1, len(components))


def mechanism_rows(measured: Outcomes, augmented: ConfiguredScheduler) -> Iterator[Row]:
    """The candidates that CASSINI had, and the scores of shared links before and after its choice."""
    runs = measured[augmented.name]
    name = augmented.name
    for quantity, column in (("before", "before"), ("after", "after")):
        links = estimate([_per_decision(each, column) for each in runs])
        yield row(
            f"{name}: score of shared links, {quantity}",
            None,
            estimate([_mean_score(each, column) for each in runs]),
            "",
            f"{links.mean:.3g} shared links per decision",
        )
    discarded = sum(int(each.decisions["discarded"].sum()) for each in runs)
    offered = sum(int(each.decisions["candidates"].sum()) for each in runs)
    yield row(
        f"{name}: candidates per decision",
        None,
        estimate([float(each.decisions["candidates"].to_numpy().mean()) for each in runs]),
        "",
        f"{discarded / offered:.0%} of them discarded",
    )
    yield single_row(measured, augmented)
    for quantity, share in _SHARES.items():
        yield row(f"{name}: {quantity}", None, estimate([share(each) for each in runs]), "%", scale=100)
    yield row(
        f"{name}: adjustments per minute", None, estimate([each.adjustments_per_minute for each in runs])
    )


def single_row(measured: Outcomes, augmented: ConfiguredScheduler, prefix: str = "") -> Row:
    """The share of decisions in which CASSINI has no choice; the quantity starts with `prefix`."""
    runs = measured[augmented.name]
    shares = [each.single for each in runs]
    number = mean(each.decisions.height for each in runs)
    return row(
        f"{prefix}{augmented.name}: decisions with a single candidate",
        None,
        estimate(shares),
        "%",
        f"of {number:,.0f} decisions",
        scale=100,
    )


def _changed(each: SchedulerRun) -> float:
    # Candidate 0 is the scheduler's own placement.
    return float((each.decisions["chosen"].to_numpy() > 0).mean())


_SHARES: Mapping[str, Callable[[SchedulerRun], float]] = {
    "decisions for another candidate than the scheduler's own": _changed,
    "sets of jobs that share links and get slots": lambda each: each.slotted,
    "iterations on shared links": lambda each: each.shared,
}


def _mean_ms(runs: Sequence[SchedulerRun]) -> str:
    return f"{1e3 * mean(each.mean_s for each in runs):,.0f}"


def _mean_score(each: SchedulerRun, column: str) -> float:
    """Over decisions and links; 1 where no link was ever shared."""
    scores = each.link_scores[column].drop_nulls()
    return float(scores.to_numpy().mean()) if scores.len() else 1.0


def _per_decision(each: SchedulerRun, column: str) -> float:
    return each.link_scores[column].drop_nulls().len() / max(1, each.decisions.height)


def _shared(iterations: pl.DataFrame, placements: pl.DataFrame) -> float:
    """The share of iterations that begin while another job is placed on one of the job's links."""
    by_job: dict[str, list[tuple[float, float]]] = {}
    stints: list[dict[str, Any]] = placements.to_dicts()
    for one in stints:
        for other in stints:
            # A job's own stints never overlap in time, so `other` is another job's.
            begin_s, end_s = max(one["start_s"], other["start_s"]), min(one["until_s"], other["until_s"])
            if one is not other and begin_s < end_s and not set(one["links"]).isdisjoint(other["links"]):
                by_job.setdefault(one["job"], []).append((begin_s, end_s))
    shared = sum(_within(iterations.filter(pl.col("job") == job), spans) for job, spans in by_job.items())
    return shared / int(iterations["count"].sum())


def _within(iterations: pl.DataFrame, spans: Sequence[tuple[float, float]]) -> int:
    """The number of `iterations` that begin in any of `spans`."""
    starts_s = iterations["start_s"].to_numpy()
    # A mask, not a sum: with several other jobs the spans overlap, and an iteration counts once.
    inside = np.zeros(starts_s.size, dtype=bool)
    for begin_s, end_s in spans:
        inside |= (starts_s >= begin_s) & (starts_s < end_s)
    return int(iterations["count"].to_numpy()[inside].sum())


def themis_over_time(measured: Outcomes) -> list[SeriesPanel]:
    """All jobs over time under Themis, without and with CASSINI, in the run of the first seed."""
    return [
        SeriesPanel(f"{each.name}, seed {SEEDS[0]}: mean of each minute", over_time(measured[each.name][0]))
        for each in (THEMIS, TH_CASSINI)
    ]


def iteration_distribution(measured: Outcomes, shown: Sequence[ConfiguredScheduler]) -> Distribution:
    """Slowdowns of each iteration of all seeds, under the schedulers `shown`: absolute times of several
    models cannot be compared.
    """
    slowdowns = pooled(measured, shown, lambda each: each.slowdowns)
    return Distribution("all iterations, all seeds", "slowdown (iteration ÷ ideal)", slowdowns)


def over_time(each: SchedulerRun) -> pl.DataFrame:
    """The mean iteration of each job in every minute, as `SeriesPanel` draws it."""
    rows = each.iterations.with_columns(minute=(pl.col("start_s") / 60).floor())
    count = pl.col("count")
    return (
        rows.group_by("job", "model", "minute", maintain_order=True)
        .agg(iteration_s=(pl.col("iteration_s") * count).sum() / count.sum())
        .sort("job", "minute", maintain_order=True)
    )


def pooled(
    measured: Outcomes,
    schedulers: Sequence[ConfiguredScheduler],
    quantity: Callable[[SchedulerRun], npt.NDArray[np.float64]],
) -> dict[str, npt.NDArray[np.float64]]:
    """`quantity` of each iteration of all seeds, by the name of the scheduler."""
    return {each.name: np.concatenate([quantity(run) for run in measured[each.name]]) for each in schedulers}


def scores(measured: Outcomes, augmented: ConfiguredScheduler) -> dict[str, npt.NDArray[np.float64]]:
    """Scores of shared links over all decisions and seeds, of the scheduler's choice and of CASSINI's."""
    tables = [run.link_scores for run in measured[augmented.name]]
    return {
        name: pl.concat([table[column] for table in tables]).drop_nulls().to_numpy()
        for name, column in (("its own choice", "before"), ("CASSINI's", "after"))
    }
