"""Prints the run of an HPCC-style study."""

from pathlib import Path

import polars as pl
from rich.markup import escape

from hocket.console import Column, out, print_ignored, print_table
from hocket.hpcc import Study, peak_queue_bytes
from hocket.results import Run


def print_study(title: str, study: Study, run: Run, directory: Path) -> None:
    """Prints a summary of `run`, the keys without effect, and the files and tables written to `directory`."""
    manifest, counts, flows = run.manifest, run.manifest["counts"], run.tables["flows"]
    done = (
        f"{flows.height:,}"
        if flows.height == len(study.flows)
        else f"{flows.height:,} of {len(study.flows):,}"
    )
    peak_bytes = peak_queue_bytes(study, run)
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"{manifest['parameters']['policy']['value']}, fidelity {manifest['fidelity']}, "
        f"seed {manifest['seed']}: {manifest['status']}"
    )
    out.print()
    header = (
        *("flows", "mean FCT (µs)", "p99", Column("max", spare=3)),
        *(Column("PAUSE frames", spare=1), Column("marked packets", spare=2), "peak queue (kB)"),
    )
    # Without interpolation, the percentile is a completion time that occurred.
    p99 = pl.col("fct_s").quantile(0.99, interpolation="higher")
    fct = flows.select(
        pl.col("fct_s").mean().alias("mean"), p99.alias("p99"), pl.col("fct_s").max().alias("max")
    )
    times = (f"{seconds * 1e6:,.2f}" if seconds is not None else "–" for seconds in fct.row(0))
    row = (done, *times, f"{counts['pauses']:,}", f"{flows['marks'].sum():,}", f"{peak_bytes / 1e3:,.1f}")
    print_table(header, [row], left=0)
    out.print()
    out.print(
        f"simulated {manifest['simulated_s'] * 1e3:,.3f} ms in {manifest['run_s']:.3f} s: "
        f"{manifest['packet_hops']:,} packet-hops, "
        f"{manifest['packet_hops'] / manifest['run_s'] / 1e6:.2f} M/s, {manifest['peak_rss_mb']:.0f} MB"
    )
    if not study.ignored:
        out.print("every key has an effect")
    print_ignored((each.key, each.why) for each in study.ignored)
    files = f"{study.config.fct_file}, {study.config.pfc_file}"
    tables = ", ".join(run.tables)
    out.print(
        f"written to {escape(str(directory))}: {escape(files)}, manifest.json and Parquet tables {tables}"
    )
