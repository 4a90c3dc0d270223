"""`[compat]` and `[run]`: how `hocket compat` searches, and how `hocket run` simulates."""

from typing import Annotated, Literal, TypedDict, Unpack

from pydantic import Field, StrictBool, StrictInt

from hocket.plan.link import PrecisionDeg
from hocket.plan.schema import (
    Count,
    Number,
    Table,
    constructor,
    default,
    flag_or_table,
)
from hocket.units import LARGEST, DurationLike, DurationPs, PositiveDurationPs, parse_duration

Engine = Literal["flow", "packet"]


class Compat(Table):
    """How `hocket compat` searches."""

    strict: StrictBool = default(False, "NSDI'24 Table 1: the demand form; HotNets'22 §3 is the strict one")
    """Allow at most one job on a link at a time, whatever its rate."""
    time_limit_ps: PositiveDurationPs = default(
        parse_duration("10 s"), "Hocket: short enough to wait for an answer", "time_limit"
    )
    """Time that all searches for an answer have together. A search that it ends returns the best shifts
    found so far, with their bound."""
    tolerance: Annotated[Number, Field(ge=0, le=0.5)] = default(
        0.01, "Hocket: measured iteration times vary by about 1%"
    )
    """Largest relative change of a period that makes periods fit on one circle."""
    loops: Literal["discard", "solve"] = default("discard", "NSDI'24 Algorithm 2, line 15")
    """A candidate in which the time-shifts around a loop of links disagree: `"discard"` it, or `"solve"` the
    jobs of the loop together."""
    joint: StrictBool = default(False, "NSDI'24 §4.1 calls the cluster-wide form not scalable: on request")
    """On a fabric, one circle for all jobs that share a link or a GPU anywhere. Several batch sizes or
    shared GPUs turn it on."""
    aggregate: Literal["mean", "min", "tail"] = default("mean", "NSDI'24 Algorithm 2, line 24")
    """How the scores of links become one: `"mean"`, `"min"`, or `"tail"` (the link at the worst
    twentieth)."""
    precision_deg: PrecisionDeg | None = None
    """As in `[link]`, for fabrics; give it in one of the two."""

    @constructor
    def __init__(
        self,
        *,
        strict: bool | None = None,
        time_limit: DurationLike | None = None,
        tolerance: float | None = None,
        loops: Literal["discard", "solve"] | None = None,
        joint: bool | None = None,
        aggregate: Literal["mean", "min", "tail"] | None = None,
        precision_deg: float | None = None,
    ) -> None: ...


class SkipAhead(Table):
    """When the packet engine may repeat the behaviour of periodic jobs instead of simulating it."""

    tolerance: Annotated[Number, Field(ge=0, lt=1)] = default(
        0.001, "Hocket: a tenth of what measured iteration times vary by"
    )
    """Largest relative difference between joint cycles that count as equal."""
    cycles: Annotated[StrictInt, Field(ge=2, le=64)] = default(3, "Hocket: two equal cycles may be chance")
    """Number of joint cycles that must agree."""

    @constructor
    def __init__(
        self,
        *,
        tolerance: float | None = None,
        cycles: int | None = None,
    ) -> None: ...


class RunKeys(TypedDict, total=False):
    """The keys of `RunSettings` and their types, all optional."""

    engine: Engine | None
    iterations: int | None
    until: DurationLike | None
    record_rates_until: DurationLike | None
    sample_every: DurationLike | None
    record_operations: int | None
    record_flows: bool | None
    perfetto: bool | None
    skip_ahead: bool | SkipAhead | None


class RunSettings(Table):
    """How `hocket run` simulates, for how long, and what it records."""

    engine: Engine = default("flow", "Hocket: a second instead of minutes; packets on request")
    """`"flow"` takes milliseconds, `"packet"` simulates every packet. `hocket run --engine` overrides it."""
    iterations: Count | None = None
    """Iterations after which each job leaves; by default 1,000, and 1 of a training job, unless `until` is
    given."""
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    """Time at which the run ends, whatever is under way."""
    record_rates_until_ps: DurationPs = default(0, "Hocket: rates are many rows", "record_rates_until")
    """Flow engine: time up to which changes of rate are recorded; 0 records none."""
    sample_every_ps: PositiveDurationPs | None = Field(default=None, alias="sample_every")
    """How often queues, rates and traffic are recorded; by default never. The flow engine records traffic
    alone."""
    record_operations: Annotated[StrictInt, Field(ge=0, le=LARGEST)] | None = None
    """Training jobs: number of first iterations whose operations are recorded; 0 records none. By default 1,
    but 0 if an iteration of all jobs has more than 1,000,000 operations and `perfetto` is not set."""
    record_flows: StrictBool = default(True, "Hocket: every message of the packet engine")
    """Packet engine: whether each message is recorded as a row."""
    perfetto: StrictBool = default(False, "Hocket: the file is large")
    """Also write `perfetto.json`, which ui.perfetto.dev opens."""
    skip_ahead: Annotated[SkipAhead | None, *flag_or_table(SkipAhead, "tolerance and cycles")] = None
    """Packet engine: repeat what jobs do instead of simulating it once their joint cycles agree: true for
    its defaults, or a table."""

    @constructor
    def __init__(self, **keys: Unpack[RunKeys]) -> None: ...

    def replace(self, **changes: Unpack[RunKeys]) -> "RunSettings":
        """New settings with `changes`; a value of `None` leaves a key out.

        Raises `InputError` for an invalid value, as the constructor does.

        >>> RunSettings(iterations=10).replace(until="1 s")
        RunSettings(iterations=10, until='1 s')
        """
        return self._replaced(changes)
