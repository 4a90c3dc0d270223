"""Converts jobs, profiles and run settings of a plan to the dictionaries that `_hocket` reads."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hocket import _hocket
from hocket.engines.network import Crossings, Network
from hocket.errors import InputError
from hocket.plan import Job, Plan
from hocket.profiles import WorkloadProfile

MOST_OPERATIONS = 1_000_000
"""The largest number of operations of an iteration that is recorded without being asked for: writing a
million rows takes about a second."""


def job_specs(
    plan: Plan,
    crossings: Sequence[Crossings],
    placement: Mapping[str, Sequence[str]] | None,
    network: Network,
) -> "list[_hocket._JobSpec]":
    """The jobs of `plan` in the engines' form; `crossings` is by job, and empty for training jobs.

    Raises `InputError` as `only_profile` and `training_job_spec` do.
    """
    return [
        job_spec(job, only_profile(plan, number, placement), crossed)
        if job.training is None
        else training_job_spec(plan, number, placement, network)
        for number, (job, crossed) in enumerate(zip(plan.jobs, crossings, strict=True))
    ]


def operations_of(jobs: "Sequence[_hocket._JobSpec]") -> int:
    """The number of operations of one iteration of all training jobs, over all their ranks."""
    trainings = [job["training"] for job in jobs if job["training"] is not None]
    return sum(
        ranks * len(training["programs"][program])
        for training in trainings
        for program, ranks in Counter(program for program, _ in training["ranks"]).items()
    )


def recorded_iterations(plan: Plan, jobs: "Sequence[_hocket._JobSpec]") -> int:
    """The number of first iterations of training jobs whose operations `plan` records."""
    run = plan.run
    if run.record_operations is not None:
        return run.record_operations
    return 1 if run.perfetto or operations_of(jobs) <= MOST_OPERATIONS else 0


def run_spec(plan: Plan, jobs: "Sequence[_hocket._JobSpec]") -> "_hocket._RunSpec":
    """The run settings of `plan` with `jobs` in the engines' form."""
    return {
        "priority_queues": plan.priority_queues,
        "goodput": plan.goodput,
        "seed": plan.seed,
        "iterations": plan.iterations,
        "until_ps": plan.run.until_ps,
        "record_rates_until_ps": plan.run.record_rates_until_ps,
        "record_operations": recorded_iterations(plan, jobs),
        "sample_every_ps": plan.run.sample_every_ps,
        "record_flows": plan.run.record_flows,
    }


def job_spec(
    job: Job,
    profile: WorkloadProfile,
    crossings: Crossings,
    *,
    time_shift_ps: int | None = None,
    pad_to_ps: int | None = None,
    readjust: bool | None = None,
) -> "_hocket._JobSpec":
    """A periodic `job` in the engines' form; keyword arguments override the plan's values."""
    return {
        **_common_spec(job),
        "profile": native_profile(profile),
        "first": None if job.first is None else native_profile(job.first.profile()),
        "crossings": crossings,
        "time_shift_ps": job.time_shift_ps if time_shift_ps is None else time_shift_ps,
        "readjust": job.readjust if readjust is None else readjust,
        "pad_to_ps": job.pad_to_ps if pad_to_ps is None else pad_to_ps,
    }


def training_job_spec(
    plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None, network: Network
) -> "_hocket._JobSpec":
    """Training job `number` of `plan` on `network` in the engines' form.

    Raises `InputError` as `training_spec` does.
    """
    # Not at the top: most plans have no training jobs.
    from hocket.engines.training import training_spec

    job = plan.jobs[number]
    training = training_spec(plan, number, placement, network)
    # A training job has another default number of iterations than the run.
    return {**_common_spec(job), "training": training, "iterations": plan.iterations_of(job)}


def _common_spec(job: Job) -> "_hocket._JobSpec":
    return {
        "name": job.name,
        "profile": None,
        "first": None,
        "crossings": [],
        "training": None,
        "arrival_ps": job.arrival_ps,
        "iterations": job.iterations,
        "share": (job.share.kind, job.share.weight),
        "priority": job.priority,
        "time_shift_ps": job.time_shift_ps,
        "clock_error_ps": job.clock_error_ps,
        "readjust": job.readjust,
        "jitter": job.jitter,
        "pad_to_ps": job.pad_to_ps,
    }


def native_profile(profile: WorkloadProfile) -> "_hocket._Profile":
    """A profile in the form that `_hocket` reads."""
    return {
        "period_ps": profile.period_ps,
        "phases": [
            {"start_ps": phase.start_ps, "duration_ps": phase.duration_ps, "rate_bps": phase.rate_bps}
            for phase in profile.phases
        ],
    }


def only_profile(
    plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None = None
) -> WorkloadProfile:
    """The profile of job `number` of `plan`, placed by `placement` or else by the job itself.

    Raises `InputError` if the job has several batch sizes, each with its own profile.
    """
    profiles = plan.profiles_of(plan.jobs[number], placement)
    if len(profiles) > 1:
        raise InputError(
            f"jobs[{number}].batch_size: a run needs one batch size: got {len(profiles)}; "
            "use `hocket compat` to choose among them"
        )
    return profiles[0]


def placement_of(plan: Plan, candidate: str | None) -> Mapping[str, Sequence[str]] | None:
    """The placement of jobs by the candidate of this name.

    Without a name the result is `None`, and each job's own placement applies.

    Raises `InputError` if the plan has no candidate of that name, and, without a name, if some job is placed
    by candidates only.
    """
    names = ", ".join(repr(each.name) for each in plan.candidates) or "none"
    if candidate is None:
        for number, job in enumerate(plan.jobs):
            if job.placement is None and any(job.name in each.placement for each in plan.candidates):
                raise InputError(
                    f"jobs[{number}].placement: only candidates place job {job.name!r}; choose one with "
                    f"--candidate, or candidate= in Python: {names}"
                )
        return None
    for each in plan.candidates:
        if each.name == candidate:
            return each.placement
    raise InputError(f"candidates: no candidate is called {candidate!r}; known: {names}")
