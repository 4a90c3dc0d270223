"""R6: completion times and PAUSE frames of collectives under six congestion controls (HOTI'22 Fig 8, 9)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.figure import Figure

from hocket.figures.bars import GroupedBars, bars_figure
from hocket_reproduce.targets import packets, platform
from hocket_reproduce.targets.packets import Control
from hocket_reproduce.targets.platform import (
    ONE_D,
    TWO_D,
    Algorithm,
    PlatformRun,
)
from hocket_reproduce.targets.setting import Tables
from hocket_reproduce.targets.target import Progress, Reproduction, Row

RACKS = 8
SIZE = "128 MB"
"""§IV-C: 128 GPUs, and bytes per collective."""

# Completion times within 5% count as equal, as in R3 and R4.
_EQUAL = 1.05
# §IV-C2's "significant reduction" has no numbers: half the PAUSE frames, and a fifth less time.
_FAR_FEWER, _CLEARLY = 0.5, 0.8


@dataclass(frozen=True)
class Case:
    """A collective of Fig 8, run as nccl-tests runs one."""

    name: str
    kind: str
    algorithm: Algorithm

    def job(self, size: str) -> Tables:
        """A job of one iteration: this collective with `size`."""
        return platform.training_job(self.name, {"collective": self.kind, "bytes": size}, self.algorithm)

    @property
    def with_other_chunks(self) -> "Case":
        """The same collective with four chunks in flight instead of one, or one instead of four."""
        in_flight = packets.CHUNKS if self.algorithm.in_flight == 1 else 1
        return replace(self, algorithm=replace(self.algorithm, in_flight=in_flight))


CASES = (
    Case("All-To-All", "all-to-all", ONE_D),
    Case("All-Reduce 1D", "all-reduce", ONE_D),
    Case("All-Reduce 2D", "all-reduce", TWO_D),
)

Measured = Mapping[tuple[str, str], PlatformRun]
"""Results by case and congestion control."""


def measure(
    cases: Sequence[Case], controls: Sequence[Control], racks: int, size: str, progress: Progress
) -> dict[tuple[str, str], PlatformRun]:
    """Each of `cases` under each of `controls`."""
    plans = {
        (case.name, control.name): platform.plan(control, racks, [case.job(size)])
        for case in cases
        for control in controls
    }
    return platform.measure(plans, progress)


def reproduce(progress: Progress) -> Reproduction:
    """§IV-C's statements on Fig 8 and 9, and each completion time."""
    measured = measure(CASES, packets.CONTROLS, RACKS, SIZE, progress)
    others = measure(
        [case.with_other_chunks for case in CASES],
        [packets.PFC_ONLY],
        RACKS,
        SIZE,
        lambda doing: progress(f"chunks otherwise: {doing}"),
    )
    return Reproduction(
        "R6",
        "Collectives on a Clos network: completion times and PAUSE frames (HOTI'22 Fig 8 and 9)",
        (*rows(measured), *_rows_of_chunks(measured, others)),
        partial(_figure, measured),
        (
            f"128 MB on 128 GPUs, once. {platform.OVERSUBSCRIBED} {packets.PARAMETERS}",
            platform.IN_FLIGHT,
            "PAUSE frames are those that ToRs and spines sent. Figures 8 and 9 have no numbers; times "
            "within 5% count as equal, as in R3 and R4.",
            "A queue pair keeps its rate from chunk to chunk, as a NIC's does; the paper's simulator "
            "creates new ones (see R5). So a rate that was cut stays cut: DCQCN's increase by 40 Mbps "
            "every 300 µs is too slow for a 2D All-Reduce of a few ms. HPCC sends 42 bytes more with each "
            "packet of 1,000 and aims at 95% of the link. TIMELY is not the worst here; the paper ran it "
            "with the parameters of TIMELY's own paper.",
        ),
    )


def rows(measured: Measured) -> Iterator[Row]:
    """The statements of §IV-C1 and §IV-C2, then what was measured."""
    for case in dict.fromkeys(case for case, _ in measured):
        runs = {control: ran for (name, control), ran in measured.items() if name == case}
        yield from _statements(case, runs)
    for name in dict.fromkeys(control for _, control in measured):
        yield from _of_two_dimensions(name, measured["All-Reduce 1D", name], measured["All-Reduce 2D", name])
    for (case, name), ran in measured.items():
        yield Row(
            f"{case}, {name}",
            None,
            ran.alone.iteration_ms,
            "ms",
            f"{ran.pauses:,} PAUSE frames; at most {ran.peak_mb:.1f} MB in a switch",
        )


def _statements(case: str, runs: Mapping[str, PlatformRun]) -> Iterator[Row]:
    times_ms = {name: ran.alone.iteration_ms for name, ran in runs.items()}
    slowest = max(times_ms, key=lambda name: times_ms[name])
    fastest = min(times_ms, key=lambda name: times_ms[name])
    only = packets.PFC_ONLY.name
    yield Row(
        f"{case}: who finishes last",
        "TIMELY",
        slowest,
        "",
        "; ".join(f"{name} {time:.2f} ms" for name, time in times_ms.items()),
    )
    others = {name: time for name, time in times_ms.items() if name != "TIMELY"}
    yield Row(
        f"{case}: PFC only takes as long as the best, or is the best",
        "yes",
        "yes" if times_ms[only] <= _EQUAL * times_ms[fastest] else "no",
        "",
        f"{times_ms[only]:.2f} ms; {fastest} {times_ms[fastest]:.2f} ms; without TIMELY all are within "
        f"{max(others.values()) / min(others.values()) - 1:.0%} of each other",
    )
    most = max(runs, key=lambda name: runs[name].pauses)
    yield Row(
        f"{case}: most PAUSE frames",
        only,
        most if runs[most].pauses else "none at all",
        "",
        ", ".join(f"{name} {ran.pauses:,}" for name, ran in runs.items()),
    )


def _of_two_dimensions(name: str, one: PlatformRun, two: PlatformRun) -> Iterator[Row]:
    faster = two.alone.iteration_ms / one.alone.iteration_ms
    yield Row(
        f"{name}: 2D is clearly faster than 1D",
        "yes",
        "yes" if faster < _CLEARLY else "no",
        "",
        f"{1 / faster:.1f} times as fast",
    )
    yield Row(
        f"{name}: 2D has far fewer PAUSE frames than 1D",
        "yes",
        "yes" if two.pauses <= _FAR_FEWER * one.pauses else "no",
        "",
        f"{two.pauses:,} and {one.pauses:,}",
    )


def _rows_of_chunks(measured: Measured, others: Measured) -> Iterator[Row]:
    for case in CASES:
        chosen = measured[case.name, packets.PFC_ONLY.name]
        other = others[case.name, packets.PFC_ONLY.name]
        how = (
            "one chunk after another"
            if case.with_other_chunks.algorithm.in_flight == 1
            else "four chunks at once"
        )
        yield Row(
            f"{case.name}, PFC only, {how}",
            None,
            other.alone.iteration_ms,
            "ms",
            f"{other.pauses:,} PAUSE frames; otherwise {chosen.alone.iteration_ms:.3f} ms and "
            f"{chosen.pauses:,}",
        )


def _figure(measured: Measured) -> Figure:
    cases = list(dict.fromkeys(case for case, _ in measured))
    controls = list(dict.fromkeys(control for _, control in measured))

    def panel(
        title: str, quantity: str, values: Mapping[tuple[str, str], float], *, log: bool
    ) -> GroupedBars:
        series = {control: [values[case, control] for case in cases] for control in controls}
        return GroupedBars(title, quantity, cases, series, log)

    times_ms = {key: ran.alone.iteration_ms for key, ran in measured.items()}
    pauses = {key: float(ran.pauses) for key, ran in measured.items()}
    return bars_figure(
        [
            panel("Completion time", "time (ms)", times_ms, log=False),
            panel("PAUSE frames of ToRs and spines", "frames", pauses, log=True),
        ],
        "Collectives of 128 MB on 128 GPUs",
    )
