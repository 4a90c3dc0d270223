"""From the C source of the congestion control to a BPF object, kept in the user's cache."""

import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from hocket.errors import InputError
from hocket.tcp.requirements import KERNEL_BTF

Base = Literal["cubic", "reno"]

SOURCE = Path(__file__).with_name("congestion.bpf.c")
_MOST_LINES_QUOTED = 5


def compile_program(base: Base, *, btf: Path = KERNEL_BTF, cache: Path | None = None) -> Path:
    """The BPF object of the control on top of `base`, compiled for the running kernel unless that was done.

    Raises `InputError` without libbpf's headers or a place to write; what else it needs,
    `requirements.missing` tells before.
    """
    flags = _flags(base, btf)
    key = hashlib.sha256(" ".join([*flags, platform.release()]).encode() + SOURCE.read_bytes()).hexdigest()
    directory = cache or _cache()
    target = directory / f"{base}-{key[:16]}.o"
    if target.exists():
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            fresh = Path(scratch) / target.name
            _run_clang([*flags, "-c", str(SOURCE), "-o", str(fresh)])
            # Whole or not at all, also when two processes compile at once.
            fresh.replace(target)
    except OSError as error:
        raise InputError(f"{directory}: cannot keep the compiled program there: {error.strerror}") from None
    return target


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hocket" / "tcp"


def _flags(base: Base, btf: Path) -> list[str]:
    flags = ["-target", "bpf", "-O2", "-g", "-Wall"]
    if base == "reno":
        flags.append("-DBASE_RENO")
    if b"\0cwnd_event_tx_start\0" in btf.read_bytes():
        flags.append("-DHAS_TX_START")
    # Debian keeps the headers of an architecture apart, where clang does not look for those of BPF.
    apart = Path(f"/usr/include/{platform.machine()}-linux-gnu")
    return [*flags, "-idirafter", str(apart)] if apart.is_dir() else flags


def _run_clang(arguments: list[str]) -> None:
    done = subprocess.run(["clang", *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "bpf/bpf_helpers.h' file not found" in done.stderr:
        raise InputError("bpf/bpf_helpers.h: libbpf's headers are not installed (Debian: libbpf-dev)")
    said = "\n".join(done.stderr.splitlines()[:_MOST_LINES_QUOTED])
    raise InputError(f"{SOURCE.name}: clang cannot compile it:\n{said}")
