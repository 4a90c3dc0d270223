"""The program of a pipeline stage: the order of its passes, and its sends and receives.

A single stage is a job without a pipeline; its microbatches are then steps of gradient accumulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hocket.errors import check_choice
from hocket.training.layers import Buckets, GradientExchange, Layer, backward_pass, forward_pass
from hocket.training.program import START, Done, Program
from hocket.training.workload import Operation

Schedule: TypeAlias = Literal["gpipe", "1f1b"]
SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b")

Pass: TypeAlias = Literal["forward", "backward"]


def passes(schedule: Schedule, stage: int, stages: int, microbatches: int) -> list[tuple[Pass, int]]:
    """The forward and backward passes of `stage` of `stages` in order, each with its microbatch from 0.

    - `gpipe` (Huang et al., NeurIPS'19, Fig 2c): all forward, then all backward, the last one first.
    - `1f1b` (PipeDream-Flush; Narayanan et al., SC'21, Fig 4): a stage runs one forward pass for each stage
      after it, then alternates one forward and one backward pass, then runs the remaining backward passes.

    Raises `InputError` for an unknown schedule.

    >>> passes("1f1b", 0, 2, 2)
    [('forward', 0), ('forward', 1), ('backward', 0), ('backward', 1)]
    >>> passes("gpipe", 1, 2, 2)
    [('forward', 0), ('forward', 1), ('backward', 1), ('backward', 0)]
    """
    check_choice("schedule", schedule, SCHEDULES)
    forward: list[tuple[Pass, int]] = [("forward", each) for each in range(microbatches)]
    backward: list[tuple[Pass, int]] = [("backward", each) for each in range(microbatches)]
    if schedule == "gpipe":
        return forward + backward[::-1]
    # With fewer microbatches than later stages, all forward passes come first.
    ahead = min(stages - stage - 1, microbatches)
    steady = microbatches - ahead
    alternating = [each for pair in zip(forward[ahead:], backward[:steady], strict=True) for each in pair]
    return forward[:ahead] + alternating + backward[steady:]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The messages between two stages for each microbatch: `bytes` of activations, and as many of gradients.

    `communicator` is the index of the pipeline's group, whose members are in the order of the stages.
    """

    bytes: int
    communicator: int


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a pipeline, `number` of `count`: its layers with the times of one microbatch.

    `before` and `after` are its boundaries, `None` at the ends of the pipeline. `loading_ps` is a wait for
    input at the start of an iteration. `embedding_bytes` of gradients are all-reduced with the stage that
    shares the token embedding, in the group at index `embedding_communicator`.
    """

    number: int
    count: int
    layers: Sequence[Layer]
    before: Boundary | None = None
    after: Boundary | None = None
    loading_ps: int = 0
    embedding_bytes: int = 0
    embedding_communicator: int = 0


def stage_program(
    stage: Stage, schedule: Schedule, microbatches: int, buckets: Buckets | None
) -> tuple[Operation, ...]:
    """One iteration of `stage`.

    Passes run in the order of the `schedule`. Before a pass the stage waits for its neighbour's message,
    whose recv it posts when the pass before is done; sends overlap with what follows. Weight gradients are
    exchanged as the last backward pass produces them, then those of the shared embedding, and the iteration
    ends with an update (Megatron-LM's `finalize_model_grads` and optimiser step).
    """
    program = Program()
    gradients = GradientExchange(program, buckets)
    order = passes(schedule, stage.number, stage.count, microbatches)
    done = program.compute("data loading", stage.loading_ps, START)
    for position, (kind, microbatch) in enumerate(order):
        if kind == "forward":
            done = _forward(program, stage, microbatch, microbatches, done)
        else:
            # By position: the last backward pass of gpipe is that of microbatch 0.
            last = position == len(order) - 1
            done = _backward(program, stage, microbatch, microbatches, gradients if last else None, done)
    done += gradients.finish()
    done = program.collective(
        "embedding all-reduce", "all-reduce", stage.embedding_bytes, stage.embedding_communicator, done
    )
    program.compute("update", sum(layer.update_ps for layer in stage.layers), done)
    return program.operations


def _forward(program: Program, stage: Stage, microbatch: int, microbatches: int, done: Done) -> Done:
    suffix = _suffix(microbatch, microbatches)
    # Activations and gradients of a microbatch have the same tag, since they go in opposite directions.
    if stage.before is not None:
        done = program.recv(
            f"activations recv{suffix}",
            stage.before.bytes,
            stage.before.communicator,
            stage.number - 1,
            microbatch,
            done,
        )
    done = forward_pass(program, stage.layers, done, suffix)
    if stage.after is not None:
        program.send(
            f"activations send{suffix}",
            stage.after.bytes,
            stage.after.communicator,
            stage.number + 1,
            microbatch,
            done,
        )
    return done


def _backward(
    program: Program,
    stage: Stage,
    microbatch: int,
    microbatches: int,
    gradients: GradientExchange | None,
    done: Done,
) -> Done:
    suffix = _suffix(microbatch, microbatches)
    if stage.after is not None:
        done = program.recv(
            f"gradients recv{suffix}",
            stage.after.bytes,
            stage.after.communicator,
            stage.number + 1,
            microbatch,
            done,
        )
    done = backward_pass(program, stage.layers, done, gradients, suffix)
    if stage.before is not None:
        program.send(
            f"gradients send{suffix}",
            stage.before.bytes,
            stage.before.communicator,
            stage.number - 1,
            microbatch,
            done,
        )
    return done


def _suffix(microbatch: int, microbatches: int) -> str:
    """The suffix of operation names that distinguishes microbatches if there are several."""
    return f" #{microbatch}" if microbatches > 1 else ""
