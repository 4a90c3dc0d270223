"""What a run of the packet engine uses: values by name, each with where it is from."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """A value that a run uses, and where it is from."""

    name: str
    value: Any
    source: str


class Marking(NamedTuple):
    """How queues to links of one rate mark packets, as the packet engine takes it and manifests list it."""

    rate_bps: int
    minimum_bytes: int
    maximum_bytes: int
    probability: float


def values(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The values by name, without their sources."""
    return {each.name: each.value for each in parameters}


def described(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Values and sources by name, as manifests have them."""
    return {each.name: {"value": each.value, "source": each.source} for each in parameters}
