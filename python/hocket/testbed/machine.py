"""Checks a testbed's requirements on this machine, and runs commands."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hocket.errors import InputError
from hocket.profiling.watch import NAMESPACES, names_in
from hocket.testbed.steps import Command

# A killed process is gone within milliseconds, unless it waits for a device in the kernel.
_END_WITHIN_S = 10.0


def check_machine() -> None:
    """Checks for Linux, root and iproute2.

    Raises `InputError` with what is missing.
    """
    if not hasattr(os, "geteuid") or not Path("/proc/self/ns/net").exists():
        raise InputError("a testbed needs network namespaces, which only Linux has")
    if os.geteuid() != 0:
        raise InputError("a testbed needs root to create network namespaces: run the command with sudo")
    missing = [name for name in ("ip", "tc", "sysctl") if shutil.which(name) is None]
    if missing:
        raise InputError(
            f"a testbed needs {' and '.join(missing)}: install iproute2 and procps (Debian packages)"
        )


def run_commands(commands: Sequence[Command], progress: Callable[[int, int], object] | None = None) -> None:
    """Runs `commands` in order; `progress` is called with the finished and the total number.

    Raises `InputError` with the command and its output if one fails.
    """
    for number, command in enumerate(commands):
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode != 0:
            output = ran.stderr.strip() or ran.stdout.strip() or f"exit code {ran.returncode}"
            raise InputError(f"`{' '.join(command)}` failed: {output}")
        if progress is not None:
            progress(number + 1, len(commands))


def namespaces() -> set[str]:
    """The names of all network namespaces of this machine."""
    return set(names_in(NAMESPACES))


def processes_in(namespace: str) -> list[int]:
    """The ids of the processes in `namespace`; empty if the namespace does not exist."""
    ran = subprocess.run(("ip", "netns", "pids", namespace), capture_output=True, text=True)
    return [int(line) for line in ran.stdout.split()]


def end_processes_in(namespace: str) -> None:
    """Kills all processes in `namespace`, and waits until they have ended.

    Raises `InputError` if one is left after 10 s.
    """
    until_s = time.monotonic() + _END_WITHIN_S
    # Repeated, since a process may have started another one after the list was read.
    while left := processes_in(namespace):
        if time.monotonic() > until_s:
            raise InputError(f"process {left[0]} in namespace {namespace!r} does not end")
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def congestion_controls() -> set[str]:
    """The TCP congestion controls that namespaces may choose for themselves, by their names in the kernel.

    Other available ones are restricted to the machine's own namespace (`ip-sysctl`,
    `tcp_allowed_congestion_control`).
    """
    return set(Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split())


def load_average() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def busy_s() -> float:
    """Total busy time of all processors since the machine started, in seconds."""
    # proc(5): user, nice, system, idle, iowait, irq, softirq, steal, of all processors, in ticks.
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return float(user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
