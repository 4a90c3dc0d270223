"""A training loop over layers: forward, then backward with gradients exchanged while earlier layers compute."""

from dataclasses import dataclass

from hocket.training.workload import CollectiveKind


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of `bytes` within the group that a rank has at place `communicator` of its list."""

    kind: CollectiveKind
    bytes: int
    communicator: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """Compute times of one layer in picoseconds, and what is exchanged after each.

    The exchange after the forward pass and that of input gradients block the next layer; that of weight
    gradients overlaps with what follows, and the iteration waits for it at its end.
    """

    name: str
    forward_ps: int
    input_gradient_ps: int = 0
    weight_gradient_ps: int = 0
    update_ps: int = 0
    forward_exchange: Exchange | None = None
    input_gradient_exchange: Exchange | None = None
    weight_gradient_exchange: Exchange | None = None
