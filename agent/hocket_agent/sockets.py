"""Functions for a training job's own sockets: set the congestion control, and announce when a communication
phase begins and how large it is. Standard library only, as it runs inside the job.
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
"""Multiplies the increase by 1 + sent/total of the communication phase, HotNets'22 §4(i)."""
WEIGHTED = "hocket_weighted"
"""Multiplies the increase by the factor given to `hocket tcp load`."""

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

DECLARED = struct.Struct("=QII")
"""`struct declared` in `congestion.bpf.c`: bytes of the phase, number of the declaration, unused."""
_DECLARED_MAP = "hocket_declared"

# Above 2^47 bytes, 140 TB, sent/total would no longer fit in the program's 64 bits.
LARGEST_PHASE_BYTES = 2**47


class HasFileno(Protocol):
    """A socket, or another object with a file descriptor."""

    def fileno(self) -> int: ...


def available() -> tuple[str, ...]:
    """The names of all congestion controls built into or loaded in this kernel."""
    try:
        return tuple(AVAILABLE.read_text().split())
    except OSError:
        return ()


def is_loaded() -> bool:
    """Whether `ADAPTIVE` or `WEIGHTED` is registered in this kernel, by any process."""
    return not {ADAPTIVE, WEIGHTED}.isdisjoint(available())


def use(connection: int | HasFileno, algorithm: str = ADAPTIVE) -> None:
    """Sets the congestion control of a TCP socket, given as an object or as a file descriptor.

    Raises `InputError` if the algorithm is not loaded or not allowed, or if it is not a TCP socket.
    """
    fd, name = _fd(connection), algorithm.encode()
    if _libc().setsockopt(fd, socket.IPPROTO_TCP, socket.TCP_CONGESTION, name, len(name)) == 0:
        return
    error = ctypes.get_errno()
    if error == errno.ENOENT:
        loaded = ", ".join(available())
        raise InputError(f"{algorithm}: not loaded (hocket tcp load); the kernel has {loaded}")
    raise InputError(f"{algorithm}: cannot be set for file descriptor {fd}: {os.strerror(error)}")


def is_connection(fd: int) -> bool:
    """Whether a file descriptor is a connected TCP socket."""
    protocol, length = ctypes.c_int(), ctypes.c_uint32(ctypes.sizeof(ctypes.c_int))
    option = (fd, socket.SOL_SOCKET, socket.SO_PROTOCOL, ctypes.byref(protocol), ctypes.byref(length))
    if _libc().getsockopt(*option) != 0 or protocol.value != socket.IPPROTO_TCP:
        return False
    # Only whether there is a peer matters, so no space for its address.
    no_space = ctypes.c_uint32(0)
    return bool(_libc().getpeername(fd, None, ctypes.byref(no_space)) == 0)


@cache
def _libc() -> ctypes.CDLL:
    """The C library, used instead of socket objects: in a job that called `socket.setdefaulttimeout`,
    creating a socket object from a file descriptor would make it non-blocking for its other users.
    """
    return ctypes.CDLL(None, use_errno=True)


def set_phase(connection: int | HasFileno, total_bytes: int) -> None:
    """Begins a communication phase of `total_bytes` on a socket.

    From then on only another call begins the next phase; gaps in the traffic no longer do. With `total_bytes`
    of 0, gaps begin phases again. A call needs CAP_SYS_ADMIN, and takes a few microseconds for each BPF map
    of the machine, since it searches them for the one by name.

    Raises `InputError` if nothing is loaded, the privilege is missing, or the size is out of range.
    """
    from hocket_agent import libbpf

    if not 0 <= total_bytes <= LARGEST_PHASE_BYTES:
        raise InputError(f"total_bytes: must be between 0 and {LARGEST_PHASE_BYTES}: got {total_bytes}")
    if not is_loaded():
        raise InputError("set_phase: adaptively unfair TCP is not loaded (hocket tcp load)")
    fd = _fd(connection)
    with libbpf.open_map(_DECLARED_MAP) as declared:
        try:
            # The program only compares the number with the last one, so it may wrap around.
            before = libbpf.read(declared, fd, DECLARED) or (0, 0, 0)
            number = (before[1] + 1) % 2**32
            libbpf.write(declared, fd, DECLARED.pack(total_bytes, number, 0))
        except OSError as error:
            raise InputError(f"set_phase: failed for file descriptor {fd}: {error.strerror}") from None


def _fd(connection: int | HasFileno) -> int:
    return connection if isinstance(connection, int) else connection.fileno()
