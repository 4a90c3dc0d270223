"""The output of `hocket fabric`: tiers of the fabric and placement of jobs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from hocket.console import Column, out, print_table
from hocket.errors import InputError
from hocket.fabrics.tiers import rates_text, tiers_of
from hocket.fabrics.topology import Topology, server_of
from hocket.plan import Fabric, Plan
from hocket.units import format_duration, format_rate

# A job scattered over a thousand servers must not turn the table into pages.
_MOST_PLACES = 6


def placed(plan: Plan) -> tuple[Topology, dict[str, tuple[str, ...]]]:
    """The fabric of `plan`, and the hosts of each job whose place does not depend on the candidate.

    Raises `InputError` for a plan whose jobs share one link.
    """
    if plan.fabric is None:
        raise InputError("fabric: the plan has no [fabric], only one [link] that all jobs share")
    # A training job without a placement runs on all GPUs (`Plan.hosts_of`); other jobs then need a candidate.
    fixed = [job for job in plan.jobs if job.placement is not None or job.training is not None]
    return plan.fabric.topology, {job.name: plan.hosts_of(job) for job in fixed}


def placed_by_candidate(plan: Plan) -> dict[str, dict[str, tuple[str, ...]]]:
    """The hosts of each job for each candidate of `plan`, both by name."""
    return {
        each.name: {job.name: plan.hosts_of(job, each.placement) for job in plan.jobs}
        for each in plan.candidates
    }


def as_json(plan: Plan) -> dict[str, Any]:
    """The fabric and the hosts of jobs as JSON; rates are in bits per second."""
    topology, jobs = placed(plan)
    return {
        "gpus": len(topology.gpus),
        "servers": len(topology.servers),
        "links": len(topology.cables),
        "tiers": [
            {
                "tier": tier.number,
                "switches": {
                    switch: {
                        "below_bps": sum(ports.below),
                        "above_bps": sum(ports.above),
                        "below": rates_text(ports.below),
                        "above": rates_text(ports.above),
                    }
                    for switch, ports in tier.switches.items()
                },
                "oversubscription": tier.oversubscription() or None,
            }
            for tier in tiers_of(topology)
        ],
        "jobs": {name: list(hosts) for name, hosts in jobs.items()},
    }


def print_fabric(title: str, plan: Plan) -> None:
    """Prints the number of GPUs, the tiers of switches, and the GPUs of each job."""
    topology, jobs = placed(plan)
    assert plan.fabric is not None, "`placed` requires a fabric"
    out.print(f"[bold]{escape(title)}[/bold]: {_servers(topology)}{_scale_up(plan.fabric)}")
    print_table(
        (
            *("tier", "switches", Column("below each", spare=2, text=True)),
            *(Column("above each", spare=1, text=True), "number", "over-subscription"),
        ),
        (
            (
                str(tier.number),
                tier.names(),
                tier.below(),
                tier.above(),
                f"{len(tier.switches):,}",
                tier.oversubscription(),
            )
            for tier in tiers_of(topology)
        ),
        left=4,
    )
    if jobs:
        out.print()
        print_table(
            ("job", "on", "GPUs"),
            ((name, places(topology, hosts), f"{len(set(hosts)):,}") for name, hosts in jobs.items()),
            left=2,
        )
    unplaced = len(plan.jobs) - len(jobs)
    if unplaced:
        out.print(f"{unplaced} more jobs are placed by candidates")


def places(topology: Topology, hosts: Sequence[str]) -> str:
    """`hosts` as short text: a server instead of all its GPUs, and first … last for consecutive ones."""
    whole: list[str] = []
    at = 0
    while at < len(hosts):
        server = server_of(hosts[at])
        gpus = topology.servers[server]
        # The order counts: it is that of the ranks, so `s3:1, s3:0` is not the same as `s3`.
        all_of_it = tuple(hosts[at : at + len(gpus)]) == gpus
        whole.append(server if all_of_it else hosts[at])
        at += len(gpus) if all_of_it else 1
    order = {name: number for number, name in enumerate((*topology.servers, *topology.gpus))}
    runs: list[list[str]] = []
    for name in whole:
        if runs and order[name] == order[runs[-1][-1]] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    # `a … b` would be no shorter than `a, b`.
    texts = [text for run in runs for text in (run if len(run) < 3 else [f"{run[0]} … {run[-1]}"])]
    if len(texts) > _MOST_PLACES:
        texts = [*texts[:_MOST_PLACES], f"and {len(texts) - _MOST_PLACES:,} more"]
    return ", ".join(texts)


def _servers(topology: Topology) -> str:
    sizes = Counter(map(len, topology.servers.values()))
    servers = " and ".join(f"{number:,} of {size}" for size, number in sorted(sizes.items(), reverse=True))
    return f"{len(topology.gpus):,} GPUs in servers: {servers}"


def _scale_up(fabric: Fabric) -> str:
    if fabric.scale_up is None:
        return ""
    rate, delay = format_rate(fabric.scale_up.rate_bps), format_duration(fabric.scale_up.delay_ps)
    return f"; scale-up {rate} per GPU, {delay}"
