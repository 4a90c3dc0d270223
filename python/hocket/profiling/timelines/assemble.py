"""A timeline and its iterations as the profile of a job: phases with rates, collectives, what is exposed."""

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

# A plan's job has few phases: gaps below this share of the period part none, nor do the shortest of many.
SHORTEST_GAP = 0.01
MOST_PHASES = 12
# What a plan's times can say.
SHORTEST_PHASE_S = 1e-6
# An iteration lasts until the next one begins, but no longer than so many periods: then there was a pause.
LATEST_NEXT = 1.5
# What profilers append to a file's name.
_SUFFIXES = (".gz", ".json", ".sqlite", ".trace", ".pt")


class Folded(NamedTuple):
    """An operation at its usual place in the iteration: from `begin_s` to `end_s`, `wire_bytes` each time."""

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
    """Profile the job of which `timeline` shows one rank.

    The phases are when it communicates; their rates are the bytes that the rank puts on the network in them
    (nccl-tests' busbw), waits for slower ranks included. `rate`, such as "50 Gbps", is that of operations of
    which the profiler trace does not say the size. With `gpus_per_server`, collectives among consecutive
    ranks of one server are not on the network, and a note says how many these are and of how many the
    profiler trace does not say the ranks; otherwise all are. `name` is the job's, by default the source's.

    A profiler trace in which nothing repeats comes out as one iteration with a confidence of 0. Takes O(n²)
    for n operations up to some ten thousand, and O(n log n) beyond.

    Raises:
        InputError: `rate` is no rate, or there are fewer than 1 GPUs per server.

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
    found: TimelineIterations,
    *,
    name: str | None = None,
    rate: str | None = None,
    gpus_per_server: int | None = None,
) -> JobProfile:
    """As `profile_timeline`, with the iterations that are given."""
    if gpus_per_server is not None and gpus_per_server < 1:
        raise InputError(f"{timeline.source}: {gpus_per_server} GPUs per server; at least 1")
    rate_bps = None if rate is None else parse_rate(rate)
    folded = fold(timeline, found, rate_bps, gpus_per_server)
    communication = merged(np.column_stack([timeline.start_s, timeline.end_s]))
    windows = iteration_windows(found)
    computes = timeline.compute_s.shape[0] > 0
    return JobProfile(
        name=name if name is not None else job_name(timeline.source),
        period_s=found.period_s,
        phases=up_phases(folded, found.period_s),
        bytes_per_iteration=math.fsum(each.wire_bytes for each in folded),
        confidence=found.confidence,
        iterations_seen=found.begin_s.size,
        jitter_s=found.spread_s,
        iteration_start_s=found.begin_s,
        evidence=TimelineEvidence(
            communication_s=communication,
            compute_s=timeline.compute_s,
            steps_s=timeline.steps_s,
            fold_s=np.array([(each.begin_s, each.end_s) for each in folded]).reshape(-1, 2),
        ),
        notes=(
            *found.notes,
            *unknown_sizes(timeline, rate, gpus_per_server),
            *(inside_servers(timeline, gpus_per_server) if gpus_per_server else ()),
        ),
        collectives=collective_uses(folded),
        compute_s=usual_cover(timeline.compute_s, windows) if computes else None,
        communication_s=usual_cover(communication, windows),
        exposed_s=exposed_s(timeline, communication, windows) if computes else None,
    )


def job_name(source: str) -> str:
    """The name of the file without what profilers append to it.

    >>> job_name("runs/worker0.pt.trace.json.gz")
    'worker0'
    """
    path = PurePath(source)
    while path.suffix in _SUFFIXES and path.stem:
        path = path.with_suffix("")
    return path.name


def iteration_windows(found: TimelineIterations) -> FloatArray:
    """From when to when each iteration (n, 2) lasts, in seconds."""
    follows_s = np.append(found.begin_s[1:], math.inf)
    near = follows_s - found.begin_s <= LATEST_NEXT * found.period_s
    return np.column_stack([found.begin_s, np.where(near, follows_s, found.begin_s + found.period_s)])


def usual_cover(intervals_s: FloatArray, windows_s: FloatArray) -> float:
    """The median over windows (n, 2) of how much of each the merged intervals (m, 2) cover."""
    return float(np.median(np.diff(covered_until(intervals_s, windows_s), axis=1)))


def exposed_s(timeline: Timeline, communication: FloatArray, windows_s: FloatArray) -> float:
    """How long an iteration communicates while nothing is computed."""
    either = merged(np.vstack([communication, timeline.compute_s]))
    exposed = np.diff(covered_until(either, windows_s) - covered_until(timeline.compute_s, windows_s), axis=1)
    return float(np.median(exposed))


def fold(
    timeline: Timeline, found: TimelineIterations, rate_bps: int | None, gpus_per_server: int | None
) -> list[Folded]:
    """The operations of an iteration at their usual places, in order of their start.

    Lane by lane, and in each as many as most iterations have; of those, the medians. The bytes are the mean.
    """
    sent = np.array([sent_bytes(each, gpus_per_server) for each in timeline.operations])[timeline.which]
    folded = []
    for rows, begins_s in lanes(timeline, found):
        start_s = timeline.start_s[rows] - begins_s[:, None]
        length_s = timeline.end_s[rows] - timeline.start_s[rows]
        for place in range(rows.shape[1]):
            begin_s = float(np.median(start_s[:, place]))
            end_s = begin_s + float(np.median(length_s[:, place]))
            operation = timeline.operations[timeline.which[rows[0, place]]]
            folded.append(Folded(begin_s, end_s, float(sent[rows[:, place]].mean()), operation))
    folded.sort(key=lambda each: (each.begin_s, each.end_s))
    return folded if rate_bps is None else at_rate(folded, rate_bps)


def at_rate(folded: Sequence[Folded], rate_bps: int) -> list[Folded]:
    """The operations in order of their start, those of unknown size sending at `rate_bps` together."""
    reached_s = 0.0
    rated = []
    for each in folded:
        if math.isnan(each.wire_bytes):
            alone_s = max(0.0, each.end_s - max(each.begin_s, reached_s))
            reached_s = max(reached_s, each.end_s)
            each = each._replace(wire_bytes=alone_s * rate_bps / 8)
        rated.append(each)
    return rated


def lanes(timeline: Timeline, found: TimelineIterations) -> list[tuple[IntArray, FloatArray]]:
    """Of each lane the numbers of its operations (r, c) in the r iterations that have as many as most, c, and
    when those iterations begin (r).
    """
    windows = iteration_windows(found)
    # Iterations begin after the longest quiet: one that is followed by none ends somewhere in it.
    begins = np.searchsorted(timeline.start_s, found.begin_s)
    windows[:, 1] -= 0.5 * np.minimum(quiet_before(timeline)[begins], found.period_s)
    inside = np.searchsorted(windows[:, 0], timeline.start_s, side="right") - 1
    known = (inside >= 0) & (timeline.start_s < windows[np.maximum(inside, 0), 1])
    by_lane: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number in np.flatnonzero(known).tolist():
        lane = timeline.operations[timeline.which[number]].lane
        by_lane[lane][int(inside[number])].append(number)
    found_lanes = []
    for iterations in by_lane.values():
        counts = Counter(len(numbers) for numbers in iterations.values())
        counts[0] = found.begin_s.size - len(iterations)
        count = max(counts, key=lambda each: (counts[each], each))
        rows = [(number, numbers) for number, numbers in iterations.items() if len(numbers) == count]
        if rows:
            begins_s = found.begin_s[[number for number, _ in rows]]
            found_lanes.append((np.array([numbers for _, numbers in rows]), begins_s))
    return found_lanes


def up_phases(folded: Sequence[Folded], period_s: float) -> tuple[UpPhase, ...]:
    """Stretches of the iteration in which something is sent, and their mean rates.

    Of more than `MOST_PHASES`, those with the shortest gaps between them are one.
    """
    sending = [each for each in folded if each.wire_bytes != 0 and each.begin_s < period_s]
    if not sending:
        return ()
    spans = np.array([(each.begin_s, max(each.end_s, each.begin_s + SHORTEST_PHASE_S)) for each in sending])
    busy = merged(np.minimum(spans, period_s))
    gaps_s = busy[1:, 0] - busy[:-1, 1]
    longest = np.sort(gaps_s)[::-1][: MOST_PHASES - 1]
    least_s = max(SHORTEST_GAP * period_s, float(longest[-1]) if longest.size == MOST_PHASES - 1 else 0.0)
    parts = np.flatnonzero(gaps_s >= least_s)[: MOST_PHASES - 1]
    begins_s, ends_s = busy[np.append(0, parts + 1), 0], busy[np.append(parts, gaps_s.size), 1]
    phase_of = np.searchsorted(begins_s, spans[:, 0], side="right") - 1
    sent = np.bincount(phase_of, [each.wire_bytes for each in sending], begins_s.size)
    return tuple(
        UpPhase(begin_s, end_s - begin_s, wire * 8 / (end_s - begin_s))
        for begin_s, end_s, wire in zip(begins_s.tolist(), ends_s.tolist(), sent.tolist(), strict=True)
    )


def collective_uses(folded: Sequence[Folded]) -> tuple[CollectiveUse, ...]:
    """The operations of an iteration by kind, in order of their first start."""
    by_kind: dict[str, list[Folded]] = {}
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
    """Notes on which operations stay inside servers of so many GPUs, so that nothing of them is sent."""
    operations = [timeline.operations[number] for number in timeline.which.tolist()]
    inside = sum(stays_inside(each, gpus_per_server) for each in operations)
    unknown = sum(not each.ranks for each in operations)
    of_all, server = f"of {len(operations):,} operations", f"a server of {gpus_per_server} GPUs"
    notes = []
    if unknown:
        notes.append(
            f"the profiler trace does not say the ranks of {unknown:,} {of_all}: they count as if they left "
            "their server"
        )
    if inside:
        notes.append(f"{inside:,} {of_all} stay inside {server}: no NIC sends anything for them")
    elif not unknown:
        notes.append(f"none {of_all} stays inside {server}: all count in full")
    return notes


def unknown_sizes(timeline: Timeline, rate: str | None, gpus_per_server: int | None) -> list[str]:
    """A note where sizes of what is sent are missing."""
    sizes = [sent_bytes(each, gpus_per_server) for each in timeline.operations]
    missing = np.isnan(sizes)[timeline.which]
    if not missing.any():
        return []
    instead = f"they count as {rate}" if rate is not None else "their rate is not known"
    return [
        f"the profiler trace does not say the size of {int(missing.sum()):,} of {missing.size:,} operations: "
        f"{instead}"
    ]
