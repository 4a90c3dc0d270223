"""A training loop over layers: forward, then backward, exchanging gradients while earlier layers compute.

Compute times and exchanges of layers are inputs here; `parallel` derives them from a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.training.program import START, Done, Program
from hocket.training.workload import CollectiveKind, Operation


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of `bytes` within the group at index `communicator` of a rank's list."""

    kind: CollectiveKind
    bytes: int
    communicator: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """Compute times of one layer in picoseconds, and the exchange after each.

    The exchange after the forward pass and that of input gradients block the next layer; that of weight
    gradients overlaps with what follows, and only the end of the iteration waits for it.
    """

    name: str
    forward_ps: int
    input_gradient_ps: int = 0
    weight_gradient_ps: int = 0
    update_ps: int = 0
    forward_exchange: Exchange | None = None
    input_gradient_exchange: Exchange | None = None
    weight_gradient_exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Buckets:
    """Sizes of the buckets in which weight gradients are all-reduced: a bucket is sent once it has `bytes`.

    The first is sent once it has `first_bytes`, so that the network starts early. A layer's gradients are
    never split, so a bucket may be larger than its limit. The defaults are those of PyTorch's
    DistributedDataParallel (`bucket_cap_mb=25` MiB, `_DEFAULT_FIRST_BUCKET_BYTES` 1 MiB; Li et al.,
    VLDB'20, §4.2.2), which fills buckets in the order in which gradients become ready.
    """

    first_bytes: int = 2**20
    bytes: int = 25 * 2**20


def training_loop(layers: Sequence[Layer], *, buckets: Buckets | None = None) -> tuple[Operation, ...]:
    """One iteration over `layers`, in order: forward, then backward, then the update.

    - Forward, from the first layer to the last: a layer computes, then its forward exchange, if any, blocks
      the next layer.
    - Backward, from the last to the first: the gradient of a layer's inputs, whose exchange blocks the layer
      before it; meanwhile the gradient of its weights, whose exchange overlaps with all that follows. With
      `buckets`, weight gradients that are all-reduced in one group share all-reduces.
    - After all computes and exchanges, one update, as long as the updates of all layers together.

    These are the loops of ASTRA-sim's workload layer (Rashidi et al., ISPASS'20), with two differences.
    There, the next iteration's forward pass waits for a layer's gradients when it reaches that layer; here,
    as with an optimiser step in PyTorch, the iteration ends when all gradients are exchanged. There, a purely
    data parallel loop computes the gradient of weights before that of inputs; here every loop has the order
    of its hybrid loop, so that an exchange of input gradients has something to overlap with.

    >>> fc = Layer("fc", 10, 10, 10, weight_gradient_exchange=Exchange("all-reduce", 400))
    >>> for operation in training_loop([fc]):
    ...     print(operation.name, operation.after)
    fc forward ()
    fc input gradient (0,)
    fc weight gradient (0,)
    fc weight gradient all-reduce (2,)
    """
    program = Program()
    after = forward_pass(program, layers, START)
    gradients = GradientExchange(program, buckets)
    computed = backward_pass(program, layers, after, gradients)
    program.compute("update", sum(layer.update_ps for layer in layers), computed + gradients.finish())
    return program.operations


def forward_pass(program: Program, layers: Sequence[Layer], after: Done, suffix: str = "") -> Done:
    """Adds the forward pass of `layers`; `suffix` is appended to the names of operations."""
    for layer in layers:
        after = program.compute(f"{layer.name} forward{suffix}", layer.forward_ps, after)
        after = _exchange(program, f"{layer.name} forward", layer.forward_exchange, suffix, after)
    return after


def backward_pass(
    program: Program,
    layers: Sequence[Layer],
    after: Done,
    gradients: "GradientExchange | None",
    suffix: str = "",
) -> Done:
    """Adds the backward pass of `layers`, from the last to the first.

    Weight gradients are added to `gradients`; without it they are only accumulated, as in all microbatches
    but the last. The operations returned are done when everything is computed and the first layer's input
    gradients are exchanged: weight gradients of later layers precede them in the program.
    """
    weights: Done = START
    for layer in reversed(layers):
        output = after
        inputs = program.compute(f"{layer.name} input gradient{suffix}", layer.input_gradient_ps, output)
        name = f"{layer.name} input gradient"
        after = _exchange(program, name, layer.input_gradient_exchange, suffix, inputs)
        # Second in the program, so that the exchange of input gradients overlaps with it.
        weight = program.compute(f"{layer.name} weight gradient{suffix}", layer.weight_gradient_ps, output)
        # A layer without weights adds no operation: the weight gradient before it remains to be waited for.
        if weight != output:
            weights = weight
        if gradients is not None:
            gradients.add(layer, weight)
    return after + weights


class GradientExchange:
    """The exchanges of weight gradients, each added as soon as the gradients that it carries are computed."""

    def __init__(self, program: Program, buckets: Buckets | None) -> None:
        self._program = program
        self._buckets = buckets
        self._open: dict[int, _Bucket] = {}
        self._done: list[int] = []
        self._closed = 0

    def add(self, layer: Layer, computed: Done) -> None:
        """Adds the gradients of `layer`, ready after `computed`; layers come in backward order."""
        exchange = layer.weight_gradient_exchange
        if exchange is None or exchange.bytes == 0:
            # Nothing is sent, but the update still needs these gradients.
            self._done += computed
        elif self._buckets is None or exchange.kind != "all-reduce":
            # Buckets are DistributedDataParallel's, which only all-reduces.
            self._done += _exchange(self._program, f"{layer.name} weight gradient", exchange, "", computed)
        else:
            self._fill(exchange, computed, self._buckets)

    def finish(self) -> Done:
        """Sends what is left in buckets; returns the operations after which all gradients are exchanged."""
        # In a fixed order, because all members must call collectives in the same one.
        for communicator in sorted(self._open):
            self._close(communicator)
        return tuple(self._done)

    def _fill(self, exchange: Exchange, computed: Done, buckets: Buckets) -> None:
        limit = buckets.bytes if self._closed else buckets.first_bytes
        bucket = self._open.setdefault(exchange.communicator, _Bucket(limit))
        bucket.bytes += exchange.bytes
        bucket.computed += computed
        if bucket.bytes >= bucket.limit:
            self._close(exchange.communicator)

    def _close(self, communicator: int) -> None:
        bucket = self._open.pop(communicator)
        self._closed += 1
        name = f"gradients {self._closed} all-reduce"
        self._done += self._program.collective(
            name, "all-reduce", bucket.bytes, communicator, bucket.computed
        )


class _Bucket:
    """Gradients that wait to be all-reduced together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.computed: Done = ()


def _exchange(program: Program, name: str, exchange: Exchange | None, suffix: str, after: Done) -> Done:
    if exchange is None:
        return after
    return program.collective(
        f"{name} {exchange.kind}{suffix}", exchange.kind, exchange.bytes, exchange.communicator, after
    )
