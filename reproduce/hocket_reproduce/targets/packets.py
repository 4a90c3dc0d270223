"""Fabrics, congestion controls and collectives of HOTI'22, and their runs on the packet engine.

The paper ran HPCC's simulator and prints few of its parameters. The others are those that the scripts of that
simulator set for NICs of 200 Gbps, written down here before any result was compared.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from hocket import _hocket
from hocket.plan.parameters import Marking
from hocket.results import frame
from hocket.results.times import in_ps
from hocket_reproduce.targets.target import Progress

IntArray = npt.NDArray[np.int64]

RATE_BPS = 200 * 10**9
DELAY_PS = 500_000
"""Table I: links of 200 Gbps and 500 ns between GPU and ToR, and between ToR and spine."""

BUFFER_BYTES = 32 * 2**20
"""Table I: 32 MB per switch. The simulator counts them in MiB."""

PAYLOAD_BYTES = 1_000
"""§II-D6 counts telemetry as a share of packets of 1,000 bytes."""

SEED = 1
GPUS_PER_RACK = 16
SPINES = 8
CABLES_PER_SPINE = 2
"""§III-B: two servers of 8 GPUs per rack, eight spines, and no over-subscription: 16 GPUs of 200 Gbps need
two cables of 200 Gbps from each ToR to each of eight spines."""

PARAMETERS = (
    "The paper does not print the parameters of its policies; here they are those that its simulator's "
    "scripts set for 200 Gbps, with a window for DCTCP, HPCC and HPCC-PINT only."
)
"""A note of each target."""

CHUNKS = 4
"""§III-D: each collective is broken into four chunks of equal size."""

_MODEL: Mapping[str, Any] = {
    "mtu_bytes": PAYLOAD_BYTES,
    **_hocket.rocev2_frames(),
    "ack_every": 1,
    "nack_interval_ps": 500_000_000,
    # HPCC's simulator: acknowledgements carry the marks.
    "cnp": None,
    "pause_holds_acks": True,
    # The simulator has none; it would matter only if a link failed, as PFC loses nothing.
    "retransmit_timeout_ps": 4_000_000_000,
    "buffer_bytes": BUFFER_BYTES,
    "reserve_bytes": 4_096,
    # The value that IEEE 802.1Qbb requires, not the simulator's three delays of a link.
    "headroom": "computed",
    # HPCC's simulator: a port may hold 2^-3 of the free buffer, and resumes 3 KiB below that.
    "dynamic_threshold": -3,
    "resume_offset_bytes": 3_072,
    "pfc": True,
    "marking": [],
    "scheduling": "round-robin",
    "cut_through": False,
    "telemetry_unit": 1,
    "pint_base": 1.05,
    "arithmetic": "exact",
}

# KMIN_MAP, KMAX_MAP and PMAX_MAP at 200 Gbps; DCTCP marks all packets above 3 KB per Gbps.
_WRED = Marking(RATE_BPS, 600_000, 2_400_000, 0.2)
_STEP = Marking(RATE_BPS, 600_000, 600_000, 1.0)
# Units of HPCC's telemetry at 200 Gbps (INT_MULTI).
_TELEMETRY_UNIT = 8


Window = Literal["unlimited", "path-full-scaled"]


@dataclass(frozen=True)
class Control:
    """A congestion control with its parameters, what switches do for it, and its windows.

    `window` is `unlimited` or `path-full-scaled`: the bytes that fill the network's longest path at line
    rate, scaled down with the rate.
    """

    name: str
    parameters: Mapping[str, Any]
    model: Mapping[str, Any]
    window: Window = "unlimited"


WINDOW: Window = "path-full-scaled"


def _recommended(
    name: str, policy: "_hocket._Policy", model: Mapping[str, Any], window: Window = "unlimited"
) -> Control:
    parameters = _hocket.congestion_preset(policy, "recommended", RATE_BPS)
    return Control(name, {"policy": policy, **parameters}, model, window)


PFC_ONLY = Control("PFC only", {"policy": "pfc-only"}, {})
DCQCN = _recommended("DCQCN", "dcqcn", {"marking": [_WRED]})
DCTCP = _recommended("DCTCP", "dctcp", {"marking": [_STEP]}, WINDOW)
TIMELY = _recommended("TIMELY", "timely", {})
HPCC = _recommended("HPCC", "hpcc", {"telemetry_unit": _TELEMETRY_UNIT}, WINDOW)
HPCC_PINT = _recommended("HPCC-PINT", "hpcc-pint", {}, WINDOW)
CONTROLS = (PFC_ONLY, DCQCN, DCTCP, TIMELY, HPCC, HPCC_PINT)
"""The six of R1, in the paper's order."""


@dataclass(frozen=True)
class Network:
    """Nodes 0 to `gpus` − 1 are GPUs with one NIC each; the following nodes are switches."""

    gpus: int
    nodes: "Sequence[tuple[str, _hocket._NodeKind]]"
    cables: "Sequence[_hocket._Cable]"


def one_switch(gpus: int) -> Network:
    """GPUs on one switch, `switch`."""
    nodes: list[tuple[str, _hocket._NodeKind]] = [*_gpu_nodes(gpus), ("switch", "switch")]
    return Network(gpus, nodes, [_cable(gpu, gpus) for gpu in range(gpus)])


def clos(
    racks: int,
    gpus_per_rack: int = GPUS_PER_RACK,
    spines: int = SPINES,
    cables_per_spine: int = CABLES_PER_SPINE,
) -> Network:
    """Racks of GPUs below switches `tor 0`, …, each with cables to all of `spine 0`, …"""
    gpus = racks * gpus_per_rack
    tors = range(gpus, gpus + racks)
    tops = range(gpus + racks, gpus + racks + spines)
    nodes: list[tuple[str, _hocket._NodeKind]] = [
        *_gpu_nodes(gpus),
        *((f"tor {rack}", "switch") for rack in range(racks)),
        *((f"spine {spine}", "switch") for spine in range(spines)),
    ]
    cables = [
        *(_cable(gpu, tors[gpu // gpus_per_rack]) for gpu in range(gpus)),
        *(_cable(tor, top) for tor in tors for top in tops for _ in range(cables_per_spine)),
    ]
    return Network(gpus, nodes, cables)


@dataclass(frozen=True)
class Sends:
    """Messages that all start at once; each GPU's NIC serves its own round-robin, in their order here."""

    src: IntArray
    dst: IntArray
    bytes: IntArray


def incast(gpus: int, bytes_each: int) -> Sends:
    """All other GPUs send to GPU 0."""
    src = np.arange(1, gpus, dtype=np.int64)
    return Sends(src, np.zeros_like(src), np.full_like(src, bytes_each))


def all_to_all(gpus: int, data_bytes: int, *, rotated: bool = True) -> Sends:
    """Each GPU sends 1/`gpus` of its data to each other GPU.

    If `rotated`, it starts with the next GPU and goes round, so that no two send to the same GPU at once;
    otherwise all send in the order of GPU numbers.
    """
    src, step = np.divmod(np.arange(gpus * (gpus - 1), dtype=np.int64), gpus - 1)
    dst = (src + 1 + step) % gpus if rotated else step + (step >= src)
    return Sends(src, dst, np.full_like(src, data_bytes // gpus))


@dataclass(frozen=True)
class PacketRun:
    """Consecutive steps: their tables, with times from the start of the first, and summed counters."""

    tables: Mapping[str, pl.DataFrame]
    counters: Mapping[str, int]
    step_ends_s: tuple[float, ...]
    cpu_s: float

    @property
    def ended_s(self) -> float:
        """Time at which the last byte was acknowledged, in seconds."""
        return self.step_ends_s[-1]


def run_steps(
    network: Network,
    controls: Sequence[Control],
    steps: Sequence[Sends],
    sample_every_ps: int,
    progress: Progress,
) -> list[PacketRun]:
    """Runs `steps` under each of `controls`, as many at once as there are processors; returns them in that
    order.

    A step starts when all messages of the previous step are acknowledged. It has new queue pairs that start
    at line rate, as in the paper's simulator. Queues of switches are sampled every `sample_every_ps`.
    """
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=min(len(controls), os.cpu_count() or 1)) as pool:
        try:
            runs = [
                pool.submit(_run, network, control, steps, sample_every_ps, stopped) for control in controls
            ]
            for done, _ in enumerate(as_completed(runs), 1):
                progress(f"{done} of {len(runs)} congestion controls")
            return [run.result() for run in runs]
        except BaseException:
            # Also on Ctrl-C: the pool's exit waits for its threads, which only end early if told to.
            stopped.set()
            raise


def _run(
    network: Network,
    control: Control,
    steps: Sequence[Sends],
    sample_every_ps: int,
    stopped: threading.Event,
) -> PacketRun:
    fabric = _hocket.Fabric(network.nodes, network.cables)
    numbered = enumerate(steps)
    return _joined([_step(fabric, control, sends, sample_every_ps, n, stopped) for n, sends in numbered])


def _step(
    fabric: "_hocket.Fabric",
    control: Control,
    sends: Sends,
    sample_every_ps: int,
    number: int,
    stopped: threading.Event,
) -> PacketRun:
    """Runs one step; `number` gives its queue pairs, and so their ECMP paths, labels of their own."""
    batches: dict[str, list[pl.DataFrame]] = {}
    flows = np.arange(sends.src.size, dtype=np.int64)
    same = np.zeros_like(flows)
    # Ports as HPCC's simulator counts them: 10000, 10001, … for the source, 100 for the destination.
    source, destination = 10_000 + number, 100

    def check_stopped(time_ps: int, done: int, total: int | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    # Processor time of this thread: others run at once, so wall time would depend on how many there are.
    started = time.thread_time()
    ran = _hocket.simulate_packets(
        fabric,
        {**_MODEL, **control.model},
        [dict(control.parameters)],
        [(control.window, 0)],
        {
            "from_node": _buffer(sends.src),
            "to_node": _buffer(sends.dst),
            "forward_label": _buffer(same + (source | destination << 16)),
            "reverse_label": _buffer(same + (destination | source << 16)),
            "priority": _buffer(same + 3),
            "policy": _buffer(same),
            "window": _buffer(same),
        },
        {"flow": _buffer(flows), "bytes": _buffer(sends.bytes), "start_ps": _buffer(same)},
        [],
        {
            # Each step is a run of its own: with one seed, all chunks would repeat the same random draws.
            "seed": SEED + number,
            "until_ps": None,
            "sample_every_ps": sample_every_ps,
            # ECMP and windows as in HPCC's simulator: its hash, and one window for all pairs of hosts.
            "hash": "murmur3",
            "longest_rtt_for_all": True,
            "record_rates": False,
            "record_utilisation": False,
        },
        lambda name, columns: batches.setdefault(name, []).append(frame(columns)),
        check_stopped,
    )
    cpu_s = time.thread_time() - started
    if ran["status"] == "interrupted":
        raise KeyboardInterrupt
    tables = {name: pl.concat(rows) for name, rows in batches.items()}
    counters = {name: value for name, value in ran["counters"].items() if isinstance(value, int)}
    return PacketRun(tables, counters, (ran["ended_ps"] / 1e12,), cpu_s)


def _joined(steps: Sequence[PacketRun]) -> PacketRun:
    ends_s = np.cumsum([step.ended_s for step in steps])
    names = dict.fromkeys(name for step in steps for name in step.tables)
    tables = {
        name: pl.concat(
            _later(step.tables[name], start_s)
            for step, start_s in zip(steps, (0.0, *ends_s[:-1]), strict=True)
            if name in step.tables
        )
        for name in names
    }
    counters = {name: sum(step.counters[name] for step in steps) for name in steps[0].counters}
    return PacketRun(tables, counters, tuple(ends_s.tolist()), sum(step.cpu_s for step in steps))


def _later(table: pl.DataFrame, by_s: float) -> pl.DataFrame:
    times = [name for name in table.columns if name in ("at_s", "start_s", "end_s")]
    return table.with_columns(pl.col(times) + by_s)


def windowed(control: Control) -> Control:
    """`control` with a window: in flight is at most what fills the network's longest path."""
    return replace(control, name=f"{control.name}, window", window=WINDOW)


def unlimited(control: Control) -> Control:
    """`control` without a window: only its rate limits what is in flight."""
    return replace(control, name=f"{control.name}, no window", window="unlimited")


def switch_queue_mb(
    ran: PacketRun, switch: str, times_ms: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """MB queued in all ports of `switch` at `times_ms`, as last sampled: §IV-A's queue length."""
    table = ran.tables.get("switch_queues")
    if table is None:
        return np.zeros_like(times_ms)
    samples = table.filter(pl.col("switch") == switch)
    sampled_ms = samples.select(in_ps("at_s"))["at_s"].to_numpy() / 1e9
    # Nothing is queued before the first sample, and a queue keeps its last sample until the next.
    held_mb = np.concatenate([[0.0], samples["bytes"].to_numpy() / 1e6])
    return np.asarray(held_mb[np.searchsorted(sampled_ms, times_ms, side="right")], dtype=np.float64)


def peak_mb(ran: PacketRun, switch: str) -> float:
    """The most MB ever queued in all ports of `switch`; exact, not sampled."""
    peaks = ran.tables["switches"].filter(pl.col("switch") == switch)["peak_bytes"].to_numpy()
    return float(peaks.max(initial=0)) / 1e6


def completion_ms(ran: PacketRun) -> npt.NDArray[np.float64]:
    """Completion times of each message, in ms."""
    return np.asarray(1e3 * ran.tables["flows"]["fct_s"].to_numpy(), dtype=np.float64)


def _gpu_nodes(gpus: int) -> "list[tuple[str, _hocket._NodeKind]]":
    return [(f"gpu {gpu}", "host") for gpu in range(gpus)]


def _cable(a: int, b: int) -> "_hocket._Cable":
    return {"a": a, "b": b, "rate_bps": RATE_BPS, "delay_ps": DELAY_PS}


def _buffer(column: IntArray) -> bytes:
    return column.astype("<i8").tobytes()
