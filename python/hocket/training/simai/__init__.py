"""Reads workload text of ASTRA-sim, SimAI and AICB as the workload of a training job.

`read_simai` is the public function. `source` reads a file, `policies` defines the kinds of parallelism,
`degrees` divides the GPUs into groups, and `loops` writes the programs.
"""

from pathlib import Path

from hocket.errors import InputError
from hocket.training.pipeline import SCHEDULES, Schedule
from hocket.training.simai.degrees import Communicators, Degrees, degrees_of
from hocket.training.simai.loops import Loop, microbatches_of
from hocket.training.simai.policies import DLRM, GroupName
from hocket.training.simai.source import WorkloadText, read_text
from hocket.training.workload import Operation, Workload
from hocket.units import shown

__all__ = ["read_simai"]

MAX_LAYERS = 2_000_000
"""The limit on the layers of all pipeline stages together: each becomes several operations, and a header may
give a million stages."""


def read_simai(
    path: str | Path,
    *,
    gpus: int | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    microbatches: int | None = None,
    schedule: Schedule = "gpipe",
) -> Workload:
    """The workload of a SimAI file: one iteration, with a program for each pipeline stage.

    Arguments override the file's values, for example to make the workload smaller:

    - `gpus` overrides `all_gpus`. With fewer GPUs there are fewer replicas, so groups of replicas (data, and
      replicas with the same experts) shrink. Groups of ranks that share a layer, of experts and of stages
      keep their size, and all collectives keep their bytes.
    - `tensor` overrides `model_parallel_NPU_group`, for files without it.
    - `pipeline` overrides `pp`; with 1, one stage runs alone, without sends and pipeline bubbles.
    - `microbatches` runs only the first of the file's `ga` microbatches.

    The file lists the layers of a stage, with those of a microbatch repeated for each microbatch. With
    "gpipe" they run in the order of the file, as in SimAI: all forward, then all backward; "1f1b" is the
    schedule of Megatron-LM. Stages send each other `pp_comm` bytes for each microbatch, which SimAI only
    estimates.

    Raises `InputError` with file, line and column for a bad file, and for arguments that do not fit it.
    """
    text = read_text(Path(path))
    if schedule not in SCHEDULES:
        raise InputError(f"{text.path}: schedule: {shown(schedule)} is none of {', '.join(SCHEDULES)}")
    if microbatches is not None and not 1 <= microbatches <= text.header.microbatches:
        raise InputError(
            f"{text.path}: microbatches: must be from 1 to the file's ga, {text.header.microbatches}: "
            f"got {shown(microbatches)}"
        )
    degrees = degrees_of(text, gpus, tensor, pipeline)
    communicators = Communicators(degrees, _used(text, degrees))
    programs = _programs(text, degrees, communicators, microbatches, schedule)
    # With one GPU, all exchanges are left out; a file without compute times then has nothing to do.
    if not any(programs):
        raise InputError(f"{text.path}: on {degrees.gpus} GPUs no layer computes or exchanges anything")
    groups, ranks = communicators.layout()
    return Workload(programs, groups, ranks)


def _programs(
    text: WorkloadText,
    degrees: Degrees,
    communicators: Communicators,
    requested: int | None,
    schedule: Schedule,
) -> tuple[tuple[Operation, ...], ...]:
    """The program of each stage."""
    loop = Loop(text, communicators)
    if text.header.policy == "MICRO":
        return (loop.micro(),)
    if text.header.policy == "DISTRIBUTED_INFERENCE":
        return (loop.inference(),)
    if text.header.policy in DLRM:
        assert text.header.last_bottom is not None, "a checked header of a DLRM has it"
        return (loop.recommendation(text.header.last_bottom),)
    stages = degrees.pipeline
    if stages > 1 and text.header.pipeline_bytes == 0:
        raise InputError(
            f"{text.path}: pp is {stages}, but the file has no pp_comm, the bytes that stages send; set "
            "`pipeline` = 1 to run one stage alone"
        )
    if stages * len(text.rows) > MAX_LAYERS:
        raise InputError(
            f"{text.path}: {stages} stages of {len(text.rows)} layers are too many; the limit is {MAX_LAYERS}"
        )
    layers = microbatches_of(text, stages, requested, schedule)
    return tuple(loop.training(stage, stages, schedule, layers) for stage in range(stages))


def _used(text: WorkloadText, degrees: Degrees) -> list[GroupName]:
    """The groups that exchange something, in the order of a rank's communicators."""
    exchanged = {
        collective.group
        for row in text.rows
        for collective in (row.forward, row.input_gradient, row.weight_gradient)
        if collective is not None
    }
    # A set of texts has another order in every process, and the order is part of the workload.
    order: tuple[GroupName, ...] = ("all", "tensor", "data", "expert", "expert-data")
    used: list[GroupName] = [group for group in order if group in exchanged]
    if degrees.pipeline > 1:
        used.append("pipeline")
    return used
