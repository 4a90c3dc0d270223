"""`[[jobs]]`: what a job sends, where it runs, and its own policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from hocket.congestion import Congestion
from hocket.errors import InputError
from hocket.plan.training import Collectives, Straggler, Training
from hocket.schema import Count, Name, Number, Table, default, number, one_or_several
from hocket.units import (
    LARGEST,
    DurationPs,
    PositiveDurationPs,
    PositiveRateBps,
    format_bytes,
    parse_bytes,
    shown,
)
from hocket.workloads import PhaseSpec, WorkloadProfile, profile

MAX_PHASES = 1_000
"""The most Up phases of a period; `hocket_scenario::workload::MAX_PHASES` is the same limit."""

MAX_PLACES = 10_000
"""The most entries of a placement."""

WINDOWS = ("unlimited", "path", "path-scaled")
"""Names of windows; others are numbers of bytes."""


@dataclass(frozen=True)
class Share:
    """How a job shares a link with others: its weight in weighted max-min fairness.

    `fair` is weight 1. `adaptive` multiplies its weight by 1 + sent/total of the communication phase
    (HotNets'22 §4(i)).
    """

    kind: Literal["fair", "weighted", "adaptive"] = "fair"
    weight: float = 1.0


def _parse_share(value: Any) -> Share:
    if isinstance(value, Share):
        return value
    if value == "fair":
        return Share()
    if isinstance(value, dict) and len(value) == 1:
        kind, weight = next(iter(value.items()))
        if kind in ("weighted", "adaptive"):
            return Share(kind, _weight(kind, weight))
    raise InputError(f'must be "fair", {{ weighted = 2.0 }} or {{ adaptive = 1.0 }}: got {shown(value)}')


def _weight(kind: str, value: object) -> float:
    weight = number(value)
    # What `hocket_scenario::Weight` resolves well.
    if not 1 / 64 <= weight <= 1024:
        raise InputError(f"a weight is between 1/64 and 1024: got {kind} = {shown(value)}")
    return weight


def _write_share(share: Share) -> str | dict[str, float]:
    return "fair" if share.kind == "fair" else {share.kind: share.weight}


def _parse_window(value: object) -> str | int:
    if isinstance(value, str) and value in WINDOWS:
        return value
    if isinstance(value, str) and value[:1].isdigit():
        found = parse_bytes(value)
        if found == 0:
            raise InputError(f"must be above 0 B: got {shown(value)}")
        return found
    names = ", ".join(f'"{name}"' for name in WINDOWS)
    raise InputError(f'must be {names} or bytes such as "64 kB": got {shown(value)}')


def _parse_path(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str) and value in ("ecmp", "spray"):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise InputError(f'must be "ecmp", "spray" or a list of links: got {shown(value)}')


BatchSizes = Annotated[
    tuple[Annotated[StrictInt, Field(ge=1, le=LARGEST)], ...],
    Field(min_length=1, max_length=32),
    *one_or_several(),
]
ShareField = Annotated[
    Share,
    PlainValidator(_parse_share),
    PlainSerializer(_write_share),
    WithJsonSchema(
        {
            "oneOf": [
                {"const": "fair"},
                *(
                    {
                        "type": "object",
                        "properties": {kind: {"type": "number", "minimum": 1 / 64, "maximum": 1024}},
                        "required": [kind],
                        "additionalProperties": False,
                    }
                    for kind in ("weighted", "adaptive")
                ),
            ]
        }
    ),
]


WindowField = Annotated[
    str | int,
    PlainValidator(_parse_window),
    PlainSerializer(lambda value: value if isinstance(value, str) else format_bytes(value)),
    WithJsonSchema({"type": "string", "examples": [*WINDOWS, "64 kB"]}),
]
PathField = Annotated[
    str | tuple[str, ...],
    PlainValidator(_parse_path),
    PlainSerializer(lambda value: value if isinstance(value, str) else list(value)),
    WithJsonSchema(
        {
            "oneOf": [
                {"enum": ["ecmp", "spray"]},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]


class Phase(Table):
    """An Up phase of a job: from `start_ps` within the period, `rate_bps` for `duration_ps`."""

    start_ps: DurationPs = Field(alias="start")
    duration_ps: PositiveDurationPs = Field(alias="duration")
    rate_bps: PositiveRateBps = Field(alias="rate")


class First(Table):
    """What is left of an iteration that is under way when its job comes: a profile of its own."""

    period_ps: PositiveDurationPs = Field(alias="period")
    up: Annotated[tuple[Phase, ...], Field(max_length=MAX_PHASES)]

    def profile(self) -> WorkloadProfile:
        """It, with its phases in order of start."""
        return _given(self.period_ps, self.up)


class Job(Table):
    """A training job: a period with Up phases, a workload of the catalogue or `training`, and its policy."""

    name: Name
    training: Training | None = None
    collectives: Collectives | None = Field(
        default_factory=lambda given: None if given.get("training") is None else Collectives()
    )
    stragglers: Annotated[tuple[Straggler, ...], Field(max_length=MAX_PLACES)] = ()
    period_ps: PositiveDurationPs | None = Field(default=None, alias="period")
    up: Annotated[tuple[Phase, ...], Field(max_length=MAX_PHASES)] | None = None
    first: First | None = None
    workload: StrictStr | None = None
    batch_size: BatchSizes | None = None
    workers: Count | None = None
    strategy: StrictStr | None = None
    placement: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_PLACES)] | None = None
    gpus: Annotated[tuple[StrictStr, ...], Field(max_length=1_024)] = ()
    arrival_ps: DurationPs = default(
        0, "Hocket: all jobs present at the start (NSDI'24 snapshots)", "arrival"
    )
    iterations: Count | None = None
    share: ShareField = default(Share(), "HotNets'22 §2: default DCQCN shares fairly")
    congestion: Congestion | None = None
    window: WindowField | None = None
    path: PathField = default("ecmp", "Hocket: what switches do")
    label: Annotated[StrictInt, Field(ge=0, le=LARGEST)] | None = None
    priority: Annotated[StrictInt, Field(ge=0, le=255)] = default(0, "Hocket: one class, served first")
    time_shift_ps: DurationPs | None = Field(default=None, alias="time_shift")
    clock_error_ps: DurationPs = default(0, "Hocket: perfect clocks", "clock_error")
    readjust: StrictBool = default(False, "Hocket: the agent of NSDI'24 §4.2 is asked for")
    jitter: Annotated[Number, Field(ge=0, le=1)] = default(0.0, "Hocket: compute times do not vary")
    pad_to_ps: PositiveDurationPs | None = Field(default=None, alias="pad_to")

    def profiles(self) -> tuple[WorkloadProfile, ...]:
        """What one iteration may be on an idle network: one profile for each batch size that may be chosen.

        An explicit job has one. Phases come in order of start.

        Raises `InputError` for a job given by `training`, whose phases only a run shows.
        """
        if self.training is not None:
            raise InputError(
                f"job {self.name!r}: [jobs.training] says what its GPUs do, not when it sends; "
                "`hocket compat` measures that"
            )
        if self.workload is None:
            return (self._explicit(),)
        workers = self.worker_count()
        assert self.batch_size is not None, "a checked plan gives a batch size with each workload"
        assert workers is not None, "a checked plan gives workers or a placement with each workload"
        return tuple(
            profile(self.workload, batch_size, workers, self.strategy) for batch_size in self.batch_size
        )

    def worker_count(self) -> int | None:
        """`workers`, or the number of hosts placed, or `None` for an explicit job that says neither."""
        return self.workers or (len(self.placement) if self.placement else None)

    def _explicit(self) -> WorkloadProfile:
        assert self.period_ps is not None, "a checked plan gives a period without a workload"
        assert self.up is not None, "a checked plan gives Up phases without a workload"
        return _given(self.period_ps, self.up)


def _given(period_ps: int, up: Sequence[Phase]) -> WorkloadProfile:
    phases = sorted(up, key=lambda phase: phase.start_ps)
    return WorkloadProfile(
        period_ps=period_ps,
        phases=tuple(PhaseSpec(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in phases),
        sources=("plan",),
        notes="given in the plan",
    )
