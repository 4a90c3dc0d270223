"""Solves a plan with the solver that fits it: for one link, for candidates by the affinity graph, or for all
jobs that share a link or a GPU on one circle.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hocket import _hocket
from hocket.compat.link_demands import AS_PLACED, Demand, Placement
from hocket.engines.network import Network
from hocket.engines.specs import native_profile
from hocket.errors import InputError
from hocket.plan import Plan
from hocket.profiles import PhaseSpec, WorkloadProfile


@dataclass(frozen=True)
class LinkCompatibility:
    """A link that several jobs share, under the shifts of a solution."""

    name: str
    capacity_bps: int
    jobs: tuple[str, ...]
    demand: tuple[WorkloadProfile, ...]
    """The demand of each of `jobs` on the link, with the periods on the circle."""
    score: float


@dataclass(frozen=True)
class PlacementSolution:
    """A solver's answer for one placement; lists are by job."""

    score: float
    bound: float
    proven_optimal: bool
    choices: list[int]
    """The index of the chosen profile among the job's profiles, one for each batch size."""
    given: list[WorkloadProfile]
    """The chosen profile, from the plan or as measured."""
    fitted: "_hocket._FitResult"
    shifts_ps: list[int]
    precision_deg: float
    interrupted: bool
    links: tuple[LinkCompatibility, ...]
    placement: Placement = field(default_factory=dict)
    events: int = 0
    """See `Demand.events`."""


@dataclass(frozen=True)
class RankedPlacements:
    """The solutions by name of the placement, best first; for discarded placements, the reasons."""

    placements: Mapping[str, PlacementSolution]
    discarded: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> PlacementSolution:
        return next(iter(self.placements.values()))


def solve(
    plan: Plan, network: Network, demands: Mapping[str, Demand], search: "_hocket._Search"
) -> RankedPlacements:
    """The placements of `plan`, ranked; for one link, which has no placements, the one `AS_PLACED`."""
    groups = _gpu_groups(plan)
    chooses = any(len(job.batch_size or ()) > 1 for job in plan.jobs)
    if plan.link is not None:
        return RankedPlacements({AS_PLACED: _on_link(plan, plan.link.capacity_bps, groups, search)})
    if plan.compat.joint or groups or chooses:
        return _jointly(plan, network, demands, groups, search)
    return _by_affinity_graph(plan, network, demands, search)


def _on_link(
    plan: Plan, capacity_bps: int, groups: list[list[int]], search: "_hocket._Search"
) -> PlacementSolution:
    """NSDI'24 Table 1; with several batch sizes, for those with the best score (HotNets'22 §5)."""
    options = [plan.profiles_of(job) for job in plan.jobs]
    choices = [0] * len(options)
    interrupted = False
    chooses = any(len(profiles) > 1 for profiles in options)
    shares = _sharing_time(search, 2 if chooses else 1)
    # Batch sizes are chosen first. The shifts then come from `solve_link`, so that they are the same as if
    # the plan gave these sizes alone.
    if chooses:
        everyone = [(capacity_bps, [(number, 1) for number in range(len(options))])]
        plain_options = [[native_profile(each) for each in profiles] for profiles in options]
        chosen = _hocket.solve_cluster(everyone, plain_options, groups, plan.compat.tolerance, next(shares))
        choices, interrupted = chosen["profiles"], chosen["interrupted"]
    # After Ctrl-C, no more time is spent on the second search.
    search = {**search, "time_limit_s": 0.0} if interrupted else next(shares)
    given = [profiles[choice] for profiles, choice in zip(options, choices, strict=True)]
    fitted = _hocket.commensurate([each.period_ps for each in given], plan.compat.tolerance)
    profiles = [native_profile(each) for each in on_circle(given, fitted["periods_ps"])]
    solved = _hocket.solve_link(capacity_bps, profiles, groups, search)
    names = tuple(job.name for job in plan.jobs)
    return PlacementSolution(
        score=solved["score"],
        bound=solved["bound"],
        proven_optimal=solved["proven_optimal"],
        choices=choices,
        given=given,
        fitted=fitted,
        shifts_ps=solved["time_shifts_ps"],
        precision_deg=solved["precision_deg"],
        interrupted=interrupted or solved["interrupted"],
        links=(
            LinkCompatibility(
                "link", capacity_bps, names, tuple(on_circle(given, fitted["periods_ps"])), solved["score"]
            ),
        ),
    )


def _by_affinity_graph(
    plan: Plan, network: Network, demands: Mapping[str, Demand], search: "_hocket._Search"
) -> RankedPlacements:
    """NSDI'24 Algorithms 1 and 2 over the candidates. Raises `InputError` if all are discarded."""
    solutions: dict[str, PlacementSolution] = {}
    discarded: dict[str, str] = {}
    batches = _batches(plan, demands)
    for batch, limited in zip(batches, _sharing_time(search, len(batches)), strict=True):
        ranked, reasons = _ranked(plan, network, batch, limited)
        solutions.update(ranked)
        discarded.update(reasons)
    if not solutions:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in discarded.items())
        raise InputError(f"candidates: all were discarded: {why}")
    return RankedPlacements(_best_first(plan, solutions), discarded)


def _sharing_time(search: "_hocket._Search", searches: int) -> Iterator["_hocket._Search"]:
    """`search` for each of `searches` searches, which share its time limit: each gets an equal part of the
    time that the earlier ones left.
    """
    deadline_s = time.monotonic() + search["time_limit_s"]
    for left in range(searches, 0, -1):
        yield {**search, "time_limit_s": max(0.0, deadline_s - time.monotonic()) / left}


def _batches(plan: Plan, demands: Mapping[str, Demand]) -> Sequence[Mapping[str, Demand]]:
    """The candidates in groups that can be ranked together, as the jobs have the same profiles in each group.

    The demand of a training job depends on its placement, so with one, each candidate is ranked alone. The
    profile of a workload of the catalogue differs between candidates with other numbers of workers or NICs.
    """
    if any(job.training is not None for job in plan.jobs):
        return [{name: demand} for name, demand in demands.items()]
    alike: dict[tuple[tuple[WorkloadProfile, ...], ...], dict[str, Demand]] = {}
    for name, demand in demands.items():
        alike.setdefault(demand.profiles, {})[name] = demand
    return list(alike.values())


def _ranked(
    plan: Plan, network: Network, demands: Mapping[str, Demand], search: "_hocket._Search"
) -> tuple[dict[str, PlacementSolution], dict[str, str]]:
    """The solutions for the candidates of `demands`, in which jobs have the same profiles; for discarded
    candidates, the reasons.
    """
    names = list(demands)
    # Jobs with several batch sizes, and so several profiles, are solved jointly.
    given = [profiles[0] for profiles in demands[names[0]].profiles]
    ranked = _hocket.rank(
        network.fabric,
        # `rank` never delays the job of the highest priority, while a plan serves the lowest number first.
        [
            {"name": job.name, "profile": native_profile(each), "priority": -job.priority}
            for job, each in zip(plan.jobs, given, strict=True)
        ],
        [
            {"name": name, "crossings": each.crossings, "moved_jobs": _moved(plan, each.placement)}
            for name, each in demands.items()
        ],
        search,
        {
            "aggregate": plan.compat.aggregate,
            "solve_loops": plan.compat.loops == "solve",
            "seed": plan.seed,
            "tolerance": plan.compat.tolerance,
        },
    )
    solutions = {}
    for row in ranked["placements"]:
        # No score is above 1, so a score of 1 is optimal even if the search was cut short.
        proven = row["score"] >= 1 or all(
            each["proven_optimal"] for each in (*row["components"], *row["links"])
        )
        name = names[row["candidate"]]
        solutions[name] = _with_link_scores(
            plan,
            network,
            demands[name],
            PlacementSolution(
                score=row["score"],
                bound=row["score"] if proven else 1.0,
                proven_optimal=proven,
                choices=[0] * len(given),
                given=given,
                fitted=_merged(given, row["groups"]),
                # `None` is the shift of a job that shares no link.
                shifts_ps=[shift or 0 for shift in row["time_shifts_ps"]],
                precision_deg=search["precision_deg"] or 0.0,
                # After Ctrl-C, `rank` raises KeyboardInterrupt instead of returning.
                interrupted=False,
                links=(),
                placement=demands[name].placement,
                events=demands[name].events,
            ),
            {each["link"]: (each["jobs"], each["score"]) for each in row["links"]},
            search,
            jointly=False,
        )
    return solutions, {names[number]: reason for number, reason in ranked["discarded"]}


def _best_first(plan: Plan, solutions: Mapping[str, PlacementSolution]) -> dict[str, PlacementSolution]:
    # Scores equal to a billionth count as equal: then the candidate that moves fewer jobs comes first, then
    # the one given first. The sort is stable.
    order = sorted(
        solutions,
        key=lambda name: (-round(solutions[name].score, 9), _moved(plan, solutions[name].placement)),
    )
    return {name: solutions[name] for name in order}


def _with_link_scores(
    plan: Plan,
    network: Network,
    demand: Demand,
    solution: PlacementSolution,
    scored: Mapping[int, tuple[Sequence[int], float | None]],
    search: "_hocket._Search",
    *,
    jointly: bool,
) -> PlacementSolution:
    """`solution` with its links; `scored` has the jobs on each link and its score, if known.

    Where a training job sends at other times than the profile that the solver used, the score of the link is
    computed from the demand measured there.
    """
    links = []
    for link, (jobs, score) in scored.items():
        profiles = [demand.on_link(job, link, solution.given[job]) for job in jobs]
        circular = tuple(on_circle(profiles, [solution.fitted["periods_ps"][job] for job in jobs]))
        name, capacity_bps = network.links[link]
        if score is None or any((job, link) in demand.link_profiles for job in jobs):
            shifts_ps = [solution.shifts_ps[job] for job in jobs]
            demands = [native_profile(each) for each in circular]
            score = _hocket.score(capacity_bps, demands, shifts_ps, search["strict"])
        names = tuple(plan.jobs[job].name for job in jobs)
        links.append(LinkCompatibility(name, capacity_bps, names, circular, score))
    if demand.link_profiles:
        score = _aggregated(plan, [link.score for link in links], jointly=jointly)
        # What the solver proved was about the profiles that it used; that no score is above 1 always holds.
        proven = score >= 1
        solution = replace(solution, score=score, proven_optimal=proven, bound=1.0)
    return replace(solution, links=tuple(links))


def _aggregated(plan: Plan, scores: Sequence[float], *, jointly: bool) -> float:
    """The score of a candidate from those of its links: the mean in the joint form, else by `[compat]`'s
    `aggregate`.
    """
    if not scores:
        return 1.0
    if jointly or plan.compat.aggregate == "mean":
        return sum(scores) / len(scores)
    if plan.compat.aggregate == "min":
        return min(scores)
    # `tail`: the 5th percentile of the links' scores, by nearest rank.
    return sorted(scores)[-(-len(scores) // 20) - 1]


def _jointly(
    plan: Plan,
    network: Network,
    demands: Mapping[str, Demand],
    groups: list[list[int]],
    search: "_hocket._Search",
) -> RankedPlacements:
    """The cluster-wide form of HotNets'22 §5: one circle for all jobs that share a link or a GPU anywhere.

    After Ctrl-C, only the candidates solved by then are ranked.
    """
    solutions: dict[str, PlacementSolution] = {}
    shares = _sharing_time(search, len(demands))
    for (name, demand), limited in zip(demands.items(), shares, strict=True):
        solutions[name] = _placed_jointly(plan, network, demand, groups, limited)
        if solutions[name].interrupted:
            break
    # A candidate that was not solved might be better than each of these, so all count as interrupted.
    interrupted = any(each.interrupted for each in solutions.values())
    ranked = {name: replace(each, interrupted=interrupted) for name, each in solutions.items()}
    return RankedPlacements(_best_first(plan, ranked))


def _placed_jointly(
    plan: Plan,
    network: Network,
    demand: Demand,
    groups: list[list[int]],
    search: "_hocket._Search",
) -> PlacementSolution:
    on_link: dict[int, dict[int, int]] = {}
    for number, crossings in enumerate(demand.crossings):
        for link, flows in crossings:
            on_link.setdefault(link, {})[number] = flows
    shared = {link: flows for link, flows in sorted(on_link.items()) if len(flows) > 1}
    members = sorted(
        {job for flows in shared.values() for job in flows} | {job for group in groups for job in group}
    )
    options = demand.profiles
    choices = [0] * len(options)
    shifts_ps = [0] * len(options)
    score = bound = 1.0
    proven, interrupted = True, False
    if members:
        place = {number: index for index, number in enumerate(members)}
        # Jobs that share only GPUs share no link. The solver then gets the links of these jobs, which have no
        # excess demand at any shift.
        scored = shared or {link: flows for link, flows in on_link.items() if flows.keys() <= place.keys()}
        solved = _hocket.solve_cluster(
            [
                (network.links[link][1], [(place[job], count) for job, count in flows.items()])
                for link, flows in scored.items()
            ],
            [[native_profile(each) for each in options[number]] for number in members],
            [[place[number] for number in group] for group in groups],
            plan.compat.tolerance,
            search,
        )
        score, bound, proven = solved["score"], solved["bound"], solved["proven_optimal"]
        interrupted = solved["interrupted"]
        for number, choice, shift_ps in zip(
            members, solved["profiles"], solved["time_shifts_ps"], strict=True
        ):
            choices[number], shifts_ps[number] = choice, shift_ps
    given = [profiles[choice] for profiles, choice in zip(options, choices, strict=True)]
    fits = []
    if members:
        periods_ps = [given[number].period_ps for number in members]
        fits = [(members, _hocket.commensurate(periods_ps, plan.compat.tolerance))]
    solution = PlacementSolution(
        score=score,
        bound=bound,
        proven_optimal=proven,
        choices=choices,
        given=given,
        fitted=_merged(given, fits),
        shifts_ps=shifts_ps,
        precision_deg=search["precision_deg"] or 0.0,
        interrupted=interrupted,
        links=(),
        placement=demand.placement,
        events=demand.events,
    )
    # The shifts maximise the mean over all links, so each link's own score is computed from them here.
    return _with_link_scores(
        plan,
        network,
        demand,
        solution,
        {link: (list(flows), None) for link, flows in shared.items()},
        search,
        jointly=True,
    )


def _merged(
    given: Sequence[WorkloadProfile], groups: "Sequence[tuple[list[int], _hocket._FitResult]]"
) -> "_hocket._FitResult":
    """The fits of all groups as one, with the longest perimeter; a job in no group keeps its period."""
    periods_ps = [each.period_ps for each in given]
    padded_ps = list(periods_ps)
    rounds = [1] * len(given)
    for numbers, fit in groups:
        for place, number in enumerate(numbers):
            rounds[number] = fit["rounds"][place]
            periods_ps[number] = fit["periods_ps"][place]
            padded_ps[number] = fit["padded_periods_ps"][place]
    fits = [fit for _, fit in groups]
    return {
        "perimeter_ps": max((fit["perimeter_ps"] for fit in fits), default=max(periods_ps)),
        "rounds": rounds,
        "periods_ps": periods_ps,
        "error": max((fit["error"] for fit in fits), default=0.0),
        "holds_for_ps": min((f["holds_for_ps"] for f in fits if f["holds_for_ps"] is not None), default=None),
        "padded_periods_ps": padded_ps,
    }


def _moved(plan: Plan, placement: Placement) -> int:
    """The number of running jobs that `placement` moves to other hosts than the plan's."""
    running = {job.name: set(job.placement) for job in plan.jobs if job.placement}
    return sum(set(placement.get(name, hosts)) != hosts for name, hosts in running.items())


def _gpu_groups(plan: Plan) -> list[list[int]]:
    """The groups of jobs that share a GPU, by job number."""
    users: dict[str, list[int]] = {}
    for number, job in enumerate(plan.jobs):
        for gpu in dict.fromkeys(job.gpus):
            users.setdefault(gpu, []).append(number)
    # Jobs that share several GPUs are one group.
    groups = (group for group in users.values() if len(group) > 1)
    return [list(group) for group in dict.fromkeys(tuple(group) for group in groups)]


def on_circle(given: Sequence[WorkloadProfile], periods_ps: Sequence[int]) -> list[WorkloadProfile]:
    """The profiles stretched to their periods on the circle."""
    return [
        each if each.period_ps == period_ps else _stretched(each, period_ps)
        for each, period_ps in zip(given, periods_ps, strict=True)
    ]


def _stretched(profile: WorkloadProfile, period_ps: int) -> WorkloadProfile:
    stretched = _hocket.stretched(native_profile(profile), period_ps)
    phases = tuple(PhaseSpec(**phase) for phase in stretched["phases"])
    return replace(profile, period_ps=stretched["period_ps"], phases=phases)
