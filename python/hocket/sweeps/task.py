"""One run of a sweep as a task that any process on any machine can do, and what is kept of it."""

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
    """A checked plan, the engine to run it on, and where the whole run is to be written, if anywhere.

    `build` is that of whoever asks: another build would answer something else.
    """

    plan: Plan
    engine: Engine
    build: str
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is kept of a complete run: a row per job, and numbers of the run as a whole by name.

    Jobs have the columns of the run's table `jobs`, and besides `policy`, `marks`, `cnps`, `ranks`,
    `slowest_rank` and `imbalance` as `hocket.results.summary.job_summary` says, `collectives` (how many),
    `algbw_bps` and `busbw_bps`.
    """

    jobs: pl.DataFrame
    totals: Mapping[str, int | float]
    run_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer."""

    error: str


# What the table of jobs does not have already.
_OF_JOB = ("policy", "marks", "cnps", "ranks", "slowest_rank", "imbalance")

Outcome: TypeAlias = Answer | Failure


def perform(task: Task) -> Outcome:
    """Runs `task` here."""
    if task.build != build():
        return Failure(f"this machine has another build of Hocket: {build()[:12]} and not {task.build[:12]}")
    try:
        run = simulate(task.plan, engine=task.engine, directory=task.directory)
    except (InputError, SelfCheckError) as error:
        return Failure(str(error))
    return Failure("was interrupted") if run.interrupted else kept(run)


def kept(run: Run) -> Answer:
    """What is kept of a complete `run`."""
    manifest = run.manifest
    whole = {key: manifest[key] for key in ("simulated_s", "packet_hops") if key in manifest}
    network = {
        key: value for key, value in network_summary(run).row(0, named=True).items() if value is not None
    }
    totals = dict(_numbers(whole | manifest["counts"] | network))
    return Answer(_jobs(run), totals, manifest["run_s"])


def _jobs(run: Run) -> pl.DataFrame:
    """The run's table of jobs, and beside it what other tables say of each job."""
    jobs = run.tables["jobs"]
    summaries = (job_summary(run).select("job", *_OF_JOB), _bandwidths(run))
    for summary in summaries:
        jobs = jobs.join(summary, on="job", how="left", maintain_order="left")
    return jobs


def _bandwidths(run: Run) -> pl.DataFrame:
    """Of each job the number of its collectives, and their bandwidths as nccl-tests defines them, weighted by
    the time that each took.
    """
    measured = collective_summary(run).filter(pl.col("busbw_bps").is_not_null())
    time_s = pl.col("time_s") * pl.col("count")
    return measured.group_by("job", maintain_order=True).agg(
        pl.col("count").sum().alias("collectives"),
        *((pl.col(name) * time_s).sum() / time_s.sum() for name in ("algbw_bps", "busbw_bps")),
    )


def _numbers(counts: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, int | float]]:
    for key, value in counts.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{within}{key}_")
        elif isinstance(value, int | float):
            yield f"{within}{key}", value
