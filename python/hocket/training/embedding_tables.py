"""DLRM on many GPUs: embedding tables are split over all of them, and the MLPs are data parallel.

This is how its authors train it (Naumov et al., arXiv 1906.00091, §4) and how HOTI'22 §II-C simulates it.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from hocket.errors import InputError
from hocket.training.gpu import Gpu
from hocket.training.layers import Exchange, GradientExchange, Layer, backward_pass, forward_pass
from hocket.training.models.recommendation import Dlrm, layer_parameters
from hocket.training.parallel import Recipe
from hocket.training.program import START, Program
from hocket.training.workload import Operation, Rank, Workload
from hocket.units import shown

_TABLES, _GRADIENTS = 0, 1
"""Indices of a rank's communicators, both of all ranks. Collectives of one communicator run in order, so
all-to-alls and all-reduces have one each and do not wait for each other."""

# The reference implementation trains with SGD, which reads weight and gradient and writes the weight.
_SGD_VALUES = 3


def split_tables(model: Dlrm, recipe: Recipe) -> Workload:
    """One iteration of `model` on `recipe.gpus` GPUs, each with `recipe.batch_size` samples of its own. All
    ranks share one program.

    Tables are spread evenly, by columns if there are fewer tables than GPUs, so that every GPU looks up the
    same amount: for its share of the tables, the sum of `pooling` rows for each sample of all GPUs. An
    all-to-all brings the sums to the GPU of the sample while the bottom MLP computes; the interaction waits
    for both. In the backward pass the gradients of the sums return in an all-to-all while the bottom MLP
    computes its gradients, and are added to the rows. MLPs exchange gradients as in data parallelism. The
    bytes of looked-up indices are left out (HOTI'22 counts only the vectors).

    Raises `InputError` if sizes are below 1, or tensor, pipeline or microbatches are more than 1.
    """
    for name, value in (("gpus", recipe.gpus), ("batch_size", recipe.batch_size)):
        if value < 1:
            raise InputError(f"{name}: {shown(value)} is below 1")
    parallel = recipe.parallel
    for name, value in (
        ("parallel: tensor", parallel.tensor),
        ("parallel: pipeline", parallel.pipeline),
        ("microbatches", recipe.microbatches),
    ):
        if value != 1:
            raise InputError(
                f"{name} = {shown(value)}: must be 1, as {model.name} only splits its tables over all GPUs"
            )
    if parallel.data not in (None, recipe.gpus):
        raise InputError(
            f"parallel: data = {shown(parallel.data)}: must be {recipe.gpus}, all GPUs, for {model.name}"
        )
    # One program for all: tables are spread evenly, and the MLPs are the same everywhere.
    everyone = tuple(range(recipe.gpus))
    groups, communicators = ((everyone, everyone), (_TABLES, _GRADIENTS)) if recipe.gpus > 1 else ((), ())
    ranks = tuple(Rank(0, communicators) for _ in everyone)
    return Workload((_program(model, recipe),), groups, ranks)


def _program(model: Dlrm, recipe: Recipe) -> tuple[Operation, ...]:
    gpu, samples = recipe.gpu, recipe.batch_size
    bottom = _mlp(model, "bottom", model.bottom, recipe)
    top = _mlp(model, "top", model.top, recipe)
    # The model's first layer needs no gradient of its inputs.
    bottom[0] = replace(bottom[0], input_gradient_ps=0)
    # The bytes of the sums of all tables for this GPU's samples. Its share of the tables has as many for all
    # GPUs' samples, so this is also what it looks up and sends.
    vectors = samples * model.tables * model.dimension * model.value_bytes
    exchanged = vectors if recipe.gpus > 1 else 0
    # `pooling` rows are read for each sum, and the sum is written.
    lookup_ps = gpu.memory_ps(vectors * (model.pooling + 1))
    interaction_ps = _interaction_ps(model, gpu, samples)

    program = Program()
    loaded = program.compute("data loading", recipe.loading_ps, START)
    looked_up = program.compute("embedding forward", lookup_ps, loaded)
    sums = program.collective("embedding forward all-to-all", "all-to-all", exchanged, _TABLES, looked_up)
    dense = forward_pass(program, bottom, loaded)
    done = program.compute("interaction forward", interaction_ps, sums + dense)
    done = forward_pass(program, top, done)
    gradients = GradientExchange(program, recipe.buckets)
    done = backward_pass(program, top, done, gradients)
    done = program.compute("interaction backward", 2 * interaction_ps, done)
    sums = program.collective("embedding backward all-to-all", "all-to-all", exchanged, _TABLES, done)
    done = backward_pass(program, bottom, done, gradients)
    # Each row that was looked up is read, and written back with the gradient of its sum added.
    added = program.compute("embedding update", gpu.memory_ps(vectors * (2 * model.pooling + 1)), sums)
    program.compute("update", _update_ps(model, gpu), done + added + gradients.finish())
    return program.operations


def _mlp(model: Dlrm, name: str, widths: Sequence[int], recipe: Recipe) -> list[Layer]:
    gpu, samples = recipe.gpu, recipe.batch_size
    layers = []
    for index, (inputs, outputs) in enumerate(pairwise(widths), 1):
        size = layer_parameters(model, inputs, outputs) * model.value_bytes
        product_ps = gpu.product_ps(2 * inputs * outputs * samples, size, model.value_bytes)
        # The activation function reads and writes the outputs; the backward pass moves twice as much.
        activation_ps = gpu.memory_ps(2 * outputs * samples * model.value_bytes)
        exchange = Exchange("all-reduce", size, _GRADIENTS) if recipe.gpus > 1 else None
        layers.append(
            Layer(
                f"{name}{index}",
                product_ps + activation_ps,
                product_ps + 2 * activation_ps,
                product_ps,
                weight_gradient_exchange=exchange,
            )
        )
    return layers


def _interaction_ps(model: Dlrm, gpu: Gpu, samples: int) -> int:
    """The time to read all vectors and write the top MLP's input, and of the products if there are any."""
    values = (model.tables + 1) * model.dimension + model.interaction_values
    # The products are of activations: no weights are read.
    moved_ps = gpu.memory_ps(Fraction(values * samples * model.value_bytes))
    return moved_ps + gpu.product_ps(model.interaction_flops * samples, 0, model.value_bytes)


def _update_ps(model: Dlrm, gpu: Gpu) -> int:
    return gpu.memory_ps(_SGD_VALUES * model.mlp_parameters * model.value_bytes)
