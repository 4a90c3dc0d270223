"""R5: All-To-All in four chunks on a Clos network under six congestion controls (HOTI'22 Fig 5 to 7)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from hocket_reproduce.figures.queues import QueuePanel, queues_figure
from hocket_reproduce.targets import packets
from hocket_reproduce.targets.packets import Control, Network, PacketRun
from hocket_reproduce.targets.target import Progress, Reproduction, Row

GPUS = 128
DATA_BYTES = 128 * 10**6
RACKS = GPUS // packets.GPUS_PER_RACK
"""§IV-C: 128 GPUs, two servers of eight in each rack."""

_SAMPLE_EVERY_PS = 10_000_000
_SHOWN_SPINES = ("spine 0", "spine 1", "spine 2")
_SHOWN_TOR = "tor 0"
# Parts of the longest queue: a peak begins above the first and ends below the second. With one threshold a
# queue that oscillates around it would count as many peaks.
_PEAK, _VALLEY = 0.1, 0.01
# Longest queues and completion times within 10% count as alike: the paper prints no numbers.
_ALIKE = 1.1


@dataclass(frozen=True)
class Shape:
    """A network with the name that rows give it."""

    name: str
    network: Network


def shapes(racks: int, gpus_per_rack: int, spines: int) -> tuple[Shape, Shape]:
    """The networks of §III-B (no over-subscription: two cables of 200 Gbps between each ToR and each spine)
    and of Table I (200 Gbps in total, so one cable, and 16 GPUs share eight): with two servers per rack they
    contradict each other."""
    return (
        Shape("1:1", packets.clos(racks, gpus_per_rack, spines, 2)),
        Shape("2:1", packets.clos(racks, gpus_per_rack, spines, 1)),
    )


def measure(
    shape: Shape, data_bytes: int, controls: Sequence[Control], progress: Progress
) -> dict[str, PacketRun]:
    """All-To-All in four chunks under each of `controls`, by name."""
    chunk = packets.all_to_all(shape.network.gpus, data_bytes // packets.CHUNKS)
    ran = packets.run_steps(
        shape.network,
        controls,
        [chunk] * packets.CHUNKS,
        _SAMPLE_EVERY_PS,
        lambda doing: progress(f"{shape.name}: {doing}"),
    )
    return {control.name: each for control, each in zip(controls, ran, strict=True)}


def reproduce(progress: Progress) -> Reproduction:
    """Queues of ToRs and spines, PAUSE frames and completion times on both of the paper's networks."""
    both = shapes(RACKS, packets.GPUS_PER_RACK, packets.SPINES)
    measured = {shape.name: measure(shape, DATA_BYTES, packets.CONTROLS, progress) for shape in both}
    rows = [row for name, runs in measured.items() for row in _rows(name, runs, RACKS, packets.SPINES)]
    return Reproduction(
        "R5",
        "All-To-All in four chunks on a Clos network (HOTI'22 Fig 5, 6 and 7)",
        tuple(rows),
        partial(_figure, measured),
        (
            "128 MB on 128 GPUs, 16 per rack, eight spines, buffers of 32 MB; each chunk sends 0.25 MB "
            "from each GPU to each other, starts when all messages of the one before are acknowledged, and "
            f"has queue pairs, and so paths, of its own. {packets.PARAMETERS}",
            "The paper says that its network is not over-subscribed (1:1), and that the links between ToRs "
            "and its eight spines have 200 Gbps in all: with 16 GPUs of 200 Gbps per rack that is 2:1. "
            "Both were run. Only 2:1 shows what the paper describes, ToRs in a constant range and PAUSE "
            "frames, most of them under PFC only.",
            "Paths are chosen by the hash function of HPCC's simulator. A run moves "
            f"{_hops(measured) / 1e6:.0f} million packet-hops, which took {_cpu_times(measured)} s of one "
            "processor.",
        ),
    )


def peaks(queue_mb: npt.NDArray[np.float64]) -> int:
    """The number of times that a queue rises above a tenth of its longest, from below a hundredth."""
    longest = queue_mb.max(initial=0.0)
    found, is_low = 0, True
    for length in queue_mb:
        if is_low and length > _PEAK * longest:
            found, is_low = found + 1, False
        elif length < _VALLEY * longest:
            is_low = True
    return found


def _rows(shape: str, runs: Mapping[str, PacketRun], racks: int, spines: int) -> Iterator[Row]:
    for name, ran in runs.items():
        times_ms = _times_ms(ran)
        # Fig 6 shows one ToR, Fig 5 three spines.
        tor = packets.switch_queue_mb(ran, _SHOWN_TOR, times_ms)
        by_chunk = _by_chunk(ran, times_ms, tor)
        found = {
            switch: peaks(packets.switch_queue_mb(ran, switch, times_ms))
            for switch in (_SHOWN_TOR, *_SHOWN_SPINES)
        }
        yield Row(
            f"{shape}, {name}: peaks of the queues",
            packets.CHUNKS,
            float(np.median(list(found.values()))),
            "",
            ", ".join(f"{switch} {count}" for switch, count in found.items()),
        )
        spine_mb = [packets.peak_mb(ran, f"spine {number}") for number in range(spines)]
        yield Row(
            f"{shape}, {name}: spines differ",
            "yes",
            "yes" if max(spine_mb) > _ALIKE * min(spine_mb) else "no",
            "",
            f"longest queues {min(spine_mb):.2f} to {max(spine_mb):.2f} MB",
        )
        tor_mb = [packets.peak_mb(ran, f"tor {number}") for number in range(racks)]
        yield Row(
            f"{shape}, {name}: ToRs in a constant range",
            "yes",
            "yes"
            if max(by_chunk) <= _ALIKE * min(by_chunk) and max(tor_mb) <= _ALIKE * min(tor_mb)
            else "no",
            "",
            f"longest queues {min(tor_mb):.2f} to {max(tor_mb):.2f} MB; of {_SHOWN_TOR} in the four chunks "
            + ", ".join(f"{longest:.2f}" for longest in by_chunk),
        )
    ended_ms = {name: 1e3 * ran.ended_s for name, ran in runs.items()}
    alike = max(time for name, time in ended_ms.items() if name != "TIMELY") / min(ended_ms.values())
    yield Row(
        f"{shape}: who finishes last",
        "TIMELY",
        max(ended_ms, key=lambda name: ended_ms[name]),
        "",
        "; ".join(f"{name} {time:.2f} ms" for name, time in ended_ms.items()),
    )
    yield Row(
        f"{shape}: the others take equally long",
        "yes",
        "yes" if alike < _ALIKE else "no",
        "",
        f"within {alike - 1:.0%}",
    )
    pauses = {name: ran.counters["pauses"] for name, ran in runs.items()}
    most = max(pauses, key=lambda name: pauses[name])
    yield Row(
        f"{shape}: most PAUSE frames",
        "PFC only",
        most if pauses[most] else "none at all",
        "",
        ", ".join(f"{name} {count}" for name, count in pauses.items()),
    )


def _hops(measured: Mapping[str, Mapping[str, PacketRun]]) -> float:
    return float(
        np.mean([ran.counters["packet_hops"] for runs in measured.values() for ran in runs.values()])
    )


def _cpu_times(measured: Mapping[str, Mapping[str, PacketRun]]) -> str:
    times_s = [ran.cpu_s for runs in measured.values() for ran in runs.values()]
    return f"{min(times_s):.0f} to {max(times_s):.0f}"


def _times_ms(ran: PacketRun) -> npt.NDArray[np.float64]:
    return np.arange(0, 1e3 * ran.ended_s, _SAMPLE_EVERY_PS / 1e9)


def _by_chunk(
    ran: PacketRun, times_ms: npt.NDArray[np.float64], queue_mb: npt.NDArray[np.float64]
) -> list[float]:
    """The longest queue during each chunk."""
    ends = np.searchsorted(times_ms, [1e3 * end_s for end_s in ran.step_ends_s[:-1]])
    return [float(part.max(initial=0.0)) for part in np.split(queue_mb, ends)]


def _figure(measured: Mapping[str, Mapping[str, PacketRun]]) -> Figure:
    panels = []
    for control in packets.CONTROLS:
        for shape, runs in measured.items():
            ran = runs[control.name]
            times_ms = _times_ms(ran)
            for switches in ((_SHOWN_TOR,), _SHOWN_SPINES):
                title = f"{control.name}, {shape}: {'a ToR' if switches == (_SHOWN_TOR,) else 'three spines'}"
                queues = {switch: packets.switch_queue_mb(ran, switch, times_ms) for switch in switches}
                panels.append(QueuePanel(title, times_ms, queues))
    return queues_figure(
        panels,
        2 * len(measured),
        "Queues of switches during an All-To-All of 128 MB on 128 GPUs, in four chunks",
        same_queues=False,
    )
