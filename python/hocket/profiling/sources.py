"""Recognises the kind of a file by its content, not its name, and profiles the job in it."""

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
    "prometheus": "a response of Prometheus",
    "kineto": "a profiler trace of PyTorch",
    "nsight": "an Nsight Systems database",
    "inspector": "a log of NCCL Inspector",
    "chakra": "a Chakra trace",
}
"""The kinds of files that can be profiled, and what messages call them."""

_COUNTERS: tuple[Kind, ...] = ("counters", "prometheus")
_TRACES: tuple[Kind, ...] = ("kineto", "nsight", "inspector", "chakra")

# This much of a file shows its kind: Kineto writes its events after some kilobytes about the machine.
_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
# Offset and value of the magic in the first header of a tar archive (POSIX ustar).
_TAR = (257, b"ustar")
# A length as a varint, then the start of the metadata message: its version or an attribute, fields 1 and 2,
# both of protobuf's wire type for bytes.
_CHAKRA = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f][\x0a\x12]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
# Keys of the outermost object that occur in files of one kind only.
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
"""The kinds of files that each option of `profile` applies to."""


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
    """Profiles a job from counters or a profiler trace: its period, its Up phases and the confidence in them.

    `source` is a frame with a time column and a byte counter, or a file. The kind of a file follows from its
    content: counters as CSV or as the response to a Prometheus range query, or the profiler trace of one rank
    by PyTorch (Kineto), plain or gzip, Nsight Systems, NCCL Inspector or Chakra. `name` is the job's name, by
    default that of the source.

    For counters, `column`, `interface`, `unit`, `wrap_bits` and `lifespan_s` are as in `profile_counters`
    (the last two not for Prometheus). For profiler traces, `rate`, such as "50 Gbps", is the sending rate of
    communication of unknown size (in a Chakra trace: of unknown duration), and `gpus_per_server` is the
    number of GPUs in a server, which exchange data without a NIC.

    Raises:
        hocket.errors.InputError: The file is of no such kind, an option does not apply to its kind, or it has
            no period.

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
            raise InputError(f"{where}: is {KINDS[kind]}; {spelled} is only for {others}")
    return profiler(kind)(source, **given)


def profiler(kind: Kind) -> Callable[..., JobProfile]:
    """The function that profiles files of a kind, imported only when needed."""
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
    """The kind of a file, judged by its content.

    Raises `InputError` if the file cannot be read, or, with a list of the kinds, if it is of none of them.
    """
    head = head_of(path)
    if head.startswith(_SQLITE):
        return "nsight"
    if head[_TAR[0] :].startswith(_TAR[1]):
        raise InputError(f"{path}: is a tar archive; unpack it and profile one of its files")
    # Some programs begin a text file with a byte order mark.
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff").lstrip()
    kind: Kind | None
    if text.startswith(("{", "[")):
        kind = kind_of_json(text)
        if kind is None and {"schema", "nodes"} <= {*outer_keys(text)}:
            from hocket.training.chakra.nodes import CONVERTED

            raise InputError(
                f"{path}: is an execution trace of PyTorch, which cannot be profiled; {CONVERTED}"
            )
    elif is_text(head):
        # An empty file counts as a series too: the reader of series has a message for it.
        kind = "counters" if "," in text.split("\n", 1)[0] or not text else None
    else:
        # A damaged `.et` file goes to its reader too, whose message names what is wrong with it.
        kind = "chakra" if path.suffix == ".et" or _CHAKRA.match(head) else None
    if kind is None:
        raise InputError(f"{path}: is none of the kinds that can be profiled: {', '.join(KINDS.values())}")
    return kind


def head_of(path: Path) -> bytes:
    """The beginning of the file, decompressed if it is gzip."""
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
    """The kind of a file that begins with `text`, which is JSON that may be cut short."""
    if text.startswith("["):
        # Chrome's Trace Event Format may also be a bare list of events.
        return "kineto" if outer_keys(text[1:].lstrip()) & {"ph", "ts", "name", "pid"} else None
    keys = outer_keys(text)
    return next((kind for key, kind in _BY_KEY.items() if key in keys), None)


def outer_keys(text: str) -> set[str]:
    """The keys of the outermost object of `text`, as far as it goes.

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
    """Whether a file that begins with `head` is text: without control characters but line breaks and tabs."""
    return not any(byte < 0x20 and byte not in b"\t\n\r\f" for byte in head)
