"""The output of `hocket run`: tables of a run as text, and the files that it was written to."""

from pathlib import Path

import polars as pl
import typer
from rich.markup import escape

from hocket.console import (
    INTERRUPTED,
    Column,
    count,
    err,
    gigabytes_per_s,
    microseconds,
    milliseconds,
    out,
    percent,
    print_ignored,
    print_table,
)
from hocket.results import Run
from hocket.results.summary import collective_summary, job_summary

# Compute times of the same work vary by about a percent, so a smaller imbalance is not reported.
_BALANCED = 1.02


def print_run(title: str, run: Run, directory: Path) -> None:
    """Prints the run: jobs, collectives, what switches did, and the directory of its tables."""
    manifest, counts = run.manifest, run.manifest["counts"]
    by_packets = manifest["engine"] == "packet"
    done = f"{manifest['packet_hops']:,} packet-hops" if by_packets else f"{counts['events']:,} events"
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"simulated {_simulated(manifest['simulated_s'])} in {manifest['run_s']:.3f} s, {done}, "
        f"{manifest['peak_rss_mb']:.0f} MB"
    )
    out.print()
    summary = job_summary(run)
    _print_profiles(run, summary.filter(~pl.col("training"))["job"])
    _print_training(summary.filter("training"))
    _print_collectives(run)
    if by_packets:
        _print_packets(run)
        out.print()
        _print_skipped(run)
    elif summary["training"].any() and (summary["policy_acted"] > 0).any():
        _print_shares(summary)
        out.print()
    print_ignored((each["key"], each["why"]) for each in manifest["ignored"])
    for table, rows in manifest["not_recorded"].items():
        out.print(
            f"{rows:,} {table} of each iteration not recorded; set run.record_{table} = 1 to record them"
        )
    tables = ", ".join(f"{name} ({run.height(name):,})" for name in run.tables)
    out.print(f"written to {escape(str(directory))}: manifest.json and Parquet tables {tables}")


def _print_profiles(run: Run, jobs: pl.Series) -> None:
    """Prints a row for each job that is a profile of Up phases."""
    if jobs.is_empty():
        return
    rows = (
        (
            row["job"],
            f"{row['iterations']:,}",
            *(
                milliseconds(row[f"{name}_s"], decimals=2)
                for name in ("mean_iteration", "p50_iteration", "p99_iteration", "mean_communication")
            ),
            milliseconds(row["mean_delayed_s"], decimals=2),
            f"{row['adjustments']:,}",
        )
        for row in run.tables["jobs"].filter(pl.col("job").is_in(jobs.implode())).to_dicts()
    )
    header = (
        *("job", Column("iterations", spare=1), "mean (ms)", Column("p50", spare=4), "p99"),
        *(Column("communication", spare=3), Column("waited", spare=2), Column("adjustments", spare=2)),
    )
    print_table(header, rows)
    out.print()


def _print_training(jobs: pl.DataFrame) -> None:
    """Prints a row for each job that is a program of operations, and a sentence for each straggler."""
    if jobs.is_empty():
        return
    rows = (
        (
            row["job"],
            count(row["ranks"]),
            count(row["iterations"]),
            *(
                milliseconds(row[f"{name}_s"])
                for name in ("mean_iteration", "p50_iteration", "p99_iteration", "compute", "communication")
            ),
            percent(row["communication_s"], row["mean_iteration_s"]),
            milliseconds(row["delayed_s"]),
        )
        for row in jobs.to_dicts()
    )
    header = (
        *("job", Column("ranks", spare=3), Column("iterations", spare=2)),
        *("mean (ms)", Column("p50", spare=5), Column("p99", spare=1)),
        *("compute", "exposed", "exposed %", Column("waited", spare=4)),
    )
    print_table(header, rows)
    for row in jobs.filter(pl.col("imbalance") > _BALANCED).to_dicts():
        out.print(
            f"{escape(row['job'])}: rank {escape(row['slowest_rank'])} computes {row['imbalance']:.2f} times "
            "as long as the average rank"
        )
    out.print()


def _print_collectives(run: Run) -> None:
    """Prints the collectives by size, with the columns of nccl-tests."""
    collectives = collective_summary(run)
    if collectives.is_empty():
        return
    rows = (
        (
            row["job"],
            row["kind"],
            row["algorithm"],
            f"{row['bytes']:,}",
            count(row["count"]),
            count(row["ranks"]),
            microseconds(row["time_s"]),
            gigabytes_per_s(row["algbw_bps"]),
            gigabytes_per_s(row["busbw_bps"]),
        )
        for row in collectives.to_dicts()
    )
    header = (
        *("job", "type", Column("algorithm", spare=2, text=True), "size (B)"),
        *(Column("count", spare=4), Column("ranks", spare=3), "time (µs)"),
        *(Column("algbw (GB/s)", spare=1), "busbw (GB/s)"),
    )
    print_table(header, rows, left=3)
    out.print()


def _print_shares(jobs: pl.DataFrame) -> None:
    """Prints how often weight or priority decided on a full link of the flow engine."""
    rows = ((row["job"], row["policy"] or "–", count(row["policy_acted"])) for row in jobs.to_dicts())
    print_table(("job", "share", "decided on a full link"), rows, left=2)


def _print_packets(run: Run) -> None:
    """Prints what congestion controls did for each job, and what switches did in total."""
    counts, parameters = run.manifest["counts"], run.manifest["parameters"]["jobs"]
    signals = run.tables["flows"].group_by("job").agg(pl.col("marks", "cnps").sum())
    signalled = {row["job"]: row for row in signals.to_dicts()}
    none = {"marks": 0, "cnps": 0}
    rows = (
        (
            row["job"],
            parameters[row["job"]]["policy"]["value"],
            f"{signalled.get(row['job'], none)['marks']:,}",
            f"{signalled.get(row['job'], none)['cnps']:,}",
            f"{row['policy_acted']:,}",
        )
        for row in run.tables["jobs"].to_dicts()
    )
    print_table(("job", "congestion control", "marks", "CNPs", "rate cuts"), rows, left=2)
    ports = run.tables["ports"].sort("peak_bytes", descending=True, maintain_order=True)
    out.print()
    queue = ""
    if ports.height > 0:
        fullest = ports.row(0, named=True)
        queue = f", longest queue {fullest['peak_bytes'] / 1e3:,.1f} kB at {escape(fullest['link'])}"
    out.print(f"{counts['pauses']:,} PAUSE frames, {counts['losses']:,} packets lost{queue}")


def _print_skipped(run: Run) -> None:
    """Prints which iterations were repeated instead of simulated, and their possible error."""
    skipping = run.manifest["skip_ahead"]
    if skipping is None:
        return
    if skipping["obstacle"] is not None:
        out.print(f"no iterations skipped: {escape(skipping['obstacle'])}")
    for row in run.tables["repeated"].to_dicts():
        last = row["first_iteration"] + row["iterations"] - 1
        error = (
            "exactly"
            if row["exact"]
            else f"within {row['deviation']:.1e} of an iteration each, {row['drift_bound']:.1e} in all"
        )
        out.print(
            f"{escape(row['job'])}: iterations {row['first_iteration']:,} to {last:,} repeat earlier ones "
            f"instead of being simulated, {error}"
        )
    out.print()


def _simulated(seconds: float) -> str:
    """Simulated time as text, in milliseconds below a second.

    >>> _simulated(0.0123456), _simulated(385.9444)
    ('12.346 ms', '385.944 s')
    """
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:,.3f} s"


def end_interrupted(run: Run) -> None:
    """Ends the command with its exit code if `run` was interrupted, and reports how far it got."""
    if run.interrupted:
        err.print(
            f"interrupted at {run.manifest['simulated_s']:.3f} s of simulated time; kept what was finished"
        )
        raise typer.Exit(INTERRUPTED)
