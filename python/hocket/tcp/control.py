"""Loads and unloads the congestion controls, and reads their settings and the phases of their sockets.

The controls belong to the machine: they are loaded once for all network namespaces, until they are unloaded
or the machine restarts.
"""

import errno
import platform
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from hocket.errors import InputError, check_choice
from hocket.tcp.compiler import Base, compile_program
from hocket.tcp.requirements import missing
from hocket_agent import libbpf
from hocket_agent.sockets import (
    ADAPTIVE,
    WEIGHTED,
    available,
    is_loaded,
)

ALGORITHMS = (ADAPTIVE, WEIGHTED)

DEFAULT_FACTOR = 2.0
"""HotNets'22 §2: of two jobs, the aggressive one got 30 of 45 Gbps."""
DEFAULT_GAP_NS = 20_000_000
"""Hocket: buckets of gradients follow each other within milliseconds, and of the catalogue's models only
CamemBERT has a shorter Down phase, of 13 ms."""

FACTOR_LIMITS = (1 / 16, 16.0)
GAP_LIMITS_NS = (1_000_000, 10_000_000_000)

_ONE = 1 << 16
_LINES_QUOTED = 8
# `struct settings` and `struct phase` of `congestion.bpf.c`.
_SETTINGS = struct.Struct("=QQII")
_PHASE = struct.Struct("=6Q4I")
_SETTINGS_MAP, _PHASE_MAP = "hocket_settings", "hocket_phase"


@dataclass(frozen=True)
class Settings:
    """The settings with which the controls were loaded, and when (Unix time)."""

    base: Base
    factor: float
    gap_ns: int
    loaded_ns: int

    def packed(self) -> bytes:
        """The settings as `struct settings` in `congestion.bpf.c`."""
        return _SETTINGS.pack(
            self.loaded_ns, self.gap_ns, round(self.factor * _ONE), int(self.base == "reno")
        )


@dataclass(frozen=True)
class Phase:
    """The current or last communication phase of a socket.

    `number` counts from 1; `sent_bytes` are acknowledged; `total_bytes` is None while unknown; `factor` is
    the last factor of the increase, None before the first increase in congestion avoidance.
    """

    number: int
    sent_bytes: int
    total_bytes: int | None
    factor: float | None

    @classmethod
    def unpacked(cls, value: bytes) -> "Phase":
        """Unpacks `struct phase` of `congestion.bpf.c`."""
        began, acked, _, _, _, total, number, _, factor, _ = _PHASE.unpack(value)
        return cls(number, acked - began, total or None, factor / _ONE if factor else None)


def load(base: Base = "cubic", *, factor: float = DEFAULT_FACTOR, gap_ns: int = DEFAULT_GAP_NS) -> Settings:
    """Compiles, loads and registers both controls, which stay loaded after this process has ended.

    Raises `InputError` if they are already loaded, `base` is unknown, a value is out of range, or the machine
    lacks a requirement; then nothing is loaded.
    """
    check_choice("base", base, get_args(Base))
    _check(factor, gap_ns)
    if is_loaded():
        raise InputError("adaptively unfair TCP is already loaded; run hocket tcp unload first")
    if lacking := missing():
        raise InputError("\n".join(lacking))
    settings = Settings(base, factor, gap_ns, time.time_ns())
    _register(compile_program(base), settings)
    return settings


def _check(factor: float, gap_ns: int) -> None:
    if not FACTOR_LIMITS[0] <= factor <= FACTOR_LIMITS[1]:
        raise InputError(
            f"factor: must be between {FACTOR_LIMITS[0]:g} and {FACTOR_LIMITS[1]:g}: got {factor:g}"
        )
    if not GAP_LIMITS_NS[0] <= gap_ns <= GAP_LIMITS_NS[1]:
        shortest, longest = (limit / 1e6 for limit in GAP_LIMITS_NS)
        raise InputError(f"gap: must be between {shortest:g} and {longest:g} ms: got {gap_ns / 1e6:g} ms")


def _register(program: Path, settings: Settings) -> None:
    with libbpf.warnings() as messages, ExitStack() as stack:
        try:
            loaded = stack.enter_context(libbpf.loaded(program))
            # Before the controls are registered, since any socket may choose them from then on.
            libbpf.write(loaded.map_fd(_SETTINGS_MAP), 0, settings.packed())
            # If the second registration fails, leaving the stack undoes the first.
            for name in ALGORITHMS:
                stack.enter_context(loaded.registered(name))
        except OSError as error:
            raise InputError(_rejection(error, settings.base, messages)) from None


def _rejection(error: OSError, base: Base, messages: list[str]) -> str:
    """Why the kernel rejected the program, and what helps."""
    if error.errno == errno.EEXIST:
        return f"{' or '.join(ALGORITHMS)}: the name is used by a congestion control that is not Hocket's"
    if error.errno == errno.EPERM:
        return "the kernel denies the bpf system call, because of a container's seccomp profile or a lockdown"
    quoted = "\n".join(messages[-_LINES_QUOTED:])
    return (
        f"Linux {platform.release()} rejects the program on top of {base} ({error.strerror}); "
        f"BPF programs may call {base}'s functions from Linux 5.13:\n{quoted}"
    )


def unload() -> tuple[str, ...]:
    """Unregisters both controls, and returns the names of those that were loaded.

    No new socket can choose them. Sockets that use them keep them until they are closed, and network
    namespaces keep them as their default until it is changed.

    Raises `InputError` if none is loaded, the privilege is missing, or another program registered a name.
    """
    _check_loaded()
    loaded = tuple(name for name in ALGORITHMS if name in available())
    for name in loaded:
        with libbpf.open_map(name) as registered:
            try:
                libbpf.delete(registered, 0)
            except OSError:
                # The map is that of an earlier Hocket program, already unloaded but still in use.
                raise InputError(f"{name}: the registered control is not Hocket's") from None
    return loaded


def current() -> Settings | None:
    """The settings of the loaded controls; None if they are not loaded.

    Raises `InputError` if the privilege to read them is missing.
    """
    if not is_loaded():
        return None
    with libbpf.open_map(_SETTINGS_MAP) as settings:
        values = libbpf.read(settings, 0, _SETTINGS)
    assert values is not None, "an array map has a value at 0"
    loaded_ns, gap_ns, weight, reno = values
    return Settings("reno" if reno else "cubic", weight / _ONE, gap_ns, loaded_ns)


@contextmanager
def phase_map() -> Iterator[int]:
    """A file descriptor of the map with the phases of sockets, for `hocket.tcp.diag`.

    Raises `InputError` if the controls are not loaded or the privilege is missing.
    """
    _check_loaded()
    with libbpf.open_map(_PHASE_MAP) as phases:
        yield phases


def _check_loaded() -> None:
    # Checks the kernel's list of controls, since maps are freed a little after controls are unregistered.
    if not is_loaded():
        raise InputError("adaptively unfair TCP is not loaded (hocket tcp load)")
