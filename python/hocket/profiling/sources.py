"""What a job left behind, told by its content and not by its name, and the profile in it."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl

from hocket.errors import InputError
from hocket.profiling.counters import Unit
from hocket.profiling.job import JobProfile

Kind = Literal["counters", "prometheus", "kineto", "nsight", "inspector", "chakra"]

KINDS: Mapping[Kind, str] = {
    "counters": "a CSV series of byte counters",
    "prometheus": "an answer of Prometheus",
    "kineto": "a profiler trace of PyTorch",
    "nsight": "an Nsight Systems database",
    "inspector": "a log of NCCL Inspector",
    "chakra": "a Chakra trace",
}
"""What is read, as messages call it."""

_COUNTERS: tuple[Kind, ...] = ("counters", "prometheus")
_TRACES: tuple[Kind, ...] = ("kineto", "nsight", "inspector", "chakra")

# So much of a file shows what it is: Kineto writes its events after some kilobytes on the machine.
_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
# In a tar archive, where the first header says so (POSIX ustar).
_TAR = (257, b"ustar")
# A length as a varint, then of the metadata its version or an attribute: fields 1 and 2, which hold bytes.
_CHAKRA = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f][\x0a\x12]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
# Keys of the outermost object that only files of one kind have.
_BY_KEY: Mapping[str, Kind] = {
    "coll_perf": "inspector",
    "p2p_perf": "inspector",
    "dump_stats": "inspector",
    "resultType": "prometheus",
    "errorType": "prometheus",
    "status": "prometheus",
    "traceEvents": "kineto",
    "schemaVersion": "kineto",
    "deviceProperties": "kineto",
    "distributedInfo": "kineto",
}


OPTIONS: Mapping[str, tuple[Kind, ...]] = {
    "name": (*_COUNTERS, *_TRACES),
    "column": _COUNTERS,
    "interface": _COUNTERS,
    "unit": _COUNTERS,
    "wrap_bits": ("counters",),
    "lifespan_s": ("counters",),
    "rate": _TRACES,
    "gpus_per_server": _TRACES,
}
"""For which kinds of files each option of `profile` is."""


def profile(
    source: str | Path | pl.DataFrame,
    *,
    name: str | None = None,
    column: str | None = None,
    interface: str | None = None,
    unit: Unit | None = None,
    wrap_bits: Literal[32, 64] | None = None,
    lifespan_s: float | None = None,
    rate: str | None = None,
    gpus_per_server: int | None = None,
) -> JobProfile:
    """Profile the job that left `source`: its period, its Up phases, and the confidence in them.

    `source` is a frame with a time column and a byte counter, or a file, whose kind follows from its content:
    counters as CSV or as the answer of a Prometheus range query, or the profiler trace of one rank: of
    PyTorch (Kineto), plain or gzip, Nsight Systems, NCCL Inspector or Chakra. `name` is the job's, by default
    the source's.

    Of counters: `column`, `interface`, `unit`, `wrap_bits` and `lifespan_s`, as `profile_counters` describes
    them (the last two not for Prometheus). Of profiler traces: `rate`, such as "50 Gbps", is that of
    communication whose size (in a Chakra trace: whose time) is not known, and `gpus_per_server` how many GPUs
    exchange data without the NIC.

    Raises:
        hocket.errors.InputError: The file is of no such kind, an option is not for its kind, or there is no
            period in it.

    >>> import numpy as np, polars as pl
    >>> time_s = np.arange(0.0, 20.0, 0.01)
    >>> iteration, phase_s = np.divmod(time_s, 0.18)
    >>> busy_s = iteration * 0.06 + np.minimum(phase_s, 0.06)
    >>> frame = pl.DataFrame({"time_s": time_s, "tx_bytes": (busy_s * 30e9 / 8).astype(np.int64)})
    >>> job = profile(frame, name="a")
    >>> print(f"{job.period_s:.3f} s, {job.phases[0].rate_bps / 1e9:.1f} Gbps")
    0.180 s, 30.0 Gbps
    """
    kind: Kind
    if isinstance(source, pl.DataFrame):
        where, kind = "the frame", "counters"
    else:
        source = Path(source)
        where, kind = str(source), kind_of(source)
    options = {
        "name": name,
        "column": column,
        "interface": interface,
        "unit": unit,
        "wrap_bits": wrap_bits,
        "lifespan_s": lifespan_s,
        "rate": rate,
        "gpus_per_server": gpus_per_server,
    }
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if kind not in OPTIONS[option]:
            others = ", ".join(KINDS[each] for each in OPTIONS[option])
            spelled = f"{option} (--{option.replace('_', '-')})"
            raise InputError(f"{where}: is {KINDS[kind]}; {spelled} is for {others}")
    return profiler(kind)(source, **given)


def profiler(kind: Kind) -> Callable[..., JobProfile]:
    """The function that profiles files of a kind. Each is imported when it is needed."""
    match kind:
        case "counters":
            from hocket.profiling.series import profile_counters

            return profile_counters
        case "prometheus":
            from hocket.profiling.prometheus import profile_prometheus

            return profile_prometheus
        case "inspector":
            from hocket.profiling.timelines.inspector import profile_inspector

            return profile_inspector
        case "chakra":
            from hocket.profiling.timelines.chakra import profile_chakra

            return profile_chakra
        case "kineto" | "nsight":
            from hocket.profiling.timelines import profile_timeline, read_kineto, read_nsight

            read = read_kineto if kind == "kineto" else read_nsight

            def profile_read(path: Path, **options: Any) -> JobProfile:
                return profile_timeline(read(path), **options)

            return profile_read


def kind_of(path: Path) -> Kind:
    """What the file is.

    Raises `InputError` that lists what is read for anything else, and for a file that cannot be.
    """
    head = head_of(path)
    if head.startswith(_SQLITE):
        return "nsight"
    if head[_TAR[0] :].startswith(_TAR[1]):
        raise InputError(f"{path}: is a tar archive; unpack it and profile a file of it")
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff").lstrip()
    kind: Kind | None
    if text.startswith(("{", "[")):
        kind = kind_of_json(text)
        if kind is None and {"schema", "nodes"} <= {*outer_keys(text)}:
            from hocket.training.chakra.nodes import CONVERTED

            raise InputError(f"{path}: is an execution trace of PyTorch, not read here; {CONVERTED}")
    elif is_text(head):
        # Also an empty one: what is wrong with a series is said by those who read series.
        kind = "counters" if "," in text.split("\n", 1)[0] or not text else None
    else:
        kind = "chakra" if path.suffix == ".et" or _CHAKRA.match(head) else None
    if kind is None:
        raise InputError(f"{path}: is nothing that Hocket reads: {', '.join(KINDS.values())}")
    return kind


def head_of(path: Path) -> bytes:
    """How the file begins, decompressed if it is gzip."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(_GZIP):
            with gzip.open(path) as unpacked:
                return unpacked.read(_HEAD_BYTES)
        return head
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: is damaged gzip: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{path}: cannot be read: {reason or error}") from None


def kind_of_json(text: str) -> Kind | None:
    """What a file is that begins with `text`, JSON that may be cut short."""
    if text.startswith("["):
        # Chrome's format may also be the bare list of its events.
        return "kineto" if outer_keys(text[1:].lstrip()) & {"ph", "ts", "name", "pid"} else None
    keys = outer_keys(text)
    return next((kind for key, kind in _BY_KEY.items() if key in keys), None)


def outer_keys(text: str) -> set[str]:
    """The keys of the object that `text` begins with, as far as they are in it.

    >>> sorted(outer_keys('{"a": {"b": 1}, "c": ["d", {"e'))
    ['a', 'c']
    """
    keys = set()
    depth = 0
    before = ""
    for token in _TOKEN.findall(text):
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if depth == 0:
                break
        elif token == ":" and depth == 1:
            keys.add(before[1:-1])
        before = token
    return keys


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is text: its only control characters part lines and cells."""
    return not any(byte < 0x20 and byte not in b"\t\n\r\f" for byte in head)
