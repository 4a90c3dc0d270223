"""`[link]`: one link that all jobs share."""

from typing import Annotated

from pydantic import Field, StrictInt

from hocket.schema import Number, Table, default
from hocket.units import DurationPs, PositiveRateBps, parse_duration

DEFAULT_PRECISION_DEG = 5.0
"""Sectors of this many degrees unless the plan says otherwise: NSDI'24 §5.1."""

PrecisionDeg = Annotated[Number, Field(ge=0.1, le=90)]


class Link(Table):
    """One link that all jobs share."""

    capacity_bps: PositiveRateBps = Field(alias="capacity")
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    precision_deg: PrecisionDeg = default(DEFAULT_PRECISION_DEG, "NSDI'24 §5.1: unless otherwise stated, 5°")
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )
