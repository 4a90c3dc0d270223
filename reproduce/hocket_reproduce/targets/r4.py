"""R4: All-To-All and All-Reduce on one switch under six congestion controls (HOTI'22 Fig 4)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hocket_reproduce.figures.queues import QueuePanel, queues_figure
from hocket_reproduce.targets import packets
from hocket_reproduce.targets.packets import Control, PacketRun
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SIZES = ((8, 10 * 10**6), (128, 128 * 10**6))
"""§IV-B: the number of GPUs, and the bytes of each collective on them."""

# Samples of the queues during an All-Reduce.
_SAMPLES = 500
# Completion times within 5% count as equal, as in R3: §IV-B gives no numbers for "similar completion times".
_EQUAL_WITHIN = 0.05
# Queues up to one window count as flat: about a twelfth of the length at which DCQCN starts to mark.
_FLAT_BYTES = 52_000


@dataclass(frozen=True)
class Collectives:
    """A direct All-Reduce, whose first half, the reduce-scatter, sends the same messages as an All-To-All."""

    ran: PacketRun

    @property
    def all_to_all_ms(self) -> float:
        """Completion time of the first half, in ms."""
        return 1e3 * self.ran.step_ends_s[0]

    @property
    def all_reduce_ms(self) -> float:
        """Completion time of both halves, in ms."""
        return 1e3 * self.ran.ended_s

    @property
    def longest_port_bytes(self) -> int:
        """The longest queue at any port of the switch during the run."""
        return int(self.ran.tables["ports"]["peak_bytes"].to_numpy().max())


def measure(
    gpus: int, data_bytes: int, controls: Sequence[Control], progress: Progress
) -> dict[str, Collectives]:
    """The collectives of `gpus` GPUs on one switch under each of `controls`, by name of the control."""
    half = packets.all_to_all(gpus, data_bytes)
    # How long an All-Reduce takes at line rate.
    ideal_ps = 2 * data_bytes * 8 * 10**12 // packets.RATE_BPS
    ran = packets.run_steps(
        packets.one_switch(gpus),
        controls,
        [half, half],
        ideal_ps // _SAMPLES,
        lambda doing: progress(f"{gpus} GPUs: {doing}"),
    )
    return {control.name: Collectives(each) for control, each in zip(controls, ran, strict=True)}


def reproduce(progress: Progress) -> Reproduction:
    """Queues, PAUSE frames and completion times, and how the queues depend on the order of destinations."""
    measured = {gpus: measure(gpus, data, packets.CONTROLS, progress) for gpus, data in SIZES}
    unrotated = {}
    for gpus, data in SIZES:
        # One sample per millisecond is enough: only peaks and ends are used, which are exact.
        steps = [packets.all_to_all(gpus, data, rotated=False)]
        (unrotated[gpus],) = packets.run_steps(
            packets.one_switch(gpus),
            [packets.PFC_ONLY],
            steps,
            10**9,
            lambda _: progress("in the order of GPU numbers"),
        )
    rows = [row for gpus, runs in measured.items() for row in _rows(gpus, runs)]
    rows.extend(
        Row(
            f"{gpus} GPUs, all send to GPU 0 first, then to GPU 1, …: longest queue, PFC only",
            None,
            packets.peak_mb(unrotated[gpus], "switch"),
            "MB",
            f"All-To-All ends after {1e3 * unrotated[gpus].ended_s:.3f} ms; if each GPU starts with the next "
            f"GPU, the longest queue is {packets.peak_mb(runs['PFC only'].ran, 'switch'):.2f} MB, and "
            f"All-To-All ends after {runs['PFC only'].all_to_all_ms:.3f} ms",
        )
        for gpus, runs in measured.items()
    )
    return Reproduction(
        "R4",
        "Collectives on one switch (HOTI'22 Fig 4)",
        tuple(rows),
        partial(_figure, measured),
        (
            "10 MB on 8 GPUs and 128 MB on 128 GPUs, 200 Gbps, 500 ns, a buffer of 32 MB. All-Reduce is "
            "direct: a reduce-scatter and, once that is complete, an all-gather. In each of them, every GPU "
            f"sends 1/N of the data to every other GPU. {packets.PARAMETERS}",
            "Each GPU's NIC serves its messages in turn, packet by packet, and starts with the message to "
            "the next GPU, so no two GPUs ever send to the same GPU at once. The queues are flat because of "
            "this order, not because of any policy. In the last rows, all GPUs send in the order of GPU "
            "numbers.",
        ),
    )


def _rows(gpus: int, runs: Mapping[str, Collectives]) -> Iterator[Row]:
    pauses = {name: each.ran.counters["pauses"] for name, each in runs.items()}
    yield Row(
        f"{gpus} GPUs: PAUSE frames under any policy",
        "none",
        "none" if not any(pauses.values()) else str(pauses),
    )
    longest = {name: each.longest_port_bytes for name, each in runs.items()}
    yield Row(
        f"{gpus} GPUs: flat queues",
        "yes",
        "yes" if max(longest.values()) <= _FLAT_BYTES else "no",
        "",
        "longest queue at a port: "
        + ", ".join(f"{queue_bytes / 1e3:.1f} kB ({name})" for name, queue_bytes in longest.items()),
    )
    for name, times_ms in (
        ("All-To-All", {name: each.all_to_all_ms for name, each in runs.items()}),
        ("All-Reduce", {name: each.all_reduce_ms for name, each in runs.items()}),
    ):
        spread = max(times_ms.values()) / min(times_ms.values()) - 1
        yield Row(
            f"{gpus} GPUs: equal completion times of {name}",
            "yes",
            "yes" if spread < _EQUAL_WITHIN else "no",
            "",
            ", ".join(f"{control} {time_ms:.3f} ms" for control, time_ms in times_ms.items())
            + "; HPCC adds 42 bytes to each packet of 1,000 and aims at 95% of the link's rate",
        )


def _figure(measured: Mapping[int, Mapping[str, Collectives]]) -> Figure:
    gpus = max(measured)
    panels = []
    for name, run in measured[gpus].items():
        times_ms = np.linspace(0, run.all_reduce_ms, _SAMPLES)
        queue_mb = packets.switch_queue_mb(run.ran, "switch", times_ms)
        panels.append(QueuePanel(name, times_ms, {"": queue_mb}))
    title = f"Queue of the switch during All-Reduce on {gpus} GPUs, the first half of which is an All-To-All"
    return queues_figure(panels, 3, title, log=True)
