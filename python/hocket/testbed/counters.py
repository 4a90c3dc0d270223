"""Measures the traffic of a testbed's links: reads the counters of every interface while jobs run."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from hocket.errors import InputError
from hocket.profiling.watch import SYSFS, OpenPort, Port, Reading, counter_files, inside, poll
from hocket.testbed.layout import Layout
from hocket.testbed.tasks import FRAME_BYTES, HEADER_BYTES, PAYLOAD_BYTES

INTERVAL_S = 0.01
"""Hocket: the interval in which a NIC's counters change; see `hocket.profiling.watch`."""

_COUNTERS = ("tx_bytes", "tx_packets")
# A nice value; the workers, which compete for the same processors, have the default of 0.
_PRIORITY = -10


@dataclass
class Counters:
    """The counters of both ends of all links of a testbed, and their readings so far."""

    layout: Layout
    ports: list[OpenPort]
    readings: list[Reading] = field(default_factory=list)

    def read(self) -> tuple[int, ...]:
        """Bytes and packets sent by each end, in the order of links and their ends."""
        return tuple(value for port in self.ports for value in port.read())

    def close(self) -> None:
        """Closes the counters' files."""
        for port in self.ports:
            port.close()


def open_counters(layout: Layout) -> Counters:
    """The counters of `layout`, which is up.

    Raises `InputError` if an interface does not exist.
    """
    # Grouped, since each visit to a namespace needs its own thread and mount. The files opened there can then
    # be read from outside.
    by_namespace: dict[str, list[str]] = {}
    for link in layout.links:
        for port in link.ports:
            by_namespace.setdefault(port.namespace, []).append(port.interface)
    found: dict[tuple[str, str], OpenPort] = {}
    try:
        for namespace, interfaces in by_namespace.items():
            opened = inside(namespace, partial(_opened, interfaces))
            found.update({(namespace, port.title): port for port in opened})
    except InputError:
        for open_one in found.values():
            open_one.close()
        raise
    ends = [(port.namespace, port.interface) for link in layout.links for port in link.ports]
    return Counters(layout, [found[end] for end in ends])


def _opened(interfaces: Sequence[str]) -> list[OpenPort]:
    return [
        OpenPort(
            Port(name, counter_files(name, SYSFS / "class" / "net" / name / "statistics", _COUNTERS), None)
        )
        for name in interfaces
    ]


class Poller:
    """Context manager in which a thread reads the counters every 10 ms."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="counters of links")

    def __enter__(self) -> "Poller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        # On Linux this applies to the thread. A reading delayed by a busy worker would carry too early a
        # time.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)
        for reading in poll(self._counters.read, INTERVAL_S):
            self._counters.readings.append(reading)
            if self._over.is_set():
                return


SCHEMA = pl.Schema(
    {
        "link": pl.String,
        "job": pl.String,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "bytes": pl.UInt64,
        "rate_bps": pl.Float64,
        "utilisation": pl.Float64,
    }
)
"""The columns of the table `utilisation`."""


def utilisation(counters: Counters, origin_ns: int) -> pl.DataFrame:
    """The table with the columns `SCHEMA`: a row for each direction of a link between two readings, from
    `origin_ns`.

    `bytes` are on the wire; `job` is the job of a host's own link, null for links that jobs share;
    `utilisation` is relative to the link's capacity.
    """
    readings = [reading for reading in counters.readings if reading.time_ns > origin_ns]
    before = [reading for reading in counters.readings if reading.time_ns <= origin_ns]
    if before:
        # Jobs send nothing before the origin, so the counters had these values there. Without them, what is
        # sent until the first reading would be missing, and on a busy machine that reading may be late.
        readings.insert(0, Reading(origin_ns, before[-1].values))
    times = pl.Series([reading.time_ns for reading in readings], dtype=pl.Int64)
    jobs = {worker.namespace: job.name for job in counters.layout.jobs for worker in job.workers}
    frames = [pl.DataFrame(schema=SCHEMA)]
    for number, link in enumerate(counters.layout.links):
        owner = next((jobs[port.namespace] for port in link.ports if port.namespace in jobs), None)
        for side, name in enumerate(link.names):
            # The order of `Counters.read`: two counters of each end, two ends of each link.
            column = 2 * (2 * number + side)
            sent, packets = (
                pl.Series([reading.values[column + place] for reading in readings], dtype=pl.Int64)
                for place in (0, 1)
            )
            frames.append(_of_direction(name, owner, link.capacity_bps, times - origin_ns, sent, packets))
    return pl.concat(frames)


def _of_direction(
    name: str, job: str | None, capacity_bps: int, times_ns: pl.Series, sent: pl.Series, packets: pl.Series
) -> pl.DataFrame:
    between = pl.DataFrame(
        {
            "start": times_ns,
            "end": times_ns.shift(-1),
            "sent": sent.diff().shift(-1),
            "packets": packets.diff().shift(-1),
        }
    ).drop_nulls()
    wire = wire_bytes(pl.col("sent"), pl.col("packets"))
    rate = pl.col("bytes") * 8e9 / (pl.col("end") - pl.col("start"))
    return (
        between.with_columns(bytes=wire)
        .select(
            link=pl.lit(name),
            job=pl.lit(job, dtype=pl.String),
            start_s=pl.col("start") / 1e9,
            end_s=pl.col("end") / 1e9,
            bytes=pl.col("bytes").round(),
            rate_bps=rate,
            utilisation=rate / capacity_bps,
        )
        .cast(SCHEMA)
    )


def wire_bytes(sent: pl.Expr, packets: pl.Expr) -> pl.Expr:
    """Bytes on the wire, from the counters of an interface.

    An interface counts up to 64 kB that TCP passes down at once with a single header, while on the wire each
    segment has one. The result is exact for full segments, and at most 5% too high for others.
    """
    # ARP requests are shorter than the headers of a segment.
    payload = (sent - HEADER_BYTES * packets).clip(lower_bound=0)
    # Packets without data, such as acknowledgements, were counted as they are on the wire.
    return pl.max_horizontal(sent, payload * (FRAME_BYTES / PAYLOAD_BYTES))
