"""R3: an incast of seven GPUs under six congestion controls (HOTI'22 Fig 3)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from hocket_reproduce.figures.queues import QueuePanel, queues_figure
from hocket_reproduce.targets import packets
from hocket_reproduce.targets.packets import Control, PacketRun
from hocket_reproduce.targets.target import Progress, Reproduction, Row

GPUS = 8
BYTES_EACH = 10 * 10**6
"""§IV-A."""

_SAMPLE_EVERY_PS = 1_000_000
# Each control with the other setting of the window, since the paper does not print its own: HPCC's simulator
# ships with windows for all, and its scripts give them to DCTCP, HPCC and HPCC-PINT alone.
_VARIANTS = tuple(
    packets.windowed(control) if control.window == "unlimited" else packets.unlimited(control)
    for control in packets.CONTROLS
)
# §IV-A has no numbers for small and long queues: below a tenth of the peak, and above half of it.
_SMALL, _HIGH = 0.1, 0.5
# Completion times within 5% count as equal: §IV-A finds "similar performance" and prints no times.
_TOGETHER = 0.05
# "A lot" of PAUSE frames (§IV-A1) is more than the first build-up of the queue and a second one can cause.
_MANY = 100
_WHY_PAUSES = {
    "TIMELY": "all seven send at line rate until the first delay over 50 µs comes back, and each then needs "
    "an update per round trip, which is as long as the queue",
}


@dataclass(frozen=True)
class Incast:
    """A run, with the switch's queue sampled every microsecond."""

    ran: PacketRun
    times_ms: npt.NDArray[np.float64]
    queue_mb: npt.NDArray[np.float64]

    @property
    def last_ms(self) -> float:
        """Completion time of the last of the seven messages, in ms."""
        return 1e3 * self.ran.ended_s

    @property
    def pauses(self) -> int:
        """PAUSE frames that GPUs received."""
        return self.ran.counters["pauses"]

    @property
    def idle(self) -> float:
        """The share of the time in which nothing was queued for the link to GPU 0."""
        # Less than one packet: a queue's sample may catch the packet that is on its way out.
        return float(np.mean(self.queue_mb < packets.PAYLOAD_BYTES / 1e6))

    @property
    def peak_mb(self) -> float:
        """The longest queue in MB."""
        return packets.peak_mb(self.ran, "switch")

    @property
    def later_mb(self) -> npt.NDArray[np.float64]:
        """The queue in the second half of the run, after the first build-up and its correction."""
        return self.queue_mb[self.queue_mb.size // 2 :]


def measure(controls: Sequence[Control], bytes_each: int, progress: Progress) -> dict[str, Incast]:
    """The incast under each of `controls`, by name."""
    ran = packets.run_steps(
        packets.one_switch(GPUS), controls, [packets.incast(GPUS, bytes_each)], _SAMPLE_EVERY_PS, progress
    )
    return {control.name: _sampled(each) for control, each in zip(controls, ran, strict=True)}


def _sampled(ran: PacketRun) -> Incast:
    times_ms = np.arange(0, 1e3 * ran.ended_s, _SAMPLE_EVERY_PS / 1e9)
    return Incast(ran, times_ms, packets.switch_queue_mb(ran, "switch", times_ms))


def reproduce(progress: Progress) -> Reproduction:
    """The paper's statements on each policy, and runs with the other setting of its window."""
    measured = measure((*packets.CONTROLS, *_VARIANTS), BYTES_EACH, progress)
    rows = (*_pause_rows(measured), *_queue_rows(measured), *_time_rows(measured), *_window_rows(measured))
    return Reproduction(
        "R3",
        "Incast on one switch (HOTI'22 Fig 3)",
        rows,
        partial(_figure, measured),
        (
            f"Seven GPUs send 10 MB each to an eighth: 200 Gbps, 500 ns, a buffer of 32 MB, packets of "
            f"{packets.PAYLOAD_BYTES:,} bytes and RoCEv2's headers, exact times. {packets.PARAMETERS}",
            "Windows matter more than policies. A window that fills the path keeps any sender from having "
            "more than 52 kB in flight: seven of them queue 0.35 MB, below every threshold, so no policy "
            "that only looks at marks or at delays over 50 µs ever acts. The paper's picture of DCTCP, a "
            "queue that builds up and drains, is that of a sender without a window; its DCQCN and TIMELY "
            "have none either.",
            "DCQCN's slow finish is a matter of parameters too: it regains 40 Mbps every 300 µs after cuts "
            "to a few Gbps. The paper tuned DCQCN for each experiment and does not print the values; here "
            "nothing is tuned.",
        ),
    )


def _pause_rows(measured: Mapping[str, Incast]) -> Iterator[Row]:
    for control in packets.CONTROLS:
        pauses = measured[control.name].pauses
        only = control is packets.PFC_ONLY
        ours = "none" if pauses == 0 else "many" if pauses > _MANY else str(pauses)
        yield Row(
            f"{control.name}: PAUSE frames",
            "many" if only else "none",
            ours,
            "",
            f"{pauses} received" if only else _WHY_PAUSES.get(control.name, ""),
        )


def _queue_rows(measured: Mapping[str, Incast]) -> Iterator[Row]:
    pfc, dcqcn, dctcp, timely, hpcc, pint = (measured[each.name] for each in packets.CONTROLS)
    free = measured[packets.unlimited(packets.DCTCP).name]
    stays = float(np.mean(pfc.queue_mb > _HIGH * pfc.peak_mb))
    yield _statement(
        "PFC only: the queue stays high", stays > 0.8, f"{_lengths(pfc)}; high {stays:.0%} of it"
    )
    # §IV-A2: "stabilised to be within a range", so neither empty nor near the overshoot.
    settled = _SMALL * dcqcn.peak_mb < float(dcqcn.later_mb.max()) < _HIGH * dcqcn.peak_mb
    yield _statement("DCQCN: overshoots, then stays within a range", settled, _lengths(dcqcn))
    yield _statement(
        "DCTCP: builds up, then becomes very small",
        _drains(dctcp),
        f"{_lengths(dctcp)}: its window alone holds it there, nothing is ever marked",
    )
    yield _statement("DCTCP without window: the same", _drains(free), _lengths(free))
    yield _statement("TIMELY: builds up, then becomes very low", _drains(timely), _lengths(timely))
    for name, each in (("HPCC", hpcc), ("HPCC-PINT", pint)):
        yield _statement(f"{name}: minimal queue", _drains(each), _lengths(each))


def _drains(run: Incast) -> bool:
    # The median: a queue that oscillates and is mostly empty drains, whatever its later peaks.
    return float(np.median(run.later_mb)) < _SMALL * run.peak_mb


def _lengths(run: Incast) -> str:
    return (
        f"peak {run.peak_mb:.2f} MB; in the second half {np.median(run.later_mb):.3f} MB (median), "
        f"{run.later_mb.max():.2f} MB at most"
    )


def _statement(quantity: str, holds: bool, comment: str) -> Row:
    return Row(quantity, "yes", "yes" if holds else "no", "", comment)


def _time_rows(measured: Mapping[str, Incast]) -> Iterator[Row]:
    last_ms = {control.name: measured[control.name].last_ms for control in packets.CONTROLS}
    for name, time_ms in last_ms.items():
        run = measured[name]
        yield Row(
            f"{name}: the last of the seven ends",
            None,
            time_ms,
            "ms",
            f"the first after {packets.completion_ms(run.ran).min():.2f} ms; nothing queued {run.idle:.0%} "
            "of the time",
        )
    slowest = max(last_ms, key=lambda name: last_ms[name])
    yield Row(
        "who finishes last", "TIMELY", slowest, "", f"TIMELY after {last_ms['TIMELY']:.2f} ms; see the notes"
    )
    others = {name: time_ms for name, time_ms in last_ms.items() if name != "TIMELY"}
    spread = max(others.values()) / min(others.values()) - 1
    tuned = {name: time_ms for name, time_ms in others.items() if name != "DCQCN"}
    yield _statement(
        "the others finish together",
        spread < _TOGETHER,
        f"within {spread:.0%} of each other, {max(tuned.values()) / min(tuned.values()) - 1:.0%} without "
        "DCQCN: HPCC carries 42 bytes more per packet and aims at 95% of the link",
    )


def _window_rows(measured: Mapping[str, Incast]) -> Iterator[Row]:
    for variant in _VARIANTS:
        run = measured[variant.name]
        yield Row(
            f"{variant.name}: longest queue",
            None,
            run.peak_mb,
            "MB",
            f"{run.pauses} PAUSE frames, {run.ran.counters['marks']} marks, the last ends after "
            f"{run.last_ms:.2f} ms",
        )


def _figure(measured: Mapping[str, Incast]) -> Figure:
    panels = []
    for control, variant in zip(packets.CONTROLS, _VARIANTS, strict=True):
        windowed = control.window == packets.WINDOW
        runs = (
            (measured[variant.name], measured[control.name])
            if windowed
            else (
                measured[control.name],
                measured[variant.name],
            )
        )
        longest = max(runs, key=lambda run: run.times_ms.size)
        # A run that ended has an empty queue, so the shorter of the two is padded with zeros.
        lines = {
            name: np.pad(run.queue_mb, (0, longest.times_ms.size - run.times_ms.size))
            for name, run in zip(("no window", "window"), runs, strict=True)
        }
        chosen = "window" if windowed else "no window"
        panels.append(QueuePanel(f"{control.name} ({chosen})", longest.times_ms, lines))
    return queues_figure(
        panels,
        3,
        "Queue of the switch while seven GPUs send 10 MB to one; in brackets the setting of the table",
        log=True,
    )
