"""The checks between keys of a plan; each error is a key and a sentence."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from hocket.errors import InputError
from hocket.plan.fabric import fabric_mistakes
from hocket.plan.job import Job, Up
from hocket.plan.placing import padding_mistakes, placement_mistakes, repeated
from hocket.plan.table_errors import KeyPath, Mistake, Suggestions
from hocket.plan.tables import PlanTables
from hocket.plan.training import training_mistakes
from hocket.profiles import WorkloadProfile
from hocket.units import format_duration, format_rate, shown
from hocket.workloads import find_model

# The keys that a job with [jobs.training] must not have, and the fields whose names differ from their keys.
_NOT_WITH_TRAINING = (
    "period",
    "up",
    "workload",
    "batch_size",
    "workers",
    "strategy",
    "nic",
    "gpus",
    "readjust",
    "first",
    "label",
)
_FIELDS = {"period": "period_ps", "nic": "nic_bps"}


def plan_mistakes(plan: PlanTables) -> Iterator[Mistake]:
    """The errors between keys of `plan`."""
    if (plan.link is None) == (plan.fabric is None):
        found = "both" if plan.link else "neither"
        yield (), f"a plan needs either a [link] or a [fabric]: got {found}"
        # All other checks depend on which of them it is.
        return
    # Only a precision that [link] gives can contradict that of [compat]; the default of [link] gives way.
    if (
        plan.link
        and plan.compat.precision_deg not in (None, plan.link.precision_deg)
        and ("precision_deg" in plan.link.model_fields_set)
    ):
        yield (
            ("compat", "precision_deg"),
            (
                f"{plan.compat.precision_deg:g} is not {plan.link.precision_deg:g} as in link.precision_deg; "
                "give one of them"
            ),
        )
    wrong = list(fabric_mistakes(plan.fabric)) if plan.fabric else []
    yield from ((("fabric", *path), text) for path, text in wrong)
    yield from repeated("jobs", [job.name for job in plan.jobs])
    for index, job in enumerate(plan.jobs):
        yield from _job_mistakes(plan, job, ("jobs", index))
    if not wrong:
        # Names of hosts, ranks and links can only be checked against a valid fabric.
        yield from placement_mistakes(plan)
        yield from _link_name_mistakes(plan)


def _link_name_mistakes(plan: PlanTables) -> Iterator[Mistake]:
    rates_bps = plan.rates_bps()
    names = Suggestions(rates_bps)
    for index, change in enumerate(plan.changes):
        path: KeyPath = ("changes", index)
        if (change.down is None) == (change.rate_bps is None):
            found = "neither" if change.down is None else "both"
            yield path, f"needs either down = true or false, or a rate: got {found}"
        if change.link not in rates_bps:
            yield (*path, "link"), f"{shown(change.link)} is not a link{names.closest(change.link)}"
        elif change.rate_bps is not None and change.rate_bps > rates_bps[change.link]:
            limit = format_rate(rates_bps[change.link])
            yield (*path, "rate"), f"{format_rate(change.rate_bps)} is above the link's own rate, {limit}"
    for index, job in enumerate(plan.jobs):
        if isinstance(job.path, str):
            continue
        if plan.fabric is None:
            yield (
                ("jobs", index, "path"),
                "names links of a [fabric]; on one shared [link] there is only one path",
            )
            continue
        for place, name in enumerate(job.path):
            if name not in rates_bps:
                yield ("jobs", index, "path", place), f"{shown(name)} is not a link{names.closest(name)}"


def _job_mistakes(plan: PlanTables, job: Job, path: KeyPath) -> Iterator[Mistake]:
    if job.window is not None and job.congestion and job.congestion.policy == "static-window":
        yield (
            (*path, "window"),
            "static-window has a window of its own: congestion = { static-window = { window = … } }",
        )
    if job.training is not None:
        yield from _training_job_mistakes(plan, job, path)
        return
    for key in ("stragglers", "collectives"):
        if getattr(job, key):
            yield (*path, key), "belongs to a job with [jobs.training], and this job has none"
    found = list(
        _explicit_mistakes(job, path) if job.workload is None else _workload_mistakes(plan, job, path)
    )
    if job.first is not None:
        found += phase_mistakes(job.first.up, job.first.period_ps, (*path, "first"))
    yield from found
    # A profile can be computed only from valid keys.
    if found:
        return
    # On a fabric, the profile of a workload depends on its hosts: `placement_mistakes` checks it.
    if plan.fabric is not None and job.workload is not None:
        return
    profiles = plan.profiles_of(job)
    yield from (((*path, "pad_to"), text) for text in padding_mistakes(job, profiles))
    if plan.link is not None:
        limit_bps = plan.link.capacity_bps
        for each in profiles:
            yield from _rate_mistakes(job, each, limit_bps, "the link's capacity", path)


def _training_job_mistakes(plan: PlanTables, job: Job, path: KeyPath) -> Iterator[Mistake]:
    assert job.training is not None, "the caller checks that"
    # A key given with its default value has no effect, so only other values are errors.
    for key in _NOT_WITH_TRAINING:
        name = _FIELDS.get(key, key)
        if getattr(job, name) != Job.model_fields[name].default:
            yield (*path, key), "belongs to a job with Up phases, and this one has [jobs.training]"
    if not isinstance(job.path, str):
        yield (
            (*path, "path"),
            'names links for a ring of hosts; a job with [jobs.training] has "ecmp" or "spray"',
        )
    if plan.fabric is None:
        yield (*path, "training"), "needs a [fabric]; on one shared [link] nothing is placed"
    yield from (((*path, "training", *rest), text) for rest, text in training_mistakes(job.training))
    seen: set[int] = set()
    for index, straggler in enumerate(job.stragglers):
        if straggler.rank in seen:
            yield (*path, "stragglers", index, "rank"), f"rank {straggler.rank} is named twice"
        seen.add(straggler.rank)


def _explicit_mistakes(job: Job, path: KeyPath) -> Iterator[Mistake]:
    for key in ("batch_size", "strategy", "nic"):
        if getattr(job, _FIELDS.get(key, key)) is not None:
            yield (*path, key), "belongs to a workload of the catalogue, and this job names none"
    if job.period_ps is None and job.up is None:
        yield path, 'needs period and up, a workload such as "VGG16" with its batch_size, or [jobs.training]'
        return
    if job.period_ps is None:
        yield (*path, "period"), "is missing; a job with Up phases needs it"
        return
    if job.up is None:
        yield (*path, "up"), "is missing; a job with a period needs its Up phases"
        return
    yield from phase_mistakes(job.up, job.period_ps, path)


def phase_mistakes(up: Sequence[Up], period_ps: int, path: KeyPath) -> Iterator[Mistake]:
    """The errors of Up phases that do not fit in the period or overlap; `path` leads to their table."""
    period = format_duration(period_ps)
    end_ps, before = 0, -1
    # In order of start, a phase overlaps an earlier one if it starts before the latest end so far.
    for index, phase in sorted(enumerate(up), key=lambda item: item[1].start_ps):
        start, duration = format_duration(phase.start_ps), format_duration(phase.duration_ps)
        if phase.start_ps + phase.duration_ps > period_ps:
            yield (*path, "up", index), f"{start} + {duration} does not fit in the period of {period}"
        if phase.start_ps < end_ps:
            yield (
                (*path, "up", index, "start"),
                f"{start} is before up[{before}] ends at {format_duration(end_ps)}",
            )
        if phase.start_ps + phase.duration_ps > end_ps:
            end_ps, before = phase.start_ps + phase.duration_ps, index


def _workload_mistakes(plan: PlanTables, job: Job, path: KeyPath) -> Iterator[Mistake]:
    for key, given in (("period", job.period_ps), ("up", job.up)):
        if given is not None:
            yield (
                (*path, key),
                f"comes from the catalogue for the workload {shown(job.workload)}; give one of them",
            )
    try:
        model = find_model(job.workload or "")
    except InputError as error:
        yield (*path, "workload"), str(error)
        return
    workers = job.worker_count()
    counts = {} if workers is None else {(*path, "workers" if job.workers else "placement"): workers}
    if workers is None:
        # Each candidate may place the job on another number of hosts, and not every strategy runs on each.
        counts = {
            ("candidates", index, "placement", job.name): len(each.placement[job.name])
            for index, each in enumerate(plan.candidates)
            if job.name in each.placement
        }
    if not counts:
        yield (*path, "workers"), f"is missing; the workload {model.name} needs it"
    if job.batch_size is None:
        yield (*path, "batch_size"), f"is missing; the workload {model.name} needs it"
    for size in job.batch_size or ():
        yield from _refusal((*path, "batch_size"), partial(model.check_batch_size, size))
    yield from _refusal((*path, "strategy"), partial(model.check_strategy, job.strategy))
    # An unknown strategy is reported above; `check_workers` would report it again.
    if job.strategy is None or job.strategy in model.strategies:
        for where, count in counts.items():
            yield from _refusal(where, partial(model.check_workers, count, job.strategy))


def _refusal(path: KeyPath, check: Callable[[], None]) -> Iterator[Mistake]:
    try:
        check()
    except InputError as error:
        yield path, str(error)


def _rate_mistakes(
    job: Job, each: WorkloadProfile, limit_bps: int, limit_name: str, path: KeyPath
) -> Iterator[Mistake]:
    above = [phase for phase in each.phases if phase.rate_bps > limit_bps]
    limit = f"is above {limit_name} of {format_rate(limit_bps)}"
    if job.workload is not None and above:
        # The phases of a workload are not in the file: the error names the workload and its highest rate.
        rate = format_rate(max(phase.rate_bps for phase in above))
        yield (*path, "workload"), f"the demand of {shown(job.workload)}, {rate}, {limit}"
        return
    for keys, up in ((("up",), job.up), (("first", "up"), job.first and job.first.up)):
        for index, phase in enumerate(up or ()):
            if phase.rate_bps > limit_bps:
                yield (*path, *keys, index, "rate"), f"{format_rate(phase.rate_bps)} {limit}"
