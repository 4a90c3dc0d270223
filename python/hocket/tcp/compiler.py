"""Compiles the congestion control from C to a BPF object in the user's cache."""

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
_QUOTED_LINES = 5


def compile_program(base: Base, *, btf: Path = KERNEL_BTF, cache: Path | None = None) -> Path:
    """The BPF object of the control on top of `base`, compiled for the running kernel unless it is cached.

    Raises `InputError` without libbpf's headers, or if the cache cannot be written; `requirements.missing`
    reports other requirements.
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
            # Atomic, in case two processes compile at the same time.
            fresh.replace(target)
    except OSError as error:
        raise InputError(f"{directory}: cannot store the compiled program: {error.strerror}") from None
    return target


def _cache() -> Path:
    # XDG Base Directory Specification: an empty variable counts as not set.
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hocket" / "tcp"


def _flags(base: Base, btf: Path) -> list[str]:
    # The kernel's verifier rejects most unoptimised code; -g emits the BTF that libbpf relocates fields by.
    flags = ["-target", "bpf", "-O2", "-g", "-Wall"]
    if base == "reno":
        flags.append("-DBASE_RENO")
    # BTF stores each name once, between zero bytes.
    if b"\0cwnd_event_tx_start\0" in btf.read_bytes():
        flags.append("-DHAS_TX_START")
    # Debian has architecture-specific headers in a directory that clang does not search for the BPF target.
    headers = Path(f"/usr/include/{platform.machine()}-linux-gnu")
    return [*flags, "-idirafter", str(headers)] if headers.is_dir() else flags


def _run_clang(arguments: list[str]) -> None:
    done = subprocess.run(["clang", *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "bpf/bpf_helpers.h' file not found" in done.stderr:
        raise InputError("bpf/bpf_helpers.h: libbpf's headers are not installed (Debian: libbpf-dev)")
    quoted = "\n".join(done.stderr.splitlines()[:_QUOTED_LINES])
    raise InputError(f"{SOURCE.name}: clang cannot compile it:\n{quoted}")
