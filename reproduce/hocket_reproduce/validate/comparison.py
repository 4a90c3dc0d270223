"""The packet engine's runs beside the recorded ones: relative differences and their limits."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import NamedTuple

import numpy as np
import polars as pl

from hocket.hpcc import Study
from hocket.hpcc.parameters import REFERENCE, Fidelity
from hocket.hpcc.run import peak_queue_bytes, run_study
from hocket.results import Run
from hocket.results.times import in_ps
from hocket_reproduce.validate.reference import Case, Totals

SEEDS = 10
"""Number of our runs that a random case is averaged over: as many as most cases were recorded with."""

CHANCE = 3.0
"""A difference of two means below this number of its standard errors may be chance."""

EXACT_TIME = replace(REFERENCE, name="exact time", arithmetic="exact")
"""The simulator's frames without its rounding, for the effect of the rounding alone."""


class Limits(NamedTuple):
    """The largest relative differences allowed, ours ÷ recorded − 1. `flow` is for any single completion
    time; None where chance or the order of ties decides which flow is slow."""

    flow: float | None
    completion: float
    pauses: float
    marks: float
    queue: float


SAME = Limits(flow=0.001, completion=0.001, pauses=0.02, marks=0.1, queue=0.02)
"""Limits over one switch, where completion times do not depend on random draws. Marks do, but then the
control ignores them."""

ALIKE = Limits(flow=None, completion=0.02, pauses=0.1, marks=0.1, queue=0.1)
"""Limits over several switches, where packets that arrive in the same nanosecond may be served in another
order, and limits where a control reacts to marks or PINT's encoding, so that means over random seeds are
compared."""

HEAVY_TAILED = {
    "clos_4x8/dcqcn__nowin": "a flow that is cut to the minimum of 100 Mb/s near its end takes several times "
    "as long as all others; in about one of three seeds there is one, and the recorded seed had none: "
    "the median of our maxima is compared",
}
"""Cases whose longest completion time has no mean worth comparing, and why."""


REMARKS = {
    "two2one/dcqcn__nowin": "recorded with one seed; with that seed `two2one/dcqcn` has 90 marks, with each "
    "of its nine others 181 to 225",
}
"""Facts about a recorded run that are needed to judge a difference."""


@dataclass(frozen=True)
class Quantity:
    """One total, ours and recorded: means over seeds, or medians for cases of `HEAVY_TAILED`."""

    ours: float
    recorded: float
    limit: float
    standard_error: float

    @property
    def difference(self) -> float:
        """Ours ÷ recorded − 1; infinite where only ours is above 0."""
        if self.recorded == 0:
            return 0.0 if self.ours == 0 else math.inf
        return self.ours / self.recorded - 1

    @property
    def within_limit(self) -> bool:
        """Whether the difference is within the limit."""
        return abs(self.difference) <= self.limit

    @property
    def may_be_chance(self) -> bool:
        """Whether other seeds alone explain the difference."""
        return abs(self.ours - self.recorded) <= CHANCE * self.standard_error


@dataclass(frozen=True)
class Comparison:
    """One case and its `limits`. `equal_flows` is the number of completion times that are equal to the
    nanosecond, and `worst_flow` the largest relative difference of one, both with our first seed."""

    case: Case
    limits: Limits
    is_random: bool
    seeds: int
    flows: int
    equal_flows: int
    worst_flow: float
    mean_fct_ns: Quantity
    max_fct_ns: Quantity
    pauses: Quantity
    marks: Quantity
    peak_queue_bytes: Quantity
    hops_per_s: float

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The totals that have a limit, by name."""
        return {
            "mean completion time": self.mean_fct_ns,
            "longest completion time": self.max_fct_ns,
            "PAUSE frames": self.pauses,
            "marks": self.marks,
            "peak queue": self.peak_queue_bytes,
        }

    @property
    def failures(self) -> list[str]:
        """Totals that differ by more than their limit and than chance explains; empty if the case agrees."""
        failures = [
            f"{name} {each.difference:+.2%}"
            for name, each in self.quantities.items()
            if not (each.within_limit or each.may_be_chance)
        ]
        if self.limits.flow is not None and self.worst_flow > self.limits.flow:
            failures.append(f"a completion time {self.worst_flow:+.2%}")
        return failures


def compare(case: Case, seeds: int = SEEDS, fidelity: Fidelity = REFERENCE) -> Comparison:
    """Runs `case`, once per seed from 1 to `seeds` if random, and compares it with the recorded runs."""
    with case.study() as study:
        is_random = draws_decide(study, case)
        limits = SAME if len(study.switch_ids) == 1 and not is_random else ALIKE
        runs = [_Observed(study, seed, fidelity) for seed in range(1, (seeds if is_random else 1) + 1)]
    recorded = case.completions()
    both = recorded.join(runs[0].completions, on="flow", how="left")
    # A flow of theirs that ours lacks differs by more than any limit.
    difference = (both["ours_ns"] / both["fct_ns"] - 1).abs().fill_null(math.inf)
    middle = median if case.folder in HEAVY_TAILED else fmean
    totals = [run.totals for run in runs]

    def quantity(
        value: Callable[[Totals], float],
        limit: float,
        middle: Callable[[Sequence[float]], float] = fmean,
    ) -> Quantity:
        theirs = [value(each) for each in case.recorded]
        ours = [value(each) for each in totals]
        # Theirs is often a single run: it is taken to vary between seeds as ours do.
        spread = stdev(ours) if len(ours) > 1 else 0.0
        return Quantity(middle(ours), middle(theirs), limit, _standard_error(spread, ours, theirs))

    marks = quantity(lambda each: each.marks, limits.marks)
    if not is_random:
        # Marks that no control reacts to are independent draws, so the standard deviation of their number is
        # at most its root (a binomial's).
        ours, theirs = [each.marks for each in totals], [each.marks for each in case.recorded]
        marks = replace(marks, standard_error=_standard_error(math.sqrt(marks.ours), ours, theirs))
    return Comparison(
        case=case,
        limits=limits,
        is_random=is_random,
        seeds=len(runs),
        flows=recorded.height,
        equal_flows=int((both["ours_ns"] == both["fct_ns"]).sum()),
        worst_flow=float(np.max(difference.to_numpy())),
        mean_fct_ns=quantity(lambda each: each.mean_fct_ns, limits.completion),
        max_fct_ns=quantity(lambda each: each.max_fct_ns, limits.completion, middle),
        pauses=quantity(lambda each: each.pauses, limits.pauses),
        marks=marks,
        peak_queue_bytes=quantity(lambda each: each.peak_queue_bytes, limits.queue),
        # The fastest run is the one that other work on the machine slowed least.
        hops_per_s=max(run.hops_per_s for run in runs),
    )


def draws_decide(study: Study, case: Case) -> bool:
    """Whether flows depend on random draws: PINT's encoding, or random marks that the control reacts to."""
    if case.policy == "hpccpint":
        return True
    # With K_min = K_max, or a queue that never reached K_min, no mark was drawn.
    by_chance = any(each.kmin_bytes < each.kmax_bytes for each in study.config.marking)
    marked = any(each.marks > 0 for each in case.recorded)
    return case.policy in ("dcqcn", "dctcp") and by_chance and marked


def _standard_error(spread: float, ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The standard error of the difference of two means of values with one standard deviation, `spread`."""
    return spread * math.sqrt(1 / len(ours) + 1 / len(theirs))


class _Observed:
    """The measurements of one run of ours, whose files are deleted."""

    def __init__(self, study: Study, seed: int, fidelity: Fidelity) -> None:
        with tempfile.TemporaryDirectory(prefix="hocket-") as directory:
            run = run_study(study, directory, seed=seed, fidelity=fidelity)
            self.completions = run.tables["flows"].select(
                pl.col("flow").cast(pl.Int64),
                # Rounded to the nanosecond, the resolution of the recorded times.
                ours_ns=(in_ps("end_s") - in_ps("start_s") + 500) // 1000,
            )
            self.totals = _totals(study, run, self.completions["ours_ns"])
            self.hops_per_s = run.manifest["packet_hops"] / run.manifest["run_s"]


def _totals(study: Study, run: Run, fct_ns: pl.Series) -> Totals:
    return Totals(
        mean_fct_ns=float(fct_ns.to_numpy().mean()),
        max_fct_ns=float(fct_ns.to_numpy().max()),
        pauses=float(run.manifest["counts"]["pauses"]),
        marks=float(run.tables["flows"]["marks"].sum()),
        peak_queue_bytes=float(peak_queue_bytes(study, run)),
    )
