"""X2: training jobs on both engines, and collectives against their closed forms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from hocket import _hocket
from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets.setting import SEED, Tables
from hocket_reproduce.targets.target import Progress, Reproduction, Row

NIC_BPS = 200e9
DELAY_S = 500e-9
MTU_BYTES = 4_096
"""HOTI'22 Table I, and RoCE's largest MTU: the defaults of plans."""

BUFFER = "32 MB"
"""HOTI'22 Table I."""

LARGE_BUFFER = "64 MB"
"""For a switch of 1,024 ports: headroom for each does not fit into `BUFFER`."""

# Whole packets, so that the closed form needs no rounding.
RING_BLOCK_BYTES = 16 * MTU_BYTES
ALL_TO_ALL_BLOCK_BYTES = 4 * MTU_BYTES
RANKS = tuple(2**power for power in range(1, 11))

DLRM = "DLRM (HOTI'22)"
ONE_LEVEL = {"all_reduce": "direct"}
TWO_LEVELS = {"all_reduce": ["direct", "direct"]}

_PORTS = (
    "flows of the flow engine share a port evenly; packets are served first come, first served, and a NIC "
    "serves its queue pairs in turn"
)


@dataclass(frozen=True)
class Scenario:
    """Training jobs on a fabric; if queues build up, `why` names what the flow engine leaves out."""

    name: str
    fabric: Tables
    jobs: Sequence[Tables]
    why: str = ""
    iterations: int = 2
    buffer: str = BUFFER

    def plan(self, engine: str) -> Tables:
        """The plan for `engine`."""
        return {
            "name": self.name,
            "seed": SEED,
            "fabric": self.fabric,
            "switch": {"buffer": self.buffer},
            "run": {"engine": engine, "iterations": self.iterations},
            "jobs": list(self.jobs),
        }


def one_switch(gpus: int, gpus_per_server: int = 1) -> Tables:
    """A fabric of one switch; servers of more than one GPU have a scale-up network."""
    servers = gpus // gpus_per_server
    shape = {"racks": 1, "servers_per_rack": servers, "gpus_per_server": gpus_per_server, "spines": 0}
    return {"clos": shape, "scale_up": gpus_per_server > 1}


def clos(racks: int, **keys: int) -> Tables:
    """A fabric of racks as in HOTI'22 §III-B: two servers of eight GPUs each."""
    return {"clos": {"racks": racks, **keys}, "scale_up": True}


def collective(kind: str, size: str, algorithms: str | Sequence[str], name: str = "a", **keys: Any) -> Tables:
    """A job that only runs this collective."""
    return job({"collective": kind, "bytes": size}, {kind.replace("-", "_"): algorithms}, name, **keys)


def job(training: Tables, collectives: Tables | None = None, name: str = "a", **keys: Any) -> Tables:
    """A job under PFC alone: the flow engine leaves out the time that other controls take to find a rate."""
    return {
        "name": name,
        "training": training,
        "collectives": collectives or {},
        "congestion": "pfc-only",
        **keys,
    }


def quiet_scenarios() -> Iterator[Scenario]:
    """Scenarios without queues, or where all queued packets belong to one step."""
    eight = one_switch(8)
    servers = one_switch(16, 8)
    yield Scenario("all-reduce of 16 MB, ring, 8 GPUs", eight, [collective("all-reduce", "16 MB", "ring")])
    yield Scenario("all-reduce of 8 kB, ring, 8 GPUs", eight, [collective("all-reduce", "8 kB", "ring")])
    many = {"all_reduce": "ring", "chunks": 16}
    yield Scenario(
        "all-reduce of 1 MB, ring in 16 chunks, 8 GPUs",
        eight,
        [job({"collective": "all-reduce", "bytes": "1 MB"}, many)],
    )
    for algorithm in ("halving-doubling", "direct"):
        yield Scenario(
            f"all-reduce of 1 MB, {algorithm}, 8 GPUs",
            eight,
            [collective("all-reduce", "1 MB", algorithm)],
        )
    yield Scenario("all-to-all of 1 MB, 8 GPUs", eight, [collective("all-to-all", "1 MB", "direct")])
    yield Scenario(
        "broadcast of 4 MB, ring, once", eight, [collective("broadcast", "4 MB", "ring")], iterations=1
    )
    yield Scenario(
        "broadcast of 4 MB, tree, once", eight, [collective("broadcast", "4 MB", "tree")], iterations=1
    )
    for size in ("64 kB", "16 MB"):
        yield Scenario(
            f"all-reduce of {size}, ring through two servers of 8",
            servers,
            [collective("all-reduce", size, "ring")],
        )
        for algorithm in ("ring", "direct"):
            yield Scenario(
                f"all-reduce of {size}, {algorithm} inside and across, two servers of 8",
                servers,
                [collective("all-reduce", size, [algorithm, algorithm])],
            )
    yield Scenario(
        "all-to-all of 1 MB, inside then across, two servers of 8",
        servers,
        [collective("all-to-all", "1 MB", ["direct", "direct"])],
    )
    yield Scenario("ResNet50, 8 GPUs", eight, [job({"model": "ResNet50"})])
    pipeline = {"model": "GPT-1", "parallel": {"pipeline": 4}, "microbatches": 8}
    yield Scenario("GPT-1, pipeline 4, data 2", eight, [job(pipeline)])
    hybrid = {"model": "GPT-1", "parallel": {"tensor": 2, "pipeline": 2}, "microbatches": 4}
    yield Scenario("GPT-1, tensor 2, pipeline 2, data 2", eight, [job(hybrid)])
    gpipe = {**hybrid, "schedule": "gpipe"}
    yield Scenario("the same, GPipe", eight, [job(gpipe)])
    yield Scenario("DLRM, one level, 16 GPUs at one switch", servers, [job({"model": DLRM}, ONE_LEVEL)])
    yield Scenario("DLRM, two levels, 16 GPUs at one switch", servers, [job({"model": DLRM}, TWO_LEVELS)])


def busy_scenarios() -> Iterator[Scenario]:
    """Scenarios in which packets queue, or ranks get out of step."""
    eight = one_switch(8)
    step = {
        "operations": [
            {"name": "step", "compute": "200 us"},
            {"name": "sum", "collective": "all-reduce", "bytes": "4 MB", "after": ["step"]},
        ]
    }
    apart = (
        "on packets each rank sends once it is ready, and some begin their next iteration before others; a "
        "collective of the flow engine begins with its last rank and ends for all at once"
    )
    yield Scenario(
        "a straggler, 1.5 times slower, of 8",
        eight,
        [job(step, stragglers=[{"rank": 3, "slowdown": 1.5}])],
        apart,
        10,
    )
    yield Scenario("jitter of 5%, 8 GPUs", eight, [job(step, jitter=0.05)], apart, 10)
    for algorithm in ("ring", "tree"):
        yield Scenario(
            f"broadcasts of 4 MB one after another, {algorithm}",
            eight,
            [collective("broadcast", "4 MB", algorithm)],
            apart,
            10,
        )
    one_rate = (
        "on flows all messages of a step have one rate, even those that share no link; chunks on their way "
        "up the tree contend with those that come down"
    )
    yield Scenario(
        "all-reduce of 1 MB, tree, 16 GPUs",
        one_switch(16),
        [collective("all-reduce", "1 MB", "tree")],
        one_rate,
    )
    in_step = (
        "all GPUs of a server send their first packets to one GPU of the other, and then all to the next: "
        "some always wait"
    )
    for size in ("64 kB", "1 MB"):
        yield Scenario(
            f"all-to-all of {size}, direct, two servers of 8",
            one_switch(16, 8),
            [collective("all-to-all", size, "direct")],
            in_step,
        )
    pair = [collective("all-reduce", "16 MB", "ring", name=name) for name in ("a", "b")]
    dumbbell = {
        "dumbbell": {"left": 4, "right": 4, "bottleneck": "200 Gbps"},
    }
    halves = (["s0", "s1", "s4", "s5"], ["s2", "s3", "s6", "s7"])
    sharing = [{**each, "placement": list(place)} for each, place in zip(pair, halves, strict=True)]
    yield Scenario("two jobs on one link", dumbbell, sharing, _PORTS, 10)
    controlled = [{**each, "congestion": "dcqcn"} for each in sharing]
    yield Scenario(
        "two jobs on one link, DCQCN",
        dumbbell,
        controlled,
        "DCQCN keeps rates below what is free for a while after each cut",
        10,
    )
    for racks in (2, 4, 8):
        gpus = 16 * racks
        for levels, algorithms in (("one level", ONE_LEVEL), ("two levels", TWO_LEVELS)):
            dlrm = [job({"model": DLRM}, algorithms)]
            yield Scenario(
                f"DLRM, {levels}, {gpus} GPUs, 1:1", clos(racks), dlrm, f"ECMP collisions; {_PORTS}"
            )
            if racks < 8:
                halved = clos(racks, cables_per_spine=1)
                yield Scenario(
                    f"DLRM, {levels}, {gpus} GPUs, 2:1", halved, dlrm, f"ECMP collisions; {_PORTS}"
                )


def period_us(run: Run, name: str) -> float:
    """The time per iteration of a job that starts at 0, in microseconds."""
    # Not the mean iteration: ranks may begin one before others have ended theirs, so that iterations overlap.
    ends = run.tables["iterations"].filter(pl.col("job") == name)["end_s"]
    return float(ends.to_numpy().max()) / len(ends) * 1e6


def measure(scenario: Scenario) -> list[tuple[str, float, float]]:
    """By job: its name, and its time per iteration on flows and on packets in microseconds."""
    flow, packet = (simulate(scenario.plan(engine)) for engine in ("flow", "packet"))
    names = [each["name"] for each in scenario.jobs]
    return [(name, period_us(flow, name), period_us(packet, name)) for name in names]


@dataclass(frozen=True)
class Lone:
    """A collective alone on one switch, with the busbw of its closed form."""

    kind: str
    algorithm: str
    ranks: int

    @property
    def block_bytes(self) -> int:
        """The bytes that one rank holds for each rank."""
        return RING_BLOCK_BYTES if self.kind == "all-reduce" else ALL_TO_ALL_BLOCK_BYTES

    @property
    def size_bytes(self) -> int:
        """The size of the collective as nccl-tests counts it."""
        return self.ranks * self.block_bytes

    @property
    def closed_form_bps(self) -> float:
        """The busbw without queues, in bits per second.

        A NIC sends its data with headers, and acknowledgements of the data that it receives. The last packet
        of a step crosses the switch, and the last one's acknowledgement returns. A ring takes 2(n − 1) steps
        of a block each, a direct all-to-all one step of n − 1 blocks.
        """
        frames = _hocket.rocev2_frames()
        header, ack = frames["data_header_bytes"], frames["ack_bytes"]
        wire = self.block_bytes + self.block_bytes / MTU_BYTES * (header + ack)
        hop_s = 2 * DELAY_S + _at_nic_s(MTU_BYTES + header)
        back_s = 2 * (DELAY_S + _at_nic_s(ack))
        others = self.ranks - 1
        if self.kind == "all-reduce":
            time_s = 2 * others * (_at_nic_s(wire) + hop_s) + back_s
            factor = 2 * others / self.ranks
        else:
            time_s = _at_nic_s(others * wire) + hop_s + back_s
            factor = others / self.ranks
        return self.size_bytes * 8 * factor / time_s

    def measure(self) -> tuple[float, float]:
        """Its busbw on flows and on packets, in bits per second."""
        job = collective(self.kind, f"{self.size_bytes} B", self.algorithm)
        # The closed form has no pipelining of chunks.
        job["collectives"]["chunks"] = 1
        scenario = Scenario(self.kind, one_switch(self.ranks), [job], iterations=1, buffer=LARGE_BUFFER)
        flow, packet = (simulate(scenario.plan(engine)) for engine in ("flow", "packet"))
        return _busbw_bps(flow), _busbw_bps(packet)


def lone(ranks: Sequence[int] = RANKS) -> list[Lone]:
    """A ring All-Reduce and a direct All-To-All over each number of ranks."""
    return [
        Lone(kind, algorithm, number)
        for kind, algorithm in (("all-reduce", "ring"), ("all-to-all", "direct"))
        for number in ranks
    ]


def reproduce(progress: Progress) -> Reproduction:
    """The busbw of collectives alone, and iteration times with and without queues."""
    busbw: dict[Lone, tuple[float, float]] = {}
    for each in lone():
        progress(f"{each.kind} over {each.ranks} ranks")
        busbw[each] = each.measure()
    rows = [_busbw_row(each, *found) for each, found in busbw.items()]
    for scenario in (*quiet_scenarios(), *busy_scenarios()):
        progress(scenario.name)
        several = len(scenario.jobs) > 1
        for name, flow_us, packet_us in measure(scenario):
            quantity = f"{scenario.name}: {name}" if several else scenario.name
            rows.append(Row(f"{quantity}, iteration", flow_us, packet_us, "µs", scenario.why))
    return Reproduction(
        "X2",
        "Training jobs: flow engine against packet engine",
        tuple(rows),
        partial(_figure, busbw),
        (
            "NICs of 200 Gbps, 500 ns a link, packets of 4,096 bytes with RoCEv2's headers and an "
            "acknowledgement each, PFC alone unless stated; scale-up networks of 1.6 Tbps and "
            "25 ns.",
            "Rows of iterations without a comment have no queues: there the engines should agree within 5%, "
            "and lone collectives within 2% of their closed form.",
            "An iteration is the time of the whole run over the number of its iterations.",
        ),
        ("flow engine", "packet engine"),
    )


def _at_nic_s(size_bytes: float) -> float:
    return size_bytes * 8 / NIC_BPS


def _busbw_bps(run: Run) -> float:
    return float(run.tables["collectives"]["busbw_bps"][0])


def _busbw_row(each: Lone, flow_bps: float, packet_bps: float) -> Row:
    return Row(
        f"{each.algorithm} {each.kind} of {each.size_bytes / 1e6:.3g} MB over {each.ranks} ranks, busbw",
        flow_bps / 1e9,
        packet_bps / 1e9,
        "Gbps",
        f"closed form {each.closed_form_bps / 1e9:.1f} Gbps",
    )


def _figure(busbw: Mapping[Lone, tuple[float, float]]) -> Figure:
    panels = []
    for kind in dict.fromkeys(each.kind for each in busbw):
        found = {each: both for each, both in busbw.items() if each.kind == kind}
        lines = {
            "closed form": [each.closed_form_bps / 1e9 for each in found],
            "flow engine": [flow_bps / 1e9 for flow_bps, _ in found.values()],
            "packet engine": [packet_bps / 1e9 for _, packet_bps in found.values()],
        }
        algorithm = next(iter(found)).algorithm
        ranks = [each.ranks for each in found]
        panels.append(
            LinesPanel(
                algorithm, "ranks", "busbw (Gbps)", ranks, lines, log_x=True, y_limits=(0, NIC_BPS / 1e9)
            )
        )
    return lines_figure(panels, "Alone on one switch: ring all-reduce and direct all-to-all")
