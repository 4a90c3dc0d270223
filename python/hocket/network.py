"""From a plan's link or fabric and a placement to what the engines read: links, and who crosses them.

Which of several shortest paths a flow takes is decided in `hocket_scenario::routing`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket import _hocket
from hocket.config import Plan
from hocket.errors import InputError

Crossings = list[tuple[int, int]]
"""Of one job, as (link, flows)."""


@dataclass(frozen=True)
class Network:
    """Directed links and their names; `nodes` gives the number of each named node."""

    fabric: _hocket.Fabric
    links: tuple[tuple[str, int], ...]
    """Name and rate in bits per second of each directed link."""
    nodes: Mapping[str, int]

    def display_names(self) -> dict[str, str]:
        """From the names that the engines give links to those shown."""
        return {name: shown for (name, _), (shown, _) in zip(self.fabric.links(), self.links, strict=True)}

    def crossings(self, plan: Plan, placement: Mapping[str, Sequence[str]] | None) -> list[Crossings]:
        """For each job of `plan`, the links that it crosses: the one link there is, or its ring's.

        Raises `InputError` if a job has no placement, or a worker cannot reach the next.
        """
        if plan.link is not None:
            return [[(0, 1)] for _ in plan.jobs]
        found = []
        for number, job in enumerate(plan.jobs):
            hosts = (placement or {}).get(job.name) or job.placement
            if hosts is None:
                raise InputError(f"jobs[{number}].placement: job {job.name!r} has none; name its hosts")
            # Labels of different jobs must not meet: a job has at most 10,000 workers.
            label = number * 10_000
            try:
                found.append(self.fabric.ring([self.nodes[host] for host in hosts], label))
            except ValueError as error:
                raise InputError(f"jobs[{number}].placement: job {job.name!r}: {error}") from None
        return found


def build_network(plan: Plan) -> Network:
    """The network of `plan`: its one link, or its fabric with each cable as two directed links."""
    if plan.fabric is None:
        assert plan.link is not None, "a checked plan has a link or a fabric"
        fabric = _hocket.Fabric.one_link(plan.link.capacity_bps)
        return Network(fabric, tuple(fabric.links()), {})
    degrees = plan.fabric.degrees()
    nodes = {name: number for number, name in enumerate(degrees)}
    cables = [
        (nodes[link.ends[0]], nodes[link.ends[1]], link.rate_bps, link.delay_ps) for link in plan.fabric.links
    ]
    fabric = _hocket.Fabric([(name, degree > 1) for name, degree in degrees.items()], cables)
    # A name that the plan gives goes before the direction that the engines name a link by.
    names = [link.name for link in plan.fabric.links for _ in link.ends]
    links = tuple(
        (f"{name} {direction}" if name else direction, rate_bps)
        for name, (direction, rate_bps) in zip(names, fabric.links(), strict=True)
    )
    return Network(fabric, links, nodes)
