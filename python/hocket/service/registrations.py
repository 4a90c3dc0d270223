"""The registrations of a plan's jobs with a service."""

from typing import Any

from hocket.compat.link_demands import demands
from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.plan import Plan
from hocket.units import format_duration, format_rate, shown


def registrations(
    plan: Plan, *, candidate: str | None = None, link: str | None = None
) -> dict[str, dict[str, Any]]:
    """The registration of each job of `plan` as the body of a request: profile, workers and crossed links.

    `candidate` selects the placement, and is required if the plan has several. `link` names the one link of a
    plan with a `[link]`; the default is `link`. A training job registers its profile without contention.

    Raises `InputError` if the candidate is unknown or missing, and for the same reasons as `demands`.
    """
    network = build_network(plan)
    found = demands(plan, network)
    if candidate is None and plan.candidates and len(found) > 1:
        raise InputError(
            f"--candidate: required, since the plan has {len(found)}; choose one of {', '.join(found)}"
        )
    if candidate is not None and candidate not in (each.name for each in plan.candidates):
        known = ", ".join(each.name for each in plan.candidates) or "none"
        raise InputError(f"--candidate: {shown(candidate)} is not in the plan; it has {known}")
    if link is not None and plan.link is None:
        raise InputError("--link: only for a plan with a [link]; links of a [fabric] have names already")
    # Otherwise there is one entry: the only candidate, or the placement of the jobs themselves.
    demand = found[candidate] if candidate is not None else next(iter(found.values()))
    names = [name if link is None else link for name, _ in network.links]
    registered = {}
    for number, job in enumerate(plan.jobs):
        profile = demand.profiles[number][0]
        if len(demand.profiles[number]) > 1:
            raise InputError(f"job {job.name!r}: has several batch sizes; a registration takes one")
        if not profile.phases:
            raise InputError(f"job {job.name!r}: sends nothing over the network, so it needs no slot")
        registered[job.name] = {
            "profile": {
                "period": format_duration(profile.period_ps),
                "up": [
                    {
                        "start": format_duration(phase.start_ps),
                        "duration": format_duration(phase.duration_ps),
                        "rate": format_rate(phase.rate_bps),
                    }
                    for phase in profile.phases
                ],
            },
            "workers": [] if plan.fabric is None else list(plan.hosts_of(job, demand.placement)),
            "links": [
                {"name": names[crossed], "capacity": format_rate(network.links[crossed][1]), "flows": flows}
                for crossed, flows in demand.crossings[number]
            ],
        }
    return registered
