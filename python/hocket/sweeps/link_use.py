"""Who uses a link when in each combination of a sweep, simulated again: for pictures."""

import polars as pl

from hocket.engines.link_use import LinkUse, Stretch, stretch, uses_of
from hocket.profiles import PS_PER_S
from hocket.sweeps.answers import Sweep
from hocket.sweeps.combinations import SEED, described

MOST_COMBINATIONS = 6
"""Hocket: of which link use is simulated again, and drawn; more would be too small to compare."""


def uses_of_combinations(sweep: Sweep) -> dict[str, LinkUse]:
    """The use of a link by each job in four iterations of each combination that was complete, by its values:
    of one of its seeds, on the link that `hocket.engines.link_use.uses_of` chooses for all.

    Empty for more than `MOST_COMBINATIONS`, and if no job sends anything.
    """
    complete = sweep.table.filter(pl.col("status") == "complete")
    if complete.is_empty():
        return {}
    complete = complete.filter(pl.col("mean_iteration_s").is_not_null())
    stretches: dict[str, Stretch] = {}
    axes = [axis for axis in sweep.axes if axis != SEED]
    for jobs in complete.partition_by("combination", maintain_order=True):
        first = jobs.row(0, named=True)
        name = described({axis: first[axis] for axis in axes})
        plan = sweep.plans[first["combination"]]
        if name in stretches or plan is None:
            continue
        starts_ps = [job.arrival_ps + (job.time_shift_ps or 0) for job in plan.jobs]
        starts_s = pl.Series([start_ps / PS_PER_S for start_ps in starts_ps])
        begin_s, end_s = stretch(jobs["mean_iteration_s"], starts_s, first["run_simulated_s"])
        stretches[name] = Stretch(plan, begin_s, end_s, engine=first["engine"])
    return uses_of(stretches) if len(stretches) <= MOST_COMBINATIONS else {}
