"""The tables of several runs, each row with its run and its ratio to the first run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hocket.compare.differences import Difference, differences
from hocket.errors import InputError
from hocket.results import Run
from hocket.results.summary import (
    COLLECTIVE_COLUMNS,
    JOB_COLUMNS,
    NETWORK_COLUMNS,
    collective_summary,
    job_summary,
    network_summary,
)

_MANIFEST_COLUMNS = pl.Schema(
    {"engine": pl.String, "status": pl.String, "seed": pl.Int64, "simulated_s": pl.Float64}
)
_RUN_COLUMNS = pl.Schema({**_MANIFEST_COLUMNS, **NETWORK_COLUMNS})
# Collectives with the same values in these columns are compared, whatever their algorithm.
_SAME_COLLECTIVE = ["job", "kind", "bytes", "ranks"]
# The columns that identify a measurement; all other columns of numbers are measures.
_KEYS: dict[str, type[pl.DataType]] = {
    "run": pl.String,
    "job": pl.String,
    "kind": pl.String,
    "algorithm": pl.String,
    "bytes": pl.Int64,
    "ranks": pl.Int64,
}


@dataclass(frozen=True)
class Comparison:
    """Several runs side by side. Rows are in the order of the jobs, and for each job in that of the runs."""

    names: tuple[str, ...]
    """The names of the runs, as in the columns `run`."""
    runs: pl.DataFrame
    """A row per run: `run, engine, status, seed, simulated_s`, and the columns of `network_summary`."""
    jobs: pl.DataFrame
    """A row per job and run: `run`, the columns of `job_summary`, and `ratio`: the mean iteration ÷ that of
    the same job in the first run, null if that has no such job."""
    collectives: pl.DataFrame
    """A row per run, job and collective: `run`, the columns of `collective_summary`, and `ratio`: the time ÷
    that of the same kind, ranks and bytes in the same job of the first run, whatever the algorithm."""
    differences: tuple[Difference, ...]
    """The differences of their plans and parameters."""
    notes: tuple[str, ...]
    """Sentences on what cannot be compared."""

    def measurements(self) -> pl.DataFrame:
        """All measurements as one long table, a row per run and measure.

        Columns: `run`, `job` (null for measures of the whole run), `kind`, `algorithm`, `bytes`, `ranks`
        (null except for collectives), `measure` (its name, ending with the unit), `value`, `ratio` (to the
        first run, null if its value is missing or 0), and a column of text for each key of the plans that
        differs.
        """
        # Ranks identify a collective but not a job, of which their number is a measure.
        of_jobs = self.jobs.rename({"ranks": "job_ranks"})
        long = pl.concat(_unpivoted(frame) for frame in (of_jobs, self.collectives, self.runs))
        # A mean, since the first run may have used several algorithms for one kind of collective.
        first = (
            long.filter(pl.col("run") == self.names[0])
            .group_by(*_SAME_COLLECTIVE, "measure")
            .agg(first=pl.col("value").mean())
        )
        ratio = pl.when(pl.col("first") != 0).then(pl.col("value") / pl.col("first"))
        related = (
            # Measures of jobs and runs have null in the columns of collectives, and must match all the same.
            long.join(
                first, on=[*_SAME_COLLECTIVE, "measure"], how="left", nulls_equal=True, maintain_order="left"
            )
            .with_columns(ratio=ratio)
            .drop("first")
        )
        return related.join(self._settings(set(related.columns)), on="run", how="left", maintain_order="left")

    def _settings(self, taken: set[str]) -> pl.DataFrame:
        # A key may have the name of a column: `run` is also a table of plans.
        columns = {
            each.key: each.values
            for each in self.differences
            if not each.is_parameter and each.key not in taken
        }
        return pl.DataFrame(
            {"run": self.names, **columns}, schema={"run": pl.String, **dict.fromkeys(columns, pl.String)}
        )


def read_runs(directories: Sequence[str | Path]) -> dict[str, Run]:
    """Reads the runs in `directories`, by name: the shortest end of the path that distinguishes them.

    Raises `InputError` for a directory that is not a run or is given twice.
    """
    paths = [Path(directory).resolve() for directory in directories]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise InputError(f"{directories[place]}: is given twice")
    runs = [Run.read(directory) for directory in directories]
    return dict(zip(_short_names(paths), runs, strict=True))


def _short_names(paths: Sequence[Path]) -> list[str]:
    def ending(path: Path, parts: int) -> str:
        return "/".join(path.parts[-parts:])

    names = []
    for path in paths:
        parts = 1
        # Ends, because `read_runs` refuses equal paths.
        while sum(ending(other, parts) == ending(path, parts) for other in paths) > 1:
            parts += 1
        names.append(ending(path, parts))
    return names


def compare(runs: Mapping[str, Run]) -> Comparison:
    """Compares `runs`, by name, with ratios to the first one.

    Runs of different engines, runs with different jobs and interrupted runs can be compared in part: `notes`
    reports what is missing. Raises `InputError` for fewer than two runs.
    """
    if len(runs) < 2:
        raise InputError(f"compare: needs at least two runs: got {len(runs)}")
    names = tuple(runs)
    jobs = _side_by_side(names, [job_summary(run) for run in runs.values()], JOB_COLUMNS)
    collectives = _side_by_side(names, [collective_summary(run) for run in runs.values()], COLLECTIVE_COLUMNS)
    return Comparison(
        names=names,
        runs=_side_by_side(names, [_overview(run) for run in runs.values()], _RUN_COLUMNS),
        jobs=_in_order(_with_ratio(jobs, names[0], ["job"], "mean_iteration_s"), ["job"]),
        collectives=_in_order(
            _with_ratio(collectives, names[0], _SAME_COLLECTIVE, "time_s"), _SAME_COLLECTIVE
        ),
        differences=tuple(differences(runs)),
        notes=tuple(_notes(runs)),
    )


def _side_by_side(
    names: Sequence[str], frames: Sequence[pl.DataFrame], columns: Mapping[str, Any]
) -> pl.DataFrame:
    empty = pl.DataFrame(schema={"run": pl.String, **columns})
    named = (
        frame.select(pl.lit(name).alias("run"), *columns) for name, frame in zip(names, frames, strict=True)
    )
    return pl.concat([empty, *named])


def _with_ratio(frame: pl.DataFrame, first: str, same: list[str], measure: str) -> pl.DataFrame:
    """`frame` with `ratio`: `measure` ÷ its mean in run `first` over rows with the same values in `same`."""
    # A mean, since the first run may have used several algorithms for one kind of collective.
    of_first = frame.filter(pl.col("run") == first).group_by(same).agg(first=pl.col(measure).mean())
    ratio = pl.when(pl.col("first") > 0).then(pl.col(measure) / pl.col("first"))
    joined = frame.join(of_first, on=same, how="left", maintain_order="left")
    return joined.with_columns(ratio=ratio).drop("first")


def _in_order(frame: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """The rows grouped by job, in order of appearance, then sorted by the other columns of `same`."""
    return (
        frame.with_row_index("row")
        .with_columns(pl.col("row").min().over("job"))
        .sort("row", *same[1:], maintain_order=True)
        .drop("row")
    )


def _overview(run: Run) -> pl.DataFrame:
    about = {name: run.manifest.get(name) for name in _MANIFEST_COLUMNS}
    request = pl.DataFrame([about], schema=_MANIFEST_COLUMNS)
    return request.hstack(network_summary(run))


def _notes(runs: Mapping[str, Run]) -> Iterator[str]:
    for name, run in runs.items():
        status, simulated_s = run.manifest["status"], run.manifest.get("simulated_s")
        if status != "complete":
            # A run on a testbed has no simulated time.
            after = "" if simulated_s is None else f" after {simulated_s:.6g} s of simulated time"
            why = f": {run.manifest['failure']}" if "failure" in run.manifest else ""
            yield f"{name}: {status}{after}{why}; its values cover what was finished by then"
    without = [
        ("jobs", "jobs"),
        ("collectives", "collectives"),
        ("ports", "queues, PAUSE frames, marks and CNPs"),
    ]
    for table, what in without:
        lacking = [name for name, run in runs.items() if table not in run.tables]
        if 0 < len(lacking) < len(runs):
            yield from (f"{name}: has no table {table!r}, so its {what} are unknown" for name in lacking)


def _unpivoted(frame: pl.DataFrame) -> pl.DataFrame:
    measures = [
        name
        for name, kind in frame.schema.items()
        if kind.is_numeric() and name not in _KEYS and name not in ("ratio", "seed")
    ]
    missing = [
        pl.lit(None, dtype=kind).alias(name) for name, kind in _KEYS.items() if name not in frame.columns
    ]
    return (
        frame.with_columns(*missing)
        .select(*_KEYS, pl.col(measures).cast(pl.Float64))
        .unpivot(measures, index=list(_KEYS), variable_name="measure", value_name="value")
        .drop_nulls("value")
    )
