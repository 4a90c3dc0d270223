"""A run as a file that the Perfetto UI (ui.perfetto.dev) and `chrome://tracing` open.

The file is made from the tables of a run alone, so any run can be exported at any time. The format is the
Trace Event Format in JSON: complete events (`X`), counters (`C`), arrows (`s` to `f`) and names of tracks
(`M`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hocket.errors import InputError
from hocket.results import Run
from hocket.results.lane_assignment import Lanes

Event = dict[str, Any]

_SLICES = ("flows", "iterations", "phases", "operations", "collectives", "pauses")
# Name of the group; table, and its columns with the time, the owner and the value; name of a track.
_COUNTERS = (
    ("queues", "queues", "at_s", "link", "bytes", "queue of {}"),
    ("buffers", "switch_queues", "at_s", "switch", "bytes", "buffer of {}"),
    ("rates of flows", "rates", "at_s", "flow", "rate_bps", "rate of flow {}"),
    ("rates of jobs", "rates", "start_s", "job", "rate_bps", "rate of {}"),
)


# Identifies a collective: job, iteration, name and kind.
_Collective = tuple[Any, ...]


@dataclass(frozen=True)
class _Post:
    """A rank's part in a collective: its slice `event`, in the group of tracks `process` of the rank."""

    process: int
    event: Event

    @property
    def start(self) -> float:
        return float(self.event["ts"])

    @property
    def end(self) -> float:
        return float(self.event["ts"] + self.event["dur"])


def perfetto(run: Run, path: str | Path) -> Path:
    """Writes `run` to `path` for Perfetto and returns it.

    The file has these groups of tracks:

    - the jobs: iterations, and in them phases of communication,
    - the collectives, by job and group,
    - the hosts: each message that a host sends, side by side where they overlap,
    - the ports that were paused, and counters of the recorded queues and rates,
    - each rank of a training job: a track for computation and one for each kind of communication. Arrows go
      from the rank that was last to post a collective to the ranks that waited for it, if no other collective
      of the iteration has the same name.

    Times are microseconds of simulated time. A port that is still paused at the end of the run is shown as
    paused until then. The same run gives the same bytes.

    Raises `InputError` if the run has no table that Perfetto can show, or if the file cannot be written.
    """
    path = Path(path)
    shown = (*_SLICES, *dict.fromkeys(table for _, table, *_ in _COUNTERS))
    if not any(name in run.tables for name in shown):
        raise InputError(f"{path}: the run has none of the tables that Perfetto can show: {', '.join(shown)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ns", "traceEvents": [')
            separator = "\n"
            # Event by event, since a run may have more of them than fit into memory as JSON objects.
            for event in _events(run):
                file.write(separator + json.dumps(event, ensure_ascii=False))
                separator = ",\n"
            file.write("\n]}\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _events(run: Run) -> Iterator[Event]:
    counters = [(group, _counters(run, *columns)) for group, *columns in _COUNTERS]
    groups = [
        ("jobs", _jobs(run)),
        ("collectives", _collectives(run)),
        ("hosts", _messages(run)),
        ("paused ports", _pauses(run)),
        *counters,
    ]
    for process, (name, group) in enumerate(groups, start=1):
        first = True
        for event in group:
            if first:
                yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
                first = False
            yield {**event, "pid": process}
    yield from _training(run, first_process=len(groups) + 1)


def _jobs(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    # Iterations of a training job overlap if one rank begins the next before another ends the last.
    lanes: dict[str, Lanes] = {}
    spans = _rows(run, "iterations", "job", "iteration", "start_s", "end_s")
    for job, iteration, start_s, end_s in spans:
        track = _lane_name(job, lanes.setdefault(job, Lanes()).take(start_s, end_s))
        yield from _new_thread(threads, track)
        yield _slice(threads[track], f"iteration {iteration}", start_s, end_s)
    columns = ("job", "iteration", "phase", "start_s", "end_s", "bytes")
    for job, iteration, phase, start_s, end_s, sent in _rows(run, "phases", *columns):
        yield from _new_thread(threads, job)
        about = {"iteration": iteration, "bytes per flow": sent}
        yield _slice(threads[job], f"phase {phase}", start_s, end_s, about)


# Slices of a track must be nested or disjoint. Messages of a host may overlap, so they are spread over lanes.
def _messages(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    facts = ("flow", "job", "bytes", "marks", "rate_cuts", "retransmissions")
    table = run.tables.get("flows")
    if table is None:
        return
    lanes: dict[str, Lanes] = {}
    ordered = table.cast({"src": pl.String}).sort("src", "start_s", "end_s", "flow")
    columns = ("src", "dst", "start_s", "end_s", *facts)
    for src, dst, start_s, end_s, *values in ordered.select(columns).iter_rows():
        lane = lanes.setdefault(src, Lanes()).take(start_s, end_s)
        name = _lane_name(src, lane)
        yield from _new_thread(threads, name)
        about = dict(zip(facts, values, strict=True))
        yield _slice(threads[name], f"to {dst}", start_s, end_s, about)


def _pauses(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    paused_since: dict[str, float] = {}
    for at_s, link, priority, pause in _rows(run, "pauses", "at_s", "link", "priority", "pause"):
        name = f"{link}, priority {priority}"
        yield from _new_thread(threads, name)
        if pause:
            paused_since.setdefault(name, at_s)
        elif (start_s := paused_since.pop(name, None)) is not None:
            yield _slice(threads[name], "paused", start_s, at_s)
    if paused_since:
        end_s = _end_s(run)
        for name, start_s in paused_since.items():
            yield _slice(threads[name], "paused", start_s, end_s)


def _counters(run: Run, table: str, time: str, owner: str, value: str, track: str) -> Iterator[Event]:
    # The flow engine records rates of jobs, the packet engine rates of flows: only one has the column.
    if table not in run.tables or not {time, owner} <= set(run.tables[table].columns):
        return
    for at_s, name, number in _rows(run, table, time, owner, value):
        yield {"ph": "C", "tid": 0, "name": track.format(name), "ts": _us(at_s), "args": {value: number}}


def _training(run: Run, first_process: int) -> Iterator[Event]:
    """The ranks of training jobs, as groups from number `first_process` on, and arrows between them."""
    if "operations" not in run.tables:
        return
    operations = run.tables["operations"].sort("job", "rank", "start_s", "end_s", "operation")
    hosts = {(job, rank): host for job, rank, host in _rows(run, "ranks", "job", "rank", "host")}
    posts: dict[_Collective, list[_Post]] = {}
    of_rank = operations.partition_by("job", "rank", as_dict=True, maintain_order=True)
    for process, ((job, rank), rows) in enumerate(of_rank.items(), start=first_process):
        host = hosts.get((job, rank))
        name = f"{job} rank {rank}" if host is None else f"{job} rank {rank} ({host})"
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
        # Perfetto would sort by name, which puts rank 10 before rank 2.
        yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
        for event in _operations(rows):
            yield {**event, "pid": process}
            if event["ph"] == "X" and event["cat"] not in ("compute", "send", "recv"):
                collective = (job, event["args"]["iteration"], event["name"], event["cat"])
                posts.setdefault(collective, []).append(_Post(process, event))
    yield from _waits(run, posts)


def _operations(rows: pl.DataFrame) -> Iterator[Event]:
    """Slices of one rank: a track for computation, and as many per kind of communication as overlap."""
    threads: dict[str, int] = {}
    yield from _new_thread(threads, "compute")
    lanes: dict[str, Lanes] = {}
    columns = ("kind", "name", "start_s", "end_s", "iteration", "operation")
    for kind, name, start_s, end_s, iteration, operation in rows.select(columns).iter_rows():
        track = _lane_name(kind, lanes.setdefault(kind, Lanes()).take(start_s, end_s))
        yield from _new_thread(threads, track)
        about = {"iteration": iteration, "operation": operation}
        yield {**_slice(threads[track], name, start_s, end_s, about), "cat": kind}


def _waits(run: Run, posts: "dict[_Collective, list[_Post]]") -> Iterator[Event]:
    """Arrows from the rank that was last to post a collective to each of those that waited for it."""
    columns = ("job", "iteration", "name", "kind")
    found: Counter[tuple[Any, ...]] = Counter(_rows(run, "collectives", *columns))
    number = 0
    for collective, ranks in posts.items():
        # Several groups may run collectives of the same name, and the table of operations lacks the group.
        if found[collective] != 1:
            continue
        last = max(ranks, key=lambda post: post.start)
        for post in ranks:
            if post.start < last.start < post.end:
                number += 1
                arrow = {"cat": "waited for", "name": "waited for", "id": number, "ts": last.start}
                yield {"ph": "s", "pid": last.process, "tid": last.event["tid"], **arrow}
                # The binding point "e" ends the arrow at the slice around this time, not at the next one.
                yield {"ph": "f", "bp": "e", "pid": post.process, "tid": post.event["tid"], **arrow}


def _collectives(run: Run) -> Iterator[Event]:
    if "collectives" not in run.tables:
        return
    threads: dict[str, int] = {}
    lanes: dict[str, Lanes] = {}
    facts = ("iteration", "kind", "algorithm", "ranks", "bytes", "algbw_bps", "busbw_bps")
    ordered = run.tables["collectives"].sort("job", "group", "start_s", "end_s")
    # A collective that takes no time has infinite bandwidth, which JSON cannot represent.
    finite = pl.when(pl.col("algbw_bps", "busbw_bps").is_finite()).then(pl.col("algbw_bps", "busbw_bps"))
    ordered = ordered.with_columns(finite)
    columns = ("job", "group", "name", "start_s", "end_s", *facts)
    for job, group, name, start_s, end_s, *values in ordered.select(columns).iter_rows():
        whose = f"{job}, group {group}"
        track = _lane_name(whose, lanes.setdefault(whose, Lanes()).take(start_s, end_s))
        yield from _new_thread(threads, track)
        yield _slice(threads[track], name, start_s, end_s, dict(zip(facts, values, strict=True)))


def _lane_name(track: str, lane: int) -> str:
    return track if lane == 0 else f"{track} ({lane + 1})"


def _rows(run: Run, table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
    frame = run.tables.get(table)
    return () if frame is None else frame.select(columns).iter_rows()


def _new_thread(threads: dict[str, int], name: str) -> Iterator[Event]:
    if name not in threads:
        threads[name] = len(threads) + 1
        yield {"ph": "M", "tid": threads[name], "name": "thread_name", "args": {"name": name}}


def _slice(
    thread: int, name: str, start_s: float, end_s: float, about: dict[str, Any] | None = None
) -> Event:
    event = {"ph": "X", "tid": thread, "name": name, "ts": _us(start_s), "dur": _us(end_s - start_s)}
    return event if about is None else {**event, "args": about}


def _end_s(run: Run) -> float:
    ends = (
        frame.get_column(column).max()
        for frame in run.tables.values()
        for column in ("end_s", "at_s")
        if column in frame.columns
    )
    return max(end for end in ends if isinstance(end, float))


# Six decimals of a microsecond are picoseconds, the resolution of the engines.
def _us(seconds: float) -> float:
    return round(seconds * 1e6, 6)
