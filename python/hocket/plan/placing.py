"""The checks of placements: of jobs, of candidates, and of GPUs."""

import re
from collections.abc import Iterator, Sequence

from hocket.errors import InputError
from hocket.fabrics import server_of
from hocket.plan.fabric import Fabric
from hocket.plan.job import Job
from hocket.plan.table_errors import KeyPath, Mistake, Suggestions
from hocket.plan.tables import PlanTables
from hocket.profiles import WorkloadProfile
from hocket.units import format_duration, format_rate, shown

_GPU = re.compile(r"(?P<host>[^:]+):[0-9]{1,4}")


def placement_mistakes(plan: PlanTables) -> Iterator[Mistake]:
    """The errors in the placements of jobs and candidates; the fabric, if there is one, must be valid."""
    yield from repeated("candidates", [candidate.name for candidate in plan.candidates])
    for index, job in enumerate(plan.jobs):
        yield from _gpu_mistakes(plan, job, ("jobs", index))
    if plan.fabric is None:
        for index, job in enumerate(plan.jobs):
            if job.placement is not None:
                yield ("jobs", index, "placement"), "needs a [fabric]; on one shared [link] nothing is placed"
        if plan.candidates:
            yield ("candidates",), "need a [fabric]; on one shared [link] nothing is placed"
        return
    placements = _Placements(plan.fabric)
    jobs = {job.name: job for job in plan.jobs}
    names = Suggestions(jobs)
    for index, job in enumerate(plan.jobs):
        path: KeyPath = ("jobs", index, "placement")
        if job.placement is not None:
            yield from placements.mistakes(job, job.placement, path)
        elif job.training is not None:
            # Without a placement, a training job gets all GPUs of the fabric.
            hosts = plan.fabric.gpus()
            yield from placements.reach_mistakes(hosts, path)
            yield from _rank_mistakes(job, hosts, path)
        # A job needs no placement if every candidate places it.
        elif not plan.candidates or any(job.name not in each.placement for each in plan.candidates):
            yield path, "is missing; on a [fabric] each job needs the hosts of its workers"
    for index, candidate in enumerate(plan.candidates):
        for name, places in candidate.placement.items():
            path = ("candidates", index, "placement", name)
            if name not in jobs:
                yield path, f"{shown(name)} is not a job{names.closest(name)}"
            else:
                yield from placements.mistakes(jobs[name], places, path)


class _Placements:
    """Checks placements against the fabric: that its hosts exist and can reach each other."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.topology = fabric.topology
        self.suggestions = Suggestions(self.topology.gpus)

    def mistakes(self, job: Job, places: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
        """The errors of `job` at `places`."""
        unknown = list(self._unknown(job, places))
        yield from (((*path, *rest), text) for rest, text in unknown)
        if job.training is None and job.worker_count() not in (None, len(places)):
            yield path, f"places {len(places)} workers, and the job has {job.worker_count()}"
        if unknown:
            return
        hosts = self.fabric.hosts_at(places)
        yield from self.reach_mistakes(hosts, path)
        if job.training is None:
            yield from self._demand_mistakes(job, hosts, path)
        else:
            yield from _rank_mistakes(job, hosts, path)

    def reach_mistakes(self, hosts: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
        """An error for each host that the first of `hosts` cannot reach."""
        islands = self.topology.islands
        # Islands partition the nodes, so it suffices to compare each host with the first.
        for index, host in enumerate(hosts):
            if islands[host] != islands[hosts[0]]:
                yield (*path, index), f"{shown(host)} has no path to {shown(hosts[0])}"

    def _unknown(self, job: Job, places: tuple[str, ...]) -> Iterator[Mistake]:
        nodes, servers = self.topology.nodes, self.topology.servers
        for index, place in enumerate(places):
            if nodes.get(place) == "host" or (job.training is not None and place in servers):
                continue
            if place in nodes:
                yield (index,), self._not_a_host(place)
            elif place in servers:
                yield (
                    (index,),
                    f"{shown(place)} is a server of {len(servers[place])} GPUs; "
                    f"name those, such as {shown(servers[place][0])}",
                )
            else:
                yield (index,), f"{shown(place)} is not a host of the fabric{self._hint(place)}"

    def _not_a_host(self, node: str) -> str:
        if self.fabric.links is None or self.topology.nodes[node] == "scale-up":
            return f"{shown(node)} is a switch"
        links = len(self.topology.neighbours[node])
        return f"{shown(node)} is a switch: it has {links} links, a host has 1 or is named in fabric.hosts"

    def _hint(self, place: str) -> str:
        server = server_of(place)
        if server in self.topology.servers and server != place:
            gpus = self.topology.servers[server]
            return f"; {shown(server)} has {len(gpus)}, {shown(gpus[0])} to {shown(gpus[-1])}"
        return self.suggestions.closest(place)

    def _demand_mistakes(self, job: Job, hosts: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
        nics = self.topology.nic_rates_bps
        # All edges of a ring move at one rate, which the slowest NIC limits.
        slowest = min(hosts, key=lambda host: nics[host])
        if (job.period_ps is None or job.up is None) if job.workload is None else job.batch_size is None:
            # Missing keys are reported by the checks of the job itself, as is the error suppressed below.
            return
        try:
            profiles = job.profiles(len(hosts), nics[slowest])
        except InputError:
            return
        if job.nic_bps is not None and job.nic_bps > nics[slowest]:
            limit = f"the {format_rate(nics[slowest])} of the NIC of {shown(slowest)}"
            yield path, f"the job's nic of {format_rate(job.nic_bps)} is above {limit}"
            # The demand follows from this rate: an error about it would have the same cause.
            return
        if job.workload is not None:
            yield from ((path, f"the job's pad_to of {text}") for text in padding_mistakes(job, profiles))
        of_first = [job.first.profile()] if job.first else []
        rates_bps = (phase.rate_bps for each in (*of_first, *profiles) for phase in each.phases)
        demand_bps = max(rates_bps, default=0)
        if demand_bps > nics[slowest]:
            yield (
                path,
                (
                    f"the job's demand of {format_rate(demand_bps)} is above the link's capacity "
                    f"of {format_rate(nics[slowest])} at {shown(slowest)}"
                ),
            )


def _rank_mistakes(job: Job, hosts: tuple[str, ...], path: KeyPath) -> Iterator[Mistake]:
    """The errors of a training job whose ranks share a GPU, and of stragglers that are not its ranks."""
    for index, straggler in enumerate(job.stragglers):
        if straggler.rank >= len(hosts):
            text = f"{straggler.rank} is not a rank: the job has {len(hosts)}, counted from 0"
            yield (*path[:2], "stragglers", index, "rank"), text
    ranks: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        if host in ranks:
            yield path, f"{shown(host)} has rank {ranks[host]} of the job, and cannot have rank {rank} too"
        ranks.setdefault(host, rank)


def padding_mistakes(job: Job, profiles: Sequence[WorkloadProfile]) -> Iterator[str]:
    """The errors of a `pad_to` that is shorter than the period of one of `profiles`."""
    for profile in profiles:
        if job.pad_to_ps is not None and job.pad_to_ps < profile.period_ps:
            padded, period = format_duration(job.pad_to_ps), format_duration(profile.period_ps)
            yield f"{padded} is shorter than the period of {period}"


def _gpu_mistakes(plan: PlanTables, job: Job, path: KeyPath) -> Iterator[Mistake]:
    hosts = plan.fabric.nic_rates_bps() if plan.fabric and job.gpus else {}
    for index, gpu in enumerate(job.gpus):
        match = _GPU.fullmatch(gpu)
        # `[^:]` also matches control characters, which no `Name` of a host contains.
        if match is None or not gpu.isprintable():
            yield (*path, "gpus", index), f'must be a host and a number such as "s1:0": got {shown(gpu)}'
        elif job.placement and match["host"] not in job.placement:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not in the job's placement"
        elif plan.fabric and match["host"] not in hosts:
            yield (*path, "gpus", index), f"{shown(match['host'])} is not a host of the fabric"
        if gpu in job.gpus[:index]:
            yield (*path, "gpus", index), f"{shown(gpu)} is named twice"


def repeated(table: str, names: list[str]) -> Iterator[Mistake]:
    """An error for each of `names` that an earlier entry of `table` has."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield (table, index, "name"), f"{shown(name)} is already the name of {table}[{first[name]}]"
        first.setdefault(name, index)
