"""Profiler traces of PyTorch (Kineto): Chrome JSON, plain or compressed, of one rank.

On GPUs, communication is done by kernels of NCCL (or RCCL), on CPUs by operations of Gloo. Older profilers
record the arguments of a collective not with its kernel but with the call that launched it.
"""

from __future__ import annotations

import gzip
import math
import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import FloatArray
from hocket.profiling.timelines.names import collective_kind, dtype_bytes, kernel_kind
from hocket.profiling.timelines.timeline import NO_INTERVALS, Operation, Timeline
from hocket.units import shown

MAX_FILE_BYTES = 2_000_000_000
"""The largest file that is read, uncompressed: it is held in memory."""

_GZIP = b"\x1f\x8b"
_STEP = "ProfilerStep#"
_S_PER_US = 1e-6
_MOST_ELEMENTS = 2**62
# The largest known training jobs have some hundred thousand ranks.
_MOST_RANKS = 2**20


# Without the garbage collector, which would visit millions of events again and again: they contain no cycles.
class Event(msgspec.Struct, gc=False):
    """An event of Chrome's Trace Event Format; its arguments are decoded only when needed."""

    ph: str = ""
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"null")


class Distributed(msgspec.Struct, gc=False):
    """Kineto's information about the job."""

    rank: int | None = None
    world_size: int | None = None


class KinetoFile(msgspec.Struct, gc=False):
    """The file, in Chrome's JSON Object Format."""

    traceEvents: list[Event]  # noqa: N815, Chrome's name
    distributedInfo: Distributed | None = None  # noqa: N815, Kineto's name


class Call(NamedTuple):
    """A call on the CPU: its times in µs, and its arguments, with its name as "Collective name"."""

    start_us: float
    end_us: float
    args: dict[str, Any]


def read_kineto(path: str | Path) -> Timeline:
    """Reads the timeline of a rank from its profiler trace at `path`.

    If the trace has several GPUs, the timeline is that of the one with the most communication.

    Raises:
        InputError: The file cannot be read, is not a profiler trace of PyTorch, or contains no communication.
    """
    return kineto_timeline(str(path), read_bytes(Path(path)))


def read_bytes(path: Path) -> bytes:
    """The content of the file, decompressed if it begins like gzip, whatever its name."""
    try:
        with path.open("rb") as file:
            compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            # One byte beyond the limit shows that there is more, without unpacking all of it.
            content = (gzip.GzipFile(fileobj=file) if compressed else file).read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: gzip: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB uncompressed")
    return content


def kineto_timeline(source: str, content: bytes) -> Timeline:
    """The timeline of the profiler trace in the JSON text `content`; `source` names it in errors.

    Raises:
        InputError: The text is not a profiler trace of PyTorch, or contains no communication.
    """
    try:
        return timeline_in(source, decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{source}: not a profiler trace of PyTorch: {error}") from None


def timeline_in(source: str, file: KinetoFile) -> Timeline:
    """The timeline of one GPU or, if the trace has none, of the rank's CPU."""
    info = file.distributedInfo or Distributed()
    # Kineto writes whatever has a duration as a complete event, "X".
    events = [event for event in file.traceEvents if event.ph == "X" and isinstance(event.name, str)]
    kernels = [event for event in events if (event.cat or "").lower() == "kernel"]
    if any(is_nccl(event) for event in kernels):
        return of_gpu(source, events, kernels, info)
    gloo = [event for event in events if str(event.name).startswith("gloo:")]
    if gloo:
        return of_cpu(source, events, gloo, info)
    raise InputError(
        f"{source}: no communication in its {len(file.traceEvents):,} events: neither kernels of NCCL "
        "(record with ProfilerActivity.CUDA) nor operations of Gloo"
    )


def decode(content: bytes) -> KinetoFile:
    """The events of Chrome's JSON Object Format or JSON Array Format."""
    if content.lstrip()[:1] == b"[":
        return KinetoFile(msgspec.json.decode(content, type=list[Event]))
    return msgspec.json.decode(content, type=KinetoFile)


def is_nccl(event: Event) -> bool:
    """Whether a kernel is one of NCCL, or of RCCL, whose kernels have the same names."""
    return "nccl" in str(event.name).lower()


def of_gpu(source: str, events: Sequence[Event], kernels: Sequence[Event], info: Distributed) -> Timeline:
    """The timeline of the GPU with the most communication."""
    # As text, since the format allows numbers and text for one process.
    gpus = Counter(str(event.pid) for event in kernels if is_nccl(event))
    gpu, _ = gpus.most_common(1)[0]
    on_gpu = [event for event in kernels if str(event.pid) == gpu]
    communication = [event for event in on_gpu if is_nccl(event)]
    calls = Calls(events)
    world = info.world_size
    return timeline_of(
        source,
        communication,
        [gpu_operation(event, calls, world) for event in communication],
        [event for event in on_gpu if not is_nccl(event)],
        events,
    )


def of_cpu(source: str, events: Sequence[Event], gloo: Sequence[Event], info: Distributed) -> Timeline:
    """The timeline of a rank that trains on a CPU, where ATen's operations are computation."""
    operations = [operation_of(event, arguments(event), {}, info.world_size, "") for event in gloo]
    computes = [event for event in events if str(event.name).startswith("aten::")]
    return timeline_of(source, gloo, operations, computes, events)


def timeline_of(
    source: str,
    communication: Sequence[Event],
    operations: Sequence[Operation],
    computes: Sequence[Event],
    events: Iterable[Event],
) -> Timeline:
    """The timeline of these events, after a check of their times."""
    spans_us = times_us(source, communication)
    computes_us = times_us(source, computes) if computes else NO_INTERVALS
    # Subtracted before the conversion: a float of seconds since 1970 cannot resolve parts of a microsecond.
    first_us = float(spans_us[:, 0].min())
    steps = [event for event in events if str(event.name).startswith(_STEP)]
    # The CPU runs ahead of the GPU, so steps that the profiler annotated on the GPU are preferred.
    on_gpu = [event for event in steps if event.cat == "gpu_user_annotation"]
    steps_us = times_us(source, on_gpu or steps)[:, 0] if steps else np.empty(0)
    spans_s = (spans_us - first_us) * _S_PER_US
    return Timeline.of(
        source,
        spans_s[:, 0],
        spans_s[:, 1],
        operations,
        computes_s=(computes_us - first_us) * _S_PER_US,
        steps_s=np.unique((steps_us - first_us) * _S_PER_US),
    )


def times_us(source: str, events: Sequence[Event]) -> FloatArray:
    """Start and end of each event (n, 2), in µs.

    Raises:
        InputError: A time is missing or not a number.
    """
    times = np.empty((len(events), 2))
    for row, event in enumerate(events):
        try:
            start_us, length_us = float(event.ts), float(event.dur)  # type: ignore[arg-type]  # anything but a number raises
        except (TypeError, ValueError):
            raise InputError(
                f"{source}: event {shown(event.name)}: ts {shown(event.ts)} and dur {shown(event.dur)} "
                "must be numbers, in µs"
            ) from None
        times[row] = start_us, start_us + length_us
        if not (math.isfinite(start_us) and math.isfinite(length_us) and length_us >= 0):
            raise InputError(
                f"{source}: event {shown(event.name)}: ts {start_us:g} and dur {length_us:g}: "
                "times must be finite, durations not negative"
            )
    return times


def arguments(event: Event) -> dict[str, Any]:
    """The arguments of an event; empty if they are not a JSON object."""
    args = msgspec.json.decode(event.args)
    return args if isinstance(args, dict) else {}


class Calls:
    """The calls on the CPU that launched kernels of NCCL, by thread."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._launches: dict[int, Event] | None = None
        self._calls: dict[str, list[Call]] = {}

    def of(self, kernel: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the call that launched the kernel with the arguments `kernel`."""
        # Only when needed: newer profilers record all arguments with the kernel.
        if self._launches is None:
            self._launches = dict(launches(self._events))
            self._calls = calls_by_thread(self._events)
        launch = self._launches.get(kernel.get("correlation", -1))
        if launch is None:
            return {}
        calls, at_us = self._calls.get(str(launch.tid), []), number(launch.ts)
        place = bisect_right(calls, at_us, key=lambda call: call.start_us)
        # Calls are nested: the innermost are among the last that began. The best one has kind and size.
        around = [call.args for call in reversed(calls[max(0, place - 4) : place]) if at_us <= call.end_us]
        return max(around, key=has_size_and_kind, default={})


def has_size_and_kind(args: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the arguments of a call contain the size, and the kind, of the collective."""
    return message_bytes(args, "", None) is not None, collective_kind(
        str(args["Collective name"])
    ) is not None


def launches(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """The calls of the CUDA runtime or driver that launch kernels, with their correlation numbers."""
    for event in events:
        if event.cat in ("cuda_runtime", "cuda_driver") and "Launch" in str(event.name):
            correlation = arguments(event).get("correlation")
            if isinstance(correlation, int):
                yield correlation, event


def calls_by_thread(events: Iterable[Event]) -> dict[str, list[Call]]:
    """The calls that request communication, by thread, in order of their start."""
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for event in events:
        name = str(event.name)
        if event.cat in ("cpu_op", "user_annotation") and (
            name == "record_param_comms" or name.startswith("nccl:")
        ):
            start_us = number(event.ts)
            args = {"Collective name": name, **arguments(event)}
            calls[str(event.tid)].append(Call(start_us, start_us + number(event.dur), args))
    for each in calls.values():
        each.sort(key=lambda call: call.start_us)
    return calls


def number(value: object) -> float:
    """`value` as a number; nan if it is not one."""
    try:
        return float(value)  # type: ignore[arg-type]  # anything but a number raises
    except (TypeError, ValueError):
        return math.nan


def gpu_operation(kernel: Event, calls: Calls, world_size: int | None) -> Operation:
    """The operation of a kernel of NCCL, by its own arguments or those of the call that launched it."""
    args = arguments(kernel)
    call = {} if "In msg nelems" in args else calls.of(args)
    # Without sizes, the grid still distinguishes messages of different size.
    detail = f"{str(kernel.name).partition('(')[0]} {args.get('grid')} {args.get('block')}"
    return operation_of(
        kernel, args, call, world_size, detail, lane=f"stream {args.get('stream', kernel.tid)}"
    )


def operation_of(
    event: Event,
    args: dict[str, Any],
    call: dict[str, Any],
    world_size: int | None,
    detail: str,
    lane: str = "",
) -> Operation:
    """The operation of an event, by its arguments `args` and those of the `call` that launched it."""
    known = {**call, **args}
    name = known.get("Collective name")
    kind = collective_kind(name) if isinstance(name, str) else None
    if kind is None:
        kind = collective_kind(str(event.name)) or kernel_kind(str(event.name))
    size = known.get("Group size")
    group_size = size if isinstance(size, int) and size > 0 else world_size
    group = known.get("Process Group Name", "")
    return Operation(
        kind,
        message_bytes(known, kind, group_size),
        group_size,
        ranks_of(known.get("Process Group Ranks")) or all_ranks(group_size, world_size),
        f"{detail} {known.get('dtype', '')} {group}".strip(),
        lane,
    )


def message_bytes(args: dict[str, Any], kind: str, group_size: int | None) -> int | None:
    """Bytes of a message as nccl-tests counts them: the output of an all-gather, the input of other
    collectives; None if the arguments do not give them.

    Newer profilers record numbers of elements. Older ones record the shapes of inputs if asked to.
    """
    going_in, coming_out = args.get("In msg nelems"), args.get("Out msg nelems")
    element = dtype_bytes(str(args.get("dtype", "")))
    if isinstance(going_in, int) and isinstance(coming_out, int) and element is not None:
        elements = max(going_in, coming_out) if kind in ("all-gather", "broadcast") else going_in
        return elements * element if 0 <= elements < _MOST_ELEMENTS else None
    size = shapes_bytes(args.get("Input Dims"), args.get("Input type", args.get("Input Type")))
    if size is not None and kind == "all-gather":
        return size * group_size if group_size is not None else None
    return size


def shapes_bytes(shapes: object, types: object) -> int | None:
    """Bytes of tensors of these shapes and types; None if no tensor has a known type."""
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return None
    total = 0
    for shape, dtype in zip(shapes, types, strict=False):
        element = dtype_bytes(str(dtype))
        if not shape or element is None:
            continue
        if not (isinstance(shape, list) and all(isinstance(length, int) and length >= 0 for length in shape)):
            return None
        total += math.prod(shape) * element
    return total if 0 < total < _MOST_ELEMENTS else None


def all_ranks(group_size: int | None, world_size: int | None) -> tuple[int, ...]:
    """The ranks of a group if it is as large as the job; () otherwise, since they are then unknown.

    >>> all_ranks(2, 2), all_ranks(2, 8)
    ((0, 1), ())
    """
    if world_size is None or group_size != world_size or world_size > _MOST_RANKS:
        return ()
    return tuple(range(world_size))


def ranks_of(text: object) -> tuple[int, ...]:
    """The ranks in a text such as "[0, 1]"; () if the profiler has truncated it.

    >>> ranks_of("[0, 8]"), ranks_of("[0, 1, ...]")
    ((0, 8), ())
    """
    try:
        ranks = msgspec.json.decode(text, type=tuple[int, ...]) if isinstance(text, str) else ()
    except msgspec.DecodeError:
        return ()
    return ranks
