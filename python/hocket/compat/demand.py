"""What each job asks of each link under a placement: a periodic job its profile times its flows; a training
job what was measured, as one profile for the solver and, where links differ, each link's own for its score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hocket.compat.measured import Measured, measure
from hocket.engines.network import Crossings, Network
from hocket.plan import Plan
from hocket.profiles import WorkloadProfile

Placement = Mapping[str, Sequence[str]]

AS_PLACED = "as placed"
"""The name of the one placement of a plan without candidates."""

CROSSES = 0.1
"""A training job whose highest rate is below this share of a link's does not cross it: there it answers with
acknowledgements, which take up to 8% of what they acknowledge, and waits for nothing."""

ALIKE = 0.02
"""Two links see the same of a job if no more than this share of its bytes goes at other times."""

# The solver takes whole flows: a link's demand in parts of the profile's, to 1% if up to a hundred suffice.
_MOST_PARTS = 100
_PART_ERROR = 0.01


@dataclass(frozen=True)
class Demand:
    """What all jobs ask for; lists are by job."""

    placement: Placement
    profiles: tuple[tuple[WorkloadProfile, ...], ...]
    """One for each batch size to choose from; of a training job a part of what it asks of the link that, of
    those that it shares, all jobs together load most."""
    crossings: tuple[Crossings, ...]
    """Flows on each link; of a training job parts of its profile, and links that it shares alone."""
    own: Mapping[tuple[int, int], WorkloadProfile] = field(default_factory=dict)
    """By job and link, where a training job sends at other times than its profile says."""
    events: int = 0
    """Of the flow engine, in an iteration of every training job."""

    def on_link(self, job: int, link: int, given: WorkloadProfile) -> WorkloadProfile:
        """What `job`, whose profile is `given`, asks of `link`, which it crosses."""
        if (job, link) in self.own:
            return self.own[job, link]
        flows = dict(self.crossings[job])[link]
        return times(given, flows)


def demands(plan: Plan, network: Network) -> dict[str, Demand]:
    """What the jobs of `plan` ask for under each of its candidates, by name, or as placed if there are none.

    A training job is measured once for each of its placements. Raises `InputError` as `Network.crossings` and
    `measure` do.
    """
    placements: dict[str, Placement] = {each.name: each.placement for each in plan.candidates}
    placements = placements or {AS_PLACED: {}}
    seen: dict[tuple[int, tuple[str, ...]], Measured] = {}

    def measured(number: int, placement: Placement) -> Measured:
        hosts = plan.hosts_of(plan.jobs[number], placement)
        if (number, hosts) not in seen:
            seen[number, hosts] = measure(plan, number, network, placement)
        return seen[number, hosts]

    training = [number for number, job in enumerate(plan.jobs) if job.training is not None]
    found = {}
    for name, placement in placements.items():
        crossings = network.crossings(plan, placement)
        if training:
            of_training = {number: measured(number, placement) for number in training}
            found[name] = _with_training(plan, network, placement, crossings, of_training)
        else:
            profiles = tuple(plan.profiles_of(job, placement) for job in plan.jobs)
            found[name] = Demand(placement, profiles, tuple(crossings))
    return found


def _with_training(
    plan: Plan,
    network: Network,
    placement: Placement,
    crossings: list[Crossings],
    measured: Mapping[int, Measured],
) -> Demand:
    rates_bps = [rate for _, rate in network.links]
    crossed = {
        number: [link for link, rates in each.rates_bps.items() if rates.max() >= CROSSES * rates_bps[link]]
        for number, each in measured.items()
    }
    profiles = [plan.profiles_of(job, placement) if job.training is None else () for job in plan.jobs]
    # By link, what each job on it asks for on average, as a share of what it carries.
    load: dict[int, list[float]] = {}
    for number in range(len(plan.jobs)):
        if number in measured:
            mean_bps = {link: measured[number].mean_bps[link] for link in crossed[number]}
        else:
            sent_bps = profiles[number][0].size_bytes * 8e12 / profiles[number][0].period_ps
            mean_bps = {link: sent_bps * flows for link, flows in crossings[number]}
        for link, rate_bps in mean_bps.items():
            load.setdefault(link, []).append(rate_bps / rates_bps[link])
    crossings = list(crossings)
    own: dict[tuple[int, int], WorkloadProfile] = {}
    for number, each in measured.items():
        shared = sorted(link for link in crossed[number] if len(load[link]) > 1)
        base = max(shared or sorted(crossed[number]), key=lambda link: sum(load[link]), default=None)
        if base is None:
            profiles[number] = (each.with_phases(()),)
            continue
        ratios = {link: each.mean_bps[link] / each.mean_bps[base] for link in shared}
        parts = _parts(list(ratios.values()))
        profiles[number] = (_part(each.profile(base, rates_bps[base]), parts),)
        crossings[number] = [(link, max(1, round(ratio * parts))) for link, ratio in ratios.items()]
        for link in shared:
            if _elsewhere(each, base, link) > ALIKE:
                own[number, link] = each.profile(link, rates_bps[link])
    events = sum(each.events for each in measured.values())
    return Demand(placement, tuple(profiles), tuple(crossings), own, events)


def times(profile: WorkloadProfile, flows: int) -> WorkloadProfile:
    """What so many flows of `profile` ask for."""
    phases = tuple(replace(phase, rate_bps=phase.rate_bps * flows) for phase in profile.phases)
    return replace(profile, phases=phases)


def _part(profile: WorkloadProfile, parts: int) -> WorkloadProfile:
    phases = tuple(replace(phase, rate_bps=max(1, phase.rate_bps // parts)) for phase in profile.phases)
    return replace(profile, phases=phases)


def _parts(ratios: Sequence[float]) -> int:
    """The fewest parts of which whole numbers come near all `ratios`."""
    for parts in range(1, _MOST_PARTS):
        if all(abs(max(1, round(ratio * parts)) / (ratio * parts) - 1) <= _PART_ERROR for ratio in ratios):
            return parts
    return _MOST_PARTS


def _elsewhere(measured: Measured, one: int, other: int) -> float:
    """The share of the bytes on link `one` that goes over link `other` at another time of the iteration."""
    rates = [measured.rates_bps[link] / measured.rates_bps[link].sum() for link in (one, other)]
    return float(np.abs(rates[0] - rates[1]).sum()) / 2
