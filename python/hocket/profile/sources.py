"""What a job left behind, told by its content and not by its name, and the profile in it."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from hocket.errors import InputError
from hocket.profile.counters import Unit
from hocket.profile.job import JobProfile

Kind = Literal["counters", "prometheus", "kineto", "nsight", "inspector", "chakra"]

KINDS: Mapping[Kind, str] = {
    "counters": "a CSV series of byte counters",
    "prometheus": "an answer of Prometheus",
    "kineto": "a trace of the PyTorch profiler",
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


@dataclass(frozen=True)
class Options:
    """What a user may say of a file, each None if not said; which kinds it is for is in `FOR`.

    `rate` is that of communication whose size or time a trace does not give, such as "50 Gbps";
    `gpus_per_server` how many GPUs exchange data without the NIC.
    """

    name: str | None = None
    column: str | None = None
    interface: str | None = None
    unit: Unit | None = None
    rate: str | None = None
    gpus_per_server: int | None = None


FOR: Mapping[str, tuple[Kind, ...]] = {
    "name": (*_COUNTERS, *_TRACES),
    "column": _COUNTERS,
    "interface": _COUNTERS,
    "unit": _COUNTERS,
    "rate": _TRACES,
    "gpus_per_server": _TRACES,
}
"""For which kinds of files each of `Options` is."""


def profile_source(path: str | Path, options: Options | None = None) -> JobProfile:
    """The profile of the job that left the file `path`, whatever kind of `KINDS` it is.

    Raises `InputError` for a file of no such kind, an option that is not for its kind, or what the kind's own
    function refuses.
    """
    path, options = Path(path), options or Options()
    kind = kind_of(path)
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if kind not in FOR[name]:
            others = ", ".join(KINDS[each] for each in FOR[name])
            raise InputError(f"{path}: is {KINDS[kind]}; --{name.replace('_', '-')} is for {others}")
    return profiler(kind)(path, **given)


def profile_trace(
    path: str | Path, *, name: str | None = None, rate: str | None = None, gpus_per_server: int | None = None
) -> JobProfile:
    """Profile the job of which one rank left a trace: of the PyTorch profiler (Kineto), plain or gzip, an
    Nsight Systems database, a log of NCCL Inspector, or a Chakra trace.

    `name` is the job's, by default the file's. `rate`, such as "50 Gbps", is that of communication whose size
    (in a Chakra trace: whose time) is not known. `gpus_per_server` says how many GPUs exchange data without
    the NIC.

    Raises:
        hocket.errors.InputError: The file is none of these, or nothing is communicated in it.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind not in _TRACES:
        raise InputError(f"{path}: is {KINDS[kind]}, no trace: profile_counters reads those")
    return profile_source(path, Options(name=name, rate=rate, gpus_per_server=gpus_per_server))


def profiler(kind: Kind) -> Callable[..., JobProfile]:
    """The function that profiles files of a kind. Each is imported when it is needed."""
    match kind:
        case "counters":
            from hocket.profile import profile_counters

            return profile_counters
        case "prometheus":
            from hocket.profile.prometheus import profile_prometheus

            return profile_prometheus
        case "inspector":
            from hocket.profile.traces.inspector import profile_inspector

            return profile_inspector
        case "chakra":
            from hocket.profile.traces.chakra import profile_chakra

            return profile_chakra
        case "kineto" | "nsight":
            from hocket.profile.traces import profile_timeline, read_kineto, read_nsight

            read = read_kineto if kind == "kineto" else read_nsight

            def profile(path: Path, **options: Any) -> JobProfile:
                return profile_timeline(read(path), **options)

            return profile


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
