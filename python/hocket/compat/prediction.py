"""The effect of time-shifts: iteration times alone, sharing and shifted, predicted on the flow engine."""

from collections.abc import Sequence

import polars as pl

from hocket import _hocket
from hocket.compat.measured import alone
from hocket.compat.ranking import PlacementSolution
from hocket.engines.flow import whole_table
from hocket.engines.network import Network
from hocket.engines.specs import job_spec, training_job_spec
from hocket.engines.training import training_spec
from hocket.plan import Plan

PREDICTED_ITERATIONS = 1_000
"""Iterations per job behind a prediction; HotNets'22 §2 and NSDI'24 §2.2 run as many."""

# Training jobs run as many iterations as the flow engine simulates in a few seconds, but at least ten.
_MIN_ITERATIONS = 10
_EVENTS = 300_000


def predict(plan: Plan, network: Network, solution: PlacementSolution) -> pl.DataFrame:
    """Iteration times on the flow engine, for jobs that are all present from the start and placed as in
    `solution`.

    A row per job: the mean and p99, in seconds, of its iterations including the delays between them: `alone`,
    `sharing` without shifts, and `shifted`; if periods had to be fitted, also shifted and `padded`. Each job
    runs 1,000 iterations. With training jobs, all run for the time that 1,000 iterations of the longest take
    alone, or for fewer of them if the flow engine would take long.
    """
    crossings = network.crossings(plan, solution.placement)
    fitted = solution.fitted
    training = [number for number, job in enumerate(plan.jobs) if job.training is not None]
    iterations, until_ps = PREDICTED_ITERATIONS, None
    if training:
        iterations = max(_MIN_ITERATIONS, min(PREDICTED_ITERATIONS, _EVENTS // solution.events))
        until_ps = iterations * max(each.period_ps for each in solution.given)

    def spec(number: int, *, shifted: bool, padded: bool) -> "_hocket._JobSpec":
        job = plan.jobs[number]
        if number in training:
            of_job = training_job_spec(plan, number, training_spec(plan, number, solution.placement, network))
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

    def run(numbers: Sequence[int], *, shifted: bool, padded: bool = False) -> pl.DataFrame:
        specs = [spec(number, shifted=shifted, padded=padded) for number in numbers]
        names = [each["name"] for each in specs]
        # The spec of a periodic job has its paths; those of a training job depend on its place in the list.
        if len(numbers) == 1 and numbers[0] in training:
            specs = alone(numbers[0], specs[0])
        return _iteration_times(plan, network, specs, names, None if training else iterations, until_ps)

    everyone = range(len(plan.jobs))
    columns = {
        "alone": pl.concat([run([number], shifted=False) for number in everyone]),
        "sharing": run(everyone, shifted=False),
        "shifted": run(everyone, shifted=True),
    }
    if fitted["holds_for_ps"] is not None:
        columns["padded"] = run(everyone, shifted=True, padded=True)
    return pl.DataFrame(
        [columns["alone"]["job"]]
        + [
            table[f"{figure}_s"].alias(f"{label}_{figure}_s")
            for label, table in columns.items()
            for figure in ("mean", "p99")
        ]
    )


def _iteration_times(
    plan: Plan,
    network: Network,
    specs: "Sequence[_hocket._JobSpec]",
    names: Sequence[str],
    iterations: int | None,
    until_ps: int | None,
) -> pl.DataFrame:
    """By job, mean and p99 of iterations including their delays, except the delay before the first one."""
    iterations_done, _ = whole_table(
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
    )
    # The delay before the first iteration is the time-shift, which happens only once.
    rows = iterations_done.with_columns(
        total_s=pl.col("iteration_s") + pl.when(pl.col("iteration") > 0).then("delayed_s").otherwise(0.0)
    )
    times = rows.group_by("job").agg(
        mean_s=pl.col("total_s").mean(), p99_s=pl.col("total_s").quantile(0.99, "nearest")
    )
    # A job that finished no iteration has a row without times, in the order of the plan.
    order = pl.DataFrame({"job": names})
    return order.join(times, on="job", how="left", maintain_order="left")
