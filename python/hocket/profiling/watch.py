"""Reads a port's byte counters from sysfs at an interval while a job runs, and records the readings.

The rest of the package interprets the traffic.
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
"""Where iproute2 keeps its named network namespaces."""

INFINIBAND_COUNTERS = ("port_xmit_data", "port_rcv_data")
"""Counters of an InfiniBand or RoCE port: sent, received (Linux
`Documentation/ABI/stable/sysfs-class-infiniband`)."""
INTERFACE_COUNTERS = ("tx_bytes", "rx_bytes")
"""Counters of a network interface: sent, received (Linux
`Documentation/ABI/testing/sysfs-class-net-statistics`)."""
CONGESTION_COUNTERS = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets")
"""Counters of a RoCE port in `hw_counters`: CNPs sent in response to marks, CNPs handled by slowing down, and
marked packets received. They have 32 bits in hardware."""

DEFAULT_INTERVAL_S = 0.01
"""mlx5 refreshes its `hw_counters` every 10 ms unless `lifespan` is set: reading faster repeats values."""

INTERRUPTED = "interrupted"
"""The reason that a recording gives if the user ended it."""

LONGEST_S = 48 * 3600
"""The longest recording: at a reading every 10 ms, its file reaches the size limit of `read_counters`."""

# From Linux `include/uapi/linux/sched.h` and `mount.h`.
_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWNET = 0x4000_0000
_MS_REC = 0x4000
_MS_SLAVE = 0x8_0000

# Enough for the text of a 64-bit counter and its line break.
_COUNTER_BYTES = 32
_NS_BETWEEN_PROGRESS = 500_000_000
# The file is written in blocks of this size, so that a crash loses only about a second of readings.
_BUFFER_BYTES = 4096
_WRAP = 2**32


@dataclass(frozen=True)
class Port:
    """A port whose counters can be read: its `title` in messages, and the file of each counter by name.

    `lifespan_s` is the time after which the driver reads the hardware again; None if unknown.
    """

    title: str
    files: dict[str, Path]
    lifespan_s: float | None


class Reading(NamedTuple):
    """The `values` of all counters at `time_ns` on the machine's monotonic clock."""

    time_ns: int
    values: tuple[int, ...]


class OpenPort:
    """The counters of a port, with their files kept open: `names`, and their current values by `read`."""

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
        """The current values of the counters.

        Raises `InputError` if the port has disappeared or a value is not a number.
        """
        try:
            # Unbuffered, from offset 0: only then does the kernel generate a sysfs attribute anew.
            return tuple(int(os.pread(file, _COUNTER_BYTES, 0)) for file in self._files)
        except OSError as error:
            raise InputError(f"{self.title}: its counters can no longer be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{self.title}: a counter is not a number: {error}") from None

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
    """Opens the counters of `device`: a port of InfiniBand or RoCE (`mlx5_0:1`) or a network interface.

    With `namespace`, the device is in that network namespace; once open, its counters can be read from any
    thread. With `congestion`, the `CONGESTION_COUNTERS` are included.

    Raises `InputError` if there is no such namespace, device, port or counter, or it may not be read.
    """
    if namespace is None:
        return OpenPort(find_port(device, congestion=congestion, sysfs=sysfs))
    return inside(namespace, lambda: OpenPort(find_port(device, congestion=congestion, sysfs=sysfs)))


def find_port(device: str, *, congestion: bool = False, sysfs: Path = SYSFS) -> Port:
    """Finds the files of the counters of `device`; see `open_port`.

    Raises `InputError` that lists what there is if there is no such device, port or counter.
    """
    adapters, interfaces = sysfs / "class" / "infiniband", sysfs / "class" / "net"
    name, colon, number = device.partition(":")
    if name in names_in(adapters):
        return infiniband_port(adapters / name, number if colon else None, congestion)
    if device not in names_in(interfaces):
        there = [*names_in(adapters), *names_in(interfaces)]
        raise InputError(f"{device}: no such device; the devices are {listed(there)}")
    if congestion:
        raise InputError(
            f"{device}: is a network interface, which counts no CNPs; RoCE devices do: "
            f"{listed(names_in(adapters))}"
        )
    statistics = interfaces / device / "statistics"
    return Port(device, counter_files(device, statistics, INTERFACE_COUNTERS), None)


def infiniband_port(adapter: Path, number: str | None, congestion: bool) -> Port:
    """Port `number` of an adapter, or its only port if `number` is None."""
    ports = names_in(adapter / "ports")
    if number is None and len(ports) > 1:
        raise InputError(
            f"{adapter.name}: has ports {listed(ports)}; name one of them, such as {adapter.name}:{ports[0]}"
        )
    chosen = number if number is not None or not ports else ports[0]
    if chosen is None or chosen not in ports:
        raise InputError(f"{adapter.name}: no port {chosen or '1'}; its ports are {listed(ports)}")
    title = f"{adapter.name}:{chosen}"
    port = adapter / "ports" / chosen
    files = counter_files(title, port / "counters", INFINIBAND_COUNTERS)
    if congestion:
        files |= counter_files(title, port / "hw_counters", CONGESTION_COUNTERS)
    return Port(title, files, lifespan_of(port / "hw_counters" / "lifespan"))


def names_in(folder: Path) -> list[str]:
    """The names in a folder of sysfs; none if the folder does not exist."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def counter_files(title: str, folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """The files of counters by name, checked to exist."""
    there = names_in(folder)
    for name in names:
        if name not in there:
            raise InputError(
                f"{title}: counter {name} is not in {folder}; the counters there are {listed(there)}"
            )
    return {name: folder / name for name in names}


def lifespan_of(path: Path) -> float | None:
    """Seconds for which hardware counters keep a value; None if unknown."""
    try:
        return int(path.read_text()) / 1e3
    except (OSError, ValueError):
        return None


def inside(namespace: str, call: Callable[[], T]) -> T:
    """Calls `call` in a named network namespace, with its devices in `/sys`, and returns its result.

    A separate thread enters the namespace and ends there. The rest of the process stays in its own namespace,
    and files that the thread opened remain open. `ip netns exec` does the same before it runs a command.

    Raises `InputError` if there is no such namespace or it may not be entered, and whatever `call` raises.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            enter(namespace)
            results.append(call())
        # Raised again in the caller's thread; here it would only be printed.
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=f"in {namespace}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def enter(namespace: str) -> None:
    """Moves this thread into a network namespace and mounts a `/sys` of its own that shows its devices."""
    there = names_in(NAMESPACES)
    if namespace not in there:
        raise InputError(f"{namespace}: no such network namespace; the namespaces are {listed(there)}")
    # `os.setns` and `os.unshare` exist from Python 3.12 on, and `mount` not at all.
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, failure: str) -> None:
        if result != 0:
            reason = os.strerror(ctypes.get_errno())
            raise InputError(f"{namespace}: {failure}: {reason}; network namespaces need root")

    with (NAMESPACES / namespace).open("rb") as file:
        check(libc.setns(file.fileno(), _CLONE_NEWNET), "cannot be entered")
    # sysfs shows the devices of the namespace in which it was mounted. Mounts are private to the thread, so
    # that the `/sys` of the rest of the process stays as it is.
    check(libc.unshare(_CLONE_NEWNS), "cannot have mounts of its own")
    check(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "its mounts cannot be separated")
    check(libc.mount(b"hocket", b"/sys", b"sysfs", 0, None), "its devices cannot be shown")


def poll(
    read: Callable[[], tuple[int, ...]],
    interval_s: float,
    seconds: float | None = None,
    *,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Reading]:
    """Yields a reading every `interval_s` for `seconds`, or without end.

    A late reading has its true time, and the next ones keep the interval from there: missed readings are not
    made up for. `read` may return the counters of several ports.
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
    """The readings of a port so far: their times, in ns since 1970, and the values of each counter.

    `stopped` is the reason for ending early, if it did.
    """

    title: str
    # Arrays of 64-bit integers: two days are 17 million readings, and Python's integers take 32 bytes each.
    counters: dict[str, array[int]]
    time_ns: array[int] = field(default_factory=lambda: array("Q"))
    stopped: str | None = None

    def add(self, reading: Reading) -> None:
        """Appends a reading whose time counts from 1970."""
        self.time_ns.append(reading.time_ns)
        for values, value in zip(self.counters.values(), reading.values, strict=True):
            values.append(value)

    @property
    def seconds(self) -> float:
        """Seconds from the first reading to the last."""
        return (self.time_ns[-1] - self.time_ns[0]) / 1e9

    def frame(self) -> pl.DataFrame:
        """The readings with the columns of the CSV file: `time_ns` and one for each counter."""
        columns = {"time_ns": self.time_ns, **self.counters}
        return pl.DataFrame({name: pl.Series(values, dtype=pl.UInt64) for name, values in columns.items()})

    def profile(self, *, name: str | None = None, column: str | None = None) -> JobProfile:
        """Profiles the job whose traffic was read; see `profile_counters`. `name` is by default the port's.

        Raises `InputError` if the readings show no period.
        """
        from hocket.profiling.series import profile_series

        return profile_series(counters_of(self.frame(), self.title, column=column), name or self.title)

    def congestion(self) -> dict[str, int]:
        """The increase of each of `CONGESTION_COUNTERS` that was read, with wraps at 32 bits undone."""
        return {
            name: sum((after - before) % _WRAP for before, after in pairwise(values))
            for name, values in self.counters.items()
            if name in CONGESTION_COUNTERS
        }


OnProgress = Callable[[float, float, float], None]
"""Called now and then while a port is read, with the seconds so far and the bits/s sent and received."""


def watch(
    port: OpenPort,
    *,
    interval_s: float,
    seconds: float | None = None,
    save: Path | None = None,
    on_progress: OnProgress | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Recording:
    """Reads `port` every `interval_s` for `seconds`, or until Ctrl-C, and returns the recording.

    With `save`, readings are written to that CSV file as they come. If the port disappears, the recording
    ends early and `stopped` gives the reason.

    Raises `InputError` if the file exists already or cannot be written, or if the port could never be read.
    """
    recording = Recording(port.title, {name: array("Q") for name in port.names})
    # Once, so that a step of the wall clock during the recording does not change any interval.
    since_1970_ns = time.time_ns() - clock()
    with csv_writer(save, port.names) as write:
        shown: Reading | None = None
        try:
            for polled in poll(port.read, interval_s, seconds, clock=clock, sleep=sleep):
                reading = Reading(since_1970_ns + polled.time_ns, polled.values)
                recording.add(reading)
                write(reading)
                if shown is None:
                    shown = reading
                elif on_progress is not None and reading.time_ns - shown.time_ns >= _NS_BETWEEN_PROGRESS:
                    on_progress(recording.seconds, *rates(port.names, shown, reading))
                    shown = reading
        except KeyboardInterrupt:
            recording.stopped = INTERRUPTED
        except InputError as error:
            if not recording.time_ns:
                raise
            recording.stopped = str(error)
    return recording


@contextmanager
def csv_writer(path: Path | None, names: Sequence[str]) -> Iterator[Callable[[Reading], None]]:
    """Opens a new CSV file for readings of the counters `names`, and yields the function that writes one.

    Without a path, that function does nothing.

    Raises `InputError` if the file exists already or cannot be written.
    """
    if path is None:
        yield lambda _: None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Mode "x" fails if the file exists: a recording cannot be repeated, so none is overwritten.
        with path.open("x", encoding="utf-8", buffering=_BUFFER_BYTES) as file:
            print("time_ns", *names, sep=",", file=file)
            yield lambda reading: print(reading.time_ns, *reading.values, sep=",", file=file)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise InputError(f"{path}: exists already; recordings are not overwritten") from None
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def rates(names: Sequence[str], before: Reading, after: Reading) -> tuple[float, float]:
    """Bits/s sent and received between two readings; `names` begin with the counters of these."""
    bits = 8 * BYTES_PER_COUNT[COUNTER_UNITS[names[0]]]
    elapsed_s = (after.time_ns - before.time_ns) / 1e9
    sent, received = (after.values[place] - before.values[place] for place in (0, 1))
    return bits * sent / elapsed_s, bits * received / elapsed_s
