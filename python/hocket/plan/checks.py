"""What is wrong between the keys of a plan, each as the key and a sentence."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from hocket.errors import InputError
from hocket.plan.job import Job, Phase
from hocket.plan.mistakes import closest
from hocket.plan.network import Fabric
from hocket.schema import KeyPath, Mistake
from hocket.units import format_duration, format_rate, shown
from hocket.workloads import WorkloadProfile, find_model

if TYPE_CHECKING:
    # A plan checks itself by this module.
    from hocket.plan.plan import Plan


_GPU = re.compile(r"(?P<host>[^:]+):[0-9]{1,4}")


def plan_mistakes(plan: "Plan") -> Iterator[Mistake]:
    if (plan.link is None) == (plan.fabric is None):
        found = "both" if plan.link else "neither"
        yield (), f"a plan has either a [link] or a [fabric]: got {found}"
        return
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
    if plan.fabric:
        yield from _fabric_mistakes(plan.fabric)
    yield from _repeated("jobs", [job.name for job in plan.jobs])
    for index, job in enumerate(plan.jobs):
        yield from _job_mistakes(plan, job, ("jobs", index))
    yield from _placement_mistakes(plan)
    yield from _link_name_mistakes(plan)


def _repeated(table: str, names: list[str]) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield (table, index, "name"), f"{shown(name)} is already the name of {table}[{first[name]}]"
        first.setdefault(name, index)


def _fabric_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    labels: dict[str, int] = {}
    for index, link in enumerate(fabric.links):
        path: KeyPath = ("fabric", "links", index)
        if link.ends[0] == link.ends[1]:
            yield (*path, "ends"), f"{shown(link.ends[0])} is linked to itself"
        if link.label in labels:
            yield (
                path,
                (
                    f"{shown(link.label)} already names fabric.links[{labels[link.label]}]; "
                    "parallel links need a name each"
                ),
            )
        labels.setdefault(link.label, index)
    degrees = fabric.degrees()
    for index, host in enumerate(fabric.hosts):
        if host not in degrees:
            yield (
                ("fabric", "hosts", index),
                f"{shown(host)} is at the end of no link{closest(host, list(degrees))}",
            )


def _link_name_mistakes(plan: "Plan") -> Iterator[Mistake]:
    rates_bps = plan.rates_bps()
    for index, change in enumerate(plan.changes):
        path: KeyPath = ("changes", index)
        if (change.down is None) == (change.rate_bps is None):
            found = "neither" if change.down is None else "both"
            yield path, f"has either down = true or false, or a rate: got {found}"
        if change.link not in rates_bps:
            yield (*path, "link"), _no_link(change.link, list(rates_bps))
        elif change.rate_bps is not None and change.rate_bps > rates_bps[change.link]:
            limit = format_rate(rates_bps[change.link])
            yield (*path, "rate"), f"{format_rate(change.rate_bps)} is above the link's own rate, {limit}"
    for index, job in enumerate(plan.jobs):
        if isinstance(job.path, str):
            continue
        if plan.fabric is None:
            yield ("jobs", index, "path"), "names links of a [fabric]; on one [link] there is one way"
            continue
        for place, name in enumerate(job.path):
            if name not in rates_bps:
                yield ("jobs", index, "path", place), _no_link(name, list(rates_bps))


def _no_link(name: str, known: list[str]) -> str:
    return f"{shown(name)} is not a link{closest(name, known)}"


def _job_mistakes(plan: "Plan", job: Job, path: KeyPath) -> Iterator[Mistake]:
    if job.window is not None and job.congestion and job.congestion.policy == "static-window":
        yield (
            (*path, "window"),
            "static-window has a window of its own: congestion = { static-window = { window = … } }",
        )
    found = list(_explicit_mistakes(job, path) if job.workload is None else _workload_mistakes(job, path))
    yield from found
    yield from _gpu_mistakes(plan, job, path)
    if found:
        return
    for each in job.profiles():
        period = format_duration(each.period_ps)
        if job.pad_to_ps is not None and job.pad_to_ps < each.period_ps:
            yield (
                (*path, "pad_to"),
                f"{format_duration(job.pad_to_ps)} is shorter than the period of {period}",
            )
        if plan.link:
            limit = plan.link.capacity_bps
            yield from _rate_mistakes(job, each, limit, "the link's capacity", path)


def _explicit_mistakes(job: Job, path: KeyPath) -> Iterator[Mistake]:
    for key in ("batch_size", "strategy"):
        if getattr(job, key) is not None:
            yield (*path, key), "belongs to a workload of the catalogue, and this job names none"
    if job.period_ps is None and job.up is None:
        yield path, 'needs either period and up, or a workload such as "VGG16" with its batch_size'
        return
    if job.period_ps is None:
        yield (*path, "period"), "is missing; a job with Up phases needs it"
        return
    if job.up is None:
        yield (*path, "up"), "is missing; a job with a period needs its Up phases"
        return
    yield from _phase_mistakes(job.up, job.period_ps, path)


def _phase_mistakes(up: tuple[Phase, ...], period_ps: int, path: KeyPath) -> Iterator[Mistake]:
    period = format_duration(period_ps)
    end_ps, before = 0, -1
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


def _workload_mistakes(job: Job, path: KeyPath) -> Iterator[Mistake]:
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
    if workers is None:
        yield (*path, "workers"), f"is missing; the workload {model.name} needs it"
    if job.batch_size is None:
        yield (*path, "batch_size"), f"is missing; the workload {model.name} needs it"
    for size in job.batch_size or ():
        yield from _refusal((*path, "batch_size"), partial(model.check_batch_size, size))
    yield from _refusal((*path, "strategy"), partial(model.check_strategy, job.strategy))
    if workers is not None and (job.strategy is None or job.strategy in model.strategies):
        key = "workers" if job.workers else "placement"
        yield from _refusal((*path, key), partial(model.check_workers, workers, job.strategy))


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
        rate = format_rate(max(phase.rate_bps for phase in above))
        yield (*path, "workload"), f"the demand of {shown(job.workload)}, {rate}, {limit}"
        return
    for index, phase in enumerate(job.up or ()):
        if phase.rate_bps > limit_bps:
            yield (*path, "up", index, "rate"), f"{format_rate(phase.rate_bps)} {limit}"


def _gpu_mistakes(plan: "Plan", job: Job, path: KeyPath) -> Iterator[Mistake]:
    hosts = plan.fabric.nic_rates_bps() if plan.fabric and job.gpus else {}
    for index, gpu in enumerate(job.gpus):
        match = _GPU.fullmatch(gpu)
        if match is None or not gpu.isprintable():
            yield (*path, "gpus", index), f'must be a host and a number such as "s1:0": got {shown(gpu)}'
        elif job.placement and match["host"] not in job.placement:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not in the job's placement"
        elif plan.fabric and match["host"] not in hosts:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not a host of the fabric"
        if gpu in job.gpus[:index]:
            yield (*path, "gpus", index), f"{shown(gpu)} is named twice"


def _placement_mistakes(plan: "Plan") -> Iterator[Mistake]:
    yield from _repeated("candidates", [candidate.name for candidate in plan.candidates])
    if plan.fabric is None:
        for index, job in enumerate(plan.jobs):
            if job.placement is not None:
                yield ("jobs", index, "placement"), "needs a [fabric]; on one shared [link] nothing is placed"
        if plan.candidates:
            yield ("candidates",), "need a [fabric]; on one shared [link] nothing is placed"
        return
    ground = _Ground(plan.fabric)
    jobs = {job.name: job for job in plan.jobs}
    for index, job in enumerate(plan.jobs):
        path: KeyPath = ("jobs", index, "placement")
        if job.placement is not None:
            yield from ground.mistakes(job, job.placement, path)
        elif not plan.candidates or any(job.name not in each.placement for each in plan.candidates):
            yield path, "is missing; on a [fabric] each job needs the hosts of its workers"
    for index, candidate in enumerate(plan.candidates):
        for name, hosts in candidate.placement.items():
            path = ("candidates", index, "placement", name)
            if name not in jobs:
                yield path, f"{shown(name)} is not a job{closest(name, list(jobs))}"
            else:
                yield from ground.mistakes(jobs[name], hosts, path)


class _Ground:
    """What placements are checked against: the fabric's hosts, and which of them can reach each other."""

    def __init__(self, fabric: Fabric) -> None:
        self.degrees = fabric.degrees()
        self.nic_rates_bps = fabric.nic_rates_bps()
        self.islands = fabric.islands()

    def mistakes(self, job: Job, hosts: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
        if job.worker_count() not in (None, len(hosts)):
            yield path, f"places {len(hosts)} workers, and the job has {job.worker_count()}"
        unknown = [(index, host) for index, host in enumerate(hosts) if host not in self.nic_rates_bps]
        for index, host in unknown:
            if host in self.degrees:
                yield (
                    (*path, index),
                    (
                        f"{shown(host)} is a switch: it has {self.degrees[host]} links, a host has 1 "
                        "or is named in fabric.hosts"
                    ),
                )
            else:
                hint = closest(host, list(self.nic_rates_bps))
                yield (*path, index), f"{shown(host)} is not a host of the fabric{hint}"
        if unknown:
            return
        for index, host in enumerate(hosts):
            if self.islands[host] != self.islands[hosts[0]]:
                yield (*path, index), f"{shown(host)} has no path to {shown(hosts[0])}"
        slowest = min(hosts, key=lambda host: self.nic_rates_bps[host])
        limit_bps, demand_bps = self.nic_rates_bps[slowest], _highest_rate_bps(job)
        if demand_bps > limit_bps:
            yield (
                path,
                (
                    f"the job's demand of {format_rate(demand_bps)} is above the link's capacity "
                    f"of {format_rate(limit_bps)} at {shown(slowest)}"
                ),
            )


def _highest_rate_bps(job: Job) -> int:
    try:
        return max((phase.rate_bps for each in job.profiles() for phase in each.phases), default=0)
    except InputError:
        # The job's own keys are wrong, and said to be.
        return 0
