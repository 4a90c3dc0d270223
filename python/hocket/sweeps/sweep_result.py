"""The result of a sweep: a table with a row for each combination and job, and means over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hocket.display import brief, counted, on_one_line
from hocket.plan import Plan
from hocket.results import RunWriter
from hocket.sweeps.axes import Axis, written
from hocket.sweeps.combinations import SEED, Combination, Refusal
from hocket.sweeps.task import Answer, Failure, Outcome

TABLE = "sweep"
"""The name of the table in the directory of a written sweep."""


@dataclass(frozen=True, repr=False)
class Sweep:
    """The result of a sweep, in the order of its combinations, wherever and in which order they ran.

    `table` has a row for each combination and job: `combination` (from 0), a column for each axis, `engine`,
    `status` (`complete`, `refused` if it is not a valid plan, `failed` or, after Ctrl-C, `not run`), `error`,
    the columns of the table of jobs and, with the prefix `run_`, numbers of the run as a whole. A combination
    that was refused, failed or did not run has one row, in which these are null. `manifest` has the axes, the
    build, the time of each run and which results came from the cache: everything that may differ when the
    sweep is repeated is there and not in the table.
    """

    table: pl.DataFrame
    manifest: dict[str, Any]
    plans: tuple[Plan | None, ...]
    """The plan of each combination; `None` if it is not a valid one."""

    def __repr__(self) -> str:
        name = self.manifest["plan"].get("name")
        of_plan = "" if name is None else f" of {brief(name)}"
        runs, rows = counted(len(self.manifest["runs"]), "run"), counted(self.table.height, "row")
        status = self.manifest["status"]
        return on_one_line(
            f"Sweep{of_plan}: {status}, {runs}, {rows}, over {', '.join(self.axes) or 'nothing'}"
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """The keys of the axes, in order."""
        return tuple(self.manifest["axes"])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C kept some combinations from running."""
        return bool(self.manifest["status"] == "interrupted")

    def failures(self) -> pl.DataFrame:
        """The rows of combinations that were refused or failed."""
        return self.table.filter(pl.col("status").is_in(["refused", "failed"]))

    def over_seeds(self) -> pl.DataFrame:
        """A row for each job and combination of the axes other than `seed`.

        It has the number of complete `runs`, the mean over them of each number, under its name in `table`,
        and with the prefix `std_` the standard deviation of the sample, null for a single run.
        """
        by = [axis for axis in self.axes if axis != SEED] + ["engine", "job"]
        # These two are numbers, but their means would say nothing.
        complete = self.table.filter(pl.col("status") == "complete").drop("combination", SEED, strict=False)
        numbers = [name for name, kind in complete.schema.items() if kind.is_numeric() and name not in by]
        means = (pl.col(name).mean() for name in numbers)
        spreads = (pl.col(name).std().alias(f"std_{name}") for name in numbers)
        return complete.group_by(by, maintain_order=True).agg(pl.len().alias("runs"), *means, *spreads)

    def write(self, directory: str | Path) -> Path:
        """Writes `sweep.parquet` and `manifest.json` into `directory`, replacing existing ones; returns it.

        `Run.read` reads them as a run with the one table `sweep`. Raises `InputError` if they cannot be
        written.
        """
        with RunWriter(directory) as writer:
            self.write_with(writer)
        return writer.directory

    def write_with(self, writer: RunWriter) -> None:
        """As `write`, into the writer's directory. Raises `InputError` if it cannot be written."""
        writer.append_frame(TABLE, self.table)
        writer.finish(self.manifest)


def status_of(outcome: Outcome | Refusal | None) -> str:
    """The status of a run by its outcome: `complete`, `refused`, `failed` or, without one, `not run`."""
    match outcome:
        case Refusal():
            return "refused"
        case Answer():
            return "complete"
        case Failure():
            return "failed"
        case None:
            return "not run"


def status(outcomes: Sequence[Outcome | Refusal | None]) -> str:
    """The status of a sweep: `interrupted` if a run is missing, else `failed` if one failed or was refused,
    else `complete`.
    """
    of_runs = {status_of(outcome) for outcome in outcomes}
    if "not run" in of_runs:
        return "interrupted"
    return "complete" if of_runs == {"complete"} else "failed"


def table(
    axes: Sequence[Axis],
    combinations: Sequence[Combination],
    engines: Sequence[str | None],
    outcomes: Sequence[Outcome | Refusal | None],
) -> pl.DataFrame:
    """The table of a `Sweep`: for each combination its settings, its engine if known, and its outcome, if it
    has one.
    """
    errors = [outcome.error if isinstance(outcome, Failure | Refusal) else None for outcome in outcomes]
    runs = pl.DataFrame(
        [
            pl.Series("combination", range(len(combinations)), pl.Int64),
            *(_column(axis, [each.settings[axis.key] for each in combinations]) for axis in axes),
            pl.Series("engine", engines, pl.String),
            pl.Series("status", [status_of(outcome) for outcome in outcomes], pl.String),
            pl.Series("error", errors, pl.String),
        ]
    )
    answers = [
        outcome.jobs.with_columns(
            pl.lit(number, pl.Int64).alias("combination"),
            *(_total(name, value) for name, value in outcome.totals.items()),
        )
        for number, outcome in enumerate(outcomes)
        if isinstance(outcome, Answer)
    ]
    # Without any answer, the join needs these columns all the same.
    nothing = pl.DataFrame(schema={"combination": pl.Int64, "job": pl.String})
    # Runs on different engines have different columns.
    found = pl.concat([nothing, *answers], how="diagonal_relaxed")
    return runs.join(found, on="combination", how="left", maintain_order="left_right")


def _total(name: str, value: int | float) -> pl.Expr:
    # With its type, because polars would choose one for each number by its size.
    return pl.lit(value, pl.Float64 if isinstance(value, float) else pl.Int64).alias(f"run_{name}")


def _column(axis: Axis, values: Sequence[object]) -> pl.Series:
    """The values of an axis as a column: of integers, floats or Booleans if all are such, else of text."""
    kinds = {type(value) for value in axis.values if value is not None}
    if kinds == {bool}:
        return pl.Series(axis.key, values, pl.Boolean)
    if kinds and kinds <= {int, float}:
        return pl.Series(axis.key, values, pl.Int64 if kinds == {int} else pl.Float64)
    texts = [None if value is None else written(value) for value in values]
    return pl.Series(axis.key, texts, pl.String)
