# The exports of `crates/hocket-py`, where fields and functions are documented. Quantities are integers in the
# unit that their name states.
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, final

__all__ = [
    "COMMIT",
    "ClusterRun",
    "Fabric",
    "PolluxSearch",
    "PreparedRanking",
    "Regions",
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
    "table_schemas",
]

# The commit from which a distribution was built, if its build named one.
COMMIT: str | None

_Policy = Literal[
    "dcqcn", "dctcp", "timely", "hpcc", "hpcc-pint", "static-window", "receiver-driven", "pfc-only"
]
_Preset = Literal["recommended", "mlx5", "sigcomm15", "hotnets22"]
_Path = Literal["ecmp", "spray"]
# The number of bytes matters only to "bytes".
_Window = tuple[Literal["unlimited", "path-full", "path-full-scaled", "bytes"], int]
# The weight matters to all except "fair"; that of "mltcp" grows over an iteration, by the second number.
_Share = tuple[Literal["fair", "weighted", "adaptive"], float] | tuple[Literal["mltcp"], float, float]
_Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
_Algorithm = Literal["ring", "tree", "halving-doubling", "direct"]

class _Phase(TypedDict):
    start_ps: int
    duration_ps: int
    rate_bps: int

class _Profile(TypedDict):
    period_ps: int
    # The Up phases.
    phases: Sequence[_Phase]

# (link, flows)
_Crossings = Sequence[tuple[int, int]]

class _Search(TypedDict):
    precision_deg: float | None
    strict: bool
    time_limit_s: float
    step_limit: NotRequired[int]

class _LinkResult(TypedDict):
    score: float
    bound: float
    proven_optimal: bool
    perimeter_ps: int
    time_shifts_ps: list[int]
    rotations_deg: list[float]
    precision_deg: float
    nodes: int
    interrupted: bool

class _ClusterResult(TypedDict):
    profiles: list[int]
    score: float
    bound: float
    proven_optimal: bool
    time_shifts_ps: list[int]
    interrupted: bool

class _FitResult(TypedDict):
    perimeter_ps: int
    rounds: list[int]
    periods_ps: list[int]
    error: float
    holds_for_ps: int | None
    padded_periods_ps: list[int]

class _RankOptions(TypedDict):
    aggregate: Literal["mean", "min", "tail"]
    solve_loops: bool
    seed: int
    tolerance: float

class _RankJob(TypedDict):
    name: str
    profile: _Profile
    priority: int

class _RankCandidate(TypedDict):
    name: str
    # By job.
    crossings: Sequence[_Crossings]
    moved_jobs: int

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
    origin: Literal["loop-free", "closed loops", "joint"]
    proven_optimal: bool

class _PlacementRow(TypedDict):
    candidate: int
    score: float
    links: list[_LinkRow]
    components: list[_ComponentRow]
    time_shifts_ps: list[int | None]
    groups: list[tuple[list[int], _FitResult]]

# One of the three is not None.
class _PreliminaryRow(TypedDict):
    placement: _PlacementRow | None
    bounds: list[tuple[int, float]] | None
    discarded: str | None

class _RankResult(TypedDict):
    placements: list[_PlacementRow]
    discarded: list[tuple[int, str]]
    interrupted: bool

# Numbers that its kind does not use are 0.
class _Operation(TypedDict):
    name: str
    kind: Literal["compute", "send", "recv"] | _Collective
    # The operations that it waits for, by their places in the program.
    after: list[int]
    duration_ps: int
    bytes: int
    communicator: int
    peer: int
    tag: int

class _Framing(TypedDict):
    payload: int
    header: int
    ack: int
    # Packets for each acknowledgement.
    ack_every: int

class _TrainingSpec(TypedDict):
    programs: list[list[_Operation]]
    groups: list[list[int]]
    # By rank: its program and its groups.
    ranks: list[tuple[int, list[int]]]
    hosts: list[int]
    localities: list[list[int]]
    algorithms: list[tuple[_Collective, list[_Algorithm]]]
    chunks: int
    in_flight: int
    endpoint_delay_ps: int
    reduction_bps: int | None
    stragglers: list[tuple[int, float]]
    path: _Path
    framing: _Framing
    scale_up_framing: _Framing

class _JobSpec(TypedDict):
    name: str
    profile: _Profile | None
    first: _Profile | None
    crossings: _Crossings
    training: _TrainingSpec | None
    arrival_ps: int
    iterations: int | None
    share: _Share
    priority: int
    time_shift_ps: int | None
    clock_error_ps: int
    readjust: bool
    jitter: float
    pad_to_ps: int | None

# A scale-up node is a switch inside a server.
_NodeKind = Literal["host", "switch", "scale-up"]

class _Cable(TypedDict):
    # Two nodes.
    a: int
    b: int
    rate_bps: int
    delay_ps: int

class _Flow(TypedDict):
    from_node: int
    to_node: int
    label: int

class _JobFlow(_Flow):
    # A list has the directed links of the path, in order.
    path: _Path | list[int]

class _TransportSpec(TypedDict):
    flows: Sequence[_JobFlow]
    policy: dict[str, Any]
    window: _Window

class _Change(TypedDict):
    at_ps: int
    link: int
    kind: Literal["down", "up", "rate"]
    # For the kind "rate".
    rate_bps: int

class _RunSpec(TypedDict):
    priority_queues: int
    goodput: Sequence[float]
    seed: int
    iterations: int | None
    until_ps: int | None
    record_rates_until_ps: int
    record_operations: int
    sample_every_ps: int | None
    record_flows: bool

class _Column(TypedDict):
    # A NumPy type; in columns of floats, NaN represents null.
    dtype: str
    # For text, codes into the dictionary.
    buffer: bytes
    # For text.
    dictionary: list[str] | None

# Tables that belong to what a run does or records: "jobs" to all jobs, "repeats" to runs that may skip
# ahead.
_TableGroup = Literal["events", "jobs", "training", "queues", "rates", "utilisation", "repeats"]

class _FlowRunResult(TypedDict):
    counters: dict[str, int]
    jobs_per_queue: list[int]
    interrupted: bool
    ended_ps: int
    run_s: float

# Columns of 64 bits per row, little-endian: lists of Python integers would take several times the memory.
class _FlowColumns(TypedDict):
    from_node: bytes
    to_node: bytes
    forward_label: bytes
    reverse_label: bytes
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
    hash: Literal["murmur3", "mixed"]
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

class _SkippingResult(TypedDict):
    packet_hops: int
    obstacle: str | None

class _PacketRunResult(TypedDict):
    counters: _PacketCounters
    status: Literal["complete", "stopped", "interrupted"]
    ended_ps: int
    run_s: float
    skipping: _SkippingResult | None

class SelfCheckError(RuntimeError): ...

@final
class Fabric:
    def __new__(cls, nodes: Sequence[tuple[str, _NodeKind]], cables: Sequence[_Cable]) -> Fabric: ...
    @staticmethod
    def one_link(rate_bps: int) -> Fabric: ...
    def links(self) -> list[tuple[str, int]]: ...
    def ring(self, workers: Sequence[int], first_label: int) -> list[tuple[int, int]]: ...
    def spread_ring(self, workers: Sequence[int], parts: int) -> list[tuple[int, int]]: ...
    def paths(self, flows: Sequence[_Flow]) -> list[list[list[int]]]: ...
    def route(self, from_node: int, to_node: int, label: int) -> list[int]: ...
    def routes(self, flows: Sequence[_Flow]) -> list[list[int]]: ...
    @staticmethod
    def ring_flows(workers: Sequence[int], first_label: int) -> list[_Flow]: ...

class _Marks(TypedDict):
    per_second: Sequence[float]
    per_join: Sequence[float]
    settling_ps: int
    recovery_ps: int

class _ClusterOptions(TypedDict):
    seed: int
    priority_queues: int
    # 1 unless crossings count parts of flows.
    flow_parts: NotRequired[int]
    goodput: Sequence[float]
    merge: float
    skip_ahead: NotRequired[bool]
    marks: _Marks | None
    # The number of iterations of which one is sampled matters only to "sampled".
    record: NotRequired[tuple[Literal["all", "sampled", "summary"], int]]
    # About the iterations after which `advance` returns; by default it does not.
    most_iterations: NotRequired[int]

class _StartSpec(TypedDict):
    profile: _Profile
    crossings: _Crossings
    # (link, link before it)
    inputs: Sequence[tuple[int, int]]
    at_ps: int
    iterations: int
    share: _Share
    priority: int
    jitter: float
    # The number of its model, and the samples of an iteration, for summaries.
    model: NotRequired[int]
    samples: NotRequired[int]

class _Slots(TypedDict):
    origin_ps: int
    period_ps: int
    readjusts: bool

class _Rest(TypedDict):
    job: int
    # The rest of the current iteration or, if the job waits, of the wait; None if an iteration begins now.
    rest: _Profile | None
    # The number that is left, including the current one.
    iterations: int
    waits: bool
    slots: _Slots | None

@final
class ClusterRun:
    def __new__(cls, fabric: Fabric, options: _ClusterOptions) -> ClusterRun: ...
    @property
    def now_ps(self) -> int: ...
    def add(self, name: str) -> int: ...
    def start(self, job: int, spec: _StartSpec) -> int: ...
    def align(self, job: int, origin_ps: int, period_ps: int, keep: bool) -> None: ...
    def release(self, job: int) -> None: ...
    def reroute(self, job: int, priority: int, crossed: _Crossings) -> None: ...
    def stop(self, job: int) -> bool: ...
    def iteration_start_ps(self, job: int) -> int | None: ...
    def iterations_done(self, job: int) -> int: ...
    def repeated_iterations(self) -> int: ...
    def advance(self, until_ps: int) -> list[tuple[int, Literal["done", "stopped"]]]: ...
    PERCENTILE_ERROR: Final[float]
    def rows(self) -> int: ...
    def summaries(self) -> dict[str, dict[str, _Column]]: ...
    def take_tables(self) -> dict[str, dict[str, _Column]]: ...
    def links(self) -> dict[str, _Column]: ...
    def take_delays(self) -> dict[str, _Column]: ...
    def rests(self) -> list[_Rest]: ...

def solve_link(
    capacity_bps: int, jobs: Sequence[_Profile], gpu_groups: Sequence[Sequence[int]], search: _Search
) -> _LinkResult: ...
def solve_cluster(
    links: Sequence[tuple[int, _Crossings]],
    jobs: Sequence[Sequence[_Profile]],
    gpu_groups: Sequence[Sequence[int]],
    tolerance: float,
    search: _Search,
) -> _ClusterResult: ...
def score(
    capacity_bps: int, jobs: Sequence[_Profile], time_shifts_ps: Sequence[int], strict: bool = False
) -> float: ...
def commensurate(periods_ps: Sequence[int], tolerance: float) -> _FitResult: ...
def stretched(job: _Profile, period_ps: int) -> _Profile: ...

@final
class PreparedRanking:
    def __new__(
        cls,
        fabric: Fabric,
        jobs: Sequence[_RankJob],
        candidates: Sequence[_RankCandidate],
        search: _Search,
        options: _RankOptions,
    ) -> PreparedRanking: ...
    def preliminary(self) -> list[_PreliminaryRow]: ...
    def tight_bounds(self, candidate: int) -> list[tuple[int, float]]: ...
    def place(self, candidate: int) -> _PlacementRow: ...

def rank(
    fabric: Fabric,
    jobs: Sequence[_RankJob],
    candidates: Sequence[_RankCandidate],
    search: _Search,
    options: _RankOptions,
) -> _RankResult: ...
def simulate(
    fabric: Fabric,
    jobs: Sequence[_JobSpec],
    run: _RunSpec,
    sink: Callable[[str, dict[str, _Column]], object],
    progress: Callable[[int, int, int | None], object],
) -> _FlowRunResult: ...
def congestion_preset(
    policy: _Policy, preset: _Preset, line_rate_bps: int, path_bytes: int = 0
) -> dict[str, Any]: ...
def simulate_jobs(
    fabric: Fabric,
    model: dict[str, Any],
    jobs: Sequence[_JobSpec],
    transports: Sequence[_TransportSpec],
    changes: Sequence[_Change],
    run: _RunSpec,
    skip: tuple[float, int] | None,
    sink: Callable[[str, dict[str, _Column]], object],
    progress: Callable[[int, int, int | None], object],
) -> _PacketRunResult: ...

# By name of table: its columns, in order and without rows.
def table_schemas(
    engine: Literal["flow", "packet"], groups: Sequence[_TableGroup]
) -> dict[str, dict[str, _Column]]: ...
def rocev2_frames() -> dict[str, int]: ...
def simulate_packets(
    fabric: Fabric,
    model: dict[str, Any],
    policies: Sequence[dict[str, Any]],
    windows: Sequence[_Window],
    flows: _FlowColumns,
    messages: _MessageColumns,
    failures: Sequence[tuple[int, int]],
    options: _PacketOptions,
    sink: Callable[[str, dict[str, _Column]], object],
    progress: Callable[[int, int, int | None], object],
) -> _PacketRunResult: ...

class _PolluxWorth(TypedDict):
    workers: int
    on_one_node: float
    across_nodes: float

class _PolluxJob(TypedDict):
    key: int
    sizes: Sequence[_PolluxWorth]
    cells: Sequence[tuple[int, int]]
    restart_factor: float
    pinned: bool

class _RoundResult(TypedDict):
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
    ) -> _RoundResult: ...

class _Bidder(TypedDict):
    sizes: Sequence[int]
    most: int
    # Little-endian numbers of 64 bits, by size, then by span.
    rho: bytes
    rho_in_place: float
    rho_waiting: float
    former: Sequence[int]
    held: Sequence[int]

class _AuctionRecord(TypedDict):
    held: list[tuple[int, ...]]
    # The workers of each bid, the span that it allows or None if it is in place, and ρ.
    tables: list[list[tuple[int, int | None, float]]]
    won: list[tuple[int, int, float]]
    leftovers: list[tuple[int, int]]
    cut_short: bool

class _Mover(TypedDict):
    own: Sequence[int]
    running: Sequence[int]
    former: Sequence[int]
    fixed: Sequence[int]
    stay: int
    fresh: int
    widest: int

@final
class Regions:
    def __new__(cls, server_of: Sequence[int], rack_of: Sequence[int]) -> Regions: ...
    def packed(
        self, gpus: Sequence[int], sizes: Sequence[int], *, near: Sequence[int] = ...
    ) -> list[tuple[int, ...]]: ...
    # Placements as GPUs by mover, and the state of the random numbers after them, as of `random.Random`.
    def exchanged(
        self,
        movers: Sequence[_Mover],
        spare: Sequence[int],
        staying: Sequence[Sequence[int]],
        count: int,
        random: Sequence[int],
    ) -> tuple[list[list[tuple[int, ...]]], list[int]]: ...
    def auction(
        self,
        bidders: Sequence[_Bidder],
        *,
        offered: Sequence[int],
        claimed: Sequence[int],
        visible: int,
        hidden_payment: bool,
        shuffle: Callable[[list[int]], object] | None,
    ) -> _AuctionRecord: ...
