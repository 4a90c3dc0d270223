"""What time-shifts win: iteration times alone, sharing and shifted, predicted on the flow engine."""

from collections.abc import Mapping, Sequence

import polars as pl

from hocket import _hocket
from hocket.network import Crossings, Network
from hocket.plan import Job, Plan
from hocket.results import frame
from hocket.runner import job_spec
from hocket.workloads import WorkloadProfile

PREDICTED_ITERATIONS = 1_000
"""Iterations per job behind a prediction; HotNets'22 §2 and NSDI'24 §2.2 run as many."""


def predict(
    plan: Plan,
    network: Network,
    placement: Mapping[str, Sequence[str]] | None,
    given: Sequence[WorkloadProfile],
    fitted: "_hocket._Fitted",
    shifts_ps: Sequence[int],
) -> pl.DataFrame:
    """Iteration times on the flow engine, for jobs that are all there from the start, by `plan` placed as
    `placement` says.

    `given`, `fitted` and `shifts_ps` are each job's profile, period on the circle and time-shift. A row per
    job: mean and p99 in seconds of its iterations alone, sharing without shifts, and shifted; where periods
    had to be rounded also shifted and padded, the wait included.
    """
    crossings = network.crossings(plan, placement)

    def run(numbers: Sequence[int], *, shifted: bool, padded: bool = False) -> pl.DataFrame:
        specs = [
            _predicted_spec(
                plan.jobs[i],
                given[i],
                crossings[i],
                shift_ps=shifts_ps[i] if shifted else None,
                pad_to_ps=fitted["padded_periods_ps"][i] if padded else None,
            )
            for i in numbers
        ]
        return _iteration_times(network, specs, plan)

    everyone = range(len(plan.jobs))
    alone = pl.concat([run([number], shifted=False) for number in everyone])
    columns = {
        "alone": alone,
        "sharing": run(everyone, shifted=False),
        "shifted": run(everyone, shifted=True),
    }
    if fitted["holds_for_ps"] is not None:
        columns["padded"] = run(everyone, shifted=True, padded=True)
    names = pl.Series("job", [job.name for job in plan.jobs])
    return pl.DataFrame(
        [names]
        + [
            table[f"{figure}_s"].alias(f"{label}_{figure}_s")
            for label, table in columns.items()
            for figure in ("mean", "p99")
        ]
    )


def _predicted_spec(
    job: Job, given: WorkloadProfile, crossings: Crossings, *, shift_ps: int | None, pad_to_ps: int | None
) -> "_hocket._JobSpec":
    spec = job_spec(job, given, crossings, time_shift_ps=shift_ps, pad_to_ps=pad_to_ps, readjust=False)
    spec["arrival_ps"] = 0
    spec["iterations"] = PREDICTED_ITERATIONS
    if shift_ps is None:
        spec["time_shift_ps"] = None
    return spec


def _iteration_times(network: Network, specs: Sequence["_hocket._JobSpec"], plan: Plan) -> pl.DataFrame:
    """Mean and p99 of each job's iterations with their waits, but for the first one's time-shift."""
    ran = _hocket.simulate(
        network.fabric,
        specs,
        {
            "priority_queues": plan.priority_queues,
            "seed": plan.seed,
            "iterations": PREDICTED_ITERATIONS,
            "until_ps": None,
            "record_rates_until_ps": 0,
            "record_operations": 0,
            "sample_every_ps": None,
            "record_flows": False,
        },
        lambda *_: None,
    )
    if ran["interrupted"]:
        # Half a prediction would look like a whole one.
        raise KeyboardInterrupt
    iterations = frame(ran["tables"]["iterations"]).with_columns(
        total_s=pl.col("iteration_s") + pl.when(pl.col("iteration") > 0).then("delayed_s").otherwise(0.0)
    )
    order = pl.DataFrame({"job": [spec["name"] for spec in specs]})
    times = iterations.group_by("job").agg(
        mean_s=pl.col("total_s").mean(), p99_s=pl.col("total_s").quantile(0.99, "nearest")
    )
    return order.join(times, on="job", how="left", maintain_order="left")
