"""The effect of time-shifts: iteration times alone, sharing and shifted, predicted on the flow engine."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hocket.compat.ranking import PlacementSolution
from hocket.engines.flow import run_for_table
from hocket.engines.network import Crossings, Network
from hocket.engines.rows import values
from hocket.engines.specs import job_spec, training_job_spec
from hocket.plan import Plan

if TYPE_CHECKING:
    import polars as pl

    from hocket import _hocket

PREDICTED_ITERATIONS = 1_000
"""Iterations per job behind a prediction; HotNets'22 §2 and NSDI'24 §2.2 run as many."""

# Jobs run as many iterations as the flow engine simulates in a few seconds, but at least ten. An event of
# periodic jobs visits all that share links with the job.
_MIN_ITERATIONS = 10
_EVENTS = 300_000
_VISITS = 30_000_000


# Not a data frame: for a few numbers per job, loading polars would take longer than everything else.
@dataclass(frozen=True)
class Prediction:
    """Iteration times of jobs, in seconds."""

    jobs: tuple[str, ...]
    times_s: Mapping[str, Sequence[float | None]]
    """By column, such as `alone_mean_s`: the time of each of `jobs`; `None` if it finished no iteration."""

    def rows(self) -> list[dict[str, Any]]:
        """A row per job: its name as `job`, and its time in each column."""
        times = zip(*self.times_s.values(), strict=True)
        return [
            {"job": job, **dict(zip(self.times_s, of_job, strict=True))}
            for job, of_job in zip(self.jobs, times, strict=True)
        ]

    def frame(self) -> "pl.DataFrame":
        """The rows as a table."""
        import polars as pl

        return pl.DataFrame(
            {"job": self.jobs, **self.times_s},
            schema={"job": pl.String, **dict.fromkeys(self.times_s, pl.Float64)},
        )


def predict(plan: Plan, network: Network, solution: PlacementSolution) -> Prediction:
    """Iteration times on the flow engine, for jobs that are all present from the start and placed as in
    `solution`.

    The columns are the mean and p99 of a job's iterations including the delays between them: `alone`,
    `sharing` without shifts, and `shifted`; if periods had to be fitted, also shifted and `padded`. Each job
    runs 1,000 iterations, or fewer if so many share links that the flow engine would take more than a few
    seconds, but at least ten. With training jobs, all run for the time that 1,000 iterations of the longest
    take alone, or for fewer of them if the flow engine would take long.
    """
    crossings = network.crossings(plan, solution.placement)
    fitted = solution.fitted
    training = [number for number, job in enumerate(plan.jobs) if job.training is not None]
    possible = _EVENTS // solution.events if training else _VISITS // _visits(solution, crossings)
    iterations, until_ps = max(_MIN_ITERATIONS, min(PREDICTED_ITERATIONS, possible)), None
    if training:
        until_ps = iterations * max(each.period_ps for each in solution.given)

    def spec(number: int, *, shifted: bool, padded: bool) -> "_hocket._JobSpec":
        job = plan.jobs[number]
        if number in training:
            of_job = training_job_spec(plan, number, solution.placement, network)
        else:
            # Without re-adjustment: the prediction shows what the shifts achieve by themselves.
            of_job = job_spec(job, solution.given[number], crossings[number], readjust=False)
        return {
            **of_job,
            "first": None,
            "arrival_ps": 0,
            "iterations": None if training else iterations,
            "time_shift_ps": solution.shifts_ps[number] if shifted else None,
            "pad_to_ps": fitted["padded_periods_ps"][number] if padded else job.pad_to_ps,
        }

    def run(numbers: Sequence[int], *, shifted: bool, padded: bool = False) -> "list[_Times]":
        specs = [spec(number, shifted=shifted, padded=padded) for number in numbers]
        names = [each["name"] for each in specs]
        # The spec of a periodic job has its paths; those of a training job depend on its place in the list.
        if len(numbers) == 1 and numbers[0] in training:
            from hocket.compat.measured import alone

            specs = alone(numbers[0], specs[0])
        return _iteration_times(plan, network, specs, names, None if training else iterations, until_ps)

    everyone = range(len(plan.jobs))
    found = {
        "alone": [times for number in everyone for times in run([number], shifted=False)],
        "sharing": run(everyone, shifted=False),
        "shifted": run(everyone, shifted=True),
    }
    if fitted["holds_for_ps"] is not None:
        found["padded"] = run(everyone, shifted=True, padded=True)
    times_s: dict[str, list[float | None]] = {}
    for label, times in found.items():
        times_s[f"{label}_mean_s"] = [each.mean_s for each in times]
        times_s[f"{label}_p99_s"] = [each.p99_s for each in times]
    return Prediction(tuple(job.name for job in plan.jobs), times_s)


def _visits(solution: PlacementSolution, crossings: Sequence[Crossings]) -> int:
    """About the number of jobs that the flow engine visits in an iteration of each job, at least 1."""
    on_link = Counter(link for crossed in crossings for link, _ in crossed)
    sharing = [max((on_link[link] for link, _ in crossed), default=0) for crossed in crossings]
    phases = [2 * len(each.phases) for each in solution.given]
    return max(1, sum(events * jobs for events, jobs in zip(phases, sharing, strict=True)))


@dataclass(frozen=True)
class _Times:
    """Of the iterations of a job; `None` if there are none."""

    mean_s: float | None
    p99_s: float | None


def mean(numbers: Sequence[float]) -> float:
    """The mean of at least one number, whatever their order."""
    return math.fsum(numbers) / len(numbers)


def _p99(numbers: Sequence[float]) -> float:
    """The 99th percentile of at least one number: the nearest of them."""
    # Half-way between two ranks, the higher one is taken.
    return sorted(numbers)[math.floor(0.99 * (len(numbers) - 1) + 0.5)]


def _iteration_times(
    plan: Plan,
    network: Network,
    specs: "Sequence[_hocket._JobSpec]",
    names: Sequence[str],
    iterations: int | None,
    until_ps: int | None,
) -> list[_Times]:
    """By job of `names`, mean and p99 of iterations including their delays, except that before the first."""
    by_job: dict[str, list[float]] = {name: [] for name in names}

    def add(columns: "Mapping[str, _hocket._Column]") -> None:
        jobs = columns["job"]["dictionary"] or ()
        in_order = (values(columns[name]) for name in ("job", "iteration", "iteration_s", "delayed_s"))
        for code, iteration, iteration_s, delayed_s in zip(*in_order, strict=True):
            # The delay before the first iteration is the time-shift, which happens only once.
            total_s = iteration_s + delayed_s if iteration > 0 else iteration_s
            # Jobs that idle so that others keep their numbers are not of interest.
            if jobs[code] in by_job:
                by_job[jobs[code]].append(total_s)

    run_for_table(
        "iterations",
        network,
        specs,
        {
            "priority_queues": plan.priority_queues,
            "goodput": plan.goodput,
            "seed": plan.seed,
            "iterations": iterations,
            "until_ps": until_ps,
            "record_rates_until_ps": 0,
            "record_operations": 0,
            "sample_every_ps": None,
            "record_flows": False,
        },
        add,
    )
    # In the order of the plan.
    return [_Times(mean(times), _p99(times)) if times else _Times(None, None) for times in by_job.values()]
