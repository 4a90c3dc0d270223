"""The names of a congestion control's parameters: in its paper, in NVIDIA's NICs, and in HPCC-style studies.

A parameter is declared once, as a field of its control in `congestion` that is annotated with its `Names`.
Plans, the export to NICs, studies and the reference of keys all use that declaration.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hocket.errors import InputError
from hocket.plan.schema import Spelling, Table, integer, number, whole
from hocket.units import shown

_PS_PER_US = 10**6
_BPS_PER_MBPS = 10**6
# The driver reads values with `kstrtou32_from_user`.
_U32 = 2**32 - 1


@dataclass(frozen=True)
class NicFile:
    """The file in the mlx5 driver's `cc_params/` that holds a parameter as a whole number in its own unit.

    Names and width: Linux `drivers/infiniband/hw/mlx5/cong.c`. Units and limits: NVIDIA, "DCQCN CC
    parameters" (DOCA 3.4, November 2026); where it gives no limit, the driver's limit.
    """

    name: str
    unit: str
    """The unit as text, to print beside the number."""
    read: Callable[[object], object]
    """From the number to a value for the key of a plan. Raises `InputError`."""
    write: Callable[[Any], float]
    """From the engine's value to the number, which may be fractional."""
    least: int = 0
    most: int = _U32


@dataclass(frozen=True)
class StudyKey:
    """The key of an HPCC-style `config.txt` that sets a parameter, and how to read its value."""

    name: str
    read: Callable[[object], object] = lambda value: value
    unit: str = ""


@dataclass(frozen=True)
class Names:
    """The names of a parameter besides its key in a plan."""

    paper: str | None = None
    nic: NicFile | None = None
    study: StudyKey | None = None

    def aliases(self) -> Iterator[tuple[str, str]]:
        """Every name besides the key, and the unit of a number under it; empty if the key's unit applies."""
        if self.paper is not None:
            yield self.paper, ""
        for each in (self.nic, self.study):
            if each is not None:
                yield each.name, each.unit

    def spellings(self, key: str) -> dict[str, Spelling]:
        """By name besides the key, how its value becomes a value of `key`."""
        found = {}
        if self.paper is not None:
            found[self.paper] = Spelling(key, lambda value: value)
        if self.nic is not None:
            found[self.nic.name] = Spelling(key, self.nic.read)
        if self.study is not None:
            found[self.study.name] = Spelling(key, self.study.read)
        return found


def names_of(control: type[Table]) -> dict[str, Names]:
    """The names of each parameter of `control`, by the engine's name, in the order of its fields."""
    return {
        field: names
        for field, info in control.model_fields.items()
        for names in info.metadata
        if isinstance(names, Names)
    }


def flag(value: object) -> object:
    """Reads true or false, also written as 1 or 0."""
    return value if isinstance(value, bool) else integer(value, 0, 1) == 1


def study_microseconds(name: str) -> StudyKey:
    """A key in microseconds, which may be fractional."""

    def read(value: object) -> object:
        microseconds = number(value)
        if not 0 <= microseconds <= 2**31:
            raise InputError(f"must be between 0 and 2147483648 microseconds: got {shown(value)}")
        return f"{round(microseconds * _PS_PER_US)} ps"

    return StudyKey(name, read, "us")


def nic_microseconds(name: str, least: int = 1, most: int = _U32) -> NicFile:
    """A time in microseconds; 0 stands for the engine's `None`."""
    return NicFile(name, "us", whole("us"), lambda value: (value or 0) / _PS_PER_US, least, most)


def nic_mbps(name: str, least: int = 1) -> NicFile:
    """A rate in Mbps."""
    return NicFile(name, "Mbps", whole("Mbps"), lambda value: value / _BPS_PER_MBPS, least)


def nic_mbps_or_off(name: str) -> NicFile:
    """A rate in Mbps; 0 is "off"."""
    return NicFile(name, "Mbps", _zero_is_off(whole("Mbps")), lambda value: (value or 0) / _BPS_PER_MBPS)


def nic_blocks_or_off(name: str) -> NicFile:
    """Bytes in blocks of 64; 0 is "off"."""
    return NicFile(name, "64 B", _zero_is_off(whole("B", 64)), lambda value: (value or 0) / 64)


def nic_flag(name: str) -> NicFile:
    """1 or 0."""
    return NicFile(name, "", flag, float, 0, 1)


def nic_count(name: str) -> NicFile:
    """A number of steps."""
    return NicFile(name, "", lambda value: value, float)


def nic_share(name: str, unit: str, parts: int, least: int = 0) -> NicFile:
    """A share of 1, in units of 1 ÷ `parts`."""
    return NicFile(
        name, unit, lambda value: integer(value, 0, parts) / parts, lambda value: parts * value, least, parts
    )


def nic_complement(name: str) -> NicFile:
    """1 − the number ÷ 1024."""
    # The NIC's number is the weight of the old alpha, the paper's g that of the new sample.
    return NicFile(
        name,
        "1 - g, of 1024",
        lambda value: 1 - integer(value, 0, 1023) / 1024,
        lambda value: 1024 * (1 - value),
        most=1023,
    )


def nic_power_of_two(name: str) -> NicFile:
    """2^(number − 10)."""
    return NicFile(
        name,
        "10 + log2",
        lambda value: 2.0 ** (integer(value, 10, 40) - 10),
        lambda value: 10 + math.log2(value),
        10,
        11,
    )


def _zero_is_off(read: Callable[[object], object]) -> Callable[[object], object]:
    # False equals 0 in Python, but is no number in a file.
    return lambda value: "off" if value == 0 and not isinstance(value, bool) else read(value)
