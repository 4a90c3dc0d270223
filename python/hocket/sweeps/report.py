"""What `hocket sweep` prints."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from rich.markup import escape

from hocket.console import Column, err, out, print_table
from hocket.sweeps.combinations import SEED, described
from hocket.sweeps.sweep_result import Sweep

_LAST_NAME = re.compile(r"[\w-]+(?=(?:\[[^\]]*\]|\.\*)*\Z)")


class _Figure(NamedTuple):
    """A printed column: its title, the factor and decimals of its values, and its `Column.spare`."""

    title: str
    factor: float
    places: int
    spare: int = 0


_FIGURES = {
    "iterations": _Figure("iterations", 1, 0, spare=3),
    "mean_iteration_s": _Figure("mean (ms)", 1e3, 3),
    "p99_iteration_s": _Figure("p99", 1e3, 3),
    "mean_communication_s": _Figure("communication", 1e3, 3, spare=1),
    "busbw_bps": _Figure("busbw (GB/s)", 1e-9 / 8, 2),
    "policy_acted": _Figure("policy acted", 1, 0, spare=5),
    "run_pauses": _Figure("PAUSE frames", 1, 0, spare=2),
    "run_losses": _Figure("lost", 1, 0, spare=2),
    "run_peak_bytes": _Figure("longest queue (kB)", 1e-3, 1, spare=4),
}

_EXPOSED = _FIGURES["mean_communication_s"]._replace(title="exposed")
"""The column of communication if all jobs are training jobs, whose exposed part it counts."""


def print_sweep(title: str, sweep: Sweep, directory: Path | None) -> None:
    """Prints a row for each combination and job, with means over seeds and their spread.

    Refusals and failures go to stderr.
    """
    runs = sweep.manifest["runs"]
    out.print(f"[bold]{escape(title)}[/bold]")
    fixed = _fixed(sweep)
    if fixed:
        out.print(f"everywhere: {escape(described(fixed))}")
    done = Counter(each["status"] for each in runs)
    cached = sum(each["cached"] for each in runs)
    others = "".join(f", {count} {status}" for status, count in done.items() if status != "complete")
    out.print(
        f"{done['complete']:,} of {len(runs):,} runs complete{others}; "
        f"{cached:,} from the cache, {sweep.manifest['wall_s']:.3f} s"
    )
    if done["complete"] > 0:
        out.print()
        _print_rows(sweep, [axis for axis in sweep.axes if axis != SEED and axis not in fixed])
    without_effect: dict[tuple[str, str], list[str]] = {}
    for each in sweep.manifest["ignored"]:
        without_effect.setdefault((each["engine"], each["why"]), []).append(each["key"])
    if without_effect or directory is not None:
        out.print()
    for (engine, why), keys in without_effect.items():
        out.print(f"without effect on the {engine} engine: {escape(', '.join(keys))}: {escape(why)}")
    if directory is not None:
        out.print(
            f"written to {escape(str(directory))}: manifest.json and sweep.parquet ({sweep.table.height:,})"
        )
    for row in sweep.failures().to_dicts():
        settings = {axis: row[axis] for axis in sweep.axes}
        for line in row["error"].splitlines():
            err.print(f"[red]{row['status']}:[/red] {escape(described(settings))}: {escape(line)}")


def _print_rows(sweep: Sweep, varied: Sequence[str]) -> None:
    """A row for each combination and job, named by the values of the `varied` axes and the job."""
    averaged = SEED in sweep.axes
    rows = sweep.over_seeds() if averaged else sweep.table.filter(pl.col("status") == "complete")
    labels = [*varied]
    if rows["engine"].n_unique() > 1 and "run.engine" not in labels:
        labels.append("engine")
    labels.append("job")
    figures = {
        name: figure
        for name, figure in _FIGURES.items()
        if name in rows.columns and rows[name].null_count() < rows.height
    }
    if rows["ranks"].null_count() == 0:
        figures["mean_communication_s"] = _EXPOSED
    if rows["policy_acted"].max() == 0:
        figures.pop("policy_acted")
    runs = ["runs"] if averaged else []
    cells = [[*map(_text, rows[label])] for label in labels] + [[*map(str, rows[name])] for name in runs]
    cells += [_numbers(rows, name, figure) for name, figure in figures.items()]
    measured = (Column(figure.title, figure.spare) for figure in figures.values())
    axes = (Column(title, text=True) for title in _titles(labels, figures.values()))
    header = [*axes, *(Column(name, spare=4) for name in runs), *measured]
    print_table(header, zip(*cells, strict=True))


def _fixed(sweep: Sweep) -> dict[str, object]:
    """The keys that have a single value in all runs, with this value."""
    values = {axis: sweep.table[axis].unique().to_list() for axis in sweep.axes if axis != SEED}
    return {axis: found[0] for axis, found in values.items() if len(found) == 1}


def _titles(labels: Sequence[str], figures: Iterable[_Figure]) -> list[str]:
    """Titles of keys: the last name, `congestion` of `jobs.*.congestion`, if no other column has the same."""
    short = [match[0] if (match := _LAST_NAME.search(label)) else label for label in labels]
    taken = [*short, *(figure.title for figure in figures)]
    return [name if taken.count(name) == 1 else label for name, label in zip(short, labels, strict=True)]


def _text(value: object) -> str:
    if value is None:
        return "not given"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbers(rows: pl.DataFrame, name: str, figure: _Figure) -> list[str]:
    """The cells of a column, with the spread over seeds if there is any; a dash for a missing number."""
    spread = f"std_{name}"
    varies = spread in rows.columns and (rows[spread].fill_null(0) > 0).any()
    spreads = rows[spread] if varies else [None] * rows.height
    return [_number(value, spread, figure) for value, spread in zip(rows[name], spreads, strict=True)]


def _number(value: float | None, spread: float | None, figure: _Figure) -> str:
    if value is None:
        return "–"
    text = f"{value * figure.factor:,.{figure.places}f}"
    return text if spread is None else f"{text} ± {spread * figure.factor:,.{figure.places}f}"
