"""Prints the results of a run on a testbed."""

from pathlib import Path

import polars as pl
from rich.markup import escape

from hocket.console import Column, err, out, print_table
from hocket.results import Run

# Below this mean utilisation a link is idle: hosts still send an occasional ARP request.
_IDLE_UTILISATION = 0.001


def print_live(title: str, run: Run, directory: Path) -> None:
    """Prints a row for each job and each link with traffic, ignored keys of the plan, and where the tables
    are.
    """
    manifest = run.manifest
    host = manifest["machine"]
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"ran for {manifest['measured_s']:.1f} s with PyTorch {manifest['torch']}; "
        f"{host['processors']} processors were busy {host['busy']:.0%} of the time"
    )
    out.print()
    _print_jobs(run)
    out.print()
    _print_links(run)
    out.print()
    for warning in manifest["warnings"]:
        err.print(f"[yellow]warning:[/yellow] {escape(warning)}")
    for each in manifest["ignored"]:
        out.print(f"ignored {escape(each['key'])}: {escape(each['why'])}")
    tables = ", ".join(f"{name} ({run.height(name):,})" for name in run.tables)
    out.print(f"written to {escape(str(directory))}: manifest.json and Parquet tables {tables}")


def _print_jobs(run: Run) -> None:
    controls = run.manifest["congestion_controls"]
    measures = (
        "mean_iteration_s",
        "p50_iteration_s",
        "p99_iteration_s",
        "mean_communication_s",
        "mean_delayed_s",
    )
    rows = (
        (
            row["job"],
            controls[row["job"]],
            f"{row['iterations']:,}",
            *(_ms(row[measure]) for measure in measures),
            f"{row['adjustments']:,}",
        )
        for row in run.tables["jobs"].to_dicts()
    )
    header = (
        *("job", Column("congestion control", spare=2, text=True), Column("iterations", spare=1)),
        *("mean (ms)", Column("p50", spare=5), "p99", Column("communication", spare=4)),
        *(Column("waited", spare=3), Column("adjustments", spare=3)),
    )
    print_table(header, rows)


def _print_links(run: Run) -> None:
    """Traffic and utilisation of the links."""
    took = pl.col("end_s") - pl.col("start_s")
    links = (
        run.tables["utilisation"]
        .group_by("link", "job", maintain_order=True)
        .agg(
            pl.col("bytes").sum(),
            mean=(pl.col("utilisation") * took).sum() / took.sum(),
        )
        .filter(pl.col("mean") >= _IDLE_UTILISATION)
    )
    rows = (
        (
            row["link"],
            row["job"] or "",
            f"{row['bytes'] / 1e6:,.1f}",
            f"{row['mean']:.1%}",
        )
        for row in links.to_dicts()
    )
    print_table(("link", "job", "MB", "utilisation"), rows, left=2)


def _ms(seconds: float | None) -> str:
    """Milliseconds to a tenth, about the precision with which the kernel wakes processes."""
    return "–" if seconds is None else f"{seconds * 1e3:,.1f}"
