"""`[link]`: one link that all jobs share."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt

from hocket.errors import InputError
from hocket.plan.goodput import ContendedGoodput
from hocket.plan.schema import Number, Table, constructor, default
from hocket.units import DurationLike, DurationPs, PositiveRateBps, RateLike, parse_duration

FINEST_PRECISION_DEG, COARSEST_PRECISION_DEG = 0.1, 90
"""The range of steps between rotations, in a plan and in arguments."""

StepDeg = Annotated[Number, Field(ge=FINEST_PRECISION_DEG, le=COARSEST_PRECISION_DEG)]
"""The largest step between rotations to try."""


def check_precision(degrees: float) -> float:
    """`degrees` if valid as a `PrecisionDeg`; else raises `InputError`."""
    if degrees != 0 and not FINEST_PRECISION_DEG <= degrees <= COARSEST_PRECISION_DEG:
        raise InputError(
            f"must be 0 for all shifts, or from {FINEST_PRECISION_DEG} to {COARSEST_PRECISION_DEG} degrees: "
            f"got {degrees:g}"
        )
    return degrees


PrecisionDeg = Annotated[Number, Field(ge=0, le=COARSEST_PRECISION_DEG), AfterValidator(check_precision)]
"""A `StepDeg`, or 0 to search all shifts."""


class Link(Table):
    """One link that all jobs share."""

    capacity_bps: PositiveRateBps = Field(alias="capacity")
    """Capacity of the link in each direction, at most 1 Pbps. No job may demand more."""
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    """One-way delay of this link and of those to the hosts. The flow engine does not use it."""
    precision_deg: PrecisionDeg = default(
        0.0, "Hocket: all shifts, which score no less than steps and take as long for a few jobs"
    )
    """Largest step between rotations, 0.1 to 90 degrees; 0 searches all shifts."""
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )
    """Number of queues. Priorities beyond the last queue share it."""
    contended_goodput: ContendedGoodput | None = None
    """Flow engine: fraction of the capacity that two jobs, three and so on get together while they demand
    more than the link has; the last one is also that of more jobs. `"testbed"` is what the papers' testbed
    shows. By default nothing is lost."""

    @constructor
    def __init__(
        self,
        capacity: RateLike,
        *,
        delay: DurationLike | None = None,
        precision_deg: float | None = None,
        priority_queues: int | None = None,
        contended_goodput: Literal["testbed"] | Sequence[float] | None = None,
    ) -> None: ...
