"""The parameters of a run of the packet engine: values by name, each with its source."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """A value that a run uses, and its source."""

    name: str
    value: Any
    source: str


class Marking(NamedTuple):
    """How queues to links of one rate mark packets, in the form of the packet engine and of manifests."""

    rate_bps: int
    minimum_bytes: int
    maximum_bytes: int
    probability: float


def values(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The values by name, without their sources."""
    return {each.name: each.value for each in parameters}


def described(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Values and sources by name, in the form of manifests."""
    return {each.name: {"value": each.value, "source": each.source} for each in parameters}
