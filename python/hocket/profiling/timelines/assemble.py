"""Makes a profile from a timeline: phases with rates, collectives and exposed communication."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import FloatArray
from hocket.profiling.job import CollectiveUse, JobProfile, TimelineEvidence, UpPhase
from hocket.profiling.timelines.iterations import TimelineIterations, quiet_before, timeline_iterations
from hocket.profiling.timelines.timeline import IntArray, Operation, Timeline, covered_until, merged
from hocket.profiling.timelines.wire import sent_bytes, stays_inside
from hocket.units import parse_rate

# A plan's job has few phases. Gaps below this share of the period do not separate phases. If there are still
# too many, those with the shortest gaps between them are joined.
SHORTEST_GAP = 0.01
MOST_PHASES = 12
# Jobs are written with times in whole microseconds.
SHORTEST_PHASE_S = 1e-6
# An iteration lasts until the next one begins. If that takes more periods than this, there was a pause.
LATEST_NEXT = 1.5
# Suffixes that profilers append to a file's name.
_SUFFIXES = (".gz", ".json", ".sqlite", ".trace", ".pt")


class FoldedOperation(NamedTuple):
    """An operation at its usual time in the iteration, `begin_s` to `end_s`, and its mean `wire_bytes`."""

    begin_s: float
    end_s: float
    wire_bytes: float
    operation: Operation


def profile_timeline(
    timeline: Timeline,
    *,
    name: str | None = None,
    rate: str | None = None,
    gpus_per_server: int | None = None,
) -> JobProfile:
    """Profiles a job from the timeline of one of its ranks.

    Phases are the times of communication. Their rates are the bytes that the rank sends over the network
    (nccl-tests' busbw) divided by the duration, which includes waits for slower ranks. `rate`, such as "50
    Gbps", is the rate of operations of unknown size. With `gpus_per_server`, collectives among consecutive
    ranks of one server do not use the network, and a note counts these and the operations of unknown ranks;
    without it, all operations use the network. `name` is the job's name, by default that of the source.

    If nothing repeats, the result is a single iteration with a confidence of 0. Takes O(n²) for n operations
    up to some ten thousand, and O(n log n) beyond.

    Raises:
        InputError: `rate` is not a rate, or `gpus_per_server` is below 1.

    >>> all_reduce = Operation("all-reduce", size_bytes=10**9, group_size=2)
    >>> starts = [0.0, 0.3, 1.0, 1.3, 2.0, 2.3, 3.0, 3.3, 4.0, 4.3, 5.0, 5.3]
    >>> timeline = Timeline.of("a", starts, [each + 0.2 for each in starts], [all_reduce] * 12)
    >>> profile = profile_timeline(timeline)
    >>> print(f"{profile.period_s:.2f} s, {[f'{p.rate_bps / 1e9:.0f} Gbps' for p in profile.phases]}")
    1.00 s, ['40 Gbps', '40 Gbps']
    """
    return profile_iterations(
        timeline, timeline_iterations(timeline), name=name, rate=rate, gpus_per_server=gpus_per_server
    )


def profile_iterations(
    timeline: Timeline,
    iterations: TimelineIterations,
    *,
    name: str | None = None,
    rate: str | None = None,
    gpus_per_server: int | None = None,
) -> JobProfile:
    """Like `profile_timeline`, with given iterations."""
    if gpus_per_server is not None and gpus_per_server < 1:
        raise InputError(f"{timeline.source}: {gpus_per_server} GPUs per server; there must be at least 1")
    rate_bps = None if rate is None else parse_rate(rate)
    folded = fold(timeline, iterations, rate_bps, gpus_per_server)
    communication = merged(np.column_stack([timeline.start_s, timeline.end_s]))
    windows = iteration_windows(iterations)
    # Without kernels, "computes for 0 ms" would be false: the trace does not show computation.
    computes = timeline.compute_s.shape[0] > 0
    return JobProfile(
        name=name if name is not None else job_name(timeline.source),
        period_s=iterations.period_s,
        phases=up_phases(folded, iterations.period_s),
        bytes_per_iteration=math.fsum(each.wire_bytes for each in folded),
        confidence=iterations.confidence,
        iterations_seen=iterations.begin_s.size,
        jitter_s=iterations.spread_s,
        iteration_start_s=iterations.begin_s,
        evidence=TimelineEvidence(
            communication_s=communication,
            compute_s=timeline.compute_s,
            steps_s=timeline.steps_s,
            fold_s=np.array([(each.begin_s, each.end_s) for each in folded]).reshape(-1, 2),
        ),
        notes=(
            *iterations.notes,
            *unknown_sizes(timeline, rate, gpus_per_server),
            *(inside_servers(timeline, gpus_per_server) if gpus_per_server else ()),
        ),
        collectives=collective_uses(folded),
        compute_s=median_cover(timeline.compute_s, windows) if computes else None,
        communication_s=median_cover(communication, windows),
        exposed_s=exposed_s(timeline, communication, windows) if computes else None,
    )


def job_name(source: str) -> str:
    """The name of the file without the suffixes that profilers append.

    >>> job_name("runs/worker0.pt.trace.json.gz")
    'worker0'
    """
    path = PurePath(source)
    while path.suffix in _SUFFIXES and path.stem:
        path = path.with_suffix("")
    return path.name


def iteration_windows(iterations: TimelineIterations) -> FloatArray:
    """Start and end of each iteration (n, 2), in seconds."""
    follows_s = np.append(iterations.begin_s[1:], math.inf)
    near = follows_s - iterations.begin_s <= LATEST_NEXT * iterations.period_s
    return np.column_stack(
        [iterations.begin_s, np.where(near, follows_s, iterations.begin_s + iterations.period_s)]
    )


def median_cover(intervals_s: FloatArray, windows_s: FloatArray) -> float:
    """Seconds of a window that the merged intervals (m, 2) cover: the median over the windows (n, 2)."""
    return float(np.median(np.diff(covered_until(intervals_s, windows_s), axis=1)))


def exposed_s(timeline: Timeline, communication: FloatArray, windows_s: FloatArray) -> float:
    """Exposed communication of an iteration: seconds of communication without computation, the median."""
    either = merged(np.vstack([communication, timeline.compute_s]))
    exposed = np.diff(covered_until(either, windows_s) - covered_until(timeline.compute_s, windows_s), axis=1)
    return float(np.median(exposed))


def fold(
    timeline: Timeline, iterations: TimelineIterations, rate_bps: int | None, gpus_per_server: int | None
) -> list[FoldedOperation]:
    """The operations of an iteration at their usual times, in order of their start.

    Each lane contributes as many operations as it has in most iterations. Times are the medians over those
    iterations, bytes the means.
    """
    sent = np.array([sent_bytes(each, gpus_per_server) for each in timeline.operations])[timeline.which]
    folded = []
    for rows, begins_s in lanes(timeline, iterations):
        start_s = timeline.start_s[rows] - begins_s[:, None]
        length_s = timeline.end_s[rows] - timeline.start_s[rows]
        for place in range(rows.shape[1]):
            begin_s = float(np.median(start_s[:, place]))
            end_s = begin_s + float(np.median(length_s[:, place]))
            operation = timeline.operations[timeline.which[rows[0, place]]]
            folded.append(FoldedOperation(begin_s, end_s, float(sent[rows[:, place]].mean()), operation))
    folded.sort(key=lambda each: (each.begin_s, each.end_s))
    return folded if rate_bps is None else at_rate(folded, rate_bps)


def at_rate(folded: Sequence[FoldedOperation], rate_bps: int) -> list[FoldedOperation]:
    """The operations, those of unknown size with bytes sent at `rate_bps`, which overlapping ones share."""
    reached_s = 0.0
    rated = []
    for each in folded:
        if math.isnan(each.wire_bytes):
            alone_s = max(0.0, each.end_s - max(each.begin_s, reached_s))
            reached_s = max(reached_s, each.end_s)
            each = each._replace(wire_bytes=alone_s * rate_bps / 8)
        rated.append(each)
    return rated


def lanes(timeline: Timeline, iterations: TimelineIterations) -> list[tuple[IntArray, FloatArray]]:
    """For each lane, the numbers of its operations (r, c) in the r iterations with the most common count c,
    and when those iterations begin (r).
    """
    windows = iteration_windows(iterations)
    # Iterations begin after the longest quiet time. One without a successor ends at an unknown point of that
    # time: take its middle.
    begins = np.searchsorted(timeline.start_s, iterations.begin_s)
    windows[:, 1] -= 0.5 * np.minimum(quiet_before(timeline)[begins], iterations.period_s)
    inside = np.searchsorted(windows[:, 0], timeline.start_s, side="right") - 1
    known = (inside >= 0) & (timeline.start_s < windows[np.maximum(inside, 0), 1])
    by_lane: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number in np.flatnonzero(known).tolist():
        lane = timeline.operations[timeline.which[number]].lane
        by_lane[lane][int(inside[number])].append(number)
    of_lanes = []
    for by_iteration in by_lane.values():
        # Iterations without an operation in this lane count too, so that a checkpoint's lane is left out.
        counts = Counter(len(numbers) for numbers in by_iteration.values())
        counts[0] = iterations.begin_s.size - len(by_iteration)
        count = max(counts, key=lambda each: (counts[each], each))
        rows = [(number, numbers) for number, numbers in by_iteration.items() if len(numbers) == count]
        if rows:
            begins_s = iterations.begin_s[[number for number, _ in rows]]
            of_lanes.append((np.array([numbers for _, numbers in rows]), begins_s))
    return of_lanes


def up_phases(folded: Sequence[FoldedOperation], period_s: float) -> tuple[UpPhase, ...]:
    """The stretches of the iteration in which the job sends, with their mean rates.

    If there are more than `MOST_PHASES`, those with the shortest gaps between them are joined.
    """
    sending = [each for each in folded if each.wire_bytes != 0 and each.begin_s < period_s]
    if not sending:
        return ()
    # An operation without a duration still sends its bytes, at a finite rate.
    spans = np.array([(each.begin_s, max(each.end_s, each.begin_s + SHORTEST_PHASE_S)) for each in sending])
    busy = merged(np.minimum(spans, period_s))
    gaps_s = busy[1:, 0] - busy[:-1, 1]
    longest = np.sort(gaps_s)[::-1][: MOST_PHASES - 1]
    least_s = max(SHORTEST_GAP * period_s, float(longest[-1]) if longest.size == MOST_PHASES - 1 else 0.0)
    # Among gaps of equal length, the first ones separate phases.
    parts = np.flatnonzero(gaps_s >= least_s)[: MOST_PHASES - 1]
    begins_s, ends_s = busy[np.append(0, parts + 1), 0], busy[np.append(parts, gaps_s.size), 1]
    phase_of = np.searchsorted(begins_s, spans[:, 0], side="right") - 1
    sent = np.bincount(phase_of, [each.wire_bytes for each in sending], begins_s.size)
    return tuple(
        UpPhase(begin_s, end_s - begin_s, wire * 8 / (end_s - begin_s))
        for begin_s, end_s, wire in zip(begins_s.tolist(), ends_s.tolist(), sent.tolist(), strict=True)
    )


def collective_uses(folded: Sequence[FoldedOperation]) -> tuple[CollectiveUse, ...]:
    """The operations of an iteration by kind, in order of their first start."""
    by_kind: dict[str, list[FoldedOperation]] = {}
    for each in folded:
        by_kind.setdefault(each.operation.kind, []).append(each)
    return tuple(
        CollectiveUse(
            kind,
            len(uses),
            math.fsum(math.nan if (size := use.operation.size_bytes) is None else size for use in uses),
            math.fsum(use.end_s - use.begin_s for use in uses),
        )
        for kind, uses in by_kind.items()
    )


def inside_servers(timeline: Timeline, gpus_per_server: int) -> list[str]:
    """Notes on the operations that stay inside servers of `gpus_per_server` GPUs and thus send nothing."""
    operations = [timeline.operations[number] for number in timeline.which.tolist()]
    inside = sum(stays_inside(each, gpus_per_server) for each in operations)
    unknown = sum(not each.ranks for each in operations)
    of_all, server = f"of {len(operations):,} operations", f"a server of {gpus_per_server} GPUs"
    notes = []
    if unknown:
        notes.append(
            f"the profiler trace lacks the ranks of {unknown:,} {of_all}: they count as if they left "
            "their server"
        )
    if inside:
        notes.append(f"{inside:,} {of_all} stay inside {server}: no NIC sends anything for them")
    elif not unknown:
        notes.append(f"none {of_all} stays inside {server}: all count in full")
    return notes


def unknown_sizes(timeline: Timeline, rate: str | None, gpus_per_server: int | None) -> list[str]:
    """A note on the operations of unknown size, if there are any."""
    sizes = [sent_bytes(each, gpus_per_server) for each in timeline.operations]
    missing = np.isnan(sizes)[timeline.which]
    if not missing.any():
        return []
    instead = f"they are assumed to send at {rate}" if rate is not None else "their rate is unknown"
    return [
        f"the profiler trace lacks the size of {int(missing.sum()):,} of {missing.size:,} "
        f"operations: {instead}"
    ]
