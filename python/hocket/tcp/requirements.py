"""Checks the requirements of adaptively unfair TCP on this machine."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hocket.errors import InputError
from hocket_agent import libbpf

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
"""The types of a kernel that was built with CONFIG_DEBUG_INFO_BTF."""

_STATUS = Path("/proc/self/status")
# From linux/capability.h. CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON, and finding BPF maps by id needs
# it.
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def missing() -> list[str]:
    """One sentence for each requirement that this machine or process lacks; empty if none.

    Whether the kernel accepts the program shows only when it is loaded.
    """
    if sys.platform != "linux":
        return [f"adaptively unfair TCP requires Linux: this is {sys.platform}"]
    checks: tuple[Callable[[], str | None], ...] = (_rights, _btf, _clang, _libbpf)
    return [sentence for check in checks if (sentence := check())]


def rights_missing() -> list[str]:
    """The names of the capabilities that this process lacks; empty for root."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("CapEff:"):
            effective = int(line.split()[1], 16)
            return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    raise AssertionError(f"{_STATUS} lists the capabilities of every process since Linux 2.6")


def _rights() -> str | None:
    lacking = rights_missing()
    return f"root is required, or {' and '.join(lacking)}, to load and find BPF programs" if lacking else None


def _btf() -> str | None:
    if KERNEL_BTF.exists():
        return None
    return f"{KERNEL_BTF} does not exist: the kernel was built without CONFIG_DEBUG_INFO_BTF"


def _clang() -> str | None:
    return (
        None if shutil.which("clang") else "clang, which compiles for BPF, is not on the PATH (Debian: clang)"
    )


def _libbpf() -> str | None:
    try:
        libbpf.library()
    except InputError as error:
        return str(error)
    return None
