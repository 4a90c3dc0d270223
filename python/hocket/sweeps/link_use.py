"""Simulates a few iterations of each combination of a sweep again, for pictures of who uses a link when."""

import polars as pl

from hocket.engines.link_use import LinkUse, RunWindow, four_iterations, uses_of
from hocket.profiles import PS_PER_S
from hocket.sweeps.combinations import SEED, described
from hocket.sweeps.sweep_result import Sweep

MOST_COMBINATIONS = 6
"""The most combinations whose link use is drawn: with more, each would be too small to compare."""


def uses_of_combinations(sweep: Sweep) -> dict[str, LinkUse]:
    """The use of a link by each job in four iterations of each complete combination, by its values.

    Of several seeds, the first is used; `hocket.engines.link_use.uses_of` chooses one link for all
    combinations. Empty for more than `MOST_COMBINATIONS`, and if no job sends anything.
    """
    complete = sweep.table.filter(pl.col("status") == "complete")
    if complete.is_empty():
        return {}
    complete = complete.filter(pl.col("mean_iteration_s").is_not_null())
    windows: dict[str, RunWindow] = {}
    axes = [axis for axis in sweep.axes if axis != SEED]
    for jobs in complete.partition_by("combination", maintain_order=True):
        first = jobs.row(0, named=True)
        name = described({axis: first[axis] for axis in axes})
        plan = sweep.plans[first["combination"]]
        if name in windows or plan is None:
            continue
        # As planned, because a sweep does not keep the tables of iterations.
        starts_ps = [job.arrival_ps + (job.time_shift_ps or 0) for job in plan.jobs]
        starts_s = pl.Series([start_ps / PS_PER_S for start_ps in starts_ps])
        begin_s, end_s = four_iterations(jobs["mean_iteration_s"], starts_s, first["run_simulated_s"])
        windows[name] = RunWindow(plan, begin_s, end_s, engine=first["engine"])
    return uses_of(windows) if len(windows) <= MOST_COMBINATIONS else {}
