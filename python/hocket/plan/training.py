"""`[jobs.training]`, `[jobs.collectives]` and stragglers: jobs described by what their GPUs do.

This module checks only the tables themselves; `hocket.training` looks up the models and reads the traces and
workload files that they name.
"""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from hocket.plan.schema import (
    Count,
    FilePath,
    Name,
    Number,
    Table,
    constructor,
    default,
    flag_or_table,
    one_or_several,
)
from hocket.plan.table_errors import KeyPath, Mistake, Suggestions
from hocket.training.workload import CollectiveKind
from hocket.units import Bytes, DurationLike, DurationPs, PositiveRateBps, RateLike, SizeLike, shown

MAX_LAYERS = 10_000
"""The maximum number of layers in a training loop: ten times as many as the deepest trained models have."""

MAX_OPERATIONS = 100_000
"""The maximum number of operations in a program that a plan lists."""

Algorithm = Literal["ring", "tree", "halving-doubling", "direct"]
PositiveBytes = Annotated[Bytes, Field(ge=1)]

Algorithms = Annotated[
    tuple[Algorithm, ...],
    Field(min_length=1, max_length=8),
    *one_or_several(),
]
"""One algorithm across all ranks, or one per level, the innermost (within a server) first."""


class Parallel(Table):
    """The degrees of data, tensor and pipeline parallelism; their product is the job's number of GPUs."""

    data: Count | None = None
    """Number of replicas."""
    tensor: Count | None = None
    """GPUs that share each layer."""
    pipeline: Count | None = None
    """Pipeline stages."""

    @constructor
    def __init__(
        self,
        *,
        data: int | None = None,
        tensor: int | None = None,
        pipeline: int | None = None,
    ) -> None: ...


class BucketsTable(Table):
    """The sizes of the buckets in which gradients are all-reduced."""

    first_bytes: PositiveBytes = default(
        2**20, "PyTorch DistributedDataParallel: _DEFAULT_FIRST_BUCKET_BYTES", "first"
    )
    """Size of the first bucket."""
    others_bytes: PositiveBytes = default(
        25 * 2**20, "PyTorch DistributedDataParallel: bucket_cap_mb", "others"
    )
    """Size of the other buckets."""

    @constructor
    def __init__(self, *, first: SizeLike | None = None, others: SizeLike | None = None) -> None: ...


class RooflineTable(Table):
    """A GPU's limits, for traces that give the work of a compute operation but not its duration."""

    flops: Annotated[Number, Field(ge=1, le=1e18)]
    """Floating-point operations per second."""
    memory_bps: PositiveRateBps = Field(alias="memory")
    """Memory bandwidth."""

    @constructor
    def __init__(self, *, flops: float, memory: RateLike) -> None: ...


class LayerTable(Table):
    """One layer of a data-parallel training loop: its compute times and the size of its gradients."""

    name: Name
    """Name of the layer."""
    forward_ps: DurationPs = Field(alias="forward")
    """Time of the forward pass."""
    input_gradient_ps: DurationPs = Field(alias="input_gradient")
    """Time to compute the gradient of the input."""
    weight_gradient_ps: DurationPs = Field(alias="weight_gradient")
    """Time to compute the gradient of the weights."""
    weights_bytes: Bytes = Field(alias="weights")
    """Size of the gradients of the weights, which are all-reduced."""
    update_ps: DurationPs | None = Field(default=None, alias="update")
    """Time of the optimiser's update; by default none."""

    @constructor
    def __init__(
        self,
        name: str,
        *,
        forward: DurationLike,
        input_gradient: DurationLike,
        weight_gradient: DurationLike,
        weights: SizeLike,
        update: DurationLike | None = None,
    ) -> None: ...


class OperationTable(Table):
    """An operation of the program that all ranks run: computation, or a collective across all ranks."""

    name: Name
    """Name of the operation."""
    compute_ps: DurationPs | None = Field(default=None, alias="compute")
    """Duration of a compute operation."""
    collective: CollectiveKind | None = None
    """Kind of a collective."""
    size_bytes: PositiveBytes | None = Field(default=None, alias="bytes")
    """Size of a collective, as nccl-tests counts it."""
    after: Annotated[tuple[Name, ...], Field(max_length=MAX_OPERATIONS)] = ()
    """Names of earlier operations that must end before this one starts."""

    @constructor
    def __init__(
        self,
        name: str,
        *,
        compute: DurationLike | None = None,
        collective: CollectiveKind | None = None,
        bytes: SizeLike | None = None,  # noqa: A002, the key of a file
        after: Sequence[str] | None = None,
    ) -> None: ...


class Training(Table):
    """What the GPUs of a job do in each iteration, described by exactly one of six sources."""

    model: Name | None = None
    """A model of the training catalogue, such as `"DLRM (HOTI'22)"`."""
    batch_size: Count | None = None
    """With `model`: batch size of each replica."""
    parallel: Parallel | None = None
    """With `model` or `simai`: how the model is split."""
    microbatches: Count | None = None
    """With `model` or `simai`: number of micro-batches per iteration."""
    schedule: Literal["1f1b", "gpipe"] | None = None
    """With `model` or `simai`: pipeline schedule."""
    gpu: Literal["V100", "A100", "H100"] | None = None
    """With `model`: type of GPU."""
    loading_ps: DurationPs | None = Field(default=None, alias="loading")
    """With `model`: how long the first stage waits for input; by default 0."""
    layers: Annotated[tuple[LayerTable, ...], Field(min_length=1, max_length=MAX_LAYERS)] | None = None
    """A data-parallel training loop, layer by layer."""
    buckets: Annotated[BucketsTable | None, *flag_or_table(BucketsTable, "first and others")] = None
    """With `layers`: all-reduce gradients in buckets, as PyTorch's DistributedDataParallel does; true for its
    default sizes, or a table."""
    collective: CollectiveKind | None = None
    """One collective, as nccl-tests measures it."""
    size_bytes: PositiveBytes | None = Field(default=None, alias="bytes")
    """With `collective`: its size, as nccl-tests counts it."""
    operations: (
        Annotated[tuple[OperationTable, ...], Field(min_length=1, max_length=MAX_OPERATIONS)] | None
    ) = None
    """The program of every rank, operation by operation."""
    chakra: (
        Annotated[
            tuple[FilePath, ...],
            Field(min_length=1, max_length=100_000),
            *one_or_several(),
        ]
        | None
    ) = None
    """A directory of Chakra execution traces (`.et`), or a list of files, one per rank."""
    groups: FilePath | None = None
    """With `chakra`: a file that lists the communicators."""
    dimensions: Annotated[tuple[Count, ...], Field(min_length=1, max_length=8)] | None = None
    """With `chakra`: number of ranks in each dimension of the topology, for collectives that involve
    only some dimensions."""
    roofline: RooflineTable | None = None
    """With `chakra`: limits of the GPU, for compute operations without a duration."""
    simai: FilePath | None = None
    """A workload file of SimAI or AICB. A job with fewer GPUs than the file has fewer replicas."""

    @constructor
    def __init__(
        self,
        *,
        model: str | None = None,
        batch_size: int | None = None,
        parallel: Parallel | None = None,
        microbatches: int | None = None,
        schedule: Literal["1f1b", "gpipe"] | None = None,
        gpu: Literal["V100", "A100", "H100"] | None = None,
        loading: DurationLike | None = None,
        layers: Sequence[LayerTable] | None = None,
        buckets: bool | BucketsTable | None = None,
        collective: CollectiveKind | None = None,
        bytes: SizeLike | None = None,  # noqa: A002, the key of a file
        operations: Sequence[OperationTable] | None = None,
        chakra: str | Sequence[str] | None = None,
        groups: str | None = None,
        dimensions: Sequence[int] | None = None,
        roofline: RooflineTable | None = None,
        simai: str | None = None,
    ) -> None: ...

    def paths(self) -> tuple[str, ...]:
        """The files and directories named in this table, as written in the plan."""
        return (*(self.chakra or ()), *(path for path in (self.groups, self.simai) if path is not None))


class Straggler(Table):
    """A rank whose compute operations take `slowdown` times as long as those of other ranks."""

    rank: Annotated[StrictInt, Field(ge=0)]
    """Rank that computes more slowly."""
    slowdown: Annotated[Number, Field(ge=1, le=1_000)]
    """Factor by which the duration of each of its compute operations is multiplied."""

    @constructor
    def __init__(self, *, rank: int, slowdown: float) -> None: ...


class Collectives(Table):
    """How the collectives of a job are carried out."""

    all_reduce: Algorithms = default(("ring",), "NCCL: rings carry large messages")
    """Algorithm of All-Reduce; a list gives one per level, the innermost (within a server) first."""
    reduce_scatter: Algorithms = default(("ring",), "NCCL: rings carry large messages")
    """Algorithm of Reduce-Scatter; a list gives one per level, the innermost (within a server) first."""
    all_gather: Algorithms = default(("ring",), "NCCL: rings carry large messages")
    """Algorithm of All-Gather; a list gives one per level, the innermost (within a server) first."""
    all_to_all: Algorithms = default(("direct",), "NCCL: a send to and a receive from every rank")
    """Algorithm of All-To-All; a list gives one per level, the innermost (within a server) first."""
    broadcast: Algorithms = default(("ring",), "NCCL: a chain along the ring")
    """Algorithm of Broadcast; a list gives one per level, the innermost (within a server) first."""
    chunks: Annotated[StrictInt, Field(ge=1, le=65_536)] = default(
        4, "HOTI'22 §III-D: four equally sized chunks, processed in a pipeline"
    )
    """Number of parts into which the buffer is divided, which are processed in a pipeline."""
    in_flight: Annotated[StrictInt, Field(ge=1, le=65_536)] = Field(
        default_factory=lambda given: given["chunks"],
        json_schema_extra={"source": "Hocket: all chunks"},
    )
    """Maximum number of chunks in progress at once."""
    endpoint_delay_ps: DurationPs = default(
        0, "Hocket: receivers forward messages at once, as in HOTI'22", "endpoint_delay"
    )
    """Time that a receiver takes to process each message."""
    reduction_rate_bps: PositiveRateBps | None = Field(default=None, alias="reduction_rate")
    """Rate at which a receiver reduces the data that it received, such as `"300 GB/s"`; by default, reduction
    takes no time."""

    @constructor
    def __init__(
        self,
        *,
        all_reduce: Algorithm | Sequence[Algorithm] | None = None,
        reduce_scatter: Algorithm | Sequence[Algorithm] | None = None,
        all_gather: Algorithm | Sequence[Algorithm] | None = None,
        all_to_all: Algorithm | Sequence[Algorithm] | None = None,
        broadcast: Algorithm | Sequence[Algorithm] | None = None,
        chunks: int | None = None,
        in_flight: int | None = None,
        endpoint_delay: DurationLike | None = None,
        reduction_rate: RateLike | None = None,
    ) -> None: ...


_SOURCES = ("model", "layers", "collective", "operations", "chakra", "simai")
_FIELDS_OF_KEYS = {"loading": "loading_ps", "bytes": "size_bytes"}
# By key: the sources with which it is valid.
_SOURCES_OF_KEYS = {
    "batch_size": ("model",),
    "parallel": ("model", "simai"),
    "microbatches": ("model", "simai"),
    "schedule": ("model", "simai"),
    "gpu": ("model",),
    "loading": ("model",),
    "buckets": ("layers",),
    "bytes": ("collective",),
    "groups": ("chakra",),
    "dimensions": ("chakra",),
    "roofline": ("chakra",),
}


def training_mistakes(training: Training) -> Iterator[Mistake]:
    """The errors of `training` that involve several keys."""
    given = [source for source in _SOURCES if getattr(training, source) is not None]
    if len(given) != 1:
        yield (), f"needs exactly one of {', '.join(_SOURCES)}: got {' and '.join(given) or 'none'}"
        return
    for key, sources in _SOURCES_OF_KEYS.items():
        value = getattr(training, _FIELDS_OF_KEYS.get(key, key))
        if value is not None and given[0] not in sources:
            yield (key,), f"belongs to {' or '.join(sources)}, and this job has {given[0]}"
    if training.simai is not None and training.parallel is not None and training.parallel.data is not None:
        yield (
            ("parallel", "data"),
            "belongs to model; with simai, the number of replicas follows from the number of GPUs",
        )
    if training.collective is not None and training.size_bytes is None:
        yield ("bytes",), f"is missing; the collective {shown(training.collective)} needs it"
    yield from _operation_mistakes(training.operations or ())


def _operation_mistakes(operations: tuple[OperationTable, ...]) -> Iterator[Mistake]:
    places: dict[str, int] = {}
    for index, each in enumerate(operations):
        if each.name in places:
            yield (
                ("operations", index, "name"),
                f"{shown(each.name)} is already the name of operations[{places[each.name]}]",
            )
        places.setdefault(each.name, index)
    names = Suggestions(places)
    cycle = _cycle(operations)
    if cycle is not None:
        yield (
            ("operations", places[cycle[0]], "after"),
            f"{shown(cycle[0])} waits for itself: {' → '.join(shown(name) for name in cycle)}",
        )
    for index, each in enumerate(operations):
        path: KeyPath = ("operations", index)
        if (each.compute_ps is None) == (each.collective is None):
            found = "neither" if each.collective is None else "both"
            yield path, f"needs either a compute or a collective: got {found}"
        elif each.collective is not None and each.size_bytes is None:
            yield (*path, "bytes"), f"is missing; the collective {shown(each.collective)} needs it"
        elif each.collective is None and each.size_bytes is not None:
            yield (*path, "bytes"), "belongs to a collective, and this operation is a compute"
        for place, name in enumerate(each.after):
            if name not in places:
                hint = names.closest(name)
                yield (*path, "after", place), f"{shown(name)} is not an operation of the job{hint}"
            # In any cycle, some operation waits for a later one; only the cycle itself is reported.
            elif places[name] >= index and cycle is None:
                yield (
                    (*path, "after", place),
                    f"{shown(name)} does not come before {shown(each.name)} in the program",
                )


def _cycle(operations: tuple[OperationTable, ...]) -> list[str] | None:
    """The names of the operations in a cycle, each of which waits for the next, with the first name repeated
    at the end; `None` if there is no cycle.
    """
    try:
        TopologicalSorter({each.name: each.after for each in operations}).prepare()
    except CycleError as error:
        # `graphlib` lists each operation before one that waits for it; the message shows the reverse order.
        names: list[str] = error.args[1][::-1]
        return names
    return None
