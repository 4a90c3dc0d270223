"""The output of `hocket compare`: tables as text, as JSON, and as a file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
from rich.markup import escape

from hocket.compare.comparison import Comparison
from hocket.compare.differences import Difference
from hocket.console import (
    Column,
    count,
    gigabytes_per_s,
    microseconds,
    milliseconds,
    out,
    percent,
    print_table,
    ratio,
)
from hocket.errors import InputError
from hocket.units import format_bytes

# A model may have a collective for each of a hundred layers: only those that take the most time are printed.
_MOST_COLLECTIVES = 16
# Longer values are cut: a placement may have a thousand GPUs.
_LONGEST_VALUE = 40
_SUFFIXES = (".csv", ".parquet")


def print_comparison(comparison: Comparison) -> None:
    """Prints jobs, collectives and network, run by run, then the differences of plans and parameters."""
    for section in (_print_jobs, _print_collectives, _print_network, _print_differences):
        section(comparison)
    if comparison.notes:
        out.print()
    for note in comparison.notes:
        out.print(f"note: {escape(note)}")


def _print_jobs(comparison: Comparison) -> None:
    jobs = comparison.jobs
    if jobs.is_empty():
        return
    training = jobs["training"].all()
    communication = ("exposed", "exposed %") if training else ("communication", "comm. %")
    header: tuple[str | Column, ...] = (
        *("job", "run", Column("policy", spare=2, text=True), Column("iterations", spare=4)),
        *("mean (ms)", "ratio", "p99", Column("compute", spare=3)),
        *(Column(title, spare=1) for title in communication),
    )
    by_packets = jobs["marks"].null_count() < jobs.height
    signals = ("marks", "CNPs", "acted") if by_packets else ("acted",)
    rows = (
        (
            row["job"],
            row["run"],
            row["policy"] or "–",
            count(row["iterations"]),
            milliseconds(row["mean_iteration_s"]),
            ratio(row["ratio"]),
            milliseconds(row["p99_iteration_s"]),
            milliseconds(row["compute_s"]),
            milliseconds(row["communication_s"]),
            percent(row["communication_s"], row["mean_iteration_s"]),
            *((count(row["marks"]), count(row["cnps"])) if by_packets else ()),
            count(row["policy_acted"]),
        )
        for row in jobs.to_dicts()
    )
    print_table((*header, *(Column(title, spare=5) for title in signals)), _without_repeats(rows), left=2)
    out.print()


def _print_collectives(comparison: Comparison) -> None:
    same = ["job", "kind", "bytes", "ranks"]
    # Time over all runs and algorithms, so that each collective has all its rows or none.
    spent = comparison.collectives.with_columns(spent=(pl.col("time_s") * pl.col("count")).sum().over(same))
    each = spent.unique(same).sort("spent", *same, descending=[True, False, False, False, False])
    shown = spent.join(each.head(_MOST_COLLECTIVES), on=same, how="semi", maintain_order="left")
    if shown.is_empty():
        return
    rows = (
        (
            row["job"],
            f"{row['kind']}, {format_bytes(row['bytes'])}, {row['ranks']:,} ranks",
            row["run"],
            row["algorithm"],
            count(row["count"]),
            microseconds(row["time_s"]),
            ratio(row["ratio"]),
            gigabytes_per_s(row["algbw_bps"]),
            gigabytes_per_s(row["busbw_bps"]),
        )
        for row in shown.to_dicts()
    )
    header = (
        *("job", "collective", "run", Column("algorithm", spare=1, text=True), Column("count", spare=3)),
        *("time (µs)", "ratio", Column("algbw (GB/s)", spare=2), "busbw"),
    )
    print_table(header, _without_repeats(rows, 2), left=3)
    if each.height > _MOST_COLLECTIVES:
        more = each.height - _MOST_COLLECTIVES
        out.print(f"and {more:,} more that take less time; --out FILE.csv writes all")
    out.print()


def _print_network(comparison: Comparison) -> None:
    runs = comparison.runs
    # Runs of plain flows have no jobs; completion times of flows are then their result.
    by_flows = comparison.jobs.height == 0
    header = (
        *("run", Column("engine", spare=3, text=True), Column("status", spare=4, text=True)),
        *(Column("simulated (ms)", spare=1), "PAUSE frames", Column("paused (ms)", spare=2)),
        *("marks", Column("CNPs", spare=2), "lost", "longest queue (kB)"),
        *(("flows", "mean FCT (µs)", "p99") if by_flows else ()),
    )
    rows = (
        (
            row["run"],
            row["engine"] or "–",
            row["status"],
            milliseconds(row["simulated_s"]),
            count(row["pauses"]),
            milliseconds(row["paused_s"]),
            count(row["marks"]),
            count(row["cnps"]),
            count(row["losses"]),
            "–" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e3:,.1f}",
            *(
                (count(row["flows"]), microseconds(row["mean_fct_s"]), microseconds(row["p99_fct_s"]))
                if by_flows
                else ()
            ),
        )
        for row in runs.to_dicts()
    )
    print_table(header, rows)
    out.print()


def _print_differences(comparison: Comparison) -> None:
    if not comparison.differences:
        out.print("the plans and parameters of the runs are the same")
        return
    rows = ((each.key, *map(_value, each.values)) for each in comparison.differences)
    print_table(("what differs", *comparison.names), rows, left=len(comparison.names) + 1)


def _value(value: str | None) -> str:
    if value is None:
        return "–"
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"


def _without_repeats(rows: Iterable[tuple[str, ...]], leading: int = 1) -> Iterator[tuple[str, ...]]:
    """The rows, with those of their first `leading` cells blank that repeat the row above."""
    above: tuple[str, ...] = ()
    for row in rows:
        same = 0
        while same < leading and row[: same + 1] == above[: same + 1]:
            same += 1
        yield (*("",) * same, *row[same:])
        above = row


def write_measurements(comparison: Comparison, path: str | Path) -> Path:
    """Writes `comparison.measurements()` as CSV or Parquet, by the suffix of `path`, and returns `path`.

    Raises `InputError` for any other suffix, or if the file cannot be written.
    """
    path = check_table(path)
    measurements = comparison.measurements()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            measurements.write_csv(path)
        else:
            measurements.write_parquet(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def check_table(path: str | Path) -> Path:
    """Returns `path` if its suffix is a format of tables, so that a mistake is found before the work is done.

    Raises `InputError` for any other suffix.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise InputError(
            f"{path}: a table is one of {', '.join(_SUFFIXES)}: got {path.suffix or 'no suffix'!r}"
        )
    return path


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as a JSON object, with tables as lists of rows."""
    return {
        "runs": comparison.runs.to_dicts(),
        "jobs": comparison.jobs.to_dicts(),
        "collectives": comparison.collectives.to_dicts(),
        "differences": [_as_json(comparison.names, each) for each in comparison.differences],
        "notes": list(comparison.notes),
    }


def _as_json(names: tuple[str, ...], difference: Difference) -> dict[str, Any]:
    return {"key": difference.key, "values": dict(zip(names, difference.values, strict=True))}
