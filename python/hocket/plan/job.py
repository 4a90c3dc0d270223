"""`[[jobs]]`: what a job sends, where it runs, and its policy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

from hocket.errors import InputError
from hocket.plan.congestion import Congestion, Control, Policy
from hocket.plan.schema import (
    Count,
    Name,
    Number,
    Spelling,
    Table,
    Unquoted,
    constructor,
    counted,
    default,
    in_seconds,
    number,
    one_or_several,
    respelt,
)
from hocket.plan.training import Collectives, Straggler, Training
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.units import (
    LARGEST,
    DurationLike,
    DurationPs,
    PositiveDurationPs,
    PositiveRateBps,
    Quantity,
    RateLike,
    SizeLike,
    format_bytes,
    parse_bytes,
    shown,
)
from hocket.workloads import LINE_RATE_BPS, profile

MAX_PHASES = 1_000
"""The most Up phases of a period; `hocket_scenario::workload::MAX_PHASES` is the same limit."""

MAX_PLACES = 10_000
"""The most entries of a placement; the labels that `hocket.engines.network` gives to flows suffice for no
more."""

PathName = Literal["ecmp", "spray"]
"""How a flow's path is chosen if a plan does not name its links."""

WINDOWS = ("unlimited", "path", "path-scaled")
"""The windows with a name; others are a number of bytes."""


@dataclass(frozen=True)
class Share:
    """How a job shares a link with others: its weight in weighted max-min fairness.

    `fair` is weight 1. `adaptive` multiplies its weight by 1 + sent/total of the communication phase
    (HotNets'22 §4(i)).
    """

    kind: Literal["fair", "weighted", "adaptive"] = "fair"
    weight: float = 1.0

    def __post_init__(self) -> None:
        # A dataclass does not check types, and programs construct shares too.
        if self.kind not in ("fair", "weighted", "adaptive"):
            raise _no_share(self.kind)
        # Within these limits `hocket_scenario::Weight`, a multiple of 1/65,536, resolves weights well.
        if not 1 / 64 <= number(self.weight) <= 1024:
            raise InputError(
                f"a weight must be between 1/64 and 1024: got {self.kind} = {shown(self.weight)}"
            )


def _no_share(value: object) -> InputError:
    return InputError(f'must be "fair", {{ weighted = 2.0 }} or {{ adaptive = 1.0 }}: got {shown(value)}')


def _parse_share(value: Any) -> Share:
    if isinstance(value, Share):
        return value
    if value == "fair":
        return Share()
    if isinstance(value, dict) and len(value) == 1:
        kind, weight = next(iter(value.items()))
        if kind in ("weighted", "adaptive"):
            return Share(kind, number(weight))
    raise _no_share(value)


def _write_share(share: Share) -> str | dict[str, float]:
    return "fair" if share.kind == "fair" else {share.kind: share.weight}


def _parse_window(value: object) -> str | int:
    value = str(value) if isinstance(value, Quantity) else value
    if isinstance(value, str) and value in WINDOWS:
        return value
    # Text that begins with a digit is meant as a size, so a mistake in it gets the message of sizes.
    if isinstance(value, str) and value[:1].isdigit():
        found = parse_bytes(value)
        if found == 0:
            raise InputError(f"must be above 0 B: got {shown(value)}")
        return found
    names = ", ".join(f'"{name}"' for name in WINDOWS)
    raise InputError(f'must be {names} or bytes such as "64 kB": got {shown(value)}')


def _parse_path(value: object) -> PathName | tuple[str, ...]:
    if value == "ecmp" or value == "spray":
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
    PathName | tuple[str, ...],
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


class Up(Table):
    """An Up phase of a job: from `start` within the period, `rate` for `duration`."""

    start_ps: DurationPs = Field(alias="start")
    """Start within the period."""
    duration_ps: PositiveDurationPs = Field(alias="duration")
    """Duration of the phase."""
    rate_bps: PositiveRateBps = Field(alias="rate")
    """Demand during the phase."""

    @constructor
    def __init__(self, start: DurationLike, duration: DurationLike, rate: RateLike) -> None: ...


class First(Table):
    """The rest of an iteration that is under way when its job arrives, as a profile of its own."""

    period_ps: PositiveDurationPs = Field(alias="period")
    """What is left of the period."""
    up: Annotated[tuple[Up, ...], Field(max_length=MAX_PHASES)]
    """Up phases that are left."""

    @constructor
    def __init__(self, *, period: DurationLike, up: Sequence[Up]) -> None: ...

    def profile(self) -> WorkloadProfile:
        """The profile, with phases in order of start."""
        return _profile_of(self.period_ps, self.up)


IN_SECONDS = {f"{key}_s": Spelling(key, in_seconds) for key in ("time_shift", "pad_to")}
"""Keys with a variant that takes a number of seconds, the unit of `hocket.compatibility`'s answers."""


def _describe_seconds(schema: dict[str, Any]) -> None:
    for other, spelling in IN_SECONDS.items():
        text = f"`{spelling.key}` as a number of seconds."
        schema["properties"][other] = {"type": "number", "minimum": 0, "description": text}


def _read_seconds(key: str, value: object) -> object:
    try:
        return None if value is None else IN_SECONDS[key].read(value)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


class JobKeys(TypedDict, total=False):
    """The keys of a job besides its name, and their types; `None` leaves a key out."""

    training: Training | None
    collectives: Collectives | None
    stragglers: Sequence[Straggler] | None
    period: DurationLike | None
    up: Sequence[Up] | None
    first: First | None
    workload: str | None
    batch_size: int | Sequence[int] | None
    workers: int | None
    strategy: str | None
    nic: RateLike | None
    placement: Sequence[str] | None
    gpus: Sequence[str] | None
    arrival: DurationLike | None
    iterations: int | None
    share: Literal["fair"] | Mapping[Literal["weighted", "adaptive"], float] | Share | None
    congestion: Policy | Control | Congestion | None
    window: Literal["unlimited", "path", "path-scaled"] | SizeLike | None
    path: Literal["ecmp", "spray"] | Sequence[str] | None
    label: int | None
    priority: int | None
    time_shift: DurationLike | None
    time_shift_s: float | None
    clock_error: DurationLike | None
    readjust: bool | None
    jitter: float | None
    pad_to: DurationLike | None
    pad_to_s: float | None


class Job(Table):
    """A training job, given by Up phases, a workload of the catalogue or `training`; and its policy."""

    model_config = ConfigDict(json_schema_extra=_describe_seconds)

    @model_validator(mode="before")
    @classmethod
    def _with_units(cls, given: object) -> object:
        return respelt(given, IN_SECONDS)

    name: Name
    """Unique name of the job."""
    training: Training | None = None
    """What the GPUs do in each iteration. Needs a `[fabric]`."""
    # `None` for other jobs, so that `Plan.resolved` does not list defaults of collectives that they lack.
    collectives: Collectives | None = Field(
        default_factory=lambda given: None if given.get("training") is None else Collectives()
    )
    """How a job with `training` carries out its collectives."""
    stragglers: Annotated[tuple[Straggler, ...], Field(max_length=MAX_PLACES)] = ()
    """Ranks of a `training` job that compute more slowly."""
    period_ps: PositiveDurationPs | None = Field(default=None, alias="period")
    """Duration of an iteration on an idle network. Needs `up`."""
    up: Annotated[tuple[Up, ...], Field(max_length=MAX_PHASES)] | None = None
    """Up phases, inside the period and apart, in any order; an empty list for a job that sends nothing.
    Needs `period`."""
    first: First | None = None
    """What is left of an iteration that is under way when the job arrives: it counts as the first, and no
    `time_shift` delays it. `hocket compat` ignores it."""
    workload: StrictStr | None = None
    """A model of the catalogue, in any case, with or without hyphens. Needs `batch_size`, and `workers` or
    a placement."""
    batch_size: BatchSizes | None = None
    """Batch size per GPU of a `workload`; from a list, `hocket compat` chooses."""
    workers: Count | None = None
    """Number of workers, each a server of one GPU; with a placement, the number of its hosts."""
    strategy: StrictStr | None = None
    """Parallelisation strategy of a `workload`; by default the first that runs on this number of workers."""
    nic_bps: PositiveRateBps | None = Field(default=None, alias="nic")
    """Rate of the NIC of each worker of a `workload`; by default the capacity of the `[link]`, or the
    slowest NIC of the job's hosts."""
    placement: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_PLACES)] | None = None
    """Hosts in the order of the ring, on a `[fabric]`. With `training`, GPUs in the order of ranks, or
    servers, which stand for their GPUs; by default all."""
    gpus: Annotated[tuple[StrictStr, ...], Field(max_length=1_024)] = ()
    """GPUs as "host:number". Jobs that name the same one may not compute at the same time; the flow engine
    ignores it."""
    arrival_ps: DurationPs = default(
        0, "Hocket: all jobs present at the start (NSDI'24 snapshots)", "arrival"
    )
    """Time from the start of the run. `hocket compat` predicts with 0."""
    iterations: Count | None = None
    """Iterations of this job; by default the run's."""
    share: ShareField = default(Share(), "HotNets'22 §2: default DCQCN shares fairly")
    """Flow engine: share of a link, `"fair"`, `{ weighted = w }` or `{ adaptive = w }`."""
    congestion: Congestion | None = None
    """Packet engine: congestion control, by name such as `"dcqcn"` or as `{ name = { parameters } }`; by
    default `"dcqcn"`."""
    window: WindowField | None = None
    """Packet engine: how much of a flow may be in flight: `"unlimited"`, `"path"` (what fills the path),
    `"path-scaled"` (the same × rate ÷ line rate) or bytes. By default `"path-scaled"` for HPCC, else
    `"unlimited"`."""
    path: PathField = default("ecmp", "Hocket: what switches do")
    """Path on a `[fabric]`: `"ecmp"`, `"spray"` (all shortest paths in turn; not on the flow engine without
    `training`), or a list of links, over which each flow takes the shortest path (not with `training`)."""
    label: Annotated[StrictInt, Field(ge=0, le=LARGEST)] | None = None
    """What ECMP hashes besides source and destination, for the first flow of the ring; further flows count
    up from it. By default the job's place in the plan × 10,000. Not with `training`."""
    priority: Annotated[StrictInt, Field(ge=0, le=255)] = default(0, "Hocket: one class, served first")
    """Priority on links: 0 goes first. On a fabric, the job that no time-shift delays is one of the highest
    priority."""
    time_shift_ps: DurationPs | None = Field(default=None, alias="time_shift")
    """Delay of the first iteration; also `time_shift_s`, a number of seconds."""
    clock_error_ps: DurationPs = default(0, "Hocket: perfect clocks", "clock_error")
    """Standard deviation of the error of each delay."""
    readjust: StrictBool = default(False, "Hocket: the agent of NSDI'24 §4.2 runs on request")
    """Return to the slot after drifting by 5%. Needs a `time_shift`."""
    jitter: Annotated[Number, Field(ge=0, le=1)] = default(0.0, "Hocket: compute times do not vary")
    """Standard deviation of each Down duration, or of each compute operation, relative to it."""
    pad_to_ps: PositiveDurationPs | None = Field(default=None, alias="pad_to")
    """Shortest time between the starts of two iterations, not below the period; also `pad_to_s`, a number
    of seconds."""

    @constructor
    def __init__(self, name: str, **keys: Unpack[JobKeys]) -> None: ...

    def replace(self, *, name: str | None = None, **changes: Unpack[JobKeys]) -> "Job":
        """A new job with `changes`; a value of `None` leaves a key out.

        Raises `InputError` for an invalid value, as the constructor does.

        >>> from hocket.units import gbps, ms
        >>> job = Job("a", period="180 ms", up=[Up("0 ms", ms(90), gbps(40))])
        >>> job.replace(name="b", time_shift=ms(180) / 2)
        Job('b', period='180 ms', 1 Up phase, time_shift='90 ms')
        >>> job.replace(period="180", jitter=2)
        Traceback (most recent call last):
        hocket_agent.errors.InputError: period: a duration needs a unit such as ms: got '180'
        jitter: must be at most 1: got 2
        """
        changed = {"name": name or self.name, **changes}
        # The given keys have the spelling with units: a change in seconds would give the same key twice.
        for key, spelling in IN_SECONDS.items():
            if key in changed:
                changed[spelling.key] = _read_seconds(key, changed.pop(key))
        return self._replaced(changed)

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        for key, value in super().__repr_args__():
            yield (None, Unquoted(counted(len(self.up or ()), "Up phase"))) if key == "up" else (key, value)

    def profiles(
        self, workers: int | None = None, nic_bps: int = LINE_RATE_BPS.value
    ) -> tuple[WorkloadProfile, ...]:
        """The profiles of an iteration on an idle network, one for each batch size to choose from.

        A job with Up phases has one profile. For a workload of the catalogue, `workers` and `nic_bps` apply
        where the job itself gives no number of workers and no NIC. Phases are in order of start.

        Raises `InputError` for a job given by `training`, whose phases only a simulation shows.
        """
        if self.training is not None:
            raise InputError(
                f"job {self.name!r}: [jobs.training] describes what its GPUs do, not when it sends; "
                "`hocket compat` measures that"
            )
        if self.workload is None:
            return (self._explicit(),)
        workers = self.worker_count() or workers
        assert self.batch_size is not None, "a checked plan gives a batch size with each workload"
        assert workers is not None, "a checked plan gives a number of workers with each workload"
        return tuple(
            profile(self.workload, batch_size, workers, self.strategy, self.nic_bps or nic_bps)
            for batch_size in self.batch_size
        )

    def worker_count(self) -> int | None:
        """`workers`, or else the number of hosts in `placement`, or `None` if neither is given."""
        return self.workers or (len(self.placement) if self.placement else None)

    def _explicit(self) -> WorkloadProfile:
        assert self.period_ps is not None, "a checked plan gives a period without a workload"
        assert self.up is not None, "a checked plan gives Up phases without a workload"
        return _profile_of(self.period_ps, self.up)


def _profile_of(period_ps: int, up: Sequence[Up]) -> WorkloadProfile:
    phases = sorted(up, key=lambda phase: phase.start_ps)
    return WorkloadProfile(
        period_ps=period_ps,
        phases=tuple(PhaseSpec(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in phases),
        sources=("plan",),
        notes="given in the plan",
    )
