"""Converts a plan's `[jobs.training]`, in any of its forms, to the workload of the job's ranks."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hocket.errors import InputError
from hocket.plan import LayerTable, OperationTable, Plan, Training
from hocket.training.layers import Buckets, Exchange, Layer, training_loop
from hocket.training.workload import Operation, Rank, Workload


def workload_of(plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None = None) -> Workload:
    """One iteration of training job `number` of `plan`, as operations of its ranks.

    Ranks are the job's hosts in order, placed by `placement` or else by the job itself.

    Raises `InputError` with the job's key for an unknown model, a bad Chakra trace or workload file, and one
    made for another number of GPUs.
    """
    job = plan.jobs[number]
    assert job.training is not None, "only jobs with training have a workload"
    gpus = len(plan.hosts_of(job, placement))
    where = f"jobs[{number}].training"
    try:
        found = _workload(job.training, gpus, plan.directory)
    except InputError as error:
        raise InputError(f"{where}: job {job.name!r}: {error}") from None
    if len(found.ranks) != gpus:
        raise InputError(
            f"{where}: job {job.name!r}: the workload is for {len(found.ranks)} GPUs, but the job has {gpus}"
        )
    return found


def _workload(training: Training, gpus: int, directory: Path) -> Workload:
    # The catalogue and the readers of files are imported for the jobs that use them.
    parallel = training.parallel
    if training.model is not None:
        from hocket.training import catalogue
        from hocket.training.degrees import Parallel

        return catalogue.workload(
            training.model,
            gpus=gpus,
            batch_size=training.batch_size,
            parallel=None
            if parallel is None
            else Parallel(data=parallel.data, tensor=parallel.tensor or 1, pipeline=parallel.pipeline or 1),
            microbatches=training.microbatches or 1,
            schedule=training.schedule or "1f1b",
            gpu=training.gpu,
            loading_ps=training.loading_ps or 0,
        )
    if training.chakra is not None:
        from hocket.training.chakra import Roofline, read_chakra

        paths = [directory / path for path in training.chakra]
        return read_chakra(
            paths[0] if len(paths) == 1 else paths,
            groups=None if training.groups is None else directory / training.groups,
            roofline=None
            if training.roofline is None
            else Roofline(int(training.roofline.flops), -(-training.roofline.memory_bps // 8)),
            dimensions=training.dimensions,
        )
    if training.simai is not None:
        from hocket.training.simai import read_simai

        return read_simai(
            directory / training.simai,
            gpus=gpus,
            tensor=None if parallel is None else parallel.tensor,
            pipeline=None if parallel is None else parallel.pipeline,
            microbatches=training.microbatches,
            # The order of the file, in which SimAI itself runs it.
            schedule=training.schedule or "gpipe",
        )
    return _same_program(_program(training), gpus)


def _program(training: Training) -> tuple[Operation, ...]:
    if training.layers is not None:
        given = training.buckets
        buckets = None if given is None else Buckets(given.first_bytes, given.others_bytes)
        return training_loop([_layer(table) for table in training.layers], buckets=buckets)
    if training.operations is not None:
        places = {table.name: place for place, table in enumerate(training.operations)}
        return tuple(_operation(table, places) for table in training.operations)
    assert training.collective is not None, "a checked job has training in one of six forms"
    assert training.size_bytes is not None, "a checked collective has a size"
    return (Operation(training.collective, training.collective, bytes=training.size_bytes),)


def _same_program(program: tuple[Operation, ...], gpus: int) -> Workload:
    """The workload in which all GPUs run `program` and form one group."""
    return Workload((program,), (tuple(range(gpus)),), (Rank(0, (0,)),) * gpus)


def _layer(table: LayerTable) -> Layer:
    return Layer(
        table.name,
        forward_ps=table.forward_ps,
        input_gradient_ps=table.input_gradient_ps,
        weight_gradient_ps=table.weight_gradient_ps,
        update_ps=table.update_ps or 0,
        weight_gradient_exchange=Exchange("all-reduce", table.weights_bytes),
    )


def _operation(table: OperationTable, places: Mapping[str, int]) -> Operation:
    after = tuple(sorted({places[name] for name in table.after}))
    if table.collective is not None:
        assert table.size_bytes is not None, "a checked collective has a size"
        return Operation(table.name, table.collective, after, bytes=table.size_bytes)
    assert table.compute_ps is not None, "a checked operation is a compute or a collective"
    return Operation(table.name, "compute", after, duration_ps=table.compute_ps)
