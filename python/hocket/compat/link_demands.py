"""The demand of each job on each link under a placement.

The demand of a periodic job is its profile times its flows. That of a training job is measured: it becomes
one profile for the solver and, where links differ, a profile per link for the links' scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hocket.engines.network import Crossings, Network
from hocket.plan import Plan
from hocket.profiles import WorkloadProfile

if TYPE_CHECKING:
    from hocket.compat.measured import MeasuredIteration

Placement = Mapping[str, Sequence[str]]

AS_PLACED = "as placed"
"""The name of the one placement of a plan without candidates."""

CROSSES = 0.1
"""A training job does not count as crossing a link on which its rate is always below this share of the
capacity: it sends only acknowledgements there, up to 8% of the data that they acknowledge, and waits for none
of them."""

ALIKE = 0.02
"""A job has the same demand on two links if at most this share of its bytes crosses them at other times."""

# The solver multiplies a job's profile by a whole number of flows on each link. A measured profile is
# therefore split into equal parts, as few as make the demand of each link a whole number of parts to within
# 1%, and at most a hundred.
_MAX_PARTS = 100
_PART_ERROR = 0.01


@dataclass(frozen=True)
class Demand:
    """The demand of all jobs; sequences are by job."""

    placement: Placement
    profiles: tuple[tuple[WorkloadProfile, ...], ...]
    """A profile for each batch size to choose from; for a training job, one part of its demand on the most
    loaded link that it shares."""
    crossings: tuple[Crossings, ...]
    """The number of flows on each link; for a training job, the number of parts on each shared link."""
    link_profiles: Mapping[tuple[int, int], WorkloadProfile] = field(default_factory=dict)
    """By job and link, the demand of a training job on links that it uses at other times than its profile."""
    events: int = 0
    """The number of events of the flow engine in one iteration of all training jobs."""

    def on_link(self, job: int, link: int, given: WorkloadProfile) -> WorkloadProfile:
        """The demand of `job`, whose profile is `given`, on `link`, which it crosses."""
        if (job, link) in self.link_profiles:
            return self.link_profiles[job, link]
        flows = dict(self.crossings[job])[link]
        return multiplied(given, flows)


def demands(plan: Plan, network: Network) -> dict[str, Demand]:
    """The demand of the jobs of `plan` under each candidate by name, or under `AS_PLACED` if there are none.

    A training job is measured once for each of its placements. Raises `InputError` as `Network.crossings` and
    `measure` do.
    """
    placements: dict[str, Placement] = {each.name: each.placement for each in plan.candidates}
    placements = placements or {AS_PLACED: {}}
    seen: dict[tuple[int, tuple[str, ...]], MeasuredIteration] = {}

    # Measuring runs the engine twice, and candidates often leave a job on the same hosts. Besides its hosts,
    # only its number determines the paths of its flows.
    def measured(number: int, placement: Placement) -> "MeasuredIteration":
        # Not at the top: only training jobs are measured.
        from hocket.compat.measured import measure

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
    measured: "Mapping[int, MeasuredIteration]",
) -> Demand:
    rates_bps = [rate for _, rate in network.links]
    crossed = {
        number: [link for link, rates in each.rates_bps.items() if rates.max() >= CROSSES * rates_bps[link]]
        for number, each in measured.items()
    }
    profiles = [plan.profiles_of(job, placement) if job.training is None else () for job in plan.jobs]
    # By link, the mean demand of each job on it, as a share of its rate.
    load: dict[int, list[float]] = {}
    for number in range(len(plan.jobs)):
        if number in measured:
            mean_bps = {link: measured[number].mean_bps[link] for link in crossed[number]}
        else:
            # The first of several batch sizes stands for all: loads only determine which links are busiest.
            sent_bps = profiles[number][0].size_bytes * 8e12 / profiles[number][0].period_ps
            mean_bps = {link: sent_bps * flows for link, flows in crossings[number]}
        for link, rate_bps in mean_bps.items():
            load.setdefault(link, []).append(rate_bps / rates_bps[link])
    crossings = list(crossings)
    link_profiles: dict[tuple[int, int], WorkloadProfile] = {}
    for number, each in measured.items():
        # In order, so that the first of equally loaded links decides: measured links are in no fixed order.
        shared = sorted(link for link in crossed[number] if len(load[link]) > 1)
        # Demand exceeds capacity first on the most loaded link, so it is the one whose demand must be exact.
        base = max(shared or sorted(crossed[number]), key=lambda link: sum(load[link]), default=None)
        if base is None:
            profiles[number] = (each.with_phases(()),)
            continue
        ratios = {link: each.mean_bps[link] / each.mean_bps[base] for link in shared}
        parts = _parts(list(ratios.values()))
        profiles[number] = (_part(each.profile(base, rates_bps[base]), parts),)
        # At least one part, because the job crosses the link, however little it sends there.
        crossings[number] = [(link, max(1, round(ratio * parts))) for link, ratio in ratios.items()]
        for link in shared:
            if each.share_at_other_times(base, link) > ALIKE:
                link_profiles[number, link] = each.profile(link, rates_bps[link])
    events = sum(each.events for each in measured.values())
    return Demand(placement, tuple(profiles), tuple(crossings), link_profiles, events)


def multiplied(profile: WorkloadProfile, flows: int) -> WorkloadProfile:
    """The demand of `flows` flows, each of which has `profile`."""
    phases = tuple(replace(phase, rate_bps=phase.rate_bps * flows) for phase in profile.phases)
    return replace(profile, phases=phases)


def _part(profile: WorkloadProfile, parts: int) -> WorkloadProfile:
    # Rounded down, so that all parts together demand no more than was measured; a phase of rate 0 is invalid.
    phases = tuple(replace(phase, rate_bps=max(1, phase.rate_bps // parts)) for phase in profile.phases)
    return replace(profile, phases=phases)


def _parts(ratios: Sequence[float]) -> int:
    """The fewest parts, up to `_MAX_PARTS`, whole numbers of which approximate `ratios` to `_PART_ERROR`."""
    for parts in range(1, _MAX_PARTS):
        if all(abs(max(1, round(ratio * parts)) / (ratio * parts) - 1) <= _PART_ERROR for ratio in ratios):
            return parts
    return _MAX_PARTS
