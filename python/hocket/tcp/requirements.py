"""What adaptively unfair TCP needs of a machine, as sentences about what is missing."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hocket.errors import InputError
from hocket_agent import libbpf

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
"""Where a kernel that was built with CONFIG_DEBUG_INFO_BTF tells its types."""

_STATUS = Path("/proc/self/status")
# From linux/capability.h. CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON; finding BPF maps by id needs it.
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def missing() -> list[str]:
    """One sentence for each thing that this machine or this process lacks; empty if nothing does.

    That the kernel can be asked is seen only when the program is loaded.
    """
    if sys.platform != "linux":
        return [f"adaptively unfair TCP is a program for Linux: this is {sys.platform}"]
    checks: tuple[Callable[[], str | None], ...] = (_rights, _btf, _clang, _libbpf)
    return [sentence for check in checks if (sentence := check())]


def rights_missing() -> list[str]:
    """The names of the capabilities that this process lacks; empty for root."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("CapEff:"):
            effective = int(line.split()[1], 16)
            return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    raise AssertionError(f"{_STATUS} tells the capabilities of every process since Linux 2.6")


def _rights() -> str | None:
    lacking = rights_missing()
    return (
        f"root is needed, or {' and '.join(lacking)}, to load and to find BPF programs" if lacking else None
    )


def _btf() -> str | None:
    if KERNEL_BTF.exists():
        return None
    return f"{KERNEL_BTF} is not there: the kernel was built without its types (CONFIG_DEBUG_INFO_BTF)"


def _clang() -> str | None:
    return (
        None if shutil.which("clang") else "clang is not on the PATH (Debian: clang), which compiles for BPF"
    )


def _libbpf() -> str | None:
    try:
        libbpf.library()
    except InputError as error:
        return str(error)
    return None
