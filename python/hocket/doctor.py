"""The command `hocket doctor`: which live features this machine supports, and what the others need.

The packages of the features check their own requirements; this module collects the results.
"""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from hocket import options
from hocket.console import out, print_json

INFINIBAND = Path("/sys/class/infiniband")
"""Where Linux shows RDMA devices."""

DEBUGFS = Path("/sys/kernel/debug")
"""Where debugfs is mounted."""

# Shapes the loopback device of a network namespace that exists only for this command. Any rate would do.
_SHAPE = ("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "tbf")
_RATE = ("rate", "1mbit", "burst", "10kb", "latency", "10ms")


@dataclass(frozen=True)
class Finding:
    """A live feature: what it can use on this machine, and what it lacks, one sentence each."""

    part: str
    command: str
    found: tuple[str, ...]
    missing: tuple[str, ...]


def findings() -> list[Finding]:
    """What each live feature finds and lacks on this machine; the machine is not changed."""
    return [_counters(), _testbed(), _tcp(), _nics()]


def doctor_command(as_json: options.AsJson = False) -> None:
    """Check which live features (counters, testbed, TCP, NICs) this machine supports and what others lack."""
    features = findings()
    if as_json:
        print_json(
            [
                {
                    "part": each.part,
                    "command": each.command,
                    "works": not each.missing,
                    "found": list(each.found),
                    "missing": list(each.missing),
                }
                for each in features
            ]
        )
        return
    out.print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")
    for each in features:
        verdict = "works" if not each.missing else "[yellow]not available[/yellow]"
        out.print(f"\n[bold]{escape(each.part)}[/bold] ({escape(each.command)}): {verdict}")
        for line in (
            *(f"found: {text}" for text in each.found),
            *(f"missing: {text}" for text in each.missing),
        ):
            out.print(escape(f"  {line}"))


def rdma_devices(infiniband: Path = INFINIBAND) -> list[str]:
    """The names of RDMA devices, in order."""
    return sorted(path.name for path in infiniband.glob("*"))


def dcqcn_nics(debugfs: Path = DEBUGFS) -> list[str]:
    """PCI addresses of mlx5 NICs whose DCQCN can be configured, in order. Raises `OSError` without root."""
    mlx5 = debugfs / "mlx5"
    # `glob` alone would find nothing without root, where `listdir` raises.
    names = sorted(os.listdir(debugfs))
    return sorted(path.parent.name for path in mlx5.glob("*/cc_params")) if "mlx5" in names else []


def shaping_missing(command: tuple[str, ...] = (*_SHAPE, *_RATE)) -> str | None:
    """Why no link can be shaped in a namespace, or `None` if one can.

    It shapes one and leaves nothing behind; only this shows whether the kernel has or can load sch_tbf.
    """
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not on the PATH (Debian: util-linux)"
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return None
    reason = (ran.stderr.strip() or f"exit code {ran.returncode}").splitlines()[-1]
    return f"a link in a namespace cannot be shaped, which needs the kernel's sch_tbf: {reason}"


def _counters() -> Finding:
    # Without RDMA nothing is missing: a job on TCP is profiled from the counters of its interface.
    devices = rdma_devices()
    found = (
        (f"RDMA devices {', '.join(devices)}",)
        if devices
        else ("no RDMA device; the counters of network interfaces are read",)
    )
    missing = (
        ()
        if sys.platform == "linux"
        else (f"counters are read from Linux's sysfs, and this is {sys.platform}",)
    )
    return Finding("counters", "hocket profile --watch", found, missing)


def _testbed() -> Finding:
    from hocket.testbed.lifecycle import missing
    from hocket.testbed.processes import find_python

    lacks = missing()
    # Shaping is tried only if its tools are there, so that nothing is reported twice.
    if not lacks:
        shaping = shaping_missing()
        lacks = [] if shaping is None else [shaping]
    found = () if lacks else (f"network namespaces, shaping by tbf, PyTorch of {find_python(None)}",)
    return Finding("testbed", "hocket testbed", found, tuple(lacks))


def _tcp() -> Finding:
    from hocket.tcp.requirements import missing

    lacks = missing()
    found = () if lacks else ("clang, libbpf, the kernel's types (BTF), and the rights to load programs",)
    return Finding("adaptively unfair TCP", "hocket tcp", found, tuple(lacks))


def _nics() -> Finding:
    part, command = "DCQCN of NICs", "hocket export"
    try:
        nics = dcqcn_nics()
    except OSError as error:
        return Finding(part, command, (), (f"{DEBUGFS}: cannot be read: {error.strerror}; run as root",))
    if nics:
        return Finding(part, command, (f"mlx5 NICs {', '.join(nics)}",), ())
    return Finding(part, command, (), (f"{DEBUGFS}/mlx5: no NIC with cc_params",))
