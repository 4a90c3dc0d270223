"""Which jobs of a plan can take turns, how far to shift each, and what that wins.

On one link this is the optimisation of NSDI'24 Table 1; on a fabric, Algorithms 1 and 2 over the candidate
placements. What the shifts win is predicted on the flow engine.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from hocket import _hocket
from hocket.config import Job, Plan
from hocket.errors import InputError
from hocket.network import Network, build_network
from hocket.prediction import predict
from hocket.runner import PlanLike, as_plan, plain
from hocket.workloads import PhaseSpec, WorkloadProfile

SHIFT_THRESHOLD = 0.6
"""Below this score a time-shift wins nothing (NSDI'24 Table 2, snapshot 5): priorities or adaptive
unfairness do more."""


@dataclass(frozen=True)
class CircleJob:
    """A job on the unified circle."""

    name: str
    given: WorkloadProfile
    """What the plan says that it asks for."""
    profile: WorkloadProfile
    """The same with its period on the circle, another one where the given ones have no common multiple."""
    rounds: int
    """Iterations per perimeter, the paper's r_j."""
    time_shift_ps: int
    batch_size: int | None
    """The one that was chosen, if the plan gives several."""


@dataclass(frozen=True)
class PeriodFit:
    """How periods were made to fit on one circle."""

    error: float
    """The largest relative difference between a job's period and the one on the circle; 0 if all fit."""
    holds_for_s: float | None
    """How long two jobs at their given periods stay within 5% of an iteration of their relative place; `None`
    if for ever."""
    padded_periods_s: dict[str, float]
    """By job, the period to pad its iterations to so that the interleaving holds for ever."""
    padding_cost: dict[str, float]
    """By job, how much longer that makes an iteration, as a share of its period."""


@dataclass(frozen=True)
class LinkCompatibility:
    """A link that several jobs share, under the shifts that were found."""

    name: str
    capacity_bps: int
    jobs: tuple[str, ...]
    score: float
    proven_optimal: bool


@dataclass(frozen=True)
class CandidateScore:
    """A candidate placement: its score, or why it was discarded."""

    name: str
    score: float | None
    reason: str | None


@dataclass(frozen=True)
class Compatibility:
    """The answer to "can these jobs take turns?".

    Times are in seconds, angles in degrees of the unified circle, by job name. `prediction` is the table of
    `hocket.prediction.predict`.
    """

    score: float
    bound: float
    """No shifts score higher than this."""
    proven_optimal: bool
    perimeter_s: float
    """Of the unified circle; on a fabric the longest among groups of jobs that share links."""
    time_shifts_s: dict[str, float]
    rotations_deg: dict[str, float]
    precision_deg: float
    """The step between rotations that were tried; 0 for all rotations."""
    solve_s: float
    jobs: tuple[CircleJob, ...]
    capacity_bps: int
    """Of the link, or on a fabric of the tightest one."""
    fit: PeriodFit
    prediction: pl.DataFrame
    interrupted: bool
    links: tuple[LinkCompatibility, ...]
    """On a fabric, the shared links under the best candidate; on one link, that link."""
    candidates: tuple[CandidateScore, ...]
    """On a fabric, best first, the discarded ones last."""

    @property
    def worth_shifting(self) -> bool:
        """Whether the score reaches `SHIFT_THRESHOLD`."""
        return self.score >= SHIFT_THRESHOLD

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it."""
        return {
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
            "candidates": [
                {"name": each.name, "score": each.score, "discarded": each.reason} for each in self.candidates
            ],
            "prediction": self.prediction.to_dicts(),
        }


def compatibility(
    plan: PlanLike,
    *,
    exact: bool | None = None,
    strict: bool | None = None,
    precision_deg: float | None = None,
) -> Compatibility:
    """The time-shifts that let the jobs of `plan` take turns, their score, and what they win.

    The keyword arguments replace what the plan says. `exact` seeks the optimum over all shifts instead of
    steps of `precision_deg`; `strict` allows one job at a time instead of counting demand (HotNets'22 §3).

    Raises `InputError` for a bad plan, for periods without a common multiple within the plan's tolerance, and
    for jobs on one GPU that cannot avoid computing at the same time.

    >>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
    >>> answer = compatibility({
    ...     "link": {"capacity": "50 Gbps"},
    ...     "jobs": [{"name": "a", **half}, {"name": "b", **half}],
    ... })
    >>> answer.score, answer.proven_optimal, answer.time_shifts_s
    (1.0, True, {'a': 0.0, 'b': 0.09})
    """
    plan = as_plan(plan)
    search: _hocket._Search = {
        "precision_deg": None
        if (plan.compat.exact if exact is None else exact)
        else (plan.precision_deg if precision_deg is None else precision_deg),
        "strict": plan.compat.strict if strict is None else strict,
        "time_limit_s": plan.compat.time_limit_ps / 1e12,
    }
    try:
        return _on_link(plan, search) if plan.link is not None else _on_fabric(plan, search)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{plan.name or 'plan'}: {error}") from None


def _on_link(plan: Plan, search: "_hocket._Search") -> Compatibility:
    assert plan.link is not None, "the caller looked"
    capacity_bps = plan.link.capacity_bps
    groups = _gpu_groups(plan)
    started = time.perf_counter()
    chosen = _choose_batch_sizes(plan, capacity_bps, groups, search)
    given = [job.profiles()[choice] for job, choice in zip(plan.jobs, chosen, strict=True)]
    fitted = _hocket.commensurate([each.period_ps for each in given], plan.compat.tolerance)
    profiles = _on_circle(given, fitted)
    solved = _hocket.solve_link(capacity_bps, [plain(each) for each in profiles], groups, search)
    solve_s = time.perf_counter() - started
    names = [job.name for job in plan.jobs]
    return Compatibility(
        score=solved["score"],
        bound=solved["bound"],
        proven_optimal=solved["proven_optimal"],
        perimeter_s=solved["perimeter_ps"] / 1e12,
        time_shifts_s=dict(zip(names, _in_seconds(solved["time_shifts_ps"]), strict=True)),
        rotations_deg=dict(zip(names, solved["rotations_deg"], strict=True)),
        precision_deg=solved["precision_deg"],
        solve_s=solve_s,
        jobs=_circle_jobs(plan, chosen, given, profiles, fitted, solved["time_shifts_ps"]),
        capacity_bps=capacity_bps,
        fit=_period_fit(names, given, fitted),
        prediction=predict(plan, build_network(plan), None, given, fitted, solved["time_shifts_ps"]),
        interrupted=solved["interrupted"],
        links=(
            LinkCompatibility("link", capacity_bps, tuple(names), solved["score"], solved["proven_optimal"]),
        ),
        candidates=(),
    )


def _choose_batch_sizes(
    plan: Plan, capacity_bps: int, groups: list[list[int]], search: "_hocket._Search"
) -> list[int]:
    """For each job, which of its profiles to use (HotNets'22 §5, hyper-parameters)."""
    options = [[plain(each) for each in job.profiles()] for job in plan.jobs]
    if all(len(profiles) == 1 for profiles in options):
        return [0] * len(options)
    chosen, _ = _hocket.choose_batch_sizes(capacity_bps, options, groups, plan.compat.tolerance, search)
    return chosen


def _on_fabric(plan: Plan, search: "_hocket._Search") -> Compatibility:
    for number, job in enumerate(plan.jobs):
        if len(job.profiles()) > 1:
            raise InputError(f"jobs[{number}].batch_size: several can be given on one link only")
        if job.gpus:
            raise InputError(f"jobs[{number}].gpus: shared GPUs can be given on one link only")
    network = build_network(plan)
    given = [job.profiles()[0] for job in plan.jobs]
    placements = {each.name: each.placement for each in plan.candidates} or {"as placed": {}}
    crossings = {name: network.crossings(plan, placement) for name, placement in placements.items()}
    started = time.perf_counter()
    ranked = _hocket.rank(
        network.fabric,
        # The scheduler's highest priority is never delayed; a plan serves the lowest number first.
        [(job.name, plain(each), -job.priority) for job, each in zip(plan.jobs, given, strict=True)],
        [(name, crossed, _moved(plan, placements[name])) for name, crossed in crossings.items()],
        search,
        {
            "aggregate": plan.compat.aggregate,
            "solve_loops": plan.compat.loops == "solve",
            "seed": plan.seed,
            "tolerance": plan.compat.tolerance,
        },
    )
    solve_s = time.perf_counter() - started
    names = list(crossings)
    if not ranked["placements"]:
        reasons = "; ".join(f"{names[number]!r}: {reason}" for number, reason in ranked["discarded"])
        raise InputError(f"candidates: all were discarded: {reasons}")
    best = ranked["placements"][0]
    fitted = _merged(given, best["groups"])
    shifts_ps = [shift or 0 for shift in best["time_shifts_ps"]]
    links = tuple(_link(plan, network, row) for row in best["links"])
    proven = all(row["proven_optimal"] for row in (*best["components"], *best["links"]))
    tightest_bps = min(rate for _, rate in network.links)
    return Compatibility(
        score=best["score"],
        bound=best["score"] if proven else 1.0,
        proven_optimal=proven,
        perimeter_s=fitted["perimeter_ps"] / 1e12,
        time_shifts_s=dict(zip((job.name for job in plan.jobs), _in_seconds(shifts_ps), strict=True)),
        rotations_deg={
            job.name: shift / (period * rounds) * 360
            for job, shift, period, rounds in zip(
                plan.jobs, shifts_ps, fitted["periods_ps"], fitted["rounds"], strict=True
            )
        },
        precision_deg=search["precision_deg"] or 0.0,
        solve_s=solve_s,
        jobs=_circle_jobs(plan, [0] * len(given), given, _on_circle(given, fitted), fitted, shifts_ps),
        capacity_bps=min((link.capacity_bps for link in links), default=tightest_bps),
        fit=_period_fit([job.name for job in plan.jobs], given, fitted),
        prediction=predict(plan, network, placements[names[best["candidate"]]], given, fitted, shifts_ps),
        interrupted=False,
        links=links,
        candidates=(
            *(CandidateScore(names[row["candidate"]], row["score"], None) for row in ranked["placements"]),
            *(CandidateScore(names[number], None, reason) for number, reason in ranked["discarded"]),
        ),
    )


def _merged(
    given: Sequence[WorkloadProfile], groups: "Sequence[tuple[list[int], _hocket._Fitted]]"
) -> "_hocket._Fitted":
    """The fits of groups of jobs as one; a job in no group keeps its period. The perimeter is the longest."""
    periods_ps = [each.period_ps for each in given]
    padded_ps = list(periods_ps)
    rounds = [1] * len(given)
    for numbers, fit in groups:
        for place, number in enumerate(numbers):
            rounds[number] = fit["rounds"][place]
            periods_ps[number] = fit["periods_ps"][place]
            padded_ps[number] = fit["padded_periods_ps"][place]
    fits = [fit for _, fit in groups]
    return {
        "perimeter_ps": max((fit["perimeter_ps"] for fit in fits), default=max(periods_ps)),
        "rounds": rounds,
        "periods_ps": periods_ps,
        "error": max((fit["error"] for fit in fits), default=0.0),
        "holds_for_ps": min((f["holds_for_ps"] for f in fits if f["holds_for_ps"] is not None), default=None),
        "padded_periods_ps": padded_ps,
    }


def _link(plan: Plan, network: Network, row: "_hocket._LinkRow") -> LinkCompatibility:
    name, capacity_bps = network.links[row["link"]]
    jobs = tuple(plan.jobs[job].name for job in row["jobs"])
    return LinkCompatibility(name, capacity_bps, jobs, row["score"], row["proven_optimal"])


def _moved(plan: Plan, placement: Mapping[str, Sequence[str]]) -> int:
    """How many jobs run elsewhere in `placement` than the plan has them."""
    running = {job.name: set(job.placement) for job in plan.jobs if job.placement}
    return sum(set(placement.get(name, hosts)) != hosts for name, hosts in running.items())


def _gpu_groups(plan: Plan) -> list[list[int]]:
    """Jobs that share a GPU, by number."""
    users: dict[str, list[int]] = {}
    for number, job in enumerate(plan.jobs):
        for gpu in dict.fromkeys(job.gpus):
            users.setdefault(gpu, []).append(number)
    groups = (group for group in users.values() if len(group) > 1)
    return [list(group) for group in dict.fromkeys(tuple(group) for group in groups)]


def _on_circle(given: Sequence[WorkloadProfile], fitted: "_hocket._Fitted") -> list[WorkloadProfile]:
    return [
        each if each.period_ps == period_ps else _stretched(each, period_ps)
        for each, period_ps in zip(given, fitted["periods_ps"], strict=True)
    ]


def _stretched(profile: WorkloadProfile, period_ps: int) -> WorkloadProfile:
    period_ps, phases = _hocket.stretched(plain(profile), period_ps)
    return replace(profile, period_ps=period_ps, phases=tuple(PhaseSpec(*phase) for phase in phases))


def _circle_jobs(
    plan: Plan,
    chosen: Sequence[int],
    given: Sequence[WorkloadProfile],
    profiles: Sequence[WorkloadProfile],
    fitted: "_hocket._Fitted",
    shifts_ps: Sequence[int],
) -> tuple[CircleJob, ...]:
    def batch_size(job: Job, choice: int) -> int | None:
        return job.batch_size[choice] if job.batch_size and len(job.batch_size) > 1 else None

    return tuple(
        CircleJob(
            job.name, given[i], profiles[i], fitted["rounds"][i], shifts_ps[i], batch_size(job, chosen[i])
        )
        for i, job in enumerate(plan.jobs)
    )


def _period_fit(
    names: Sequence[str], given: Sequence[WorkloadProfile], fitted: "_hocket._Fitted"
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


def _in_seconds(times_ps: Sequence[int]) -> list[float]:
    return [time_ps / 1e12 for time_ps in times_ps]
