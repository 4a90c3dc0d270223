"""NCCL Inspector's JSON lines as a timeline: when the collectives of one process ran, as far as recorded.

The format is the output of NCCL's `plugins/profiler/inspector` (formerly `ext-profiler/inspector`), versions
4.0 to 4.3: `inspector_json.cc` writes it, its README explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import listed
from hocket.profiling.job import JobProfile
from hocket.profiling.timelines import profile_timeline
from hocket.profiling.timelines.names import collective_kind
from hocket.profiling.timelines.timeline import Operation, Timeline
from hocket.units import shown

MAX_FILE_BYTES = 2_000_000_000
"""The largest file that is read: by the plugin's own estimate, some five million collectives."""

# Records of one dump are written within microseconds of each other, and dumps are further apart: the shortest
# interval in the plugin's README is 500 µs.
_SAME_DUMP_US = 100
_FEWEST_DUMPS = 3
# As with readings of counters, an iteration is resolved if it contains this many dumps.
_RESOLVED_DUMPS = 12.0

_NOT_RECORDED = "NCCL Inspector records neither computation nor messages below its least size, 8 KiB"

# For these, NCCL counts the bytes of one rank, and nccl-tests those of all ranks together.
_COUNTED_BY_RANK = ("all-gather", "reduce-scatter", "all-to-all")

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Microseconds = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Header(msgspec.Struct):
    id: str
    n_ranks: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class _Metadata(msgspec.Struct):
    dump_timestamp_us: _Whole
    hostname: str = ""
    pid: int = 0


class _Kernel(msgspec.Struct):
    kernel_start_ts: _Whole = 0


class _Times(msgspec.Struct):
    kernel_events: list[_Kernel] = []


class _Collective(
    msgspec.Struct,
    rename={
        "kind": "coll",
        "size_bytes": "coll_msg_size_bytes",
        "length_us": "coll_exec_time_us",
        "times": "event_trace_ts",
    },
):
    kind: str
    size_bytes: _Whole
    length_us: _Microseconds
    times: _Times | None = None


class _Exchange(
    msgspec.Struct,
    rename={
        "kind": "p2p",
        "size_bytes": "p2p_msg_size_bytes",
        "length_us": "p2p_exec_time_us",
        "times": "event_trace_ts",
        "peer": "p2p_peer",
    },
):
    kind: str
    size_bytes: _Whole
    length_us: _Microseconds
    peer: int
    times: _Times | None = None


class _Stats(msgspec.Struct):
    coll_dropped_since_last_dump: _Whole = 0
    p2p_dropped_since_last_dump: _Whole = 0


class _Line(msgspec.Struct):
    header: _Header | None = None
    metadata: _Metadata | None = None
    coll_perf: _Collective | None = None
    p2p_perf: _Exchange | None = None
    dump_stats: _Stats | None = None


@dataclass(frozen=True)
class Dump:
    """When a dump of a communicator was written (µs since 1970), and by which process."""

    communicator: str
    ranks: int
    time_us: int
    process: str


@dataclass(frozen=True)
class Record:
    """An operation that ended before its dump; `start_us` is None unless the log is verbose."""

    dump: Dump
    operation: Operation
    length_us: float
    start_us: int | None


@dataclass(frozen=True)
class Log:
    """The records of a file, in order, and the number of records that the plugin dropped."""

    records: tuple[Record, ...]
    dropped: int


def profile_inspector(
    path: str | Path, *, name: str | None = None, rate: str | None = None, gpus_per_server: int | None = None
) -> JobProfile:
    """Profiles the job whose rank wrote the log at `path`; otherwise like `profile_timeline`.

    A log that is not verbose has the times of dumps, not of operations. The confidence is then lowered unless
    an iteration contains twelve dumps.

    Raises `InputError` if the file is not the log of one process, or does not show when operations ran.
    """
    timeline, resolution_s = read_inspector(path)
    profile = profile_timeline(
        timeline, name=name or Path(path).stem, rate=rate, gpus_per_server=gpus_per_server
    )
    if resolution_s == 0:
        return replace(profile, notes=(*profile.notes, _NOT_RECORDED))
    resolved = min(1.0, profile.period_s / (_RESOLVED_DUMPS * resolution_s))
    estimated = (
        f"times are those of dumps, {resolution_s * 1e3:.3g} ms apart; NCCL_INSPECTOR_DUMP_VERBOSE=1 records "
        "those of operations"
    )
    return replace(
        profile, confidence=profile.confidence * resolved, notes=(*profile.notes, _NOT_RECORDED, estimated)
    )


def read_inspector(path: str | Path) -> tuple[Timeline, float]:
    """The timeline of a log, and the uncertainty (s) of the ends of operations (0: exact).

    Raises `InputError` like `profile_inspector`.
    """
    log = read_log(Path(path))
    starts_us = [record.start_us for record in log.records if record.start_us is not None]
    resolution_s = 0.0
    # One clock for all: a log that is verbose only in part is treated like one that is not.
    if len(starts_us) < len(log.records):
        starts_us, resolution_s = estimated_starts(log.records, str(path))
    # Subtracted before the conversion: a float of seconds since 1970 cannot resolve parts of a microsecond.
    first_us = min(starts_us)
    start_s = [(start_us - first_us) / 1e6 for start_us in starts_us]
    timeline = Timeline.of(
        str(path),
        start_s,
        [start + record.length_us / 1e6 for start, record in zip(start_s, log.records, strict=True)],
        [record.operation for record in log.records],
        trust=len(log.records) / (len(log.records) + log.dropped),
        caveat=f"NCCL Inspector dropped {log.dropped} operations" if log.dropped else None,
    )
    return timeline, resolution_s


def read_log(path: Path) -> Log:
    """The operations in a log of one process.

    An incomplete last line is skipped: the job may still be running, or was killed.
    """
    records: list[Record] = []
    dropped = 0
    dump, has_stats = None, False
    for number, line in read_lines(path):
        where = f"{path}: line {number}"
        stats = line.dump_stats
        # Version 4.2 writes a header with each record, although the dump began with its statistics.
        same_dump = (
            has_stats and stats is None and (line.header and line.header.id) == (dump and dump.communicator)
        )
        if line.header is not None and not same_dump:
            dump, has_stats = next_dump(line, dump, where), stats is not None
        if stats is not None:
            dropped += stats.coll_dropped_since_last_dump + stats.p2p_dropped_since_last_dump
        performed = line.coll_perf or line.p2p_perf
        if performed is None:
            continue
        if dump is None:
            raise InputError(f"{where}: an operation has neither a header nor dump_stats before it")
        records.append(record_of(performed, dump, where))
    if not records:
        raise InputError(f"{path}: contains no coll_perf or p2p_perf: NCCL Inspector recorded no operation")
    processes = sorted({record.dump.process for record in records})
    if len(processes) > 1:
        raise InputError(
            f"{path}: has several processes, {listed(processes)}; profile the log of one process"
        )
    return Log(tuple(records), dropped)


def read_lines(path: Path) -> Iterator[tuple[int, _Line]]:
    """Each non-empty line, with its number from 1."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # A complete last line ends with a newline, so the last element is then empty. This one is not.
            if number == len(lines) and number > 1 and not isinstance(error, msgspec.ValidationError):
                return
            raise InputError(f"{path}: line {number}: is not a record of NCCL Inspector: {error}") from None


def next_dump(line: _Line, before: Dump | None, where: str) -> Dump:
    """The dump of a line with a header: `before`, or a new one."""
    if line.header is None or line.metadata is None:
        raise InputError(f"{where}: the header has no metadata")
    header, metadata = line.header, line.metadata
    process = f"{metadata.hostname}:{metadata.pid}"
    dump = Dump(header.id, header.n_ranks, metadata.dump_timestamp_us, process)
    if before is None or line.dump_stats is not None:
        return dump
    later_us = dump.time_us - before.time_us
    same = (before.communicator, before.process) == (dump.communicator, dump.process)
    return before if same and 0 <= later_us <= _SAME_DUMP_US else dump


def record_of(performed: _Collective | _Exchange, dump: Dump, where: str) -> Record:
    """An operation of a dump."""
    # AllGatherV is an all-gather of blocks of different sizes.
    kind = collective_kind(performed.kind.removesuffix("V"))
    if kind is None:
        raise InputError(f"{where}: unknown operation {shown(performed.kind)}")
    size_bytes = performed.size_bytes * (dump.ranks if kind in _COUNTED_BY_RANK else 1)
    peer = f" with {performed.peer}" if isinstance(performed, _Exchange) else ""
    operation = Operation(kind, size_bytes, dump.ranks, detail=f"communicator {dump.communicator}{peer}")
    kernels = performed.times.kernel_events if performed.times is not None else []
    starts_us = [kernel.kernel_start_ts for kernel in kernels if kernel.kernel_start_ts > 0]
    return Record(dump, operation, performed.length_us, min(starts_us, default=None))


def estimated_starts(records: Sequence[Record], where: str) -> tuple[list[int], float]:
    """Starts (n, µs) of n operations, estimated from the times of their dumps, and the uncertainty in s.

    The operations of a dump are assumed to follow each other, the last one ending when the dump is written.
    It really ended after the previous dump, so the uncertainty is the interval of the dumping thread.
    """
    dumps = [(dump, list(group)) for dump, group in groupby(records, key=lambda record: record.dump)]
    times_us: dict[str, list[int]] = {}
    for dump, _ in dumps:
        times_us.setdefault(dump.communicator, []).append(dump.time_us)
    # By communicator, since the dumps of several are written one after another.
    gaps_us = [gap for times in times_us.values() for gap in np.diff(times).tolist() if gap > 0]
    if len(gaps_us) < _FEWEST_DUMPS - 1:
        raise InputError(
            f"{where}: its {len(records)} operations were written in {len(dumps)} dumps, which do not show "
            "when they ran; set NCCL_INSPECTOR_DUMP_VERBOSE=1, or "
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500"
        )
    starts_us: list[int] = []
    for dump, written in dumps:
        starts_us += packed(dump.time_us, [record.length_us for record in written])
    # The short gaps: intervals without operations leave no record, so that longer gaps span several.
    return starts_us, float(np.quantile(gaps_us, 0.05)) / 1e6


def packed(end_us: int, lengths_us: Iterable[float]) -> list[int]:
    """Starts of operations that follow each other and end at `end_us`.

    >>> packed(100, [10, 20, 30])
    [40, 50, 70]
    """
    starts_us = []
    for length_us in reversed(list(lengths_us)):
        end_us -= round(length_us)
        starts_us.append(end_us)
    return starts_us[::-1]
