"""What is asked of a plan: how `hocket compat` searches, and how `hocket run` simulates."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from hocket.plan.link import PrecisionDeg
from hocket.schema import Count, Number, Table, default, flag_or_table
from hocket.units import LARGEST, DurationPs, PositiveDurationPs, parse_duration

Engine = Literal["flow", "packet"]


class Compat(Table):
    """How `hocket compat` searches."""

    exact: StrictBool = default(False, "Hocket: the paper's discretised optimum first")
    strict: StrictBool = default(False, "NSDI'24 Table 1: the demand form; HotNets'22 §3 is the strict one")
    time_limit_ps: PositiveDurationPs = default(
        parse_duration("10 s"), "Hocket: an answer while one waits for it", "time_limit"
    )
    tolerance: Annotated[Number, Field(ge=0, le=0.5)] = default(
        0.01, "Hocket: measured iteration times vary by about 1%"
    )
    loops: Literal["discard", "solve"] = default("discard", "NSDI'24 Algorithm 2, line 15")
    joint: StrictBool = default(False, "NSDI'24 §4.1 calls the cluster-wide form not scalable: on request")
    aggregate: Literal["mean", "min", "tail"] = default("mean", "NSDI'24 Algorithm 2, line 24")
    precision_deg: PrecisionDeg | None = None


class SkipAhead(Table):
    """When a run of the packet engine may repeat what its jobs do instead of simulating it."""

    tolerance: Annotated[Number, Field(ge=0, lt=1)] = default(
        0.001, "Hocket: a tenth of what measured iteration times vary by"
    )
    cycles: Annotated[StrictInt, Field(ge=2, le=64)] = default(3, "Hocket: twice the same may be chance")


class Run(Table):
    """How `hocket run` simulates, for how long, and what it records."""

    engine: Engine = default("flow", "Hocket: a second instead of minutes; packets on request")
    iterations: Count | None = None
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    record_rates_until_ps: DurationPs = default(0, "Hocket: rates are many rows", "record_rates_until")
    sample_every_ps: PositiveDurationPs | None = Field(default=None, alias="sample_every")
    record_operations: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(
        1, "Hocket: operations are many rows, and much alike from iteration to iteration"
    )
    record_flows: StrictBool = default(True, "Hocket: every message of the packet engine")
    trace: StrictBool = default(False, "Hocket: a trace is large")
    skip_ahead: Annotated[SkipAhead | None, *flag_or_table(SkipAhead, "tolerance and cycles")] = None
