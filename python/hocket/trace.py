"""A run as a trace that the Perfetto UI (ui.perfetto.dev) and `chrome://tracing` open.

Read from the tables of a run alone, so it can be made of any run at any time. The format is the Trace Event
Format in JSON: complete events (`X`), counters (`C`) and names of tracks (`M`).
"""

import heapq
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from hocket.errors import InputError
from hocket.results import Run

Event = dict[str, Any]

_SLICES = ("flows", "iterations", "phases", "pauses")
# Group, table, its columns of time, of whose the value is, and of the value, and the name of a track.
_COUNTERS = (
    ("queues", "queues", "time_ps", "link", "bytes", "queue of {}"),
    ("buffers", "switch_queues", "time_ps", "switch", "bytes", "buffer of {}"),
    ("rates of flows", "rates", "time_ps", "flow", "rate_bps", "rate of flow {}"),
    ("rates of jobs", "rates", "start_ps", "job", "rate_bps", "rate of {}"),
)


def perfetto(run: Run, path: str | Path) -> Path:
    """Writes `run` as a trace to `path` and returns it.

    There is a group of tracks for the jobs (iterations, and within them phases of communication), one for
    the hosts (each message that a host sends, beside each other where they overlap), one for the ports that
    were paused, and counters of the queues and rates that were recorded. Times are microseconds of simulated
    time. A port that is still paused when the run ends is shown as paused until then. The same run gives the
    same bytes.

    Raises `InputError` if the run has no table that a trace shows, or if the file cannot be written.
    """
    path = Path(path)
    shown = (*_SLICES, *dict.fromkeys(table for _, table, *_ in _COUNTERS))
    if not any(name in run.tables for name in shown):
        raise InputError(f"{path}: the run has none of the tables that a trace shows: {', '.join(shown)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ns", "traceEvents": [')
            separator = "\n"
            for event in _events(run):
                file.write(separator + json.dumps(event, ensure_ascii=False))
                separator = ",\n"
            file.write("\n]}\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _events(run: Run) -> Iterator[Event]:
    counters = [(group, _counters(run, *columns)) for group, *columns in _COUNTERS]
    groups = [("jobs", _jobs(run)), ("hosts", _messages(run)), ("paused ports", _pauses(run)), *counters]
    for process, (name, group) in enumerate(groups, start=1):
        first = True
        for event in group:
            if first:
                yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
                first = False
            yield {**event, "pid": process}


def _jobs(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    for job, iteration, start_ps, end_ps in _rows(
        run, "iterations", "job", "iteration", "start_ps", "end_ps"
    ):
        yield from _new_thread(threads, job)
        yield _slice(threads[job], f"iteration {iteration}", start_ps, end_ps)
    columns = ("job", "iteration", "phase", "start_ps", "end_ps", "bytes")
    for job, iteration, phase, start_ps, end_ps, sent in _rows(run, "phases", *columns):
        yield from _new_thread(threads, job)
        about = {"iteration": iteration, "bytes per flow": sent}
        yield _slice(threads[job], f"phase {phase}", start_ps, end_ps, about)


# Slices of one track must lie within each other or apart; messages of one host do neither.
def _messages(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    facts = ("flow", "job", "bytes", "marks", "rate_cuts", "retransmissions")
    table = run.tables.get("flows")
    if table is None:
        return
    lanes: dict[str, _Lanes] = {}
    ordered = table.cast({"src": pl.String}).sort("src", "start_ps", "end_ps", "flow")
    columns = ("src", "dst", "start_ps", "end_ps", *facts)
    for src, dst, start_ps, end_ps, *values in ordered.select(columns).iter_rows():
        lane = lanes.setdefault(src, _Lanes()).take(start_ps, end_ps)
        name = src if lane == 0 else f"{src} ({lane + 1})"
        yield from _new_thread(threads, name)
        about = dict(zip(facts, values, strict=True))
        yield _slice(threads[name], f"to {dst}", start_ps, end_ps, about)


def _pauses(run: Run) -> Iterator[Event]:
    threads: dict[str, int] = {}
    paused_since: dict[str, int] = {}
    for time_ps, link, priority, pause in _rows(run, "pauses", "time_ps", "link", "priority", "pause"):
        name = f"{link}, priority {priority}"
        yield from _new_thread(threads, name)
        if pause:
            paused_since.setdefault(name, time_ps)
        elif (start_ps := paused_since.pop(name, None)) is not None:
            yield _slice(threads[name], "paused", start_ps, time_ps)
    if paused_since:
        end_ps = _end_ps(run)
        for name, start_ps in paused_since.items():
            yield _slice(threads[name], "paused", start_ps, end_ps)


def _counters(run: Run, table: str, time: str, of: str, value: str, track: str) -> Iterator[Event]:
    # The flow engine's rates are those of jobs, the packet engine's those of flows.
    if table not in run.tables or not {time, of} <= set(run.tables[table].columns):
        return
    for time_ps, name, number in _rows(run, table, time, of, value):
        yield {"ph": "C", "tid": 0, "name": track.format(name), "ts": _us(time_ps), "args": {value: number}}


class _Lanes:
    """Tracks of one host: a slice takes the first on which the slices before it have ended."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []
        self._free: list[int] = []

    def take(self, start_ps: int, end_ps: int) -> int:
        while self._busy and self._busy[0][0] <= start_ps:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        lane = heapq.heappop(self._free) if self._free else len(self._busy)
        heapq.heappush(self._busy, (end_ps, lane))
        return lane


def _rows(run: Run, table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
    frame = run.tables.get(table)
    return () if frame is None else frame.select(columns).iter_rows()


def _new_thread(threads: dict[str, int], name: str) -> Iterator[Event]:
    if name not in threads:
        threads[name] = len(threads) + 1
        yield {"ph": "M", "tid": threads[name], "name": "thread_name", "args": {"name": name}}


def _slice(thread: int, name: str, start_ps: int, end_ps: int, about: dict[str, Any] | None = None) -> Event:
    event = {"ph": "X", "tid": thread, "name": name, "ts": _us(start_ps), "dur": _us(end_ps - start_ps)}
    return event if about is None else {**event, "args": about}


def _end_ps(run: Run) -> int:
    ends = (
        frame.get_column(column).max()
        for frame in run.tables.values()
        for column in ("end_ps", "time_ps")
        if column in frame.columns
    )
    return max(int(end) for end in ends if isinstance(end, int))


# Whole picoseconds below 2^53 stay exact in microseconds to six digits.
def _us(ps: int) -> float:
    return ps / 1_000_000
