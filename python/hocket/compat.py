"""Which jobs of a plan can take turns, how far to shift each, and what that wins.

On one link this is the optimisation of NSDI'24 Table 1; on a fabric, Algorithms 1 and 2 over the candidate
placements. What the shifts win is predicted on the flow engine.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from hocket import _hocket
from hocket.demand import demands
from hocket.errors import located
from hocket.network import Network, build_network
from hocket.plan import Job, Plan
from hocket.prediction import predict
from hocket.runner import PlanLike, as_plan
from hocket.solving import CandidateScore, Found, LinkCompatibility, on_circle, solve
from hocket.workloads import WorkloadProfile

SHIFT_THRESHOLD = 0.6
"""Below this score a time-shift wins nothing (NSDI'24 Table 2, snapshot 5): priorities or adaptive
unfairness do more."""


@dataclass(frozen=True)
class CircleJob:
    """A job on the unified circle."""

    name: str
    given: WorkloadProfile
    """What it asks for, as the plan says or, of a training job, as measured alone (`hocket.demand`)."""
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

    def on_link(self, link: LinkCompatibility) -> "Compatibility":
        """The same answer for the jobs on one of `links` alone, on whose circle their shifts are laid."""
        demand = dict(zip(link.jobs, link.demand, strict=True))
        jobs = [job for job in self.jobs if job.name in demand]
        perimeter_ps = math.lcm(*(job.profile.period_ps for job in jobs))
        return replace(
            self,
            score=link.score,
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
    source, plan = plan, as_plan(plan)
    search: _hocket._Search = {
        "precision_deg": None
        if (plan.compat.exact if exact is None else exact)
        else (plan.precision_deg if precision_deg is None else precision_deg),
        "strict": plan.compat.strict if strict is None else strict,
        "time_limit_s": plan.compat.time_limit_ps / 1e12,
    }
    with located(source):
        network = build_network(plan)
        asked = demands(plan, network)
        started = time.perf_counter()
        found = solve(plan, network, asked, search)
        return _answer(plan, network, found, time.perf_counter() - started)


def _answer(plan: Plan, network: Network, found: Found, solve_s: float) -> Compatibility:
    fitted = found.fitted
    names = [job.name for job in plan.jobs]
    tightest_bps = min(rate for _, rate in network.links)
    return Compatibility(
        score=found.score,
        bound=found.bound,
        proven_optimal=found.proven_optimal,
        perimeter_s=fitted["perimeter_ps"] / 1e12,
        time_shifts_s={name: shift / 1e12 for name, shift in zip(names, found.shifts_ps, strict=True)},
        rotations_deg={
            # Shifts are whole picoseconds; finer than a millionth of a degree is their rounding.
            name: round(shift / (period * rounds) * 360, 6)
            for name, shift, period, rounds in zip(
                names, found.shifts_ps, fitted["periods_ps"], fitted["rounds"], strict=True
            )
        },
        precision_deg=found.precision_deg,
        solve_s=solve_s,
        jobs=_circle_jobs(plan, found),
        capacity_bps=min((link.capacity_bps for link in found.links), default=tightest_bps),
        fit=_period_fit(names, found.given, fitted),
        prediction=predict(plan, network, found),
        interrupted=found.interrupted,
        links=found.links,
        candidates=found.candidates,
    )


def _circle_jobs(plan: Plan, found: Found) -> tuple[CircleJob, ...]:
    def batch_size(job: Job, choice: int) -> int | None:
        return job.batch_size[choice] if job.batch_size and len(job.batch_size) > 1 else None

    profiles = on_circle(found.given, found.fitted["periods_ps"])
    return tuple(
        CircleJob(
            name=job.name,
            given=found.given[number],
            profile=profiles[number],
            rounds=found.fitted["rounds"][number],
            time_shift_ps=found.shifts_ps[number],
            batch_size=batch_size(job, found.choices[number]),
        )
        for number, job in enumerate(plan.jobs)
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
