"""Reading a port's byte counters while a job runs: the port in sysfs, readings at an interval, and what they
say in the end. What the traffic means is left to the rest of the package.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

import polars as pl

from hocket.errors import InputError
from hocket.profiling.counters import BYTES_PER_COUNT, COUNTER_UNITS, counters_of, listed
from hocket.profiling.job import JobProfile

T = TypeVar("T")

SYSFS = Path("/sys")
NAMESPACES = Path("/run/netns")
"""Where iproute2 keeps the network namespaces that it named."""

INFINIBAND_COUNTERS = ("port_xmit_data", "port_rcv_data")
"""Of an InfiniBand or RoCE port, sent first (Linux `Documentation/ABI/stable/sysfs-class-infiniband`)."""
INTERFACE_COUNTERS = ("tx_bytes", "rx_bytes")
"""Of a network interface (Linux `Documentation/ABI/testing/sysfs-class-net-statistics`)."""
CONGESTION_COUNTERS = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets")
"""Of a RoCE port, in `hw_counters`: CNPs that it answered marks with, CNPs that it slowed down for, and the
marked packets that it received. 32 bits in hardware."""

DEFAULT_INTERVAL_S = 0.01
"""mlx5 refreshes its `hw_counters` every 10 ms unless `lifespan` is set: a faster read returns the same."""

INTERRUPTED = "interrupted"
"""Why a recording ended that somebody ended."""

LONGEST_S = 48 * 3600
"""What a series of readings every 10 ms may last: its file is then as large as `read_counters` takes."""

# From Linux `include/uapi/linux/sched.h` and `mount.h`.
_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWNET = 0x4000_0000
_MS_REC = 0x4000
_MS_SLAVE = 0x8_0000

# The longest text of a 64-bit counter and its line's end.
_COUNTER_BYTES = 32
_SECONDS_BETWEEN_TELLING = 0.5
# What a crash may lose of a file: about a second of readings.
_BUFFER_BYTES = 4096
_WRAP = 2**32


@dataclass(frozen=True)
class Port:
    """A port whose counters can be read: its `title` in messages, and the file of each counter by its name.

    `lifespan_s` is how long its hardware counters keep a value before they are read anew, where it says so.
    """

    title: str
    files: dict[str, Path]
    lifespan_s: float | None


class Reading(NamedTuple):
    """`values` of all counters at `time_ns` of the machine's monotonic clock."""

    time_ns: int
    values: tuple[int, ...]


class OpenPort:
    """The counters of a port, kept open: `names`, and their values whenever asked."""

    def __init__(self, port: Port) -> None:
        self.title = port.title
        self.lifespan_s = port.lifespan_s
        self.names = tuple(port.files)
        self._files: list[int] = []
        try:
            for path in port.files.values():
                self._files.append(os.open(path, os.O_RDONLY))
        except OSError as error:
            self.close()
            raise InputError(f"{port.title}: {path}: cannot be read: {error.strerror}") from None

    def read(self) -> tuple[int, ...]:
        """The counters' values now.

        Raises `InputError` if the port has gone, or what it says is no number.
        """
        try:
            # Unbuffered: a sysfs attribute is produced anew by each read from its start.
            return tuple(int(os.pread(file, _COUNTER_BYTES, 0)) for file in self._files)
        except OSError as error:
            raise InputError(f"{self.title}: its counters can no longer be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{self.title}: a counter is no number: {error}") from None

    def close(self) -> None:
        """Closes the counters' files."""
        while self._files:
            os.close(self._files.pop())

    def __enter__(self) -> OpenPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_port(
    device: str, *, namespace: str | None = None, congestion: bool = False, sysfs: Path = SYSFS
) -> OpenPort:
    """The counters of `device`: `mlx5_0` or `mlx5_0:1` of InfiniBand and RoCE, `eth0` of any network.

    With `namespace`, of a device in that network namespace; any thread can then read them. With `congestion`,
    the `CONGESTION_COUNTERS` too.

    Raises `InputError` if there is no such namespace, device, port or counter, or it may not be read.
    """
    if namespace is None:
        return OpenPort(find_port(device, congestion=congestion, sysfs=sysfs))
    return inside(namespace, lambda: OpenPort(find_port(device, congestion=congestion, sysfs=sysfs)))


def find_port(device: str, *, congestion: bool = False, sysfs: Path = SYSFS) -> Port:
    """Where the counters of `device` are; see `open_port`.

    Raises `InputError` that lists what is there if it is not.
    """
    adapters, interfaces = sysfs / "class" / "infiniband", sysfs / "class" / "net"
    name, colon, number = device.partition(":")
    if name in names_in(adapters):
        return infiniband_port(adapters / name, number if colon else None, congestion)
    if device not in names_in(interfaces):
        there = [*names_in(adapters), *names_in(interfaces)]
        raise InputError(f"{device}: no such device; there are {listed(there)}")
    if congestion:
        raise InputError(
            f"{device}: is a network interface, which counts no CNPs; RoCE devices do: "
            f"{listed(names_in(adapters))}"
        )
    statistics = interfaces / device / "statistics"
    return Port(device, counter_files(device, statistics, INTERFACE_COUNTERS), None)


def infiniband_port(adapter: Path, number: str | None, congestion: bool) -> Port:
    """Port `number` of an adapter, or its only one."""
    ports = names_in(adapter / "ports")
    if number is None and len(ports) > 1:
        raise InputError(
            f"{adapter.name}: has ports {listed(ports)}; say which, such as {adapter.name}:{ports[0]}"
        )
    chosen = number if number is not None or not ports else ports[0]
    if chosen is None or chosen not in ports:
        raise InputError(f"{adapter.name}: no port {chosen or '1'}; it has {listed(ports)}")
    title = f"{adapter.name}:{chosen}"
    port = adapter / "ports" / chosen
    files = counter_files(title, port / "counters", INFINIBAND_COUNTERS)
    if congestion:
        files |= counter_files(title, port / "hw_counters", CONGESTION_COUNTERS)
    return Port(title, files, lifespan_of(port / "hw_counters" / "lifespan"))


def names_in(folder: Path) -> list[str]:
    """The names in a folder of sysfs, none if it is not there."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def counter_files(title: str, folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """The files of counters by name, checked to be there."""
    there = names_in(folder)
    for name in names:
        if name not in there:
            raise InputError(f"{title}: counter {name} is not in {folder}, which has {listed(there)}")
    return {name: folder / name for name in names}


def lifespan_of(path: Path) -> float | None:
    """Seconds for which hardware counters keep a value; None where the driver does not say."""
    try:
        return int(path.read_text()) / 1e3
    except (OSError, ValueError):
        return None


def inside(namespace: str, call: Callable[[], T]) -> T:
    """What `call` returns or raises when it sees the devices of a named network namespace in `/sys`.

    A thread of its own enters the namespace and ends there: the rest of the process stays where it is, and
    what the thread opened remains open. This is what `ip netns exec` does before it runs a command.

    Raises `InputError` if there is no such namespace or it may not be entered.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            enter(namespace)
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=f"in {namespace}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def enter(namespace: str) -> None:
    """Moves this thread into a network namespace, with a `/sys` of its own that shows it."""
    there = names_in(NAMESPACES)
    if namespace not in there:
        raise InputError(f"{namespace}: no such network namespace; there are {listed(there)}")
    libc = ctypes.CDLL(None, use_errno=True)

    def must(outcome: int, doing: str) -> None:
        if outcome != 0:
            reason = os.strerror(ctypes.get_errno())
            raise InputError(f"{namespace}: {doing}: {reason}; network namespaces need root")

    with (NAMESPACES / namespace).open("rb") as file:
        must(libc.setns(file.fileno(), _CLONE_NEWNET), "cannot be entered")
    must(libc.unshare(_CLONE_NEWNS), "cannot have mounts of its own")
    must(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "its mounts cannot be kept apart")
    must(libc.mount(b"hocket", b"/sys", b"sysfs", 0, None), "its devices cannot be shown")


def poll(
    read: Callable[[], tuple[int, ...]],
    interval_s: float,
    seconds: float | None = None,
    *,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Reading]:
    """A reading every `interval_s` for `seconds`, or until nobody asks for more.

    One that comes late carries its own time and is not made up for. `read` may be of several ports.
    """
    interval_ns = round(interval_s * 1e9)
    due_ns = clock()
    end_ns = None if seconds is None else due_ns + round(seconds * 1e9)
    while end_ns is None or due_ns <= end_ns:
        if (early_ns := due_ns - clock()) > 0:
            sleep(early_ns / 1e9)
        time_ns = clock()
        yield Reading(time_ns, read())
        due_ns += interval_ns
        if due_ns <= time_ns:
            due_ns = time_ns + interval_ns


@dataclass
class Recording:
    """The readings of a port so far: when, in ns since 1970, and each counter's values.

    `stopped` says why it ended before its time, if it did.
    """

    title: str
    counters: dict[str, array[int]]
    time_ns: array[int] = field(default_factory=lambda: array("Q"))
    stopped: str | None = None

    def add(self, reading: Reading) -> None:
        """One more reading, its time since 1970."""
        self.time_ns.append(reading.time_ns)
        for values, value in zip(self.counters.values(), reading.values, strict=True):
            values.append(value)

    @property
    def seconds(self) -> float:
        """From the first reading to the last."""
        return (self.time_ns[-1] - self.time_ns[0]) / 1e9

    def frame(self) -> pl.DataFrame:
        """As `profile_counters` and the CSV file have it: `time_ns` and a column for each counter."""
        columns = {"time_ns": self.time_ns, **self.counters}
        return pl.DataFrame({name: pl.Series(values, dtype=pl.UInt64) for name, values in columns.items()})

    def profile(self, *, name: str | None = None, column: str | None = None) -> JobProfile:
        """The job `name` (the port's if not given) whose traffic was read; see `profile_counters`.

        Raises `InputError` if the readings show none.
        """
        from hocket.profiling.series import profile_series

        return profile_series(counters_of(self.frame(), self.title, column=column), name or self.title)

    def congestion(self) -> dict[str, int]:
        """How much each of `CONGESTION_COUNTERS` that was read has grown, its wraps at 32 bits undone."""
        return {
            name: sum((after - before) % _WRAP for before, after in pairwise(values))
            for name, values in self.counters.items()
            if name in CONGESTION_COUNTERS
        }


Telling = Callable[[float, float, float], None]
"""Told now and then while a port is watched: seconds so far, and bits per second sent and received."""


def watch(
    port: OpenPort,
    *,
    interval_s: float,
    seconds: float | None = None,
    save: Path | None = None,
    tell: Telling | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Recording:
    """Reads `port` every `interval_s` for `seconds`, or until Ctrl-C, and keeps what it has then.

    With `save`, readings are written to that CSV file as they come. A port that goes away ends the recording
    too: `stopped` says so.

    Raises `InputError` for a file that is there already or cannot be written, or a port that was never read.
    """
    recording = Recording(port.title, {name: array("Q") for name in port.names})
    since_1970_ns = time.time_ns() - clock()
    with saved(save, port.names) as write:
        told: Reading | None = None
        try:
            for polled in poll(port.read, interval_s, seconds, clock=clock, sleep=sleep):
                reading = Reading(since_1970_ns + polled.time_ns, polled.values)
                recording.add(reading)
                write(reading)
                if told is None:
                    told = reading
                elif tell is not None and reading.time_ns - told.time_ns >= _SECONDS_BETWEEN_TELLING * 1e9:
                    tell(recording.seconds, *rates(port.names, told, reading))
                    told = reading
        except KeyboardInterrupt:
            recording.stopped = INTERRUPTED
        except InputError as error:
            if not recording.time_ns:
                raise
            recording.stopped = str(error)
    return recording


@contextmanager
def saved(path: Path | None, names: Sequence[str]) -> Iterator[Callable[[Reading], None]]:
    """Writes readings of the counters `names` into a new CSV file, or nowhere without a path.

    Raises `InputError` if the file is there already or cannot be written.
    """
    if path is None:
        yield lambda _: None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A recording cannot be made again, so that none is overwritten.
        with path.open("x", encoding="utf-8", buffering=_BUFFER_BYTES) as file:
            print("time_ns", *names, sep=",", file=file)
            yield lambda reading: print(reading.time_ns, *reading.values, sep=",", file=file)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise InputError(f"{path}: is there already; recordings are not overwritten") from None
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def rates(names: Sequence[str], before: Reading, after: Reading) -> tuple[float, float]:
    """Bits per second sent and received between two readings of the counters `names`."""
    bits = 8 * BYTES_PER_COUNT[COUNTER_UNITS[names[0]]]
    elapsed_s = (after.time_ns - before.time_ns) / 1e9
    sent, received = (after.values[place] - before.values[place] for place in (0, 1))
    return bits * sent / elapsed_s, bits * received / elapsed_s
