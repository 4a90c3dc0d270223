"""Converts a model to a workload with data, tensor and pipeline parallelism.

Tensor parallelism and pipelines follow Megatron-LM. `embedding_tables` splits embedding tables over all GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hocket.errors import InputError
from hocket.training.degrees import (
    CommunicatorIndices,
    Degrees,
    Parallel,
    communicator_indices,
    divide,
    layout,
)
from hocket.training.gpu import Gpu
from hocket.training.layers import Buckets, Exchange, Layer
from hocket.training.models.model import Block, Model, ModelLayer
from hocket.training.pipeline import SCHEDULES, Boundary, Schedule, Stage, stage_program
from hocket.training.workload import Workload
from hocket.units import shown

DATA_PARALLEL = Parallel()
DDP_BUCKETS = Buckets()
ONE_BUCKET = Buckets(2**63, 2**63)
"""All gradients in one all-reduce once the last is computed: Megatron-LM without `--overlap-grad-reduce`. No
model fills a bucket of 2⁶³ bytes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained: on which GPUs, with which batch, split by which parallelism.

    `batch_size` is the samples of a replica in an iteration, in `microbatches` equal parts; without tensor
    and pipeline parallelism a replica is one GPU. `loading_ps` is how long the first stage waits for input at
    the start of an iteration. Weight gradients are all-reduced in `buckets`, or layer by layer if `None`.
    """

    gpus: int
    batch_size: int
    gpu: Gpu
    parallel: Parallel = DATA_PARALLEL
    microbatches: int = 1
    schedule: Schedule = "1f1b"
    loading_ps: int = 0
    buckets: Buckets | None = DDP_BUCKETS


def parallelise(model: Model, recipe: Recipe) -> Workload:
    """One iteration of `model` trained by `recipe`, with a program for each pipeline stage.

    Ranks are numbered with tensor parallelism fastest, then data, then pipeline.

    - Tensor parallelism (Shoeybi et al., arXiv 1909.08053, §3): each rank has 1/t of each block; activations
      are all-reduced after attention and after the MLP, forward, and their gradients backward, where the
      exchange overlaps with the gradient of weights. The vocabulary is split too, which adds one all-reduce
      after the embedding and one of the output layer's input gradients. Layer norms, inputs of blocks and
      position embeddings are not split. The cross entropy exchanges only three values per token, which are
      left out.
    - Pipeline: blocks are divided evenly, the embedding goes with the first and the output layer with the
      last stage; other models are cut where the slowest stage is fastest. Stages send whole activations, also
      with tensor parallelism (Megatron-LM without its scatter and gather).
    - Data: each stage's gradients are all-reduced among replicas, overlapping with the last backward pass.

    Activations are kept, not recomputed.

    Raises `InputError` naming what is wrong if sizes do not divide, or the model cannot be split that way.
    """
    degrees = divide(recipe.gpus, recipe.parallel)
    _check(model, recipe, degrees)
    indices = communicator_indices(degrees, tied=model.blocks is not None)
    groups, ranks = layout(degrees, indices)
    programs = tuple(
        stage_program(stage, recipe.schedule, recipe.microbatches, recipe.buckets)
        for stage in _stages(model, recipe, degrees, indices)
    )
    return Workload(programs, groups, ranks)


def _check(model: Model, recipe: Recipe, degrees: Degrees) -> None:
    for name, value in (("batch_size", recipe.batch_size), ("microbatches", recipe.microbatches)):
        if value < 1:
            raise InputError(f"{name}: {shown(value)} is below 1")
    if recipe.schedule not in SCHEDULES:
        raise InputError(f"schedule: {shown(recipe.schedule)} is none of {', '.join(SCHEDULES)}")
    if recipe.batch_size % recipe.microbatches:
        raise InputError(
            f"microbatches: a batch of {recipe.batch_size} does not divide into {recipe.microbatches}"
        )
    if degrees.tensor > 1:
        if model.blocks is None:
            raise InputError(
                f"parallel: {model.name} has no transformer blocks for tensor = {degrees.tensor}"
            )
        # Megatron-LM splits attention by whole heads.
        if model.blocks.heads % degrees.tensor:
            raise InputError(
                f"parallel: tensor = {degrees.tensor} does not divide the {model.blocks.heads} heads of "
                f"{model.name}"
            )
    if model.blocks is not None and model.blocks.count % degrees.pipeline:
        raise InputError(
            f"parallel: pipeline = {degrees.pipeline} does not divide the {model.blocks.count} blocks of "
            f"{model.name}"
        )
    if degrees.pipeline > len(model.layers):
        raise InputError(
            f"parallel: pipeline = {degrees.pipeline} is more than the {len(model.layers)} layers of "
            f"{model.name}"
        )


def _stages(model: Model, recipe: Recipe, degrees: Degrees, indices: CommunicatorIndices) -> list[Stage]:
    samples = recipe.batch_size // recipe.microbatches
    ends = _stage_ends(model, recipe.gpu, samples, degrees.pipeline)
    stages = []
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        first, last = number == 0, number == degrees.pipeline - 1
        shared = 0
        if model.blocks is not None and indices.embedding is not None and (first or last):
            shared = _tied_parameters(model.blocks, degrees.tensor) * model.value_bytes
        stages.append(
            Stage(
                number,
                degrees.pipeline,
                _layers(model, start, end, recipe.gpu, samples, degrees.tensor, indices),
                None if first else _boundary(model, start, samples, indices),
                None if last else _boundary(model, end, samples, indices),
                recipe.loading_ps if first else 0,
                shared,
                indices.embedding or 0,
            )
        )
    return stages


def _boundary(model: Model, layer: int, samples: int, indices: CommunicatorIndices) -> Boundary:
    """The boundary before the stage that starts with `layer`."""
    assert indices.pipeline is not None, "a boundary lies between two stages"
    size = model.layers[layer - 1].output_values * samples * model.value_bytes
    return Boundary(size, indices.pipeline)


def _stage_ends(model: Model, gpu: Gpu, samples: int, stages: int) -> list[int]:
    """For each stage, the number of the model's layers up to its end."""
    if model.blocks is None:
        # Layers of a convolutional network differ too much in cost for equal numbers of them.
        timed = [
            _timed(model, layer, gpu, samples, 1, first=position == 0)
            for position, layer in enumerate(model.layers)
        ]
        return _even_ends(
            [layer.forward_ps + layer.input_gradient_ps + layer.weight_gradient_ps for layer in timed], stages
        )
    # A block is two layers, attention and MLP, between embedding and output.
    ends = [1 + 2 * model.blocks.count * stage // stages for stage in range(1, stages + 1)]
    return [*ends[:-1], len(model.layers)]


def _even_ends(costs: Sequence[int], parts: int) -> list[int]:
    """The ends of `parts` non-empty runs of `costs` whose largest sum is as small as possible.

    >>> _even_ends([4, 1, 1, 3], 2)
    [1, 4]
    """
    before = [0]
    for cost in costs:
        before.append(before[-1] + cost)
    # best[end] is the best division of the costs up to `end` into `part` runs: its largest sum and its cuts.
    # Of equal sums, `min` takes the earliest cuts. With fewer costs than runs there is no division: those
    # entries are placeholders, which no later cut reads.
    best: list[tuple[int, list[int]]] = [(before[end], [end]) for end in range(len(costs) + 1)]
    for part in range(2, parts + 1):
        best = [
            min(
                (max(best[cut][0], before[end] - before[cut]), [*best[cut][1], end])
                for cut in range(part - 1, max(end, part))
            )
            for end in range(len(costs) + 1)
        ]
    return best[-1][1]


def _layers(
    model: Model,
    start: int,
    end: int,
    gpu: Gpu,
    samples: int,
    tensor: int,
    indices: CommunicatorIndices,
) -> list[Layer]:
    """Layers `start` to `end` of `model` with the times of `samples`, split over `tensor` GPUs each."""
    layers = []
    for position in range(start, end):
        layer = model.layers[position]
        timed = _timed(model, layer, gpu, samples, tensor, first=position == 0)
        if indices.tensor is not None:
            timed = _tensor_exchanges(timed, model, position, samples, indices.tensor)
        parameters = _split(layer.parameters, layer.whole_parameters, tensor)
        if model.blocks is not None and start > 0 and position == len(model.layers) - 1:
            # The output layer is counted without the tied weights, which the first stage has. A separate last
            # stage has a copy, whose gradients are also exchanged and updated.
            parameters += _tied_parameters(model.blocks, tensor)
        if indices.data is not None:
            exchange = Exchange("all-reduce", parameters * model.value_bytes, indices.data)
            timed = replace(timed, weight_gradient_exchange=exchange)
        layers.append(replace(timed, update_ps=gpu.memory_ps(parameters * model.optimizer_bytes)))
    return layers


def _timed(model: Model, layer: ModelLayer, gpu: Gpu, samples: int, tensor: int, *, first: bool) -> Layer:
    """`layer` with its compute times; the `first` one needs no gradient of its inputs."""
    product_ps = gpu.product_ps(
        Fraction(layer.forward_flops * samples, tensor),
        Fraction(layer.parameters * model.value_bytes, tensor),
        model.value_bytes,
    )
    # Megatron-LM repeats what it does not split on every tensor rank.
    values = samples * (layer.whole_values + Fraction(layer.memory_values - layer.whole_values, tensor))
    forward_ps = gpu.memory_ps(values * model.value_bytes)
    backward_ps = gpu.memory_ps(2 * values * model.value_bytes)
    return Layer(
        layer.name,
        product_ps + forward_ps,
        # The kernels around the products run backward even where no gradient of inputs is needed.
        0 if first else product_ps + backward_ps,
        product_ps + backward_ps if first else product_ps,
    )


def _tensor_exchanges(timed: Layer, model: Model, position: int, samples: int, communicator: int) -> Layer:
    """`timed` with the all-reduces of its outputs, unless those are logits, and of its input gradients."""
    scale = samples * model.value_bytes
    outputs, inputs = None, None
    if position < len(model.layers) - 1:
        outputs = Exchange("all-reduce", model.layers[position].output_values * scale, communicator)
    if position > 0:
        inputs = Exchange("all-reduce", model.layers[position - 1].output_values * scale, communicator)
    return replace(timed, forward_exchange=outputs, input_gradient_exchange=inputs)


def _split(count: int, whole: int, tensor: int) -> int:
    """The share of `count` on each of `tensor` GPUs, rounded up; `whole` of them are not split.

    >>> _split(10, 4, 4)
    6
    """
    return whole + -(-(count - whole) // tensor)


def _tied_parameters(blocks: Block, tensor: int) -> int:
    """The share of the tied token embedding on each of `tensor` GPUs."""
    return _split(blocks.tied_parameters, 0, tensor)
