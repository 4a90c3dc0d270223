"""What must hold between the keys of a trace: jobs fit the cluster, models run as they are asked to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from hocket.cluster.arrivals import LATEST_PS, MAX_JOBS, Dynamic, DynamicJob, Mix, Poisson, models_in
from hocket.cluster.file_tables import JobTable, TraceTables
from hocket.cluster.submission import check_cluster
from hocket.errors import InputError
from hocket.plan.fabric import Fabric, fabric_mistakes
from hocket.plan.mistakes import KeyPath, Mistake, Suggestions
from hocket.units import format_duration, shown
from hocket.workloads import Model, find_model, plain_name


def trace_mistakes(trace: TraceTables) -> Iterator[Mistake]:
    """What is wrong with `trace` as a whole; its tables by themselves are as they must be."""
    of_fabric = [(("fabric", *path), text) for path, text in fabric_mistakes(trace.fabric)]
    of_fabric = of_fabric or list(_use_mistakes(trace.fabric))
    if of_fabric:
        yield from of_fabric
        return
    if not (trace.jobs or trace.poisson or trace.dynamic or trace.imports):
        yield (), "has no jobs: give [[jobs]], [poisson], [dynamic] or [[import]]"
    of_models = list(_model_mistakes(trace))
    if of_models:
        yield from of_models
        return
    gpus = len(trace.gpus.gpus)
    yield from _job_mistakes(trace, gpus)
    if trace.poisson is not None:
        yield from _poisson_mistakes(trace.poisson, gpus, trace.models)
    if trace.dynamic is not None:
        yield from _dynamic_mistakes(trace.dynamic, gpus, trace.models)
    for index, table in enumerate(trace.imports):
        yield from (
            (("import", index, *path), text) for path, text in _name_mistakes(table.models, trace.models)
        )
        if table.until_ps is not None and table.until_ps <= table.from_ps:
            limit = format_duration(table.from_ps)
            yield ("import", index, "until"), f"{format_duration(table.until_ps)} is not after from, {limit}"


def _model_mistakes(trace: TraceTables) -> Iterator[Mistake]:
    names: dict[str, int] = {}
    for index, table in enumerate(trace.own_models):
        path: KeyPath = ("models", index)
        first = names.setdefault(plain_name(table.name), index)
        if first != index:
            yield (*path, "name"), f"{shown(table.name)} is already the name of models[{first}]"
        memory_bytes = trace.cluster.gpu_memory_bytes
        found = list(table.mistakes(trace.directory, memory_bytes))
        yield from (((*path, *rest), text) for rest, text in found)
        if table.training is not None and not found:
            model = table.model(trace.directory, trace.nic_bps)
            try:
                for workers in table.workers or ():
                    model.profile(table.batch_size, workers)
            except InputError as error:
                yield (*path, "training"), str(error)


def _name_mistakes(names: Sequence[str], models: Mapping[str, Model]) -> Iterator[Mistake]:
    """Of a key `models`, names that are none."""
    try:
        models_in(names, models)
    except InputError as error:
        yield ("models",), str(error)


def _use_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    """Hosts that a job on several of them could not use together."""
    topology = fabric.topology
    if not topology.gpus:
        yield ("fabric",), "has no hosts, and jobs need GPUs"
    for host in topology.gpus:
        if topology.islands[host] != topology.islands[topology.gpus[0]]:
            yield ("fabric",), f"{shown(host)} has no path to {shown(topology.gpus[0])}; a job may be on both"
            return


def _job_mistakes(trace: TraceTables, gpus: int) -> Iterator[Mistake]:
    names: dict[str, int] = {}
    for index, job in enumerate(trace.jobs):
        path: KeyPath = ("jobs", index)
        if job.name in names:
            yield (*path, "name"), f"{shown(job.name)} is already the name of jobs[{names[job.name]}]"
        names.setdefault(job.name, index)
        if job.arrival_ps > LATEST_PS:
            latest = format_duration(LATEST_PS)
            yield (*path, "arrival"), f"{format_duration(job.arrival_ps)} is after the latest, {latest}"
        yield from (((*path, *key), text) for key, text in _demand_mistakes(job, gpus, trace.models))
    yield from _placement_mistakes(trace)


def _demand_mistakes(job: JobTable, gpus: int, models: Mapping[str, Model]) -> Iterator[Mistake]:
    """What is wrong with the model, the batch size and the workers of `job`."""
    try:
        model = find_model(job.model, models)
    except InputError as error:
        yield ("model",), str(error)
        return
    checks: list[tuple[str, Callable[[], None]]] = [
        ("batch_size", partial(model.check_batch_size, job.batch_size)),
        ("strategy", partial(model.check_strategy, job.strategy)),
        ("workers", partial(check_cluster, model, job.workers, gpus)),
    ]
    if job.strategy is None or job.strategy in model.strategies:
        checks.append(("workers", partial(model.check_workers, job.workers, job.strategy)))
    yield from _first_refusals(checks)
    for key, limit, beyond in (
        ("min_workers", job.min_workers, job.min_workers > job.workers),
        ("max_workers", job.max_workers, job.max_workers < job.workers),
    ):
        if beyond:
            yield (key,), f"{limit} leaves out the {job.workers} workers that the job is submitted with"


def _first_refusals(checks: Sequence[tuple[str, Callable[[], None]]]) -> Iterator[Mistake]:
    """Of each key the first check that refuses its value."""
    refused: set[str] = set()
    for key, check in checks:
        try:
            if key not in refused:
                check()
        except InputError as error:
            refused.add(key)
            yield (key,), str(error)


def _placement_mistakes(trace: TraceTables) -> Iterator[Mistake]:
    known = set(trace.gpus.gpus)
    suggestions = Suggestions(trace.gpus.gpus)
    taken: dict[str, str] = {}
    for index, job in enumerate(trace.jobs):
        path: KeyPath = ("jobs", index, "placement")
        if job.placement is None:
            continue
        if job.arrival_ps > 0:
            yield (
                path,
                f"is where a job is at the start, and this one arrives at {format_duration(job.arrival_ps)}",
            )
        if len(job.placement) != job.workers:
            yield path, f"names {len(job.placement)} GPUs, and the job has {job.workers} workers"
        for place, gpu in enumerate(job.placement):
            if gpu not in known:
                yield (*path, place), f"{shown(gpu)} is not a GPU of the cluster{suggestions.closest(gpu)}"
            elif gpu in taken:
                yield (*path, place), f"{shown(gpu)} is given to job {shown(taken[gpu])} already"
            taken.setdefault(gpu, job.name)


def _poisson_mistakes(poisson: Poisson, gpus: int, models: Mapping[str, Model]) -> Iterator[Mistake]:
    if (poisson.duration_ps is None) == (poisson.jobs is None):
        yield ("poisson",), "has exactly one of duration and jobs: the load says how many or how long"
    yield from ((("poisson", *path), text) for path, text in _mix_mistakes(poisson, gpus))
    drawn = _drawn_mistakes(poisson, poisson.models, gpus, models)
    yield from ((("poisson", *path), text) for path, text in drawn)


def _mix_mistakes(mix: Mix, gpus: int) -> Iterator[Mistake]:
    if mix.run_time_ps is not None and "iterations" in mix.model_fields_set:
        yield ("iterations",), "is how much work a job is, and so is run_time: give one of them"
    if "workers" in mix.model_fields_set and mix.workers[1] > gpus:
        yield ("workers",), f"{mix.workers[1]} workers are more than the cluster has GPUs, {gpus}"


def _drawn_mistakes(
    mix: Mix, names: Sequence[str], gpus: int, models: Mapping[str, Model]
) -> Iterator[Mistake]:
    """Names of no model, and models that run on no number of workers that may be drawn."""
    unknown = list(_name_mistakes(names, models))
    yield from unknown
    fewest, most = mix.workers
    for model in () if unknown else models_in(names, models):
        if not mix.sizes(model, gpus):
            limits = f"{fewest} to {min(most, gpus)} workers, which the key workers and {gpus} GPUs allow"
            yield ("models",), f"{model.name} runs on none of {limits}"


def _dynamic_mistakes(dynamic: Dynamic, gpus: int, models: Mapping[str, Model]) -> Iterator[Mistake]:
    yield from ((("dynamic", *path), text) for path, text in _mix_mistakes(dynamic, gpus))
    if dynamic.arrival_ps > LATEST_PS:
        latest = format_duration(LATEST_PS)
        yield ("dynamic", "arrival"), f"{format_duration(dynamic.arrival_ps)} is after the latest, {latest}"
    count = sum(job.count for job in (*dynamic.running, *dynamic.arriving))
    if count > MAX_JOBS:
        yield ("dynamic",), f"has {count:,} jobs, above the limit of {MAX_JOBS:,}"
    names: set[str] = set()
    for key, jobs in (("running", dynamic.running), ("arriving", dynamic.arriving)):
        for index, job in enumerate(jobs):
            path: KeyPath = ("dynamic", key, index)
            found = _dynamic_job_mistakes(dynamic, job, gpus, models)
            yield from (((*path, *rest), text) for rest, text in found)
            if job.name is not None and job.name in names:
                yield (*path, "name"), f"{shown(job.name)} is the name of another job"
            names.add(job.name or "")


def _dynamic_job_mistakes(
    dynamic: Dynamic, job: DynamicJob, gpus: int, models: Mapping[str, Model]
) -> Iterator[Mistake]:
    if job.name is not None and job.count > 1:
        yield ("name",), f"is one name for {job.count} jobs; without it they are named after their model"
    try:
        model = find_model(job.model, models)
    except InputError as error:
        yield ("model",), str(error)
        return
    checks: list[tuple[str, Callable[[], None]]] = []
    if job.batch_size is not None:
        checks.append(("batch_size", partial(model.check_batch_size, job.batch_size)))
    if job.workers is not None:
        checks.append(("workers", partial(check_cluster, model, job.workers, gpus)))
        checks.append(("workers", partial(model.check_workers, job.workers)))
    yield from _first_refusals(checks)
    if job.workers is None:
        yield from ((("model",), text) for _, text in _drawn_mistakes(dynamic, (job.model,), gpus, models))
