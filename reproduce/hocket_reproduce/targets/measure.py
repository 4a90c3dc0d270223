"""Quantities that reproductions derive from the tables of a run, or of several at different starts."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import mean

import numpy as np
import numpy.typing as npt
import polars as pl

from hocket.engines.run import simulate
from hocket.plan import parse_plan
from hocket.results import Run
from hocket_reproduce.targets.setting import Tables, link_plan

PS_PER_S = 10**12

# The number of relative starts of each further job, evenly over its period: with three jobs, 16 combinations.
_STARTS = {2: 8, 3: 4}


def by_job(run: Run, column: str) -> dict[str, float]:
    """A column of the run's `jobs` table, by job."""
    table = run.tables["jobs"]
    return dict(zip(table["job"].to_list(), table[column].to_list(), strict=True))


def mean_over_starts(
    jobs: Sequence[Tables], plan: Callable[[list[Tables]], Tables], column: str
) -> dict[str, float]:
    """The mean of a column of the `jobs` table over relative starts of two or three jobs, by job.

    No paper says when jobs that share a link start, and where their periods are equal it matters.
    """
    runs = [by_job(simulate(plan(started)), column) for started in _started_apart(jobs)]
    return {job: mean(run[job] for run in runs) for job in runs[0]}


def _started_apart(jobs: Sequence[Tables]) -> Iterator[list[Tables]]:
    steps = _STARTS[len(jobs)]
    checked = parse_plan(link_plan("starts", jobs))
    periods_ps = [checked.profiles_of(job)[0].period_ps for job in checked.jobs]
    for further in product(range(steps), repeat=len(jobs) - 1):
        starts_ps = (
            period_ps * step // steps for period_ps, step in zip(periods_ps, (0, *further), strict=True)
        )
        yield [{**job, "arrival": f"{start_ps} ps"} for job, start_ps in zip(jobs, starts_ps, strict=True)]


def iteration_times_s(run: Run, job: str) -> npt.NDArray[np.float64]:
    """Each iteration of `job` in seconds, including the wait before it, except before the first."""
    table = run.tables["iterations"].filter(pl.col("job") == job)
    waits_s = table["delayed_s"].to_numpy().copy()
    # The first wait is the time-shift itself, which is paid once and not a cost per iteration.
    waits_s[:1] = 0.0
    return np.asarray(table["iteration_s"].to_numpy() + waits_s, dtype=np.float64)


def cost_s(run: Run) -> dict[str, float]:
    """The mean iteration of each job in seconds, waits for slots included."""
    waits_s = by_job(run, "mean_delayed_s")
    return {job: mean_s + waits_s[job] for job, mean_s in by_job(run, "mean_iteration_s").items()}


def overlaps(run: Run, job: str, other: str) -> npt.NDArray[np.float64]:
    """For each Up phase of `job`, the share of it in which `other` is in an Up phase too."""
    own, theirs = (
        run.tables["phases"].filter(pl.col("job") == name).select("start_s", "end_s").to_numpy()
        for name in (job, other)
    )
    # Up phases of one job do not overlap, so their covered time up to t is piecewise linear: interpolating it
    # at both ends of a phase needs no loop over pairs of phases.
    edges_s = theirs.ravel()
    covered_s = np.concatenate([[0.0], np.cumsum(np.diff(edges_s) * (np.arange(edges_s.size - 1) % 2 == 0))])
    shared_s = np.interp(own[:, 1], edges_s, covered_s) - np.interp(own[:, 0], edges_s, covered_s)
    return np.asarray(shared_s / (own[:, 1] - own[:, 0]), dtype=np.float64)


def end_s(run: Run, job: str, iteration: int) -> float:
    """The end of an iteration of `job`, counted from 0, in seconds of the run."""
    table = run.tables["iterations"].filter((pl.col("job") == job) & (pl.col("iteration") == iteration))
    return float(table["end_s"].item())


def communication_start_s(run: Run, job: str, iteration: int) -> float:
    """The start of the first Up phase of an iteration of `job`, counted from 0, in seconds of the run."""
    first = (pl.col("job") == job) & (pl.col("iteration") == iteration) & (pl.col("phase") == 0)
    return float(run.tables["phases"].filter(first)["start_s"].item())


def contended_rates_gbps(run: Run) -> dict[str, float]:
    """Each job's rate in Gbps at the moment when all jobs send for the first time."""
    rates = run.tables["rates"]
    jobs = run.tables["jobs"]["job"].to_list()
    first_s = max(
        rates.filter((pl.col("job") == job) & (pl.col("rate_bps") > 0))["start_s"][0] for job in jobs
    )
    return {
        job: rates.filter((pl.col("job") == job) & (pl.col("start_s") <= first_s))["rate_bps"][-1] / 1e9
        for job in jobs
    }
