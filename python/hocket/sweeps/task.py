"""One run of a sweep as a task for any process on any machine, and its outcome."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from hocket.engines.run import simulate
from hocket.errors import InputError, SelfCheckError
from hocket.plan import Engine, Plan
from hocket.results import Run
from hocket.results.summary import collective_summary, job_summary, network_summary
from hocket.sweeps.build import build


@dataclass(frozen=True, slots=True)
class Task:
    """A checked plan, the engine to run it on, and the directory to write the whole run to, if any.

    `build` identifies the build of the process that runs the sweep: another build may give other results.
    """

    plan: Plan
    engine: Engine
    build: str
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The numbers kept from a complete run: a row per job, and totals of the run by name.

    `jobs` has the columns of the run's table `jobs`, the `_SUMMARY_COLUMNS`, and `collectives` (their
    number), `algbw_bps` and `busbw_bps`. `run_s` is the wall-clock time of the run.
    """

    jobs: pl.DataFrame
    totals: Mapping[str, int | float]
    run_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a run has no answer."""

    error: str


# The columns of `hocket.results.summary.job_summary` that are kept.
_SUMMARY_COLUMNS = ("policy", "marks", "cnps", "ranks", "slowest_rank", "imbalance")

Outcome: TypeAlias = Answer | Failure


def perform(task: Task) -> Outcome:
    """Runs `task` in this process; a run without an answer becomes a `Failure`."""
    if task.build != build():
        return Failure(f"this machine has another build of Hocket: {build()[:12]}, not {task.build[:12]}")
    try:
        run = simulate(task.plan, engine=task.engine, directory=task.directory)
    # Any other exception is a defect. It ends the process, which counts as a failure, too.
    except (InputError, SelfCheckError) as error:
        return Failure(str(error))
    return Failure("was interrupted") if run.interrupted else answer_of(run)


def answer_of(run: Run) -> Answer:
    """The answer of a complete `run`."""
    manifest = run.manifest
    simulated = {key: manifest[key] for key in ("simulated_s", "packet_hops") if key in manifest}
    network = {
        key: value for key, value in network_summary(run).row(0, named=True).items() if value is not None
    }
    totals = dict(_numbers(simulated | manifest["counts"] | network))
    return Answer(_jobs(run), totals, manifest["run_s"])


def _jobs(run: Run) -> pl.DataFrame:
    """The run's table `jobs`, joined with numbers of each job from its other tables."""
    jobs = run.tables["jobs"]
    summaries = (job_summary(run).select("job", *_SUMMARY_COLUMNS), _bandwidths(run))
    for summary in summaries:
        jobs = jobs.join(summary, on="job", how="left", maintain_order="left")
    return jobs


def _bandwidths(run: Run) -> pl.DataFrame:
    """By job: the number of its collectives, and the means of their bandwidths as nccl-tests defines them,
    weighted by duration.
    """
    measured = collective_summary(run).filter(pl.col("busbw_bps").is_not_null())
    time_s = pl.col("time_s") * pl.col("count")
    return measured.group_by("job", maintain_order=True).agg(
        pl.col("count").sum().alias("collectives"),
        *((pl.col(name) * time_s).sum() / time_s.sum() for name in ("algbw_bps", "busbw_bps")),
    )


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int | float]]:
    """The numbers in nested `values`, named by their keys, as `OUTER_INNER`."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}_")
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", value
