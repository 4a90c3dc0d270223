"""Loading and unloading the congestion controls, and what is known of them and of their sockets' phases.

They are the machine's: loaded once, for all network namespaces, until they are unloaded or it restarts.
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
"""HotNets'22 §2: the aggressive one of two jobs got 30 of 45 Gbps."""
DEFAULT_GAP_NS = 20_000_000
"""Hocket: buckets of gradients follow each other within milliseconds, and of the catalogue's models only
CamemBERT has a shorter Down phase, of 13 ms."""

FACTOR_LIMITS = (1 / 16, 16.0)
GAP_LIMITS_NS = (1_000_000, 10_000_000_000)

_ONE = 1 << 16
_LINES_QUOTED = 8
_SETTINGS = struct.Struct("=QQII")
_PHASE = struct.Struct("=6Q4I")
_SETTINGS_MAP, _PHASE_MAP = "hocket_settings", "hocket_phase"


@dataclass(frozen=True)
class Settings:
    """With what the controls were loaded, and when (unix time)."""

    base: Base
    factor: float
    gap_ns: int
    loaded_ns: int

    def packed(self) -> bytes:
        """As `struct settings` of `congestion.bpf.c`."""
        return _SETTINGS.pack(
            self.loaded_ns, self.gap_ns, round(self.factor * _ONE), int(self.base == "reno")
        )


@dataclass(frozen=True)
class Phase:
    """The communication phase that a socket is in, or was in last.

    `number` counts from 1; `sent_bytes` are acknowledged; `total_bytes` is None while it is not known;
    `factor` is what increases were last multiplied by, None before the first in congestion avoidance.
    """

    number: int
    sent_bytes: int
    total_bytes: int | None
    factor: float | None

    @classmethod
    def unpacked(cls, value: bytes) -> "Phase":
        """From `struct phase` of `congestion.bpf.c`."""
        began, acked, _, _, _, total, number, _, factor, _ = _PHASE.unpack(value)
        return cls(number, acked - began, total or None, factor / _ONE if factor else None)


def load(base: Base = "cubic", *, factor: float = DEFAULT_FACTOR, gap_ns: int = DEFAULT_GAP_NS) -> Settings:
    """Compiles, loads and registers both controls. They stay after this process has ended.

    Raises `InputError` if they are loaded already, `base` is unknown, a value is out of range, or the
    machine lacks what they need; then nothing is loaded.
    """
    check_choice("base", base, get_args(Base))
    _check(factor, gap_ns)
    if is_loaded():
        raise InputError("adaptively unfair TCP is already loaded; hocket tcp unload first")
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
    with libbpf.warnings() as said, ExitStack() as stack:
        try:
            loaded = stack.enter_context(libbpf.loaded(program))
            libbpf.write(loaded.map_fd(_SETTINGS_MAP), 0, settings.packed())
            for name in ALGORITHMS:
                stack.enter_context(loaded.registered(name))
        except OSError as error:
            raise InputError(_refusal(error, settings.base, said)) from None


def _refusal(error: OSError, base: Base, said: list[str]) -> str:
    """Why the kernel did not take the program, and what could be done."""
    if error.errno == errno.EEXIST:
        return f"{' or '.join(ALGORITHMS)}: the name is taken by a congestion control that is not Hocket's"
    if error.errno == errno.EPERM:
        return "the kernel denies the bpf system call: a container's seccomp profile, or a lockdown"
    quoted = "\n".join(said[-_LINES_QUOTED:])
    return (
        f"Linux {platform.release()} does not take the program on top of {base} ({error.strerror}); "
        f"from 5.13 on BPF programs may call {base}'s functions:\n{quoted}"
    )


def unload() -> tuple[str, ...]:
    """Unregisters both controls, and gives the names of those that were loaded.

    Sockets that use them keep them until they are closed, and network namespaces whose default they are until
    that is changed; no new socket can choose them.

    Raises `InputError` if none is loaded, the right is missing, or a name is somebody else's.
    """
    _check_loaded()
    loaded = tuple(name for name in ALGORITHMS if name in available())
    for name in loaded:
        with libbpf.open_map(name) as registered:
            try:
                libbpf.delete(registered, 0)
            except OSError:
                # A program of Hocket's that was unloaded before, and is still in use.
                raise InputError(f"{name}: what is registered is not Hocket's") from None
    return loaded


def current() -> Settings | None:
    """With what the controls are loaded; None if they are not.

    Raises `InputError` if the right to look is missing.
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

    Raises `InputError` if the controls are not loaded or the right is missing.
    """
    _check_loaded()
    with libbpf.open_map(_PHASE_MAP) as phases:
        yield phases


def _check_loaded() -> None:
    # Asked of the kernel's names: maps are freed a little later than controls are unregistered.
    if not is_loaded():
        raise InputError("adaptively unfair TCP is not loaded (hocket tcp load)")
