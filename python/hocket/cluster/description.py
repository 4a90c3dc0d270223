"""Describes a trace before it runs: its jobs by model, and their load over time.

Each job is taken to run alone on an idle network from its arrival on, on the workers that it was submitted
with, as in a cluster without limits.
"""

from itertools import pairwise

import polars as pl

from hocket.cluster.trace import Trace
from hocket.profiles import PS_PER_S
from hocket.schedulers import ClusterJob

_S_PER_H = 3_600
# The load of longer traces is shown in hours.
_MOST_MINUTES = 1_000


def jobs_frame(trace: Trace) -> pl.DataFrame:
    """The jobs in order of arrival: one row each.

    Columns: job, model, strategy, batch_size, workers (as submitted), most_workers, arrival_s, iterations,
    iteration_s (alone), run_time_s, gpu_hours.
    """
    return pl.DataFrame([_row(job) for job in trace.jobs])


def by_model(trace: Trace) -> pl.DataFrame:
    """The number of jobs and means over them, by model, in the order in which models first arrive.

    Columns: model, jobs, workers, iterations, iteration_s, run_time_s, gpu_hours (the sum).
    """
    means = [pl.mean("workers", "iterations", "iteration_s", "run_time_s"), pl.sum("gpu_hours")]
    return jobs_frame(trace).group_by("model", maintain_order=True).agg(pl.len().alias("jobs"), *means)


def load_over_time(trace: Trace, parts: int = 10) -> pl.DataFrame:
    """The GPU demand in equal parts of the time from 0 to the trace's `until`, or to the end of the last job.

    Columns: from_s, until_s, arrivals, gpus (mean number in use), load (`gpus` ÷ the cluster's GPUs; above 1
    jobs have to wait).
    """
    jobs = jobs_frame(trace)
    last_s = max((jobs["arrival_s"] + jobs["run_time_s"]).to_list())
    end_s = last_s if trace.until_s is None else trace.until_s
    edges = [end_s * part / parts for part in range(parts + 1)]
    return pl.DataFrame(
        [_part(jobs, start_s, stop_s, len(trace.cluster.gpus)) for start_s, stop_s in pairwise(edges)]
    )


def time_unit(end_s: float) -> tuple[str, int]:
    """The unit of time for a trace that ends at `end_s`, and its length in seconds; hours for long traces.

    >>> time_unit(6_000), time_unit(600_000)
    (('min', 60), ('h', 3600))
    """
    return ("h", _S_PER_H) if end_s > _MOST_MINUTES * 60 else ("min", 60)


def headline(trace: Trace) -> str:
    """Summary of a trace in one line: jobs, cluster, work.

    >>> from hocket.cluster.trace import parse_trace
    >>> job = {"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 1000}
    >>> headline(parse_trace({"fabric": {"testbed": "cassini"}, "jobs": [job]}))
    '1 job on 24 GPUs in 24 servers and 6 racks; 0.2 GPU-hours of work'
    """
    cluster = trace.cluster
    hours = float(jobs_frame(trace)["gpu_hours"].sum())
    return (
        f"{_counted(len(trace.jobs), 'job')} on {_counted(len(cluster.gpus), 'GPU')} in "
        f"{_counted(len(cluster.rack_of), 'server')} and {_counted(len(set(cluster.rack_of)), 'rack')}; "
        f"{hours:,.1f} GPU-hours of work"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _row(job: ClusterJob) -> dict[str, str | int | float | None]:
    iterations = job.iterations(job.samples, job.requested)
    iteration_s = job.profile(job.requested).period_ps / PS_PER_S
    return {
        "job": job.name,
        "model": job.model,
        "strategy": job.strategy,
        "batch_size": job.batch_size,
        "workers": job.requested,
        "most_workers": job.sizes[-1],
        "arrival_s": job.arrival_ps / PS_PER_S,
        "iterations": iterations,
        "iteration_s": iteration_s,
        "run_time_s": iterations * iteration_s,
        "gpu_hours": iterations * iteration_s * job.requested / _S_PER_H,
    }


def _part(jobs: pl.DataFrame, start_s: float, stop_s: float, gpus: int) -> dict[str, float | int]:
    ends = pl.min_horizontal(pl.col("arrival_s") + pl.col("run_time_s"), pl.lit(stop_s))
    # Negative for a job that ended before this part of the time.
    overlap_s = (ends - pl.max_horizontal("arrival_s", pl.lit(start_s))).clip(lower_bound=0)
    busy_s = float(jobs.select((overlap_s * pl.col("workers")).sum()).item())
    used = busy_s / (stop_s - start_s)
    return {
        "from_s": start_s,
        "until_s": stop_s,
        "arrivals": jobs.filter(pl.col("arrival_s").is_between(start_s, stop_s, closed="left")).height,
        "gpus": used,
        "load": used / gpus,
    }
