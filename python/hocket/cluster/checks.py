"""Checks the keys of a trace against each other, such as the workers of a job against the cluster's GPUs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from hocket.cluster.arrivals import LATEST_PS, MAX_JOBS, Dynamic, DynamicJob, Mix, Poisson, models_in
from hocket.cluster.file_tables import JobTable, TraceTables
from hocket.cluster.submission import check_fits_cluster
from hocket.errors import InputError
from hocket.plan.fabric import Fabric, fabric_mistakes
from hocket.plan.table_errors import KeyPath, Mistake, Suggestions
from hocket.units import format_duration, shown
from hocket.workloads import Model, find_model, plain_name


def trace_mistakes(trace: TraceTables) -> Iterator[Mistake]:
    """All errors in `trace` as a whole; each of its tables has been validated by itself."""
    of_fabric = [(("fabric", *path), text) for path, text in fabric_mistakes(trace.fabric)]
    # Later checks need the GPUs of a valid fabric, and the jobs need valid models.
    of_fabric = of_fabric or list(_connectivity_mistakes(trace.fabric))
    if of_fabric:
        yield from of_fabric
        return
    if not (trace.jobs or trace.poisson or trace.dynamic or trace.imports):
        yield (), "has no jobs: give [[jobs]], [poisson], [dynamic] or [[import]]"
    if trace.cluster.merge > 0 and trace.cluster.record in ("sampled", "summary"):
        yield (
            ("cluster", "merge"),
            f'merges rows only with record = "all": got record = "{trace.cluster.record}"',
        )
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
        # Simulated here already, so that a training that cannot run is an error in the file and not in a run.
        if table.training is not None and not found:
            model = table.model(trace.directory, trace.nic_bps)
            try:
                for workers in table.workers or ():
                    model.profile(table.batch_size, workers)
            except InputError as error:
                yield (*path, "training"), str(error)


def _name_mistakes(names: Sequence[str], models: Mapping[str, Model]) -> Iterator[Mistake]:
    """Unknown names in a key `models`."""
    try:
        models_in(names, models)
    except InputError as error:
        yield ("models",), str(error)


def _connectivity_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    """Hosts without a path between them: a scheduler may place one job on both."""
    topology = fabric.topology
    if not topology.gpus:
        yield ("fabric",), "has no hosts, but jobs need GPUs"
    for host in topology.gpus:
        if topology.islands[host] != topology.islands[topology.gpus[0]]:
            yield (
                ("fabric",),
                f"{shown(host)} has no path to {shown(topology.gpus[0])}; a job may be placed on both",
            )
            # One missing cable can separate thousands of hosts, which would be a mistake each.
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
        yield from (((*path, *key), text) for key, text in _request_mistakes(job, gpus, trace.models))
    yield from _placement_mistakes(trace)


def _request_mistakes(job: JobTable, gpus: int, models: Mapping[str, Model]) -> Iterator[Mistake]:
    """Errors in the model, the batch size and the workers of `job`."""
    try:
        model = find_model(job.model, models)
    except InputError as error:
        yield ("model",), str(error)
        return
    checks: list[tuple[str, Callable[[], None]]] = [
        ("batch_size", partial(model.check_batch_size, job.batch_size)),
        ("strategy", partial(model.check_strategy, job.strategy)),
        ("workers", partial(check_fits_cluster, model, job.workers, gpus)),
    ]
    # The check of `strategy` reports an unknown one; for that, no numbers of workers are known.
    if job.strategy is None or job.strategy in model.strategies:
        checks.append(("workers", partial(model.check_workers, job.workers, job.strategy)))
    yield from _first_failures(checks)
    for key, limit, beyond in (
        ("min_workers", job.min_workers, job.min_workers > job.workers),
        ("max_workers", job.max_workers, job.max_workers < job.workers),
    ):
        if beyond:
            yield (key,), f"{limit} excludes the {job.workers} workers that the job is submitted with"


def _first_failures(checks: Sequence[tuple[str, Callable[[], None]]]) -> Iterator[Mistake]:
    """The first failed check of each key."""
    # A later check of a key is about a value that the earlier ones accept.
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
                f"is allowed only for jobs that arrive at 0 s; this one arrives at "
                f"{format_duration(job.arrival_ps)}",
            )
        if len(job.placement) != job.workers:
            yield path, f"names {len(job.placement)} GPUs, but the job has {job.workers} workers"
        for place, gpu in enumerate(job.placement):
            if gpu not in known:
                yield (*path, place), f"{shown(gpu)} is not a GPU of the cluster{suggestions.closest(gpu)}"
            elif gpu in taken:
                yield (*path, place), f"{shown(gpu)} is already given to job {shown(taken[gpu])}"
            taken.setdefault(gpu, job.name)


def _poisson_mistakes(poisson: Poisson, gpus: int, models: Mapping[str, Model]) -> Iterator[Mistake]:
    if (poisson.duration_ps is None) == (poisson.jobs is None):
        given = "neither" if poisson.jobs is None else "both"
        yield ("poisson",), f"needs either duration or jobs, not both: got {given}; the load sets the other"
    yield from ((("poisson", *path), text) for path, text in _mix_mistakes(poisson, gpus))
    drawn = _drawn_mistakes(poisson, poisson.models, gpus, models)
    yield from ((("poisson", *path), text) for path, text in drawn)


def _mix_mistakes(mix: Mix, gpus: int) -> Iterator[Mistake]:
    if mix.run_time_ps is not None and "iterations" in mix.model_fields_set:
        yield ("iterations",), "is given as well as run_time, and both set the work of a job: leave one out"
    # The default limit is reduced to the size of a smaller cluster; only a limit that was given is an error.
    if "workers" in mix.model_fields_set and mix.workers[1] > gpus:
        yield ("workers",), f"{mix.workers[1]} workers are more than the cluster has GPUs, {gpus}"


def _drawn_mistakes(
    mix: Mix, names: Sequence[str], gpus: int, models: Mapping[str, Model]
) -> Iterator[Mistake]:
    """Unknown models, and models that run on none of the numbers of workers that may be drawn."""
    unknown = list(_name_mistakes(names, models))
    yield from unknown
    fewest, most = mix.workers
    for model in () if unknown else models_in(names, models):
        if not mix.sizes(model, gpus):
            limits = f"{fewest} to {min(most, gpus)} workers, which the key workers and {gpus} GPUs allow"
            yield ("models",), f"{model.name} cannot run on {limits}"


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
        yield ("name",), f"is one name for {job.count} jobs; leave it out to name them after their model"
    try:
        model = find_model(job.model, models)
    except InputError as error:
        yield ("model",), str(error)
        return
    checks: list[tuple[str, Callable[[], None]]] = []
    if job.batch_size is not None:
        checks.append(("batch_size", partial(model.check_batch_size, job.batch_size)))
    if job.workers is not None:
        checks.append(("workers", partial(check_fits_cluster, model, job.workers, gpus)))
        checks.append(("workers", partial(model.check_workers, job.workers)))
    yield from _first_failures(checks)
    if job.workers is None:
        yield from ((("model",), text) for _, text in _drawn_mistakes(dynamic, (job.model,), gpus, models))
