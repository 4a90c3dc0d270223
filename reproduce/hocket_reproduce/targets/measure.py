"""What reproductions read out of a run's tables."""

import numpy as np
import numpy.typing as npt
import polars as pl

from hocket.results import Run

PS_PER_S = 10**12


def by_job(run: Run, column: str) -> dict[str, float]:
    """A column of the run's `jobs` table by job."""
    table = run.tables["jobs"]
    return dict(zip(table["job"].to_list(), table[column].to_list(), strict=True))


def iteration_times_s(run: Run, job: str) -> npt.NDArray[np.float64]:
    """Each iteration of `job` in seconds, its wait before included except for the first."""
    table = run.tables["iterations"].filter(pl.col("job") == job)
    waits_s = table["delayed_s"].to_numpy().copy()
    waits_s[:1] = 0.0
    return np.asarray(table["iteration_s"].to_numpy() + waits_s, dtype=np.float64)


def cost_s(run: Run) -> dict[str, float]:
    """What an iteration costs each job on average, waits included."""
    waits_s = by_job(run, "mean_delayed_s")
    return {job: mean_s + waits_s[job] for job, mean_s in by_job(run, "mean_iteration_s").items()}


def overlaps(run: Run, job: str, other: str) -> npt.NDArray[np.float64]:
    """For each Up phase of `job`, the share of it in which `other` is in an Up phase too."""
    own, theirs = (
        run.tables["phases"].filter(pl.col("job") == name).select("start_s", "end_s").to_numpy()
        for name in (job, other)
    )
    # Up phases of one job follow each other, so what they cover up to a time grows in straight lines.
    edges_s = theirs.ravel()
    covered_s = np.concatenate([[0.0], np.cumsum(np.diff(edges_s) * (np.arange(edges_s.size - 1) % 2 == 0))])
    shared_s = np.interp(own[:, 1], edges_s, covered_s) - np.interp(own[:, 0], edges_s, covered_s)
    return np.asarray(shared_s / (own[:, 1] - own[:, 0]), dtype=np.float64)


def end_s(run: Run, job: str, iteration: int) -> float:
    """When an iteration of `job`, counted from 0, ended."""
    table = run.tables["iterations"].filter((pl.col("job") == job) & (pl.col("iteration") == iteration))
    return float(table["end_s"].item())


def communication_start_s(run: Run, job: str, iteration: int) -> float:
    """When the first Up phase of an iteration of `job`, counted from 0, started."""
    first = (pl.col("job") == job) & (pl.col("iteration") == iteration) & (pl.col("phase") == 0)
    return float(run.tables["phases"].filter(first)["start_s"].item())


def contended_rates_gbps(run: Run) -> dict[str, float]:
    """Each job's rate in Gbps when all jobs are sending for the first time."""
    rates = run.tables["rates"]
    jobs = run.tables["jobs"]["job"].to_list()
    first_s = max(
        rates.filter((pl.col("job") == job) & (pl.col("rate_bps") > 0))["start_s"][0] for job in jobs
    )
    return {
        job: rates.filter((pl.col("job") == job) & (pl.col("start_s") <= first_s))["rate_bps"][-1] / 1e9
        for job in jobs
    }
