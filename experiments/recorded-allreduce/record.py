"""Record NIC byte counters of two processes that all-reduce over a shaped link.

Makes two network namespaces joined by a veth pair, shapes both directions with tbf, and runs one
torch.distributed worker (Gloo, CPU) in each: compute for a fixed time, all-reduce, repeat. Meanwhile
`hocket profile --watch` reads the interface's counters in the first namespace. Needs root, Linux, iproute2,
CPU PyTorch and an installed Hocket. No packet leaves the machine, and the namespaces are always removed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "veth"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
STORE_PORT = 29577
READY = "ready"
# An upper limit on the time until the watch reads its first value.
WATCH_START_S = 5.0
# Iterations before the recording, which open Gloo's connections and fill the allocator.
WARM_UP_ITERATIONS = 3


@dataclass(frozen=True)
class Phase:
    """One compute phase of `compute_ms`, then one all-reduce of `megabytes` (10^6 bytes)."""

    compute_ms: float
    megabytes: float


def parse_phase(text: str) -> Phase:
    """A phase from `COMPUTE_MS:MB`, such as `90:6`."""
    compute_ms, separator, megabytes = text.partition(":")
    try:
        phase = Phase(float(compute_ms), float(megabytes))
    except ValueError:
        separator = ""
    if not separator or phase.compute_ms < 0 or phase.megabytes <= 0:
        raise argparse.ArgumentTypeError(f"phase {text!r}: expected COMPUTE_MS:MB, such as 90:6")
    return phase


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; the recorder starts itself with `--role` for its workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, required=True, help="path without suffix: OUT.csv and OUT.truth.csv"
    )
    parser.add_argument("--phase", type=parse_phase, action="append", required=True, metavar="COMPUTE_MS:MB")
    parser.add_argument("--rate", default="1gbit", help="rate of the link, as tc spells it")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the recording")
    parser.add_argument("--poll-ms", type=float, default=5.0, help="time between two readings")
    parser.add_argument("--role", choices=("recorder", "worker"), default="recorder", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--origin-s", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    """Record, or act as one of the workers; returns the exit code."""
    options = parse_arguments()
    if options.role == "worker":
        work(options)
    elif os.geteuid() != 0:
        return refuse("network namespaces need root; run it with sudo", 2)
    elif importlib.util.find_spec("torch") is None:
        return refuse(
            f"{sys.executable} has no PyTorch; on Debian, python3-torch for /usr/bin/python3 has it", 2
        )
    elif shutil.which("hocket") is None:
        return refuse("there is no hocket command; activate the environment in which it is installed", 2)
    else:
        # SIGTERM raises an exception, so that the namespaces are removed then too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            record(options)
        except KeyboardInterrupt:
            return refuse("interrupted; nothing was written", 128 + signal.SIGINT)
        except (OSError, subprocess.CalledProcessError) as error:
            return refuse(str(error), 1)
    return 0


def refuse(message: str, code: int) -> int:
    """Print why there is no recording; returns `code`."""
    print(f"record.py: {message}", file=sys.stderr)
    return code


def record(options: argparse.Namespace) -> None:
    """Run workers in fresh namespaces and watch them, then write both workers' events as one file."""
    watched = options.out.with_suffix(".watched.csv")
    # Wall-clock time, which all processes of the machine share.
    origin_s = time.time()
    with shaped_link(options.rate) as namespaces, ended() as children:
        for rank, namespace in enumerate(namespaces):
            children.append(start(namespace, ["--role", "worker", "--rank", str(rank)], origin_s))
        first_word = children[0].stdout.readline().strip() if children[0].stdout else ""
        if first_word != READY:
            raise SystemExit("record.py: a worker ended before its first iteration; its message is above")
        children.append(start_watch(namespaces[0], watched, options))
        for process in children:
            if process.wait() != 0:
                raise SystemExit("record.py: a worker or the watch failed; its message is above")
    write_readings(watched, options.out.with_suffix(".csv"), origin_s)
    merge_truth(options.out)


@contextmanager
def shaped_link(rate: str) -> Iterator[tuple[str, str]]:
    """Two namespaces joined by a link of `rate` in both directions; removed on exit."""
    names = (f"hocket-{os.getpid()}-0", f"hocket-{os.getpid()}-1")
    try:
        for name in names:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            INTERFACE,
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            INTERFACE,
            "netns",
            names[1],
        )
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/30", "dev", INTERFACE)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", INTERFACE, "up")
            shape = ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", INTERFACE, *shape], check=True)
        yield names
    finally:
        # Removing a namespace removes its end of the veth pair, and with it the other end.
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def ip(*arguments: str) -> None:
    """Run `ip`, raising on failure."""
    subprocess.run(["ip", *arguments], check=True)


def start(namespace: str, role: list[str], origin_s: float) -> subprocess.Popen[str]:
    """This script with the same options and another role, inside `namespace`."""
    command = ["ip", "netns", "exec", namespace, sys.executable, __file__, *sys.argv[1:], *role]
    # In a session of its own: Ctrl-C then reaches only the recorder, which ends the worker.
    return subprocess.Popen(
        [*command, "--origin-s", repr(origin_s)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@contextmanager
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """A list for processes, all of which are ended on exit."""
    processes: list[subprocess.Popen[str]] = []
    try:
        yield processes
    finally:
        # All are killed before any is waited for, because a worker without its peer prints an error.
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def start_watch(namespace: str, watched: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Hocket, which reads the interface's counters every `--poll-ms` for `--seconds`."""
    watched.unlink(missing_ok=True)
    watch = ["hocket", "profile", "--watch", INTERFACE, "--namespace", namespace, "--save", str(watched)]
    length = ["--interval", f"{options.poll_ms} ms", "--seconds", str(options.seconds)]
    # It competes with two computing workers for the processor. A late reading does no harm, since each has
    # its own time, but a missing one blurs the series.
    command = ["nice", "-n", "-10", *watch, *length]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def write_readings(watched: Path, path: Path, origin_s: float) -> None:
    """Write the readings of the watch with times in seconds since `origin_s`, as those of the workers."""
    with watched.open(newline="") as file:
        rows = [
            (f"{int(time_ns) / 1e9 - origin_s:.6f}", *counters)
            for time_ns, *counters in list(csv.reader(file))[1:]
        ]
    write_rows(path, ["time_s", "tx_bytes", "rx_bytes"], rows)
    watched.unlink()


def work(options: argparse.Namespace) -> None:
    """Iterate for `--seconds` and a little more, so that the recording ends inside the run."""
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
    # The two workers compute at the same time on one machine.
    torch.set_num_threads(1)
    store = f"tcp://{ADDRESSES[0]}:{STORE_PORT}"
    dist.init_process_group("gloo", init_method=store, rank=options.rank, world_size=len(ADDRESSES))
    gradients = [torch.ones(round(phase.megabytes * 1e6 / 4), dtype=torch.float32) for phase in options.phase]
    weights = torch.ones(128, 128)
    stop = torch.zeros(1)
    rows = []
    iteration = -WARM_UP_ITERATIONS
    end_s = float("inf")
    while not stop.item():
        if iteration == 0:
            print(READY, flush=True)
            end_s = time.time() + options.seconds + WATCH_START_S
        iteration_start_s = time.time()
        for index, (phase, gradient) in enumerate(zip(options.phase, gradients, strict=True)):
            compute_end_s = time.time() + phase.compute_ms / 1e3
            while time.time() < compute_end_s:
                # Limited, because powers of the matrix would overflow.
                weights = weights.matmul(weights).clamp_(max=1.0)
            start_s = time.time()
            dist.all_reduce(gradient)
            rows.append((options.rank, iteration, f"all_reduce_{index}", start_s, time.time()))
            # The sum would double with each all-reduce.
            gradient.fill_(1.0)
        # Only rank 0 decides to stop; otherwise one worker could wait for ever in a last all-reduce.
        stop.fill_(float(options.rank == 0 and time.time() > end_s))
        dist.broadcast(stop, src=0)
        rows.append((options.rank, iteration, "iteration", iteration_start_s, time.time()))
        iteration += 1
    origin_s = options.origin_s
    timed = [
        (*row[:3], f"{row[3] - origin_s:.6f}", f"{row[4] - origin_s:.6f}") for row in rows if row[1] >= 0
    ]
    write_rows(worker_truth(options.out, options.rank), TRUTH_COLUMNS, timed)
    dist.destroy_process_group()


TRUTH_COLUMNS = ["rank", "iteration", "event", "start_s", "end_s"]


def worker_truth(out: Path, rank: int) -> Path:
    """The file of the events of worker `rank`."""
    return out.with_suffix(f".truth.{rank}.csv")


def merge_truth(out: Path) -> None:
    """Join the workers' events into OUT.truth.csv, by rank, and remove the parts."""
    rows: list[list[str]] = []
    for rank in range(len(ADDRESSES)):
        part = worker_truth(out, rank)
        with part.open(newline="") as file:
            rows += list(csv.reader(file))[1:]
        part.unlink()
    write_rows(out.with_suffix(".truth.csv"), TRUTH_COLUMNS, rows)


def write_rows(path: Path, header: list[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file with `header`."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
