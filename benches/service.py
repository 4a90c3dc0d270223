"""Measures a service with 1,000 jobs of 8 ranks over loopback: the reports that it answers per second, how
long these wait for their answers, and how long after a change the affected jobs have slots.

Other work on the machine lengthens the waits; it has little effect on the service's processor time.

    python benches/service.py [reports] [change]
"""

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

JOBS = 1_000
RANKS = 8
JOBS_PER_LINK = 4
CONNECTIONS = 64
"""Persistent ones: the service is measured, not the set-up of connections."""
RATES = (500, 1_000, 2_000, 8_000)
"""Reports per second; the last is that of 1,000 jobs of 8 ranks, each of which reports once a second."""
SECONDS = 4.0
CHANGES = 20

Ask = Callable[[str, str, Any], Awaitable[Any]]


class Connection:
    """A persistent HTTP connection with one request at a time."""

    # By hand: an HTTP library would take more time than the service that it measures.
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: Any) -> Any:
        """The decoded JSON of the answer, whose status must be 2xx."""
        content = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: service\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        header = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in header.split(b"\r\n")
            if line[:15].lower() == b"content-length:"
        )
        answer = await self._reader.readexactly(length)
        assert header[9:10] == b"2", answer
        return json.loads(answer)


@asynccontextmanager
async def service() -> AsyncIterator[tuple[int, list[Connection]]]:
    """The process id of a new service, and connections to it; prints its memory and ends it on exit."""
    with tempfile.TemporaryDirectory() as directory:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hocket", "serve", "--listen", "127.0.0.1:0"),
            cwd=directory,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None, "it is a pipe"
        # The first line names the address, with the port that the system chose for port 0.
        line = (await process.stderr.readline()).decode()
        port = int(line.split("http://127.0.0.1:")[1].split(":")[0])
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
        try:
            yield process.pid, [Connection(*each) for each in opened]
        finally:
            print(f"  memory of the service: {_resident_mb(process.pid):.0f} MB")
            for _, writer in opened:
                writer.close()
            process.terminate()
            await process.wait()


async def reports() -> None:
    """Measures the answers at each of `RATES`.

    The loop is open: a report is due at its time even if others still wait, as the ranks of real jobs report.
    """
    for rate in RATES:
        async with service() as (process, connections):
            started_s = time.perf_counter()
            for number in range(JOBS):
                await connections[0].ask("PUT", f"/v1/jobs/{number}", _registration(number))
            registering_s = time.perf_counter() - started_s
            before_s = _processor_s(process)
            waits_s, lasted_s = await _offered(connections, rate)
            each_s = (_processor_s(process) - before_s) / len(waits_s)
        cuts = statistics.quantiles(waits_s, n=100)
        print(
            f"{rate} reports/s offered, {len(waits_s) / lasted_s:.0f}/s answered: median "
            f"{cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, "
            f"{each_s * 1e6:.0f} µs of the processor each ({JOBS} jobs registered in {registering_s:.1f} s)"
        )


async def _offered(connections: list[Connection], rate: int) -> tuple[list[float], float]:
    """The time from when each report was due until its answer, and the time that all took."""
    due: asyncio.Queue[tuple[float, int]] = asyncio.Queue()
    begun_s = time.perf_counter()
    total = int(rate * SECONDS)
    for number in range(total):
        due.put_nowait((begun_s + number / rate, number % (JOBS * RANKS)))
    waits_s: list[float] = []

    async def asking(connection: Connection) -> None:
        while not due.empty():
            at_s, number = due.get_nowait()
            await asyncio.sleep(max(0.0, at_s - time.perf_counter()))
            body = _report(number // JOBS)
            await connection.ask("POST", f"/v1/jobs/{number % JOBS}/reports", body)
            waits_s.append(time.perf_counter() - at_s)

    await asyncio.gather(*(asking(each) for each in connections))
    return waits_s, time.perf_counter() - begun_s


async def change() -> None:
    """Measures how long all jobs wait for slots when they start together, and one job when it changes."""
    draws = random.Random(1)
    async with service() as (_, [connection, *_]):
        for number in range(JOBS):
            await connection.ask("PUT", f"/v1/jobs/{number}", _registration(number))
        started_s = time.perf_counter()
        for number in range(JOBS):
            await connection.ask("POST", f"/v1/jobs/{number}/reports", _report(0, ranks=1))
        reported_s = time.perf_counter() - started_s
        for number in range(JOBS):
            await _slot(connection, number)
        slotted_s = time.perf_counter() - started_s
        print(
            f"{JOBS} jobs start in {reported_s:.1f} s: all have received their slots after {slotted_s:.1f} s"
        )
        waits_s = []
        for _ in range(CHANGES):
            number = draws.randrange(JOBS)
            period_ms = draws.randrange(190, 200)
            await connection.ask("PUT", f"/v1/jobs/{number}", _registration(number, period_ms))
            started_s = time.perf_counter()
            await _slot(connection, number)
            waits_s.append(time.perf_counter() - started_s)
    print(
        f"one of {JOBS} jobs changes: slot after {statistics.median(waits_s) * 1e3:.0f} ms (median), "
        f"{max(waits_s) * 1e3:.0f} ms (most)"
    )


async def _slot(connection: Connection, number: int) -> None:
    """Returns when an answer to the job says whether it has a slot."""
    while True:
        answer = await connection.ask("POST", f"/v1/jobs/{number}/reports", _report(0, ranks=1))
        # The reason while the service is still looking for time-shifts.
        if "worked out" not in answer["reason"]:
            return
        await asyncio.sleep(0.005)


def _registration(number: int, period_ms: int = 200) -> dict[str, Any]:
    """A job with communication in less than a quarter of its period: the four of a link can take turns."""
    up = [{"start": "0 ms", "duration": "45 ms", "rate": "40 Gbps"}]
    link = {"name": f"link {number // JOBS_PER_LINK}", "capacity": "50 Gbps"}
    return {"profile": {"period": f"{period_ms} ms", "up": up}, "workers": [], "links": [link]}


def _report(rank: int, ranks: int = RANKS) -> dict[str, Any]:
    times = {"total_ns": 1_000_000_000, "min_ns": 199_000_000, "max_ns": 201_000_000}
    clocks = {"clock_offset_ns": 12_345, "clock_uncertainty_ns": 50_000}
    return {"rank": rank, "ranks": ranks, "sent_ns": 0, "iteration": 5, "count": 5, **times, **clocks}


def _processor_s(process: int) -> float:
    """User and system time, fields 14 and 15 of proc_pid_stat(5); field 2, the name, may contain spaces."""
    # Field 3 is the first after the name, so 14 is at index 11.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


PARTS = {"reports": reports, "change": change}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        asyncio.run(PARTS[name]())
