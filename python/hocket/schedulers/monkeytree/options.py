"""`[monkeytree]`: when workers migrate, how many, and what a migration costs."""

from typing import Annotated

from pydantic import Field, StrictInt

from hocket.plan.schema import Table, default
from hocket.units import DurationPs, PositiveDurationPs, parse_duration


class MonkeytreeOptions(Table):
    """Limits and price of migrations."""

    epoch_ps: PositiveDurationPs = default(
        parse_duration("1 min"), "Hocket: longer than a migration, and shorter than most jobs", "epoch"
    )
    """The shortest time between two rounds of migrations. A round follows a decision of the scheduler, or a
    round that used up its migrations."""
    moves: Annotated[StrictInt, Field(ge=1, le=100_000)] = default(
        32, "Hocket: arXiv 2602.08296 minimises the number of workers that move"
    )
    """The most workers that migrate in an epoch."""
    migration_ps: DurationPs = default(
        parse_duration("9 s"), "arXiv 2602.08296: checkpoint and restore over RDMA take 9.02 s", "migration"
    )
    """From receiving its GPUs to the next iteration of a job of which workers have migrated."""
    racks: Annotated[StrictInt, Field(ge=2, le=1_000)] = default(
        4, "Hocket: programs of milliseconds; those of all racks would take minutes"
    )
    """The racks among which a program moves workers: all those of the job that loses most, and up to this
    number those with the most free GPUs."""
    node_limit: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = default(
        50, "Hocket: most programs need fewer; a limit of time would make results depend on the machine"
    )
    """Nodes of the search for the optimum of a program. A program that reaches it is noted as not proven."""
