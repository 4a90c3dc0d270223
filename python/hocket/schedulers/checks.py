"""Checks that the decision of a scheduler can be applied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index

from hocket.errors import InputError
from hocket.schedulers.state import Candidate, Cluster, Decision, Gpus, JobState, State


def checked(decision: Decision, state: State, *, dedicated: bool = False) -> Decision:
    """`decision` with the GPUs of each job ascending; different `dedicated` jobs may use the same GPUs.

    Raises `InputError`, naming candidate, job, GPU or value, if the decision has no candidate; requests its
    next call at a time that is not in the future; places a job that is not in the cluster, on GPUs that do
    not exist or that another job has, or with a number of workers or a batch size that the job cannot run
    with; or if its candidates give a job different numbers of workers or batch sizes.
    """
    if not isinstance(decision, Decision):
        raise InputError(f"returned {type(decision).__name__}; it must return a Decision")
    if not decision.candidates:
        raise InputError("returned no candidates; a Decision needs at least one, the scheduler's own choice")
    if decision.ask_again_ps is not None and decision.ask_again_ps <= state.now_ps:
        raise InputError(
            f"ask_again_ps is {decision.ask_again_ps} ps; it must be later than now, {state.now_ps} ps"
        )
    jobs = {each.job.name: each for each in state.jobs}
    candidates: list[Candidate] = []
    # Most jobs have the same GPUs in all candidates.
    sorted_gpus: dict[tuple[str, tuple[int, ...]], Gpus] = {}
    for number, candidate in enumerate(decision.candidates):
        try:
            candidates.append(_checked(candidate, state.cluster, jobs, dedicated, sorted_gpus))
            _check_equal(candidates[0], candidates[-1], jobs)
        except InputError as error:
            raise InputError(f"candidates[{number}]: {error}") from None
    return replace(decision, candidates=tuple(candidates))


def _checked(
    candidate: Candidate,
    cluster: Cluster,
    jobs: Mapping[str, JobState],
    dedicated: bool,
    sorted_gpus: dict[tuple[str, tuple[int, ...]], Gpus],
) -> Candidate:
    """`sorted_gpus` has the GPUs of jobs in earlier candidates, and gets those of this one."""
    placement: dict[str, Gpus] = {}
    others: list[str] = []
    for name, given in candidate.placement.items():
        key = (name, given) if isinstance(given, tuple) else None
        gpus = sorted_gpus.get(key) if key is not None else None
        if gpus is None:
            gpus = _numbers(name, given, len(cluster.gpus))
            others.append(name)
            if key is not None:
                sorted_gpus[key] = gpus
        placement[name] = gpus
    # Dedicated jobs have a cluster each, so only a GPU that one job lists twice is an error there.
    for together in [{name: gpus} for name, gpus in placement.items()] if dedicated else [placement]:
        if len(set().union(*together.values())) != sum(map(len, together.values())):
            raise _assigned_twice(together, cluster)
    for name in others:
        _check_size(placement[name], _known(name, jobs))
    for name, batch_size in candidate.batch_sizes.items():
        try:
            _known(name, jobs).job.definition.check_batch_size(batch_size)
        except InputError as error:
            raise InputError(f"job {name!r}: batch size {error}") from None
    return replace(candidate, placement=placement)


def _check_size(gpus: Gpus, job: JobState) -> None:
    if gpus and len(gpus) not in job.job.sizes:
        sizes = ", ".join(map(str, job.job.sizes))
        raise InputError(f"job {job.job.name!r} gets {len(gpus)} workers; it runs on {sizes}")


def _assigned_twice(placement: Mapping[str, Gpus], cluster: Cluster) -> InputError:
    """The error for the first GPU that two jobs of `placement` have, or one of them has twice."""
    owners: dict[int, str] = {}
    for name, gpus in placement.items():
        for gpu in gpus:
            if gpu in owners:
                return InputError(
                    f"GPU {cluster.gpus[gpu]} is assigned twice: to {owners[gpu]!r} and {name!r}"
                )
            owners[gpu] = name
    raise AssertionError("a GPU was found twice")


def _known(name: str, jobs: Mapping[str, JobState]) -> JobState:
    if name not in jobs:
        raise InputError(f"job {name!r} is not in the cluster now")
    return jobs[name]


def _numbers(name: str, gpus: Sequence[int], count: int) -> Gpus:
    """`gpus` in ascending order. Raises `InputError` unless all are numbers of GPUs."""
    try:
        # Unlike `int`, `index` accepts the integers of NumPy but no floats, which it would have to round.
        numbers = tuple(sorted(map(index, gpus)))
    except TypeError:
        raise InputError(f"job {name!r}: its GPUs must be numbers: got {gpus!r}") from None
    # Sorted numbers are all within the limits if the first and the last are.
    for gpu in numbers[:1] + numbers[-1:]:
        if not 0 <= gpu < count:
            raise InputError(f"job {name!r}: there is no GPU {gpu}; they are numbered from 0 to {count - 1}")
    return numbers


def _check_equal(own: Candidate, candidate: Candidate, jobs: Mapping[str, JobState]) -> None:
    """Raise `InputError` unless `candidate` differs from the scheduler's `own` choice only in where jobs run.

    NSDI'24 §4.2: the scheduler decides batch sizes and numbers of workers, and CASSINI respects them.
    """
    for name in jobs:
        workers, own_workers = len(candidate.placement.get(name, ())), len(own.placement.get(name, ()))
        if workers != own_workers:
            raise InputError(
                f"job {name!r} gets {workers} workers here and {own_workers} in the scheduler's own choice; "
                "candidates may differ only in where jobs run"
            )
    if candidate.batch_sizes == own.batch_sizes:
        return
    for name, job in jobs.items():
        batches = [each.batch_sizes.get(name, job.batch_size) for each in (own, candidate)]
        if batches[0] != batches[1]:
            raise InputError(
                f"job {name!r} gets batch size {batches[1]} here and {batches[0]} in the scheduler's own "
                "choice; candidates may differ only in where jobs run"
            )
