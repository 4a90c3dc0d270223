"""What the reproductions of NSDI'24 §5 share: a trace under several schedulers and seeds, what became of its
iterations, and the rows that say so.
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
class Contender:
    """A scheduler as a figure names it."""

    name: str
    scheduler: str
    """As `hocket cluster --scheduler` takes it."""
    settings: Tables = field(default_factory=dict)
    """Tables of a trace whose keys go before those of the trace."""

    def trace(self, tables: Tables, seed: int) -> Tables:
        """The trace in `tables` with this seed and these settings."""
        return {**overlaid(tables, self.settings), "seed": seed}


def overlaid(tables: Tables, changes: Tables) -> Tables:
    """A trace with the keys of the tables in `changes` before its own; another fabric replaces all of it.

    >>> overlaid({"poisson": {"load": 0.9, "jobs": 5}}, {"poisson": {"load": 1.0}})
    {'poisson': {'load': 1.0, 'jobs': 5}}
    """
    changed = {
        name: table if name == "fabric" else {**tables.get(name, {}), **table}
        for name, table in changes.items()
    }
    return {**tables, **changed}


_PAPER: Tables = {"cassini": {"aggregate": "mean", "loops": "discard"}}
"""NSDI'24 Algorithm 2: the mean over shared links, and no loops (lines 24 and 15)."""
_FABRIC: Tables = {"cassini": {"aggregate": "fabric", "loops": "solve"}}
"""Hocket: all links count, those that are not shared as 1, and loops are solved jointly."""

THEMIS = Contender("Themis", "themis")
TH_CASSINI = Contender("Th+CASSINI", "themis+cassini", _PAPER)
TH_FABRIC = Contender("Th+CASSINI (fabric)", "themis+cassini", _FABRIC)
POLLUX = Contender("Pollux", "pollux")
PO_CASSINI = Contender("Po+CASSINI", "pollux+cassini", _PAPER)
PO_FABRIC = Contender("Po+CASSINI (fabric)", "pollux+cassini", _FABRIC)
RANDOM = Contender("Random", "random")
RANDOM_CASSINI = Contender("Random+CASSINI", "random+cassini", _PAPER)
RANDOM_FABRIC = Contender("Random+CASSINI (fabric)", "random+cassini", _FABRIC)
IDEAL = Contender("Ideal", "ideal")


class ContenderRun:
    """What one run of a trace under one scheduler says, all iterations of all jobs together."""

    def __init__(self, run: Run) -> None:
        columns = ["job", "model", "count", "start_s", "iteration_s", "ideal_s", "communication_s", "marks"]
        self.iterations = run.tables["iterations"].select(columns)
        """Those columns of the run's table of this name."""
        self.link_scores = run.tables["link_scores"]
        self.decisions = run.tables["decisions"].select("candidates", "chosen", "discarded")
        self.slotted = _slotted(run.tables["decisions"])
        """The share that got slots of all sets of jobs that share links with each other."""
        self.adjustments_per_minute = 60 * run.tables["adjustments"].height / run.manifest["simulated_s"]
        self.shared = _shared(self.iterations, run.tables["placements"])
        """The share of iterations that began while another job was placed on a link of the job's."""

    @cached_property
    def _count(self) -> npt.NDArray[np.int64]:
        return self.iterations["count"].to_numpy()

    @cached_property
    def _ideal_s(self) -> npt.NDArray[np.float64]:
        return np.repeat(self.iterations["ideal_s"].to_numpy(), self._count)

    @cached_property
    def iteration_s(self) -> npt.NDArray[np.float64]:
        """Each iteration, its wait for a slot included, in seconds."""
        return np.repeat(self.iterations["iteration_s"].to_numpy(), self._count)

    @cached_property
    def slowdowns(self) -> npt.NDArray[np.float64]:
        """Each iteration ÷ the same on as many workers and an idle network."""
        return self.iteration_s / self._ideal_s

    @property
    def mean_s(self) -> float:
        """The mean iteration in seconds."""
        return float(self.iteration_s.mean())

    @property
    def p99_s(self) -> float:
        """The 99th percentile of iterations in seconds."""
        return percentile(self.iteration_s)

    @property
    def slowdown(self) -> float:
        """What iterations took in all ÷ what they would have taken on an idle network."""
        return float(self.iteration_s.sum() / self._ideal_s.sum())

    @property
    def p99_slowdown(self) -> float:
        """The 99th percentile of `slowdowns`."""
        return percentile(self.slowdowns)

    def of_model(self, model: str) -> pl.DataFrame:
        """The iterations of jobs of `model`."""
        return self.iterations.filter(pl.col("model") == model)

    def marks(self, model: str | None = None) -> float:
        """ECN-marked packets per iteration, of jobs of `model` if one is named."""
        rows = self.iterations if model is None else self.of_model(model)
        return float(rows["marks"].sum()) / int(rows["count"].sum())


Outcomes: TypeAlias = Mapping[str, Sequence[ContenderRun]]
"""By the name of the contender, one for each seed in their order."""


def outcomes(
    tables: Tables,
    contenders: Sequence[Contender],
    progress: Progress,
    *,
    seeds: Sequence[int] = SEEDS,
    said: str = "",
) -> dict[str, list[ContenderRun]]:
    """Runs the trace in `tables` under all `contenders` with all `seeds`; `said` goes before the progress."""
    found: dict[str, list[ContenderRun]] = {contender.name: [] for contender in contenders}
    for seed in seeds:
        for contender in contenders:
            progress(f"{said}{contender.name}, seed {seed}")
            found[contender.name].append(outcome(tables, contender, seed))
    return found


def outcome(tables: Tables, contender: Contender, seed: int) -> ContenderRun:
    """Runs the trace in `tables` under one contender with one seed."""
    return ContenderRun(simulate_cluster(parse_trace(contender.trace(tables, seed)), contender.scheduler))


def percentile(values: npt.NDArray[np.float64], at: float = 99) -> float:
    """The percentile by nearest rank, which is one of `values`."""
    return float(np.percentile(values, at, method="inverted_cdf"))


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and half of its 95% interval by Student's t."""

    mean: float
    half: float | None
    """None for a single seed."""
    seeds: int

    def __str__(self) -> str:
        """The interval, for the comment of a row."""
        if self.half is None:
            return "one seed"
        return f"95%: {self.mean - self.half:.4g} to {self.mean + self.half:.4g}"


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of `values`, one for each of up to ten seeds, with its interval.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.48433820832296, seeds=3)
    """
    count = len(values)
    half = _T_95[count - 2] * stdev(values) / math.sqrt(count) if count > 1 else None
    return Estimate(mean(values), half, count)


def ratio(
    over: Sequence[ContenderRun], under: Sequence[ContenderRun], quantity: Callable[[ContenderRun], float]
) -> Estimate:
    """How many times larger `quantity` is in `over` than in `under`, for runs of the same seed each."""
    return estimate([quantity(one) / quantity(other) for one, other in zip(over, under, strict=True)])


def row(
    quantity: str, paper: float | None, ours: Estimate, unit: str = "", why: str = "", scale: float = 1.0
) -> Row:
    """A row with an estimate, `scale` times as large; its interval opens the comment."""
    scaled = Estimate(scale * ours.mean, None if ours.half is None else scale * ours.half, ours.seeds)
    return Row(quantity, paper, scaled.mean, unit, f"{scaled}; {why}" if why else str(scaled))


@dataclass(frozen=True)
class Published:
    """How many times faster iterations are than the baseline's, in the mean and at the 99th percentile."""

    mean: float
    p99: float


def factor_rows(
    found: Outcomes,
    baseline: Contender,
    augmented: Contender,
    published: Published | None = None,
    why: str = "",
    here: str = "",
) -> Iterator[Row]:
    """How many times faster iterations are: all of them as the paper counts, and each ÷ its idle one.

    `here` goes before the quantities, and `why` into the comments of rows with a value of the paper.
    """
    over, under = found[baseline.name], found[augmented.name]
    pair = f"{here}{baseline.name} ÷ {augmented.name}"
    rows: tuple[tuple[str, float | None, Callable[[ContenderRun], float]], ...] = (
        ("mean iteration", published.mean if published else None, lambda each: each.mean_s),
        ("99th percentile of iterations", published.p99 if published else None, lambda each: each.p99_s),
        ("mean slowdown", None, lambda each: each.slowdown),
        ("99th percentile of slowdowns", None, lambda each: each.p99_slowdown),
    )
    for quantity, paper, measured in rows:
        ours = ratio(over, under, measured)
        yield row(f"{pair}: {quantity}", paper, ours, "×", why if paper is not None else "")


def pair_row(quantity: str, found: Outcomes, pair: tuple[Contender, Contender]) -> Row:
    """How many times nearer to idle the second of two contenders is, with both tails in the comment."""
    over, under = (found[each.name] for each in pair)
    idle = [estimate([each.slowdown for each in runs]).mean for runs in (over, under)]
    tails = [estimate([each.p99_slowdown for each in runs]).mean for runs in (over, under)]
    all_points = ratio(over, under, lambda each: each.mean_s)
    return row(
        quantity,
        None,
        ratio(over, under, lambda each: each.slowdown),
        "×",
        f"slowdown {idle[0]:.3g}× against {idle[1]:.3g}×; 99th percentile {tails[0]:.3g}× against "
        f"{tails[1]:.3g}×; {all_points.mean:.3g}× by the mean of all iterations",
    )


Sensitivities: TypeAlias = Mapping[str, tuple[Tables, tuple[Contender, Contender]]]
"""By name: what changes of a trace, as `overlaid` takes it, and who is compared then."""


def sensitivity_rows(
    tables: Tables, sensitivities: Sensitivities, progress: Progress, seeds: Sequence[int] = SEEDS
) -> Iterator[Row]:
    """A `pair_row` for each of `sensitivities`."""
    for name, (changes, pair) in sensitivities.items():
        found = outcomes(overlaid(tables, changes), pair, progress, seeds=seeds, said=f"{name}: ")
        yield pair_row(f"{name}: {pair[0].name} ÷ {pair[1].name}, mean slowdown", found, pair)


def idle_rows(found: Outcomes, here: str = "") -> Iterator[Row]:
    """How far each contender is from an idle network, where Ideal is: 1 in the mean."""
    for name, runs in found.items():
        tail = estimate([each.p99_slowdown for each in runs])
        shared = mean(each.shared for each in runs)
        comment = (
            f"99th percentile {tail.mean:.3g}× ({tail}); {shared:.0%} of iterations on shared links; "
            f"mean iteration {_mean_ms(runs)} ms"
        )
        yield row(f"{here}{name}: slowdown", None, estimate([each.slowdown for each in runs]), "×", comment)


def _slotted(decisions: pl.DataFrame) -> float:
    """Of sets of jobs that share links and were new in a decision, the share that got slots; 0 of none."""
    said = (json.loads(why)["cassini"] for why in decisions["why"].to_list())
    parts = [part for each in said if each for part in each["components"] if not part["kept"]]
    return sum(part["why_none"] is None for part in parts) / max(1, len(parts))


def mechanism_rows(found: Outcomes, augmented: Contender, here: str = "") -> Iterator[Row]:
    """What CASSINI had to choose from, and what became of the links that jobs shared."""
    runs = found[augmented.name]
    name = f"{here}{augmented.name}"
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
    for quantity, measured in _SHARES.items():
        yield row(f"{name}: {quantity}", None, estimate([measured(each) for each in runs]), "%", scale=100)
    yield row(
        f"{name}: adjustments per minute", None, estimate([each.adjustments_per_minute for each in runs])
    )


def _changed(each: ContenderRun) -> float:
    return float((each.decisions["chosen"].to_numpy() > 0).mean())


_SHARES: Mapping[str, Callable[[ContenderRun], float]] = {
    "decisions for another candidate than the scheduler's own": _changed,
    "sets of jobs that share links and get slots": lambda each: each.slotted,
    "iterations on shared links": lambda each: each.shared,
}


def _mean_ms(runs: Sequence[ContenderRun]) -> str:
    return f"{1e3 * mean(each.mean_s for each in runs):,.0f}"


def _mean_score(each: ContenderRun, column: str) -> float:
    """Over decisions and links; 1 where no link was ever shared."""
    scores = each.link_scores[column].drop_nulls()
    return float(scores.to_numpy().mean()) if scores.len() else 1.0


def _per_decision(each: ContenderRun, column: str) -> float:
    return each.link_scores[column].drop_nulls().len() / max(1, each.decisions.height)


def _shared(iterations: pl.DataFrame, placements: pl.DataFrame) -> float:
    """The share of iterations that begin while another job is placed on a link of the job's."""
    by_job: dict[str, list[tuple[float, float]]] = {}
    stints: list[dict[str, Any]] = placements.to_dicts()
    for one in stints:
        for other in stints:
            begin_s, end_s = max(one["start_s"], other["start_s"]), min(one["until_s"], other["until_s"])
            if one is not other and begin_s < end_s and not set(one["links"]).isdisjoint(other["links"]):
                by_job.setdefault(one["job"], []).append((begin_s, end_s))
    shared = sum(_within(iterations.filter(pl.col("job") == job), spans) for job, spans in by_job.items())
    return shared / int(iterations["count"].sum())


def _within(iterations: pl.DataFrame, spans: Sequence[tuple[float, float]]) -> int:
    """How many of `iterations` begin in any of `spans`."""
    starts_s = iterations["start_s"].to_numpy()
    inside = np.zeros(starts_s.size, dtype=bool)
    for begin_s, end_s in spans:
        inside |= (starts_s >= begin_s) & (starts_s < end_s)
    return int(iterations["count"].to_numpy()[inside].sum())


def themis_over_time(found: Outcomes) -> list[SeriesPanel]:
    """All jobs over time under Themis, without CASSINI and with it, in the run of the first seed."""
    return [
        SeriesPanel(f"{each.name}, seed {SEEDS[0]}: mean of each minute", over_time(found[each.name][0]))
        for each in (THEMIS, TH_CASSINI)
    ]


def iteration_distribution(found: Outcomes, shown: Sequence[Contender]) -> Distribution:
    """How many times as long as its ideal each iteration of all seeds took, under `shown`: jobs of several
    models compare by that alone.
    """
    slowdowns = pooled(found, shown, lambda each: each.slowdowns)
    return Distribution("all iterations, all seeds", "slowdown (iteration ÷ ideal)", slowdowns)


def over_time(each: ContenderRun) -> pl.DataFrame:
    """The mean iteration of each job in every minute, as `hocket.figures.contenders` draws it."""
    rows = each.iterations.with_columns(minute=(pl.col("start_s") / 60).floor())
    count = pl.col("count")
    return (
        rows.group_by("job", "model", "minute", maintain_order=True)
        .agg(iteration_s=(pl.col("iteration_s") * count).sum() / count.sum())
        .sort("job", "minute", maintain_order=True)
    )


def pooled(
    found: Outcomes,
    contenders: Sequence[Contender],
    quantity: Callable[[ContenderRun], npt.NDArray[np.float64]],
) -> dict[str, npt.NDArray[np.float64]]:
    """What `quantity` says of each iteration, of all seeds together, by the name of the contender."""
    return {each.name: np.concatenate([quantity(run) for run in found[each.name]]) for each in contenders}


def scores(found: Outcomes, augmented: Contender) -> dict[str, npt.NDArray[np.float64]]:
    """Scores of shared links over all decisions and seeds, under the scheduler's own choice and CASSINI's."""
    tables = [run.link_scores for run in found[augmented.name]]
    return {
        name: pl.concat([table[column] for table in tables]).drop_nulls().to_numpy()
        for name, column in (("its own choice", "before"), ("CASSINI's", "after"))
    }
