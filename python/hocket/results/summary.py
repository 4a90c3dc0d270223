"""Summaries of the tables of one run: by job, by collective, and of the network.

Reports, comparisons and figures of runs all start from these. A table or column that a run lacks, because its
engine does not record it or because the run ended early, becomes an empty frame or null, never an error.
"""

from typing import Any

import polars as pl

from hocket.results import Run

JOB_COLUMNS = pl.Schema(
    {
        "job": pl.String,
        "training": pl.Boolean,
        "ranks": pl.Int64,
        "iterations": pl.Int64,
        "mean_iteration_s": pl.Float64,
        "p50_iteration_s": pl.Float64,
        "p99_iteration_s": pl.Float64,
        "compute_s": pl.Float64,
        "communication_s": pl.Float64,
        "delayed_s": pl.Float64,
        "slowest_rank": pl.String,
        "imbalance": pl.Float64,
        "policy": pl.String,
        "policy_acted": pl.Int64,
        "marks": pl.Int64,
        "cnps": pl.Int64,
    }
)
"""The columns of `job_summary`."""

COLLECTIVE_COLUMNS = pl.Schema(
    {
        "job": pl.String,
        "kind": pl.String,
        "algorithm": pl.String,
        "ranks": pl.Int64,
        "bytes": pl.Int64,
        "count": pl.Int64,
        "time_s": pl.Float64,
        "algbw_bps": pl.Float64,
        "busbw_bps": pl.Float64,
    }
)
"""The columns of `collective_summary`."""

NETWORK_COLUMNS = pl.Schema(
    {
        "pauses": pl.Int64,
        "paused_s": pl.Float64,
        "marks": pl.Int64,
        "cnps": pl.Int64,
        "retransmissions": pl.Int64,
        "losses": pl.Int64,
        "peak_bytes": pl.Int64,
        "peak_link": pl.String,
        "flows": pl.Int64,
        "mean_fct_s": pl.Float64,
        "p99_fct_s": pl.Float64,
        "max_fct_s": pl.Float64,
    }
)
"""The columns of `network_summary`."""

_RANK_COLUMNS = ("ranks", "slowest_rank", "imbalance")
_TIMES = ("mean_iteration_s", "p50_iteration_s", "p99_iteration_s", "mean_communication_s", "mean_delayed_s")


def columns_of(run: Run, table: str, *columns: str) -> pl.DataFrame | None:
    """These columns of a table; None if the run lacks the table or the table lacks one of them."""
    if table not in run.tables:
        return None
    return run.columns(table, columns)


def job_summary(run: Run) -> pl.DataFrame:
    """A row per job, in the order of the plan, with the columns `JOB_COLUMNS`.

    - `training` is true for a program of operations, and false for a profile of Up phases. Only training jobs
      have `ranks`.
    - `compute_s` and `communication_s` are means that add up to `mean_iteration_s`. The latter is exposed
      communication of a training job, and the time in Up phases of a profile. In a cluster, iterations also
      include the wait for a slot, `delayed_s`. Times are null if no iteration was finished.
    - `slowest_rank` is the rank with the longest mean computation, as `RANK (HOST)`, and `imbalance` its
      computation ÷ the mean over ranks.
    - On the packet engine, `policy` is the congestion control, and `policy_acted` counts its rate cuts. On
      the flow engine, `policy` is the share, and `policy_acted` counts how often weight or priority decided
      on a full link.
    - `marks` and `cnps` are totals over the job's messages on the packet engine; null on the flow engine.
    """
    jobs = columns_of(run, "jobs", "job", "iterations", *_TIMES)
    if jobs is None:
        return pl.DataFrame(schema=JOB_COLUMNS)
    acted = columns_of(run, "jobs", "policy_acted")
    # Runs of a cluster have no `policy_acted`. There, the wait for a slot is part of the iterations.
    waits = pl.col("mean_delayed_s") if acted is None else 0.0
    names = jobs["job"].to_list()
    policies, training = policies_of(run), _training_jobs(run)
    summary = (
        jobs.with_columns(
            pl.Series("policy", [policies.get(job) for job in names], dtype=pl.String),
            pl.Series("training", [job in training for job in names], dtype=pl.Boolean),
            policy_acted=pl.lit(None) if acted is None else acted["policy_acted"],
        )
        .join(_ranks(run), on="job", how="left", maintain_order="left")
        .join(_signals(run), on="job", how="left", maintain_order="left")
        .with_columns(
            compute_s=pl.col("mean_iteration_s") - pl.col("mean_communication_s") - waits,
            communication_s="mean_communication_s",
            delayed_s="mean_delayed_s",
        )
    )
    if run.manifest.get("engine") == "packet":
        # A job that sent no messages, or only within hosts, has no row: none of them was marked.
        summary = summary.with_columns(pl.col("marks", "cnps").fill_null(0))
    return summary.select(*JOB_COLUMNS).cast(JOB_COLUMNS)


def policies_of(run: Run) -> dict[str, str]:
    """The policy of each job: its congestion control on the packet engine, its share on the flow engine."""
    if run.manifest.get("engine") == "packet":
        by_job = run.manifest.get("parameters", {}).get("jobs", {})
        return {job: str(parameters["policy"]["value"]) for job, parameters in by_job.items()}
    jobs = run.manifest.get("plan", {}).get("jobs", [])
    return {job["name"]: _share(job) for job in jobs if "share" in job}


def _share(job: dict[str, Any]) -> str:
    share, priority = job["share"], job.get("priority", 0)
    if isinstance(share, dict):
        share = ", ".join(f"{kind} {weight:g}" for kind, weight in share.items())
    return f"{share}, priority {priority}" if priority else str(share)


def _training_jobs(run: Run) -> set[str]:
    """The jobs with `training` in the plan, and those whose ranks were recorded."""
    planned = run.manifest.get("plan", {}).get("jobs", [])
    ranks = columns_of(run, "ranks", "job")
    recorded = [] if ranks is None else ranks["job"].unique().to_list()
    return {job["name"] for job in planned if "training" in job}.union(recorded)


def _ranks(run: Run) -> pl.DataFrame:
    ranks = columns_of(run, "ranks", "job", "rank", "host", "compute_s")
    if ranks is None:
        return pl.DataFrame(schema={name: JOB_COLUMNS[name] for name in ("job", *_RANK_COLUMNS)})
    compute = pl.col("compute_s")
    slowest = pl.format(
        "{} ({})", pl.col("rank").get(compute.arg_max()), pl.col("host").get(compute.arg_max())
    )
    # Ranks without computation count as balanced.
    imbalance = pl.when(compute.max() > 0).then(compute.max() / compute.mean())
    return (
        ranks.group_by("job", "rank", "host")
        .agg(compute.mean())
        # `arg_max` returns the first of several equally slow ranks, which must not depend on the grouping.
        .sort("job", "rank")
        .group_by("job")
        .agg(ranks=pl.len(), slowest_rank=slowest, imbalance=imbalance.fill_null(1.0))
    )


def _signals(run: Run) -> pl.DataFrame:
    flows = columns_of(run, "flows", "job", "marks", "cnps")
    if flows is None:
        return pl.DataFrame(schema={"job": pl.String, "marks": pl.Int64, "cnps": pl.Int64})
    return flows.group_by("job").agg(pl.col("marks", "cnps").sum())


def collective_summary(run: Run) -> pl.DataFrame:
    """A row per job, kind, algorithm, number of ranks and bytes, sorted so, with `COLLECTIVE_COLUMNS`.

    `count` collectives took `time_s` on average. Bandwidths are those at the mean time, as nccl-tests reports
    them, and null if no collective took any time.
    """
    measured = columns_of(run, "collectives", *(c for c in COLLECTIVE_COLUMNS if c != "count"))
    if measured is None:
        return pl.DataFrame(schema=COLLECTIVE_COLUMNS)
    # The bandwidth at the mean time is the mean of bandwidths weighted by time.
    moved = (pl.col("algbw_bps", "busbw_bps") * pl.col("time_s")).filter(pl.col("time_s") > 0).sum()
    bandwidth = pl.when(pl.col("time_s").sum() > 0).then(moved / pl.col("time_s").sum())
    key = ["job", "kind", "algorithm", "ranks", "bytes"]
    return (
        measured.group_by(key)
        .agg(bandwidth, count=pl.len(), time_s=pl.col("time_s").mean())
        .sort(key)
        .select(*COLLECTIVE_COLUMNS)
        .cast(COLLECTIVE_COLUMNS)
    )


def network_summary(run: Run) -> pl.DataFrame:
    """One row of totals over all switches and hosts, with the columns `NETWORK_COLUMNS`.

    All values are null for a run of the flow engine. `paused_s` is the sum over links, `peak_bytes` the
    longest queue and `peak_link` the link that it feeds. Flow completion times are those of completed
    messages; the percentile is by nearest rank.
    """
    counts = run.manifest.get("counts", {})
    row: dict[str, Any] = {name: counts.get(name) for name in NETWORK_COLUMNS if name in counts}
    ports = columns_of(run, "ports", "link", "peak_bytes", "paused_s")
    if ports is not None:
        row["paused_s"] = ports["paused_s"].sum()
        if ports.height > 0:
            fullest = ports.sort("peak_bytes", "link", descending=[True, False]).row(0, named=True)
            row |= {"peak_bytes": fullest["peak_bytes"], "peak_link": fullest["link"]}
    flows = columns_of(run, "flows", "fct_s")
    if flows is not None:
        fct = pl.col("fct_s")
        p99 = fct.quantile(0.99, interpolation="equiprobable")
        times = flows.select(flows=pl.len(), mean_fct_s=fct.mean(), p99_fct_s=p99, max_fct_s=fct.max())
        row |= times.row(0, named=True)
    return pl.DataFrame([row], schema=NETWORK_COLUMNS)
