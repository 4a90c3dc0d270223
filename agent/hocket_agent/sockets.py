"""What a training job does with its own sockets: choose an algorithm, and say when a communication phase
begins and how large it is. Standard library only, as it runs inside the job.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from functools import cache
from pathlib import Path
from typing import Protocol

from hocket_agent.errors import InputError

ADAPTIVE = "hocket_adaptive"
"""The increase × (1 + sent/total) of the communication phase, HotNets'22 §4(i)."""
WEIGHTED = "hocket_weighted"
"""The increase × the factor that `hocket tcp load` was given."""

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

DECLARED = struct.Struct("=QII")
"""`struct declared` of `congestion.bpf.c`: bytes of the phase, number of the declaration, unused."""
_DECLARED_MAP = "hocket_declared"

# A phase of 2^47 bytes, 140 TB, is where sent/total would no longer fit in the program's 64 bits.
LARGEST_PHASE_BYTES = 2**47


class HasFileno(Protocol):
    """A socket, or another object that has a file descriptor."""

    def fileno(self) -> int: ...


def available() -> tuple[str, ...]:
    """The names of all congestion controls of this kernel that are built in or loaded."""
    try:
        return tuple(AVAILABLE.read_text().split())
    except OSError:
        return ()


def is_loaded() -> bool:
    """Whether one of the controls is registered in this kernel, by whomever."""
    return not {ADAPTIVE, WEIGHTED}.isdisjoint(available())


def use(connection: int | HasFileno, algorithm: str = ADAPTIVE) -> None:
    """Sets the congestion control of a TCP socket, given as an object or by its file descriptor.

    Raises `InputError` if the algorithm is not loaded, is not allowed, or this is no TCP socket.
    """
    fd, name = _fd(connection), algorithm.encode()
    if _libc().setsockopt(fd, socket.IPPROTO_TCP, socket.TCP_CONGESTION, name, len(name)) == 0:
        return
    error = ctypes.get_errno()
    if error == errno.ENOENT:
        there = ", ".join(available())
        raise InputError(f"{algorithm}: not loaded (hocket tcp load); the kernel has {there}")
    raise InputError(f"{algorithm}: not possible for file descriptor {fd}: {os.strerror(error)}")


def is_connection(fd: int) -> bool:
    """Whether a file descriptor is a TCP socket with somebody at its other end."""
    protocol, length = ctypes.c_int(), ctypes.c_uint32(ctypes.sizeof(ctypes.c_int))
    asked = (fd, socket.SOL_SOCKET, socket.SO_PROTOCOL, ctypes.byref(protocol), ctypes.byref(length))
    if _libc().getsockopt(*asked) != 0 or protocol.value != socket.IPPROTO_TCP:
        return False
    nothing = ctypes.c_uint32(0)
    return bool(_libc().getpeername(fd, None, ctypes.byref(nothing)) == 0)


@cache
def _libc() -> ctypes.CDLL:
    """C's functions instead of socket objects: where a job has called `socket.setdefaulttimeout`, making one
    of a file descriptor makes that non-blocking, under whoever reads from it.
    """
    return ctypes.CDLL(None, use_errno=True)


def set_phase(connection: int | HasFileno, total_bytes: int) -> None:
    """Begins a communication phase of `total_bytes` on a socket.

    From then on gaps in its traffic begin none, only the next call does; `total_bytes` of 0 goes back to
    gaps. It takes a few microseconds for each BPF map of the machine, and CAP_SYS_ADMIN to find the one.

    Raises `InputError` if nothing is loaded, the right is missing, or the size is out of range.
    """
    from hocket_agent import libbpf

    if not 0 <= total_bytes <= LARGEST_PHASE_BYTES:
        raise InputError(f"total_bytes: must be between 0 and {LARGEST_PHASE_BYTES}: got {total_bytes}")
    if not is_loaded():
        raise InputError("set_phase: adaptively unfair TCP is not loaded (hocket tcp load)")
    fd = _fd(connection)
    with libbpf.open_map(_DECLARED_MAP) as declared:
        try:
            before = libbpf.read(declared, fd, DECLARED) or (0, 0, 0)
            number = (before[1] + 1) % 2**32
            libbpf.write(declared, fd, DECLARED.pack(total_bytes, number, 0))
        except OSError as error:
            raise InputError(f"set_phase: not possible for file descriptor {fd}: {error.strerror}") from None


def _fd(connection: int | HasFileno) -> int:
    return connection if isinstance(connection, int) else connection.fileno()
