"""The plan: one file that says which jobs share which network, read and checked once.

`hocket compat` and `hocket run` read the same schema, from TOML or JSON. What comes out is valid: no later
stage checks it again. Times are held in picoseconds, rates in bits per second.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from hocket.congestion import Congestion
from hocket.errors import InputError
from hocket.hardware import Host, Switch
from hocket.schema import (
    Count,
    KeyPath,
    Mistake,
    Name,
    Number,
    Table,
    TableError,
    default,
    number,
    tables_in,
)
from hocket.units import (
    LARGEST,
    DurationPs,
    PositiveDurationPs,
    PositiveRateBps,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration,
    shown,
)
from hocket.workloads import PhaseSpec, WorkloadProfile, find_model, profile

MAX_PHASES = 1_000
"""The most Up phases of a period; `hocket_scenario::workload::MAX_PHASES` is the same limit."""

MAX_FILE_BYTES = 16_000_000
"""The largest plan that is read: a hundred times what a plan of a thousand jobs needs."""

MAX_JOBS = 10_000
"""The most jobs of a plan: ten times the largest cluster that the solver is measured on."""

DEFAULT_PRECISION_DEG = 5.0
"""Sectors of this many degrees unless the plan says otherwise: NSDI'24 §5.1."""

DEFAULT_ITERATIONS = 1_000
"""Iterations of a run that says neither how many nor until when: HotNets'22 §2 and NSDI'24 §2.2 run 1,000."""

_MOST_MISTAKES_SHOWN = 20
_MOST_CANDIDATES = 1_000
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_GPU = re.compile(r"(?P<host>[^:]+):[0-9]{1,4}")


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


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


PrecisionDeg = Annotated[Number, Field(ge=0.1, le=90)]
BatchSizes = Annotated[
    tuple[Annotated[StrictInt, Field(ge=1, le=LARGEST)], ...],
    BeforeValidator(_as_list),
    Field(min_length=1, max_length=32),
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


Engine = Literal["flow", "packet"]
WINDOWS = ("unlimited", "path", "path-scaled")
"""Names of windows; others are numbers of bytes."""


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


class Link(Table):
    """One link that all jobs share."""

    capacity_bps: PositiveRateBps = Field(alias="capacity")
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    precision_deg: PrecisionDeg = default(DEFAULT_PRECISION_DEG, "NSDI'24 §5.1: unless otherwise stated, 5°")
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )


class FabricLink(Table):
    """A bidirectional link between two nodes of the fabric."""

    ends: Annotated[tuple[Name, ...], Field(min_length=2, max_length=2)]
    rate_bps: PositiveRateBps = Field(alias="rate")
    delay_ps: DurationPs = default(parse_duration("500 ns"), "HOTI'22 Table I: 500 ns per link", "delay")
    name: Name | None = None

    @property
    def label(self) -> str:
        """Its name, or its ends joined by a hyphen."""
        return self.name or "-".join(self.ends)


class Fabric(Table):
    """The network as links; a node with one link is a host, a node with several a switch unless it is one of
    `hosts`.
    """

    links: Annotated[tuple[FabricLink, ...], Field(min_length=1, max_length=1_000_000)]
    hosts: Annotated[tuple[Name, ...], Field(max_length=1_000_000)] = ()
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )

    def degrees(self) -> Counter[str]:
        """The number of links at each node."""
        return Counter(end for link in self.links for end in link.ends)

    def nic_rates_bps(self) -> dict[str, int]:
        """The rate of each host's slowest link, in bits per second, in the order of the links."""
        degrees, named = self.degrees(), set(self.hosts)
        rates: dict[str, int] = {}
        for link in self.links:
            for end in link.ends:
                if degrees[end] == 1 or end in named:
                    rates[end] = min(link.rate_bps, rates.get(end, link.rate_bps))
        return rates

    def islands(self) -> dict[str, int]:
        """For each node the number of the island it is on: nodes with a path between them share one."""
        neighbours: dict[str, list[str]] = {}
        for link in self.links:
            for end, other in (link.ends, link.ends[::-1]):
                neighbours.setdefault(end, []).append(other)
        island: dict[str, int] = {}
        for start in neighbours:
            reached = [start] if start not in island else []
            while reached:
                node = reached.pop()
                if node not in island:
                    island[node] = len(island) if node == start else island[start]
                    reached.extend(neighbours[node])
        return island


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


def _parse_skip_ahead(value: object) -> object:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, Mapping | SkipAhead):
        raise InputError(f"must be true, false or a table of tolerance and cycles: got {shown(value)}")
    return value


class Run(Table):
    """How `hocket run` simulates, for how long, and what it records."""

    engine: Engine = default("flow", "Hocket: a second instead of minutes; packets on request")
    iterations: Count | None = None
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    record_rates_until_ps: DurationPs = default(0, "Hocket: rates are many rows", "record_rates_until")
    sample_every_ps: PositiveDurationPs | None = Field(default=None, alias="sample_every")
    trace: StrictBool = default(False, "Hocket: a trace is large")
    skip_ahead: Annotated[SkipAhead | None, BeforeValidator(_parse_skip_ahead)] = None


class Phase(Table):
    """An Up phase of a job: from `start_ps` within the period, `rate_bps` for `duration_ps`."""

    start_ps: DurationPs = Field(alias="start")
    duration_ps: PositiveDurationPs = Field(alias="duration")
    rate_bps: PositiveRateBps = Field(alias="rate")


class Job(Table):
    """A training job: a period with Up phases, or a workload of the catalogue, and its own policy."""

    name: Name
    period_ps: PositiveDurationPs | None = Field(default=None, alias="period")
    up: Annotated[tuple[Phase, ...], Field(max_length=MAX_PHASES)] | None = None
    workload: StrictStr | None = None
    batch_size: BatchSizes | None = None
    workers: Count | None = None
    strategy: StrictStr | None = None
    placement: Annotated[tuple[Name, ...], Field(min_length=1, max_length=10_000)] | None = None
    gpus: Annotated[tuple[StrictStr, ...], Field(max_length=1_024)] = ()
    arrival_ps: DurationPs = default(
        0, "Hocket: all jobs present at the start (NSDI'24 snapshots)", "arrival"
    )
    iterations: Count | None = None
    share: ShareField = default(Share(), "HotNets'22 §2: default DCQCN shares fairly")
    congestion: Congestion | None = None
    window: WindowField | None = None
    path: PathField = default("ecmp", "Hocket: what switches do")
    priority: Annotated[StrictInt, Field(ge=0, le=255)] = default(0, "Hocket: one class, served first")
    time_shift_ps: DurationPs | None = Field(default=None, alias="time_shift")
    clock_error_ps: DurationPs = default(0, "Hocket: perfect clocks", "clock_error")
    readjust: StrictBool = default(False, "Hocket: the agent of NSDI'24 §4.2 is asked for")
    jitter: Annotated[Number, Field(ge=0, le=1)] = default(0.0, "Hocket: compute times do not vary")
    pad_to_ps: PositiveDurationPs | None = Field(default=None, alias="pad_to")

    def profiles(self) -> tuple[WorkloadProfile, ...]:
        """What one iteration may be on an idle network: one profile for each batch size that may be chosen.

        An explicit job has one. Phases come in order of start.
        """
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
        phases = sorted(self.up, key=lambda phase: phase.start_ps)
        return WorkloadProfile(
            period_ps=self.period_ps,
            phases=tuple(PhaseSpec(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in phases),
            sources=("plan",),
            notes="given in the plan",
        )


class Change(Table):
    """A link that fails, comes back, or carries less from a time on, in both directions."""

    at_ps: DurationPs = Field(alias="at")
    link: Name
    down: StrictBool | None = None
    rate_bps: PositiveRateBps | None = Field(default=None, alias="rate")


class Candidate(Table):
    """One placement of the jobs that a scheduler holds equally good as the others."""

    name: Name
    placement: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1, max_length=10_000)]]


class Plan(Table):
    """Jobs on a shared link or on a fabric, and what to do with them; valid by construction."""

    name: Name | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(1, "Hocket: any fixed seed")
    link: Link | None = None
    fabric: Fabric | None = None
    switch: Switch = Switch()
    host: Host = Host()
    compat: Compat = Compat()
    run: Run = Run()
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=MAX_JOBS)]
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=_MOST_CANDIDATES)] = ()
    changes: Annotated[tuple[Change, ...], Field(max_length=10_000)] = ()

    @property
    def precision_deg(self) -> float:
        """The sectors' width on the unified circle: of `[compat]`, else of `[link]`, else 5°."""
        if self.compat.precision_deg is not None:
            return self.compat.precision_deg
        return self.link.precision_deg if self.link else DEFAULT_PRECISION_DEG

    def rates_bps(self) -> dict[str, int]:
        """The rate of each link by its name; the one link that all share is called `link`."""
        if self.fabric is None:
            return {"link": self.link.capacity_bps} if self.link else {}
        return {link.label: link.rate_bps for link in self.fabric.links}

    @property
    def priority_queues(self) -> int:
        """The number of queues per link that priorities map to."""
        shared = self.link or self.fabric
        assert shared is not None, "a checked plan has a link or a fabric"
        return shared.priority_queues

    @property
    def iterations(self) -> int | None:
        """Where a run stops by iterations: as given, 1,000 if neither they nor a time are, else `None`."""
        if self.run.iterations is None and self.run.until_ps is None:
            return DEFAULT_ITERATIONS
        return self.run.iterations

    def resolved(self) -> dict[str, Any]:
        """Everything explicit, ready for JSON: all defaults, and each job's profiles with their sources.

        Quantities are text with units. `defaults` lists every key that was not given, its value and its
        source.
        """
        written: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        written["compat"]["precision_deg"] = self.precision_deg
        for job, table in zip(self.jobs, written["jobs"], strict=True):
            table["profiles"] = [_written_profile(each) for each in job.profiles()]
        written["defaults"] = list(_defaults((), self))
        if self.run.iterations is None and self.iterations is not None:
            written["run"]["iterations"] = self.iterations
            source = "HotNets'22 §2 and NSDI'24 §2.2 run each job for 1,000 iterations"
            written["defaults"].append({"key": "run.iterations", "value": self.iterations, "source": source})
        return written

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        mistakes = list(_mistakes(self))
        if mistakes:
            raise TableError(mistakes)
        return self


def load_plan(path: str | Path) -> Plan:
    """The plan in the file at `path`: JSON if its name ends in `.json`, TOML otherwise.

    Raises `InputError`, one line per mistake, each naming file, key, value and limit.
    """
    path = Path(path)
    text = _read(path)
    reader = _read_json if path.suffix.lower() == ".json" else _read_toml
    try:
        tables = reader(text)
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be a plan") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return parse_plan(tables, source=str(path))


def parse_plan(tables: object, source: str = "plan") -> Plan:
    """The plan in `tables`, as TOML or JSON readers return them; `source` names it in errors.

    Raises `InputError`, one line per mistake.

    >>> plan = parse_plan({
    ...     "link": {"capacity": "50 Gbps"},
    ...     "jobs": [{"name": "a", "period": "180 ms",
    ...               "up": [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]}],
    ... })
    >>> plan.jobs[0].profiles()[0].period_ps
    180000000000
    """
    if not isinstance(tables, Mapping):
        raise InputError(f"{source}: must be a table of keys: got {shown(tables)}")
    try:
        return Plan.model_validate(dict(tables))
    except ValidationError as error:
        mistakes = [mistake for each in error.errors(include_url=False) for mistake in _explained(each)]
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can spell and no text can hold.
        raise InputError(f"{source}: has a key that is not valid text") from None
    lines = [f"{source}: {_spelt(path)}{': ' if path else ''}{text}" for path, text in mistakes]
    if len(lines) > _MOST_MISTAKES_SHOWN:
        more = len(lines) - _MOST_MISTAKES_SHOWN
        lines = [*lines[:_MOST_MISTAKES_SHOWN], f"{source}: and {more} more mistakes"]
    raise InputError("\n".join(lines))


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan, for editors.

    >>> sorted(plan_schema()["required"])
    ['jobs']
    """
    schema = Plan.model_json_schema(by_alias=True, mode="validation")
    for table in (schema, *schema["$defs"].values()):
        for key in table.get("properties", {}).values():
            # Inside, quantities are whole numbers; what a plan spells is text.
            if key.get("type") == "string" and not isinstance(key.get("default", ""), str):
                del key["default"]
            if isinstance(key.get("default"), dict):
                del key["default"]
    return schema


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text: byte {error.start} is {content[error.start]:#04x}"
        ) from None
    if not text.strip():
        raise InputError(f"{path}: is empty; a plan has at least a [link] or [fabric] and one of [[jobs]]")
    return text


def _read_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}") from None


def _read_json(text: str) -> object:
    def constant(name: str) -> float:
        raise InputError(f"has the number {name}; only finite numbers are allowed")

    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if repeated:
            raise InputError(f"has the key {shown(repeated[0])} twice in one table")
        return dict(pairs)

    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno})"
        ) from None


def _mistakes(plan: Plan) -> Iterator[Mistake]:
    if (plan.link is None) == (plan.fabric is None):
        found = "both" if plan.link else "neither"
        yield (), f"a plan has either a [link] or a [fabric]: got {found}"
        return
    if (
        plan.link
        and plan.compat.precision_deg not in (None, plan.link.precision_deg)
        and ("precision_deg" in plan.link.model_fields_set)
    ):
        yield (
            ("compat", "precision_deg"),
            (
                f"{plan.compat.precision_deg:g} is not {plan.link.precision_deg:g} as in link.precision_deg; "
                "give one of them"
            ),
        )
    if plan.fabric:
        yield from _fabric_mistakes(plan.fabric)
    yield from _repeated("jobs", [job.name for job in plan.jobs])
    for index, job in enumerate(plan.jobs):
        yield from _job_mistakes(plan, job, ("jobs", index))
    yield from _placement_mistakes(plan)
    yield from _link_name_mistakes(plan)


def _repeated(table: str, names: list[str]) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield (table, index, "name"), f"{shown(name)} is already the name of {table}[{first[name]}]"
        first.setdefault(name, index)


def _fabric_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    labels: dict[str, int] = {}
    for index, link in enumerate(fabric.links):
        path: KeyPath = ("fabric", "links", index)
        if link.ends[0] == link.ends[1]:
            yield (*path, "ends"), f"{shown(link.ends[0])} is linked to itself"
        if link.label in labels:
            yield (
                path,
                (
                    f"{shown(link.label)} already names fabric.links[{labels[link.label]}]; "
                    "parallel links need a name each"
                ),
            )
        labels.setdefault(link.label, index)
    degrees = fabric.degrees()
    for index, host in enumerate(fabric.hosts):
        if host not in degrees:
            yield (
                ("fabric", "hosts", index),
                f"{shown(host)} is at the end of no link{_closest(host, list(degrees))}",
            )


def _link_name_mistakes(plan: Plan) -> Iterator[Mistake]:
    rates_bps = plan.rates_bps()
    for index, change in enumerate(plan.changes):
        path: KeyPath = ("changes", index)
        if (change.down is None) == (change.rate_bps is None):
            found = "neither" if change.down is None else "both"
            yield path, f"has either down = true or false, or a rate: got {found}"
        if change.link not in rates_bps:
            yield (*path, "link"), _no_link(change.link, list(rates_bps))
        elif change.rate_bps is not None and change.rate_bps > rates_bps[change.link]:
            limit = format_rate(rates_bps[change.link])
            yield (*path, "rate"), f"{format_rate(change.rate_bps)} is above the link's own rate, {limit}"
    for index, job in enumerate(plan.jobs):
        if isinstance(job.path, str):
            continue
        if plan.fabric is None:
            yield ("jobs", index, "path"), "names links of a [fabric]; on one [link] there is one way"
            continue
        for place, name in enumerate(job.path):
            if name not in rates_bps:
                yield ("jobs", index, "path", place), _no_link(name, list(rates_bps))


def _no_link(name: str, known: list[str]) -> str:
    return f"{shown(name)} is not a link{_closest(name, known)}"


def _job_mistakes(plan: Plan, job: Job, path: KeyPath) -> Iterator[Mistake]:
    if job.window is not None and job.congestion and job.congestion.policy == "static-window":
        yield (
            (*path, "window"),
            "static-window has a window of its own: congestion = { static-window = { window = … } }",
        )
    found = list(_explicit_mistakes(job, path) if job.workload is None else _workload_mistakes(job, path))
    yield from found
    yield from _gpu_mistakes(plan, job, path)
    if found:
        return
    for each in job.profiles():
        period = format_duration(each.period_ps)
        if job.pad_to_ps is not None and job.pad_to_ps < each.period_ps:
            yield (
                (*path, "pad_to"),
                f"{format_duration(job.pad_to_ps)} is shorter than the period of {period}",
            )
        if plan.link:
            limit = plan.link.capacity_bps
            yield from _rate_mistakes(job, each, limit, "the link's capacity", path)


def _explicit_mistakes(job: Job, path: KeyPath) -> Iterator[Mistake]:
    for key in ("batch_size", "strategy"):
        if getattr(job, key) is not None:
            yield (*path, key), "belongs to a workload of the catalogue, and this job names none"
    if job.period_ps is None and job.up is None:
        yield path, 'needs either period and up, or a workload such as "VGG16" with its batch_size'
        return
    if job.period_ps is None:
        yield (*path, "period"), "is missing; a job with Up phases needs it"
        return
    if job.up is None:
        yield (*path, "up"), "is missing; a job with a period needs its Up phases"
        return
    yield from _phase_mistakes(job.up, job.period_ps, path)


def _phase_mistakes(up: tuple[Phase, ...], period_ps: int, path: KeyPath) -> Iterator[Mistake]:
    period = format_duration(period_ps)
    end_ps, before = 0, -1
    for index, phase in sorted(enumerate(up), key=lambda item: item[1].start_ps):
        start, duration = format_duration(phase.start_ps), format_duration(phase.duration_ps)
        if phase.start_ps + phase.duration_ps > period_ps:
            yield (*path, "up", index), f"{start} + {duration} does not fit in the period of {period}"
        if phase.start_ps < end_ps:
            yield (
                (*path, "up", index, "start"),
                f"{start} is before up[{before}] ends at {format_duration(end_ps)}",
            )
        if phase.start_ps + phase.duration_ps > end_ps:
            end_ps, before = phase.start_ps + phase.duration_ps, index


def _workload_mistakes(job: Job, path: KeyPath) -> Iterator[Mistake]:
    for key, given in (("period", job.period_ps), ("up", job.up)):
        if given is not None:
            yield (
                (*path, key),
                f"comes from the catalogue for the workload {shown(job.workload)}; give one of them",
            )
    try:
        model = find_model(job.workload or "")
    except InputError as error:
        yield (*path, "workload"), str(error)
        return
    workers = job.worker_count()
    if workers is None:
        yield (*path, "workers"), f"is missing; the workload {model.name} needs it"
    if job.batch_size is None:
        yield (*path, "batch_size"), f"is missing; the workload {model.name} needs it"
    for size in job.batch_size or ():
        yield from _refusal((*path, "batch_size"), partial(model.check_batch_size, size))
    yield from _refusal((*path, "strategy"), partial(model.check_strategy, job.strategy))
    if workers is not None and (job.strategy is None or job.strategy in model.strategies):
        key = "workers" if job.workers else "placement"
        yield from _refusal((*path, key), partial(model.check_workers, workers, job.strategy))


def _refusal(path: KeyPath, check: Callable[[], None]) -> Iterator[Mistake]:
    try:
        check()
    except InputError as error:
        yield path, str(error)


def _rate_mistakes(
    job: Job, each: WorkloadProfile, limit_bps: int, limit_name: str, path: KeyPath
) -> Iterator[Mistake]:
    above = [phase for phase in each.phases if phase.rate_bps > limit_bps]
    limit = f"is above {limit_name} of {format_rate(limit_bps)}"
    if job.workload is not None and above:
        rate = format_rate(max(phase.rate_bps for phase in above))
        yield (*path, "workload"), f"the demand of {shown(job.workload)}, {rate}, {limit}"
        return
    for index, phase in enumerate(job.up or ()):
        if phase.rate_bps > limit_bps:
            yield (*path, "up", index, "rate"), f"{format_rate(phase.rate_bps)} {limit}"


def _gpu_mistakes(plan: Plan, job: Job, path: KeyPath) -> Iterator[Mistake]:
    hosts = plan.fabric.nic_rates_bps() if plan.fabric and job.gpus else {}
    for index, gpu in enumerate(job.gpus):
        match = _GPU.fullmatch(gpu)
        if match is None or not gpu.isprintable():
            yield (*path, "gpus", index), f'must be a host and a number such as "s1:0": got {shown(gpu)}'
        elif job.placement and match["host"] not in job.placement:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not in the job's placement"
        elif plan.fabric and match["host"] not in hosts:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not a host of the fabric"
        if gpu in job.gpus[:index]:
            yield (*path, "gpus", index), f"{shown(gpu)} is named twice"


def _placement_mistakes(plan: Plan) -> Iterator[Mistake]:
    yield from _repeated("candidates", [candidate.name for candidate in plan.candidates])
    if plan.fabric is None:
        for index, job in enumerate(plan.jobs):
            if job.placement is not None:
                yield ("jobs", index, "placement"), "needs a [fabric]; on one shared [link] nothing is placed"
        if plan.candidates:
            yield ("candidates",), "need a [fabric]; on one shared [link] nothing is placed"
        return
    ground = _Ground(plan.fabric)
    jobs = {job.name: job for job in plan.jobs}
    for index, job in enumerate(plan.jobs):
        path: KeyPath = ("jobs", index, "placement")
        if job.placement is not None:
            yield from ground.mistakes(job, job.placement, path)
        elif not plan.candidates or any(job.name not in each.placement for each in plan.candidates):
            yield path, "is missing; on a [fabric] each job needs the hosts of its workers"
    for index, candidate in enumerate(plan.candidates):
        for name, hosts in candidate.placement.items():
            path = ("candidates", index, "placement", name)
            if name not in jobs:
                yield path, f"{shown(name)} is not a job{_closest(name, list(jobs))}"
            else:
                yield from ground.mistakes(jobs[name], hosts, path)


class _Ground:
    """What placements are checked against: the fabric's hosts, and which of them can reach each other."""

    def __init__(self, fabric: Fabric) -> None:
        self.degrees = fabric.degrees()
        self.nic_rates_bps = fabric.nic_rates_bps()
        self.islands = fabric.islands()

    def mistakes(self, job: Job, hosts: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
        if job.worker_count() not in (None, len(hosts)):
            yield path, f"places {len(hosts)} workers, and the job has {job.worker_count()}"
        unknown = [(index, host) for index, host in enumerate(hosts) if host not in self.nic_rates_bps]
        for index, host in unknown:
            if host in self.degrees:
                yield (
                    (*path, index),
                    (
                        f"{shown(host)} is a switch: it has {self.degrees[host]} links, a host has 1 "
                        "or is named in fabric.hosts"
                    ),
                )
            else:
                closest = _closest(host, list(self.nic_rates_bps))
                yield (*path, index), f"{shown(host)} is not a host of the fabric{closest}"
        if unknown:
            return
        for index, host in enumerate(hosts):
            if self.islands[host] != self.islands[hosts[0]]:
                yield (*path, index), f"{shown(host)} has no path to {shown(hosts[0])}"
        slowest = min(hosts, key=lambda host: self.nic_rates_bps[host])
        limit_bps, demand_bps = self.nic_rates_bps[slowest], _highest_rate_bps(job)
        if demand_bps > limit_bps:
            yield (
                path,
                (
                    f"the job's demand of {format_rate(demand_bps)} is above the link's capacity "
                    f"of {format_rate(limit_bps)} at {shown(slowest)}"
                ),
            )


def _highest_rate_bps(job: Job) -> int:
    try:
        return max((phase.rate_bps for each in job.profiles() for phase in each.phases), default=0)
    except InputError:
        # The job's own keys are wrong, and said to be.
        return 0


def _explained(error: ErrorDetails) -> list[Mistake]:
    """Pydantic's `error` in this project's words: path and sentence."""
    path: KeyPath = error["loc"]
    if path[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        # Pydantic's way to say that the key itself is wrong, not its value.
        path = path[:-1]
    context = error.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, TableError):
        return [((*path, *rest), text) for rest, text in cause.mistakes]
    if error["type"] == "too_short" and _entries(error) >= context["min_length"]:
        # Pydantic counts valid entries only; the invalid ones have their own mistakes.
        return []
    if error["type"] == "extra_forbidden":
        return [(path, _unknown_key(path))]
    return [(path, str(cause) if isinstance(cause, InputError) else _sentence(error, context))]


def _sentence(error: ErrorDetails, context: Mapping[str, Any]) -> str:
    found = shown(error["input"])
    match error["type"]:
        case "missing":
            return "is missing"
        case "greater_than":
            return f"must be above {context['gt']}: got {found}"
        case "greater_than_equal":
            return f"{found} is below the smallest, {context['ge']}"
        case "less_than":
            return f"must be below {context['lt']}: got {found}"
        case "less_than_equal":
            return f"{found} is above the largest, {context['le']}"
        case "too_long":
            return f"has more than {context['max_length']} entries: got {_entries(error)}"
        case "too_short":
            return f"has too few entries: got {_entries(error)}, at least {context['min_length']} needed"
        case "string_too_long":
            return f"is longer than {context['max_length']} characters: got {found}"
        case "literal_error":
            return f"must be {context['expected']}: got {found}"
        case "int_type" | "int_parsing_size":
            return f"must be a whole number: got {found}"
        case "string_type" | "string_unicode":
            return f"must be text: got {found}"
        case "bool_type":
            return f"must be true or false: got {found}"
        case "tuple_type":
            return f"must be a list: got {found}"
        case "model_type" | "dict_type":
            return f"must be a table: got {found}"
        case _:
            return f"{error['msg'][:1].lower()}{error['msg'][1:]}: got {found}"


def _entries(error: ErrorDetails) -> int:
    found = error["input"]
    return len(found) if isinstance(found, Sized) else int(error.get("ctx", {}).get("actual_length", 0))


def _unknown_key(path: KeyPath) -> str:
    known = [field.alias or name for name, field in _table_at(path[:-1]).model_fields.items()]
    closest = _closest(str(path[-1]), known)
    return f"is not a known key{closest or '; known are ' + ', '.join(known)}"


def _closest(name: str, known: list[str]) -> str:
    matches = get_close_matches(name, known, n=1)
    return f"; did you mean {shown(matches[0])}?" if matches else ""


def _table_at(path: KeyPath) -> type[Table]:
    table: type[Table] = Plan
    for part in path:
        for name, field in table.model_fields.items():
            if part == (field.alias or name):
                table = next(tables_in(field.annotation), table)
    return table


def _spelt(path: KeyPath) -> str:
    """`path` as it is read in a plan: `jobs[1].up[0].rate`."""
    spelt = ""
    for part in path:
        if isinstance(part, int):
            spelt += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else shown(part)
            spelt += f".{key}" if spelt else key
    return spelt


def _defaults(path: KeyPath, table: Table) -> Iterator[dict[str, Any]]:
    written = table.model_dump(mode="json", by_alias=True)
    for name, field in type(table).model_fields.items():
        key, value = field.alias or name, getattr(table, name)
        here = (*path, key)
        if isinstance(value, Table):
            yield from _defaults(here, value)
        elif isinstance(value, tuple):
            for index, each in enumerate(value):
                if isinstance(each, Table):
                    yield from _defaults((*here, index), each)
        extra = field.json_schema_extra
        if name not in table.model_fields_set and isinstance(extra, dict) and not isinstance(value, Table):
            yield {"key": _spelt(here), "value": written[key], "source": extra["source"]}


def _written_profile(each: WorkloadProfile) -> dict[str, Any]:
    return {
        "period": format_duration(each.period_ps),
        "up": [
            {
                "start": format_duration(phase.start_ps),
                "duration": format_duration(phase.duration_ps),
                "rate": format_rate(phase.rate_bps),
            }
            for phase in each.phases
        ],
        "sources": list(each.sources),
        "notes": each.notes,
    }
