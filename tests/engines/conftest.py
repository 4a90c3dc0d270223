"""What tests of the engines share: how to read a run."""

import polars as pl

from hocket import Run


def iteration_times_s(run: Run, job: str) -> list[float]:
    """The iteration times of `job`, in order."""
    return run.tables["iterations"].filter(pl.col("job") == job)["iteration_s"].to_list()
