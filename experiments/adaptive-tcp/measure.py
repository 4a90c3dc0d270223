"""Measure two jobs that send bursts over one link, each under a congestion control of the kernel.

Makes network namespaces for two senders, a switch and a receiver, and shapes the switch's port to the
receiver with tbf. A job sends a burst, waits until the receiver has all of it, computes (sleeps), and starts
over. Needs root, Linux and iproute2; no packet leaves the machine, and the namespaces are removed at the end.
"""

from __future__ import annotations

import argparse
import csv
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

JOBS = ("a", "b")
SWITCH, RECEIVER = "hk-tcp-switch", "hk-tcp-receiver"
RECEIVER_ADDRESS = "10.79.9.2"
PORT = 29600
READY = "ready"
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True)
class Iteration:
    """An iteration of a job: when its burst started, when the receiver had all of it, and when the compute
    after it ended, in seconds since the run's first burst.
    """

    run: int
    job: str
    control: str
    number: int
    start_s: float
    received_s: float
    end_s: float


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; the script starts itself with `--role` in each namespace."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write every iteration to this CSV file")
    parser.add_argument(
        "--read", type=Path, nargs="+", metavar="FILE", help="describe the runs in such files instead"
    )
    parser.add_argument("--controls", nargs=2, default=["reno", "reno"], metavar=("A", "B"))
    parser.add_argument("--rate-mbps", type=float, default=100.0, help="rate of the link")
    parser.add_argument(
        "--queue-ms", type=float, default=4.0, help="length of its queue, as time on the link"
    )
    parser.add_argument("--burst-mb", type=float, default=2.5, help="bytes of a burst, in 10^6")
    parser.add_argument("--compute-ms", type=float, default=300.0, help="from the end of a burst to the next")
    parser.add_argument("--iterations", type=int, default=32, help="iterations of a job in each run")
    parser.add_argument("--runs", type=int, default=1, help="runs, each on a network of its own")
    parser.add_argument(
        "--role", choices=("measure", *JOBS, "receiver"), default="measure", help=argparse.SUPPRESS
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Measure, or act as one of the children; returns the exit code."""
    options = parse_arguments()
    if options.role == "receiver":
        receive(options)
    elif options.role in JOBS:
        send(options)
    elif options.read:
        for path in options.read:
            describe_file(path)
    elif os.geteuid() != 0:
        print("network namespaces need root; run it with sudo", file=sys.stderr)
        return 2
    else:
        measure(options)
    return 0


def measure(options: argparse.Namespace) -> None:
    """All runs, with a line on each when it ends; Ctrl-C keeps the finished ones."""
    iterations: list[Iteration] = []
    try:
        for run in range(1, options.runs + 1):
            with network(options):
                finished = list(run_jobs(run, options))
            iterations.extend(finished)
            print(run, described(finished), sep="  ", flush=True)
    finally:
        if options.out is not None:
            write(options.out, iterations)


@contextmanager
def network(options: argparse.Namespace) -> Iterator[None]:
    """The namespaces and their links, removed at the end."""
    with ExitStack() as stack:
        for name in (*map(namespace_of, JOBS), SWITCH, RECEIVER):
            run_command("ip", "netns", "add", name)
            stack.callback(run_command, "ip", "netns", "del", name)
        inside(SWITCH, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number, job in enumerate(JOBS, start=1):
            connect(namespace_of(job), f"10.79.{number}.2", f"to-{job}", f"10.79.{number}.1")
            # Otherwise Linux starts connections from the metrics of earlier ones, and bursts after idle times
            # from the initial window.
            for setting in ("tcp_no_metrics_save=1", "tcp_slow_start_after_idle=0"):
                inside(namespace_of(job), "sysctl", "-qw", f"net.ipv4.{setting}")
        connect(RECEIVER, RECEIVER_ADDRESS, "to-receiver", "10.79.9.1")
        shape("to-receiver", options)
        yield


def connect(host: str, address: str, port: str, gateway: str) -> None:
    """A veth pair between a host and the switch, and the host's route to all others."""
    run_command(
        "ip", "link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", port, "netns", SWITCH
    )
    for namespace, device, local in ((host, "eth0", address), (SWITCH, port, gateway)):
        inside(namespace, "ip", "address", "add", f"{local}/24", "dev", device)
        # Packets as on a wire: with segmentation offload, tbf would delay or drop 64 kB at once.
        inside(namespace, "ip", "link", "set", device, "gso_max_segs", "1", "up")
    # Linux's default minimum of the retransmission timeout, 200 ms, is as long as a burst.
    inside(host, "ip", "route", "add", "default", "via", gateway, "rto_min", "10ms")


def shape(port: str, options: argparse.Namespace) -> None:
    queue_bytes = round(options.rate_mbps * 1e6 * options.queue_ms / 1e3 / 8)
    rate = f"{options.rate_mbps:g}mbit"
    tbf = ("tbf", "rate", rate, "burst", "8kb", "limit", str(queue_bytes))
    inside(SWITCH, "tc", "qdisc", "add", "dev", port, "root", *tbf)


def run_jobs(run: int, options: argparse.Namespace) -> Iterator[Iteration]:
    """One run: the iterations of both jobs."""
    with ExitStack() as stack:
        receiver = stack.enter_context(child(RECEIVER, "receiver"))
        assert receiver.stdout is not None, "its output is a pipe"
        if receiver.stdout.readline().strip() != READY:
            raise RuntimeError("the receiver did not start")
        senders = [stack.enter_context(child(namespace_of(job), job)) for job in JOBS]
        outputs = [sender.communicate()[0] for sender in senders]
        if failed := [job for job, sender in zip(JOBS, senders, strict=True) if sender.returncode != 0]:
            raise RuntimeError(f"job {' and '.join(failed)} failed")
    times = [[tuple(map(float, line.split())) for line in output.splitlines()] for output in outputs]
    origin_s = min(job[0][0] for job in times)
    for job, control, iterations in zip(JOBS, options.controls, times, strict=True):
        for number, moments_s in enumerate(iterations, start=1):
            yield Iteration(run, job, control, number, *(round(at_s - origin_s, 6) for at_s in moments_s))


@contextmanager
def child(namespace: str, role: str) -> Iterator[subprocess.Popen[str]]:
    command = ("ip", "netns", "exec", namespace, sys.executable, __file__, *sys.argv[1:], "--role", role)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def receive(options: argparse.Namespace) -> None:
    """The receiver: starts the jobs when both have connected, and answers each complete burst with a byte."""
    burst = round(options.burst_mb * 1e6)
    listener = socket.create_server((RECEIVER_ADDRESS, PORT))
    print(READY, flush=True)
    connections = [listener.accept()[0] for _ in JOBS]
    for connection in connections:
        connection.sendall(b".")
        threading.Thread(target=answer_bursts, args=(connection, burst)).start()


def answer_bursts(connection: socket.socket, burst: int) -> None:
    buffer = bytearray(_PIECE_BYTES)
    left = burst
    while got := connection.recv_into(buffer, min(left, _PIECE_BYTES)):
        left -= got
        if left == 0:
            left = burst
            connection.sendall(b".")


def send(options: argparse.Namespace) -> None:
    """A job: prints start, reception and end of each iteration in seconds."""
    burst = bytes(round(options.burst_mb * 1e6))
    connection = socket.create_connection((RECEIVER_ADDRESS, PORT))
    # The connection has sent nothing yet, so its whole run is under this control.
    control = options.controls[JOBS.index(options.role)]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    connection.recv(1)
    start_s = time.monotonic()
    for _ in range(options.iterations):
        connection.sendall(burst)
        connection.recv(1)
        received_s = time.monotonic()
        time.sleep(options.compute_ms / 1e3)
        end_s = time.monotonic()
        print(f"{start_s:.6f} {received_s:.6f} {end_s:.6f}", flush=True)
        start_s = end_s


def described(iterations: Sequence[Iteration]) -> str:
    """For each half of a run, the mean iterations of both jobs and the share of a's bursts during which b
    sends too; then the number of bursts of each job until one job was done.
    """
    a, b = ([each for each in iterations if each.job == job] for job in JOBS)
    shares = overlaps(a, b)
    halves = (slice(0, len(a) // 2), slice(len(a) // 2, None))
    parts = [
        f"{mean_ms(a[half]):4.0f} {mean_ms(b[half]):4.0f} ms {statistics.mean(shares[half]):4.0%}"
        for half in halves
    ]
    end_s = min(job[-1].received_s for job in (a, b))
    bursts = (sum(each.received_s <= end_s for each in job) for job in (a, b))
    return "   ".join([*parts, "{:2} : {:2}".format(*bursts)])


def overlaps(mine: Iterable[Iteration], others: Sequence[Iteration]) -> list[float]:
    """The share of each burst of one job, `mine`, during which the other job sends too."""
    return [
        sum(
            max(0.0, min(one.received_s, other.received_s) - max(one.start_s, other.start_s))
            for other in others
        )
        / (one.received_s - one.start_s)
        for one in mine
    ]


def mean_ms(iterations: Sequence[Iteration]) -> float:
    return statistics.mean(1e3 * (each.end_s - each.start_s) for each in iterations)


def describe_file(path: Path) -> None:
    """Prints a line for each run in a file that `write` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        iterations = [
            Iteration(
                int(row["run"]),
                row["job"],
                row["control"],
                int(row["number"]),
                *(float(row[name]) for name in ("start_s", "received_s", "end_s")),
            )
            for row in csv.DictReader(file)
        ]
    for run in sorted({each.run for each in iterations}):
        described_run = described([each for each in iterations if each.run == run])
        print(f"{path.stem:21}  {run}  {described_run}")


def write(path: Path, iterations: Iterable[Iteration]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(field.name for field in fields(Iteration))
        table.writerows(map(astuple, iterations))


def namespace_of(job: str) -> str:
    return f"hk-tcp-{job}"


def inside(namespace: str, *command: str) -> None:
    run_command("ip", "netns", "exec", namespace, *command)


def run_command(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
