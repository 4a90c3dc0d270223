"""Which jobs of a plan can take turns, how far to shift each, and the predicted speed-up.

On one link this is the optimisation of NSDI'24 Table 1; on a fabric, Algorithms 1 and 2 over the candidate
placements. The flow engine predicts the speed-up.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hocket.compat.link_demands import demands
from hocket.compat.prediction import Prediction, mean, predict
from hocket.compat.ranking import (
    LinkCompatibility,
    PlacementSolution,
    RankedPlacements,
    on_circle,
    solve,
)
from hocket.compat.verdict import Speedup, Verdict
from hocket.display import Displayed, counted, on_one_line
from hocket.engines.network import Network, build_network
from hocket.errors import located
from hocket.plan import Job, Plan, PlanLike, as_plan
from hocket.plan.link import check_precision
from hocket.profiles import WorkloadProfile

if TYPE_CHECKING:
    import polars as pl

    from hocket import _hocket


def printed_score(score: float) -> float:
    """`score` rounded down to three decimals, because 0.9996 is not full compatibility.

    >>> printed_score(0.9996), printed_score(1.0)
    (0.999, 1.0)
    """
    # The small term makes up for floating-point error: a computed 0.69999999999 is 0.700.
    return math.floor(score * 1000 + 1e-9) / 1000


def written_score(score: float) -> str:
    """`printed_score` with its three decimals.

    >>> written_score(0.9996), written_score(1.0)
    ('0.999', '1.000')
    """
    return f"{printed_score(score):.3f}"


def written_bound(bound: float) -> str:
    """`bound` rounded up to three decimals, so that the printed number is an upper bound too.

    >>> written_bound(0.9661), written_bound(1.0)
    ('0.967', '1.000')
    """
    # As in `printed_score`: a computed 0.96600000001 is 0.966.
    return f"{math.ceil(bound * 1000 - 1e-9) / 1000:.3f}"


@dataclass(frozen=True)
class CircleJob:
    """A job on the unified circle."""

    name: str
    given: WorkloadProfile
    """Its demand: from the plan or, for a training job, as measured alone (`hocket.compat.link_demands`)."""
    profile: WorkloadProfile
    """`given` with the period on the circle, which differs where given periods have no common multiple."""
    rounds: int
    """Iterations per perimeter, the paper's r_j."""
    time_shift_ps: int
    batch_size: int | None
    """The batch size chosen, if the plan gives several."""


@dataclass(frozen=True)
class PeriodFit:
    """How periods were fitted to one circle."""

    error: float
    """The largest relative difference between a job's period and its period on the circle; 0 if all fit."""
    holds_for_s: float | None
    """How long every two jobs, at their given periods, stay within 5% of an iteration of their relative
    position; `None` if for ever."""
    padded_periods_s: dict[str, float]
    """By job, the period to pad iterations to so that the interleaving holds for ever."""
    padding_cost: dict[str, float]
    """By job, by how much padding lengthens an iteration, as a share of its period."""


@dataclass(frozen=True)
class CandidateScore:
    """A candidate placement: its score, or why it was discarded."""

    name: str
    score: float | None
    reason: str | None
    answer: "Compatibility | None" = None
    """The answer for this placement, if one was requested for every candidate."""


@dataclass(frozen=True, repr=False)
class Compatibility(Displayed):
    """The answer to "can these jobs take turns?".

    Times are in seconds, angles in degrees of the unified circle, by job name.
    """

    original_plan: Plan
    """The plan that the answer is about, without the shifts of the answer."""

    score: float
    bound: float
    """No shifts score higher than this."""
    proven_optimal: bool
    perimeter_s: float
    """The perimeter of the unified circle; on a fabric, the longest among groups of jobs that share links."""
    time_shifts_s: dict[str, float]
    rotations_deg: dict[str, float]
    precision_deg: float
    """The step between the rotations that were searched; 0 for all rotations. If searching all took too long,
    the step with which a better answer was found, if there was one.
    """
    in_steps: bool
    """Whether the caller requested steps."""
    solve_s: float
    jobs: tuple[CircleJob, ...]
    capacity_bps: int
    """The capacity of the link; on a fabric, of the slowest shared link."""
    fit: PeriodFit
    predicted: Prediction
    """Iteration times as `hocket.compat.prediction.predict` returns them."""
    interrupted: bool
    links: tuple[LinkCompatibility, ...]
    """On a fabric, the shared links under the best candidate; for a plan with one link, that link."""
    candidates: tuple[CandidateScore, ...]
    """On a fabric, best first, the discarded ones last."""

    @cached_property
    def prediction(self) -> "pl.DataFrame":
        """`predicted` as a table, with a row per job."""
        return self.predicted.frame()

    @property
    def speedup(self) -> Speedup:
        """The predicted speed-up of iterations with the shifts over sharing without them."""
        return self._speedup("shifted")

    @property
    def verdict(self) -> Verdict:
        """Whether shifting helps, judged by `speedup`: the score tells whether phases fit on the circle, not
        how much faster that makes the jobs.
        """
        return self.speedup.verdict

    @property
    def padded_speedup(self) -> Speedup | None:
        """`speedup` with iterations padded to `fit.padded_periods_s`; `None` if periods fit as given."""
        return self._speedup("padded") if "padded_mean_s" in self.predicted.times_s else None

    @property
    def most_speedup(self) -> Speedup:
        """The largest speed-up that shifts could have: as if each job were alone."""
        return self._speedup("alone")

    def _speedup(self, instead: str) -> Speedup:
        sharing = {name for link in self.links for name in link.jobs}
        # Jobs that share no link always have a speed-up of 1, which would only dilute that of the others.
        rows = [row for row in self.predicted.rows() if not sharing or row["job"] in sharing]

        def faster(figure: str) -> float:
            pairs = ((row[f"sharing_{figure}_s"], row[f"{instead}_{figure}_s"]) for row in rows)
            # A mean of ratios, in which jobs with long iterations count no more than others.
            ratios = [before / after for before, after in pairs if before is not None and after is not None]
            return mean(ratios) if ratios else 1.0

        return Speedup(faster("mean"), faster("p99"))

    def plan(self, *, padded: bool = False) -> Plan:
        """The plan with these time-shifts, the chosen batch sizes and, on a fabric, the placement of the best
        candidate: the plan that `hocket.simulate(answer)` runs. If `padded`, iterations are padded to
        `fit.padded_periods_s`, with which all periods fit.

        >>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
        >>> jobs = [{"name": "a", **half}, {"name": "b", **half}]
        >>> compatibility({"link": {"capacity": "50 Gbps"}, "jobs": jobs}).plan().jobs[1]
        Job('b', period='180 ms', 1 Up phase, time_shift='90 ms')
        """
        shifted = self.original_plan.shifted(self)
        if not padded:
            return shifted
        padded_s, cost = self.fit.padded_periods_s, self.fit.padding_cost
        # A job whose period fits as given keeps the `pad_to` of the plan, if it has one.
        jobs = (
            job.replace(pad_to_s=padded_s[job.name]) if cost[job.name] > 0 else job for job in shifted.jobs
        )
        return shifted.replace(jobs=tuple(jobs))

    def __repr__(self) -> str:
        certain = "proven optimal" if self.proven_optimal else f"at most {written_bound(self.bound)}"
        jobs, links = counted(len(self.jobs), "job"), counted(len(self.links), "shared link")
        circle = f"circle of {self.perimeter_s * 1e3:,.6g} ms"
        return on_one_line(
            f"Compatibility of {jobs} on {links}: shifting {self.verdict}, "
            f"score {written_score(self.score)}, {certain}, {circle}"
        )

    def on_link(self, link: LinkCompatibility) -> "Compatibility":
        """The same answer for the jobs on one of `links` alone, with shifts on the circle of that link."""
        demand = dict(zip(link.jobs, link.demand, strict=True))
        jobs = [job for job in self.jobs if job.name in demand]
        perimeter_ps = math.lcm(*(job.profile.period_ps for job in jobs))
        return replace(
            self,
            score=link.score,
            # The shifts were chosen for all links together: nothing is proven about this link alone.
            bound=1.0,
            proven_optimal=False,
            perimeter_s=perimeter_ps / 1e12,
            time_shifts_s={job.name: self.time_shifts_s[job.name] for job in jobs},
            rotations_deg={job.name: round(job.time_shift_ps / perimeter_ps * 360, 6) for job in jobs},
            jobs=tuple(
                replace(
                    job,
                    profile=demand[job.name],
                    rounds=perimeter_ps // job.profile.period_ps,
                )
                for job in jobs
            ),
            capacity_bps=link.capacity_bps,
            links=(link,),
            candidates=(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole answer as values that JSON can hold."""
        padded = self.padded_speedup
        return {
            "verdict": self.verdict,
            "speedup": asdict(self.speedup),
            "padded": None if padded is None else {"verdict": padded.verdict, "speedup": asdict(padded)},
            "score": self.score,
            "bound": self.bound,
            "proven_optimal": self.proven_optimal,
            "perimeter_s": self.perimeter_s,
            "time_shifts_s": self.time_shifts_s,
            "rotations_deg": self.rotations_deg,
            "precision_deg": self.precision_deg,
            "solve_s": self.solve_s,
            "interrupted": self.interrupted,
            "periods_s": {job.name: job.given.period_ps / 1e12 for job in self.jobs},
            "circle_periods_s": {job.name: job.profile.period_ps / 1e12 for job in self.jobs},
            "period_error": self.fit.error,
            "holds_for_s": self.fit.holds_for_s,
            "padded_periods_s": self.fit.padded_periods_s,
            "padding_cost": self.fit.padding_cost,
            "batch_sizes": {job.name: job.batch_size for job in self.jobs if job.batch_size is not None},
            "links": [
                {"name": link.name, "jobs": list(link.jobs), "score": link.score} for link in self.links
            ],
            "candidates": [_candidate_as_json(each) for each in self.candidates],
            "prediction": self.predicted.rows(),
        }


def _candidate_as_json(candidate: CandidateScore) -> dict[str, Any]:
    entry = {"name": candidate.name, "score": candidate.score, "discarded": candidate.reason}
    if candidate.answer is None:
        return entry
    keys = ("verdict", "speedup", "proven_optimal", "time_shifts_s", "batch_sizes", "links", "prediction")
    answer = candidate.answer.to_dict()
    return entry | {key: answer[key] for key in keys}


def compatibility(
    plan: PlanLike,
    *,
    strict: bool | None = None,
    precision_deg: float | None = None,
    every_candidate: bool = False,
) -> Compatibility:
    """The time-shifts with which the jobs of `plan` take turns best, their score, and the predicted speed-up.

    The keyword arguments override the plan. `precision_deg` restricts the search to rotations in steps of 0.1
    to 90 degrees; 0 searches all shifts. `strict` allows one job at a time, whatever its rate, instead of
    adding up demand (HotNets'22 §3). The answer is the candidate with the highest score; with
    `every_candidate`, each entry of `candidates` has its own answer, predictions included.

    Raises `InputError` for an invalid plan, for periods without a common multiple within the plan's
    tolerance, and for jobs on one GPU that cannot avoid computing at the same time.

    >>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
    >>> answer = compatibility({
    ...     "link": {"capacity": "50 Gbps"},
    ...     "jobs": [{"name": "a", **half}, {"name": "b", **half}],
    ... })
    >>> answer.score, answer.proven_optimal, answer.time_shifts_s
    (1.0, True, {'a': 0.0, 'b': 0.09})
    >>> answer.verdict, answer.speedup
    (<Verdict.HELPS: 'helps'>, Speedup(mean=1.3, p99=1.3))
    """
    source, plan = plan, as_plan(plan)
    if precision_deg is not None:
        with located("precision_deg"):
            check_precision(precision_deg)
    precision_deg = plan.precision_deg if precision_deg is None else precision_deg
    search: _hocket._Search = {
        # A plan writes 0 for a search over all shifts, the solvers take `None`.
        "precision_deg": precision_deg or None,
        "strict": plan.compat.strict if strict is None else strict,
        "time_limit_s": plan.compat.time_limit_ps / 1e12,
    }
    with located(source):
        network = build_network(plan)
        demand = demands(plan, network)
        # Measuring training jobs is a simulation, not a part of the search.
        started = time.perf_counter()
        ranked = solve(plan, network, demand, search)
        solve_s = time.perf_counter() - started
        return _best_answer(plan, network, ranked, search, solve_s, every_candidate)


def _best_answer(
    plan: Plan,
    network: Network,
    ranked: RankedPlacements,
    search: "_hocket._Search",
    solve_s: float,
    every_candidate: bool,
) -> Compatibility:
    scores = [CandidateScore(name, solution.score, None) for name, solution in ranked.placements.items()]
    scores += [CandidateScore(name, None, reason) for name, reason in ranked.discarded.items()]
    # With one link there are no placements to choose from.
    candidates = () if plan.link else tuple(scores)
    in_steps = search["precision_deg"] is not None
    best = replace(_answer(plan, network, ranked.best, solve_s, in_steps), candidates=candidates)
    if not every_candidate:
        return best
    answers = {
        name: best if solution is ranked.best else _answer(plan, network, solution, solve_s, in_steps)
        for name, solution in ranked.placements.items()
    }
    # Each answer has itself as the only candidate, so that its `plan` places jobs as this candidate does.
    with_answers = (
        replace(each, answer=replace(answers[each.name], candidates=(each,)))
        if each.name in answers
        else each
        for each in candidates
    )
    return replace(best, candidates=tuple(with_answers))


def _answer(
    plan: Plan, network: Network, solution: PlacementSolution, solve_s: float, in_steps: bool
) -> Compatibility:
    fitted = solution.fitted
    names = [job.name for job in plan.jobs]
    tightest_bps = min(rate for _, rate in network.links)
    return Compatibility(
        original_plan=plan,
        score=solution.score,
        bound=solution.bound,
        proven_optimal=solution.proven_optimal,
        perimeter_s=fitted["perimeter_ps"] / 1e12,
        time_shifts_s={name: shift / 1e12 for name, shift in zip(names, solution.shifts_ps, strict=True)},
        rotations_deg={
            # Shifts are whole picoseconds: digits beyond a millionth of a degree only show their rounding.
            name: round(shift / (period * rounds) * 360, 6)
            for name, shift, period, rounds in zip(
                names, solution.shifts_ps, fitted["periods_ps"], fitted["rounds"], strict=True
            )
        },
        precision_deg=solution.precision_deg,
        in_steps=in_steps,
        solve_s=solve_s,
        jobs=_circle_jobs(plan, solution),
        capacity_bps=min((link.capacity_bps for link in solution.links), default=tightest_bps),
        fit=_period_fit(names, solution.given, fitted),
        predicted=predict(plan, network, solution),
        interrupted=solution.interrupted,
        links=solution.links,
        candidates=(),
    )


def _circle_jobs(plan: Plan, solution: PlacementSolution) -> tuple[CircleJob, ...]:
    def batch_size(job: Job, choice: int) -> int | None:
        return job.batch_size[choice] if job.batch_size and len(job.batch_size) > 1 else None

    profiles = on_circle(solution.given, solution.fitted["periods_ps"])
    return tuple(
        CircleJob(
            name=job.name,
            given=solution.given[number],
            profile=profiles[number],
            rounds=solution.fitted["rounds"][number],
            time_shift_ps=solution.shifts_ps[number],
            batch_size=batch_size(job, solution.choices[number]),
        )
        for number, job in enumerate(plan.jobs)
    )


def _period_fit(
    names: Sequence[str], given: Sequence[WorkloadProfile], fitted: "_hocket._FitResult"
) -> PeriodFit:
    padded = dict(zip(names, fitted["padded_periods_ps"], strict=True))
    periods = {name: each.period_ps for name, each in zip(names, given, strict=True)}
    holds_for_ps = fitted["holds_for_ps"]
    return PeriodFit(
        error=fitted["error"],
        holds_for_s=None if holds_for_ps is None else holds_for_ps / 1e12,
        padded_periods_s={name: period_ps / 1e12 for name, period_ps in padded.items()},
        padding_cost={name: period_ps / periods[name] - 1 for name, period_ps in padded.items()},
    )
