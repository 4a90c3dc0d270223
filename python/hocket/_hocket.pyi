# What `crates/hocket-py` exports. Quantities are integers in the unit that their name says.
from collections.abc import Callable, Sequence
from typing import Any, NotRequired, TypedDict, final

__all__ = [
    "ClusterRun",
    "Fabric",
    "PolluxSearch",
    "SelfCheckError",
    "commensurate",
    "congestion_preset",
    "rank",
    "rocev2_frames",
    "score",
    "simulate",
    "simulate_jobs",
    "simulate_packets",
    "solve_cluster",
    "solve_link",
    "stretched",
]

# A period in ps, and Up phases as (start_ps, duration_ps, rate_bps).
_Profile = tuple[int, Sequence[tuple[int, int, int]]]
# (link, flows)
_Crossings = Sequence[tuple[int, int]]

class _Search(TypedDict):
    precision_deg: float | None
    strict: bool
    time_limit_s: float
    step_limit: NotRequired[int]

class _Solved(TypedDict):
    score: float
    bound: float
    proven_optimal: bool
    perimeter_ps: int
    time_shifts_ps: list[int]
    rotations_deg: list[float]
    precision_deg: float
    nodes: int
    interrupted: bool

class _Clustered(TypedDict):
    profiles: list[int]
    score: float
    bound: float
    proven_optimal: bool
    time_shifts_ps: list[int]
    interrupted: bool

class _Fitted(TypedDict):
    perimeter_ps: int
    rounds: list[int]
    periods_ps: list[int]
    error: float
    holds_for_ps: int | None
    padded_periods_ps: list[int]

class _RankOptions(TypedDict):
    aggregate: str
    solve_loops: bool
    seed: int
    tolerance: float

class _LinkRow(TypedDict):
    link: int
    jobs: list[int]
    score: float
    proven_optimal: bool
    own_shifts_ps: list[int]

class _ComponentRow(TypedDict):
    reference: int
    jobs: list[int]
    links: list[int]
    score: float
    shifts_advised: bool
    origin: str
    proven_optimal: bool

class _PlacementRow(TypedDict):
    candidate: int
    score: float
    links: list[_LinkRow]
    components: list[_ComponentRow]
    time_shifts_ps: list[int | None]
    groups: list[tuple[list[int], _Fitted]]

class _Ranked(TypedDict):
    placements: list[_PlacementRow]
    discarded: list[tuple[int, str]]
    interrupted: bool

# Name, kind, after, duration in ps, bytes, communicator, peer, tag.
_Operation = tuple[str, str, list[int], int, int, int, int, int]

class _TrainingSpec(TypedDict):
    programs: list[list[_Operation]]
    groups: list[list[int]]
    # Program and groups.
    ranks: list[tuple[int, list[int]]]
    hosts: list[int]
    localities: list[list[int]]
    algorithms: list[tuple[str, list[str]]]
    chunks: int
    in_flight: int
    endpoint_delay_ps: int
    reduction_bps: int | None
    stragglers: list[tuple[int, float]]
    path: str
    # Payload, header, acknowledgement, packets for each.
    framing: tuple[int, int, int, int]
    scale_up_framing: tuple[int, int, int, int]

class _JobSpec(TypedDict):
    name: str
    profile: _Profile | None
    first: _Profile | None
    crossings: _Crossings
    training: _TrainingSpec | None
    arrival_ps: int
    iterations: int | None
    share: tuple[str, float]
    priority: int
    time_shift_ps: int | None
    clock_error_ps: int
    readjust: bool
    jitter: float
    pad_to_ps: int | None

class _TransportSpec(TypedDict):
    # (from, to, label, way)
    flows: Sequence[tuple[int, int, int, str | list[int]]]
    policy: dict[str, Any]
    window: tuple[str, int]

class _RunSpec(TypedDict):
    priority_queues: int
    seed: int
    iterations: int | None
    until_ps: int | None
    record_rates_until_ps: int
    record_operations: int
    sample_every_ps: int | None
    record_flows: bool

# A NumPy type and a buffer; for text the codes and their dictionary.
_Column = tuple[str, bytes] | tuple[str, bytes, list[str]]

class _Ran(TypedDict):
    tables: dict[str, dict[str, _Column]]
    counters: dict[str, int]
    jobs_per_queue: list[int]
    interrupted: bool
    ended_ps: int

# Columns of 64 bits per row, little-endian.
class _FlowColumns(TypedDict):
    from_node: bytes
    to_node: bytes
    label_forth: bytes
    label_back: bytes
    priority: bytes
    policy: bytes
    window: bytes

class _MessageColumns(TypedDict):
    flow: bytes
    bytes: bytes
    start_ps: bytes

class _PacketOptions(TypedDict):
    seed: int
    until_ps: int | None
    sample_every_ps: int | None
    hash: str
    longest_rtt_for_all: bool
    record_rates: bool
    record_utilisation: bool

class _PacketCounters(TypedDict):
    packet_hops: int
    events: int
    messages: int
    pauses: int
    marks: int
    cnps: int
    retransmissions: int
    losses: int
    lost_to_failures: int
    rate_cuts: list[int]

class _Skipping(TypedDict):
    packet_hops: int
    obstacle: str | None

class _PacketsRan(TypedDict):
    counters: _PacketCounters
    status: str
    ended_ps: int
    run_s: float
    skipping: _Skipping | None

class SelfCheckError(RuntimeError): ...

@final
class Fabric:
    def __new__(
        cls, nodes: Sequence[tuple[str, str]], cables: Sequence[tuple[int, int, int, int]]
    ) -> Fabric: ...
    @staticmethod
    def one_link(rate_bps: int) -> Fabric: ...
    def links(self) -> list[tuple[str, int]]: ...
    def ring(self, workers: Sequence[int], first_label: int) -> list[tuple[int, int]]: ...
    def route(self, from_node: int, to_node: int, label: int) -> list[int]: ...
    def routes(self, flows: Sequence[tuple[int, int, int]]) -> list[list[int]]: ...
    @staticmethod
    def ring_flows(workers: Sequence[int], first_label: int) -> list[tuple[int, int, int]]: ...

class _Marks(TypedDict):
    per_second: Sequence[float]
    per_join: Sequence[float]
    settling_ps: int
    recovery_ps: int

class _ClusterOptions(TypedDict):
    seed: int
    priority_queues: int
    merge: float
    marks: _Marks | None

class _StartSpec(TypedDict):
    profile: _Profile
    crossings: _Crossings
    # (link, link before it)
    inputs: Sequence[tuple[int, int]]
    at_ps: int
    iterations: int
    share: tuple[str, float]
    priority: int
    jitter: float

class _Rest(TypedDict):
    job: int
    # Of its iteration or, if it waits, of the wait; nothing if an iteration begins now.
    rest: _Profile | None
    # Left, the one under way included.
    iterations: int
    waits: bool
    # Origin, period, whether it readjusts.
    slots: tuple[int, int, bool] | None

@final
class ClusterRun:
    def __new__(cls, fabric: Fabric, options: _ClusterOptions) -> ClusterRun: ...
    @property
    def now_ps(self) -> int: ...
    def add(self, name: str) -> int: ...
    def start(self, job: int, spec: _StartSpec) -> None: ...
    def align(self, job: int, origin_ps: int, period_ps: int, keep: bool) -> None: ...
    def release(self, job: int) -> None: ...
    def stop(self, job: int) -> bool: ...
    def iteration_start_ps(self, job: int) -> int | None: ...
    def iterations_done(self, job: int) -> int: ...
    def advance(self, until_ps: int) -> list[tuple[int, str]]: ...
    def take_tables(self) -> dict[str, dict[str, _Column]]: ...
    def links(self) -> dict[str, _Column]: ...
    def take_delays(self) -> dict[str, _Column]: ...
    def rests(self) -> list[_Rest]: ...

def solve_link(
    capacity_bps: int, jobs: Sequence[_Profile], gpu_groups: Sequence[Sequence[int]], search: _Search
) -> _Solved: ...
def solve_cluster(
    links: Sequence[tuple[int, _Crossings]],
    jobs: Sequence[Sequence[_Profile]],
    gpu_groups: Sequence[Sequence[int]],
    tolerance: float,
    search: _Search,
) -> _Clustered: ...
def score(capacity_bps: int, jobs: Sequence[_Profile], time_shifts_ps: Sequence[int]) -> float: ...
def commensurate(periods_ps: Sequence[int], tolerance: float) -> _Fitted: ...
def stretched(job: _Profile, period_ps: int) -> tuple[int, list[tuple[int, int, int]]]: ...
def rank(
    fabric: Fabric,
    jobs: Sequence[tuple[str, _Profile, int]],
    candidates: Sequence[tuple[str, Sequence[_Crossings], int]],
    search: _Search,
    options: _RankOptions,
) -> _Ranked: ...
def simulate(
    fabric: Fabric,
    jobs: Sequence[_JobSpec],
    run: _RunSpec,
    progress: Callable[[int, int, int | None], object],
) -> _Ran: ...
def congestion_preset(
    policy: str, preset: str, line_rate_bps: int, path_bytes: int = 0
) -> dict[str, Any]: ...
def simulate_jobs(
    fabric: Fabric,
    model: dict[str, Any],
    jobs: Sequence[_JobSpec],
    transports: Sequence[_TransportSpec],
    changes: Sequence[tuple[int, int, str, int]],
    run: _RunSpec,
    skip: tuple[float, int] | None,
    sink: Callable[[str, dict[str, _Column]], object],
    progress: Callable[[int, int, int | None], object],
) -> _PacketsRan: ...
def rocev2_frames() -> dict[str, int]: ...
def simulate_packets(
    fabric: Fabric,
    model: dict[str, Any],
    policies: Sequence[dict[str, Any]],
    windows: Sequence[tuple[str, int]],
    flows: _FlowColumns,
    messages: _MessageColumns,
    failures: Sequence[tuple[int, int]],
    options: _PacketOptions,
    sink: Callable[[str, dict[str, _Column]], object],
    progress: Callable[[int, int, int | None], object],
) -> _PacketsRan: ...

class _PolluxJob(TypedDict):
    key: int
    sizes: Sequence[tuple[int, float, float]]
    cells: Sequence[tuple[int, int]]
    restart_factor: float
    pinned: bool

class _PolluxRound(TypedDict):
    rows: list[list[tuple[int, int]]]
    worths: list[float]
    fitness: float
    fitness_before: float
    generations: int

@final
class PolluxSearch:
    def __new__(cls, population: int, generations: int, seed: int) -> PolluxSearch: ...
    def round(
        self, gpus: Sequence[int], jobs: Sequence[_PolluxJob], exponent: float | None
    ) -> _PolluxRound: ...
