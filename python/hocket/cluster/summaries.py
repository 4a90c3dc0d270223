"""What a run summarises over all its iterations: percentiles and totals by job, by model, and over all jobs.

The engine counts every iteration as it ends, so that summaries do not depend on which iterations have rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from hocket import _hocket
from hocket.cluster.schemas import SUMMARIES
from hocket.results import frame

_SUMS = ("iterations", "iteration_ps", "ideal_ps", "communication_ps", "delayed_ps")


class Summaries:
    """Summaries of all iterations that a run has finished."""

    def __init__(self, engine: _hocket.ClusterRun, jobs: list[str], *, counts_marks: bool) -> None:
        """`jobs` are all jobs by their number in the engine."""
        taken = engine.summaries()
        rows = frame({**taken["jobs"], "job": {**taken["jobs"]["job"], "dictionary": jobs}})
        if not counts_marks:
            # The engine reports 0, which would mean that no packet was marked.
            rows = rows.with_columns(marks=pl.lit(None, dtype=pl.Float64))
        self.by_job: dict[str, dict[str, Any]] = {row["job"]: row for row in rows.to_dicts()}
        """Sums and percentiles of each job that finished an iteration."""
        self._percentiles = frame(taken["models"]).to_dicts()

    @property
    def percentile_error(self) -> float:
        """The largest relative error of any percentile; 0 if all are exact."""
        exact = all(row["is_exact"] for row in (*self.by_job.values(), *self._percentiles))
        return 0.0 if exact else _hocket.ClusterRun.PERCENTILE_ERROR

    def table(self, models: Sequence[str], model_of: Mapping[str, str]) -> pl.DataFrame:
        """The table `summaries`; `models` are by their number in the engine, `model_of` by job."""
        of_model: dict[str, list[Mapping[str, Any]]] = {}
        for job, sums in self.by_job.items():
            of_model.setdefault(model_of[job], []).append(sums)
        # Jobs of the last models may not have started.
        by_model = zip(models, self._percentiles[:-1], strict=False)
        rows = [
            _row(model, of_model[model], percentiles) for model, percentiles in by_model if model in of_model
        ]
        if self.by_job:
            rows.append(_row(None, self.by_job.values(), self._percentiles[-1]))
        return pl.DataFrame(rows, schema=SUMMARIES)


def _row(
    model: str | None, jobs: Iterable[Mapping[str, Any]], percentiles: Mapping[str, Any]
) -> dict[str, Any]:
    jobs = list(jobs)
    sums = {name: sum(job[name] for job in jobs) for name in _SUMS}
    marks = [job["marks"] for job in jobs]
    return {
        "model": model,
        "p50_slowdown": percentiles["p50_slowdown"],
        "p99_slowdown": percentiles["p99_slowdown"],
        **of_iterations({**sums, **percentiles, "marks": None if None in marks else sum(marks)}),
    }


def of_iterations(counted: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that the tables of jobs and of models share, from sums and percentiles over iterations, in
    picoseconds.
    """
    count = counted["iterations"]
    return {
        "iterations": count,
        "mean_iteration_s": counted["iteration_ps"] / count / 1e12,
        "p50_iteration_s": counted["p50_ps"] / 1e12,
        "p99_iteration_s": counted["p99_ps"] / 1e12,
        "mean_ideal_s": counted["ideal_ps"] / count / 1e12,
        "slowdown": counted["iteration_ps"] / counted["ideal_ps"],
        "mean_communication_s": counted["communication_ps"] / count / 1e12,
        "mean_delayed_s": counted["delayed_ps"] / count / 1e12,
        "marks": counted["marks"],
    }
