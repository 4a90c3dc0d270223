"""Which solver answers for a plan, and what it found: one link, candidates by the affinity graph, or all jobs
that share anything on one circle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hocket import _hocket
from hocket.errors import InputError
from hocket.network import Network
from hocket.plan import Plan
from hocket.runner import plain
from hocket.workloads import PhaseSpec, WorkloadProfile


@dataclass(frozen=True)
class LinkCompatibility:
    """A link that several jobs share, under the shifts that were found."""

    name: str
    capacity_bps: int
    jobs: tuple[str, ...]
    flows: tuple[int, ...]
    """How many each of the jobs has on it: its demand here is its rate times these."""
    score: float


@dataclass(frozen=True)
class CandidateScore:
    """A candidate placement: its score, or why it was discarded."""

    name: str
    score: float | None
    reason: str | None


@dataclass(frozen=True)
class Found:
    """What a solver found, whichever it was; lists are by job."""

    score: float
    bound: float
    proven_optimal: bool
    choices: list[int]
    """Which of its profiles each job has."""
    fitted: "_hocket._Fitted"
    shifts_ps: list[int]
    precision_deg: float
    interrupted: bool
    links: tuple[LinkCompatibility, ...]
    candidates: tuple[CandidateScore, ...] = ()
    placement: Mapping[str, Sequence[str]] | None = None


def solve(plan: Plan, network: Network, search: "_hocket._Search") -> Found:
    groups = _gpu_groups(plan)
    chooses = any(len(job.profiles()) > 1 for job in plan.jobs)
    if plan.link is not None:
        return _on_link(plan, plan.link.capacity_bps, groups, search)
    if plan.compat.joint or groups or chooses:
        return _jointly(plan, network, groups, search)
    return _by_affinity_graph(plan, network, search)


def _on_link(plan: Plan, capacity_bps: int, groups: list[list[int]], search: "_hocket._Search") -> Found:
    """NSDI'24 Table 1; with several batch sizes, for those that score best (HotNets'22 §5)."""
    options = [job.profiles() for job in plan.jobs]
    choices = [0] * len(options)
    interrupted = False
    if any(len(profiles) > 1 for profiles in options):
        everyone = [(capacity_bps, [(number, 1) for number in range(len(options))])]
        plain_options = [[plain(each) for each in profiles] for profiles in options]
        chosen = _hocket.solve_cluster(everyone, plain_options, groups, plan.compat.tolerance, search)
        choices, interrupted = chosen["profiles"], chosen["interrupted"]
    if interrupted:
        search = {**search, "time_limit_s": 0.0}
    given = [profiles[choice] for profiles, choice in zip(options, choices, strict=True)]
    fitted = _hocket.commensurate([each.period_ps for each in given], plan.compat.tolerance)
    profiles = [plain(each) for each in on_circle(given, fitted)]
    solved = _hocket.solve_link(capacity_bps, profiles, groups, search)
    names = tuple(job.name for job in plan.jobs)
    return Found(
        score=solved["score"],
        bound=solved["bound"],
        proven_optimal=solved["proven_optimal"],
        choices=choices,
        fitted=fitted,
        shifts_ps=solved["time_shifts_ps"],
        precision_deg=solved["precision_deg"],
        interrupted=interrupted or solved["interrupted"],
        links=(LinkCompatibility("link", capacity_bps, names, (1,) * len(names), solved["score"]),),
    )


def _placements(plan: Plan) -> dict[str, Mapping[str, Sequence[str]]]:
    return {each.name: each.placement for each in plan.candidates} or {"as placed": {}}


def _by_affinity_graph(plan: Plan, network: Network, search: "_hocket._Search") -> Found:
    """NSDI'24 Algorithms 1 and 2 over the candidates."""
    given = [job.profiles()[0] for job in plan.jobs]
    placements = _placements(plan)
    ranked = _hocket.rank(
        network.fabric,
        # The scheduler's highest priority is never delayed; a plan serves the lowest number first.
        [(job.name, plain(each), -job.priority) for job, each in zip(plan.jobs, given, strict=True)],
        [
            (name, network.crossings(plan, placement), _moved(plan, placement))
            for name, placement in placements.items()
        ],
        search,
        {
            "aggregate": plan.compat.aggregate,
            "solve_loops": plan.compat.loops == "solve",
            "seed": plan.seed,
            "tolerance": plan.compat.tolerance,
        },
    )
    names = list(placements)
    if not ranked["placements"]:
        reasons = "; ".join(f"{names[number]!r}: {reason}" for number, reason in ranked["discarded"])
        raise InputError(f"candidates: all were discarded: {reasons}")
    best = ranked["placements"][0]
    placement = placements[names[best["candidate"]]]
    flows = [dict(crossings) for crossings in network.crossings(plan, placement)]
    # Nothing scores above 1, whatever was left unexplored.
    proven = best["score"] >= 1 or all(row["proven_optimal"] for row in (*best["components"], *best["links"]))
    return Found(
        score=best["score"],
        bound=best["score"] if proven else 1.0,
        proven_optimal=proven,
        choices=[0] * len(given),
        fitted=_merged(given, best["groups"]),
        shifts_ps=[shift or 0 for shift in best["time_shifts_ps"]],
        precision_deg=search["precision_deg"] or 0.0,
        interrupted=False,
        links=tuple(
            _link(plan, network, row["link"], _flows_on(row, flows), row["score"]) for row in best["links"]
        ),
        candidates=(
            *(CandidateScore(names[row["candidate"]], row["score"], None) for row in ranked["placements"]),
            *(CandidateScore(names[number], None, reason) for number, reason in ranked["discarded"]),
        ),
        placement=placement,
    )


def _jointly(plan: Plan, network: Network, groups: list[list[int]], search: "_hocket._Search") -> Found:
    """The cluster-wide form of HotNets'22 §5: one circle for all jobs that share a link or a GPU anywhere."""
    found: dict[str, Found] = {}
    for name, placement in _placements(plan).items():
        found[name] = _placed_jointly(plan, network, placement, groups, search)
        if found[name].interrupted:
            break
    # Equal to a billionth is equal: then the candidate that moves fewer jobs, then the one given first.
    order = sorted(
        found, key=lambda name: (-round(found[name].score, 9), _moved(plan, found[name].placement or {}))
    )
    candidates = tuple(CandidateScore(name, found[name].score, None) for name in order)
    interrupted = any(each.interrupted for each in found.values())
    return replace(found[order[0]], candidates=candidates, interrupted=interrupted)


def _placed_jointly(
    plan: Plan,
    network: Network,
    placement: Mapping[str, Sequence[str]],
    groups: list[list[int]],
    search: "_hocket._Search",
) -> Found:
    on_link: dict[int, dict[int, int]] = {}
    for number, crossings in enumerate(network.crossings(plan, placement)):
        for link, flows in crossings:
            on_link.setdefault(link, {})[number] = flows
    shared = {link: flows for link, flows in sorted(on_link.items()) if len(flows) > 1}
    members = sorted(
        {job for flows in shared.values() for job in flows} | {job for group in groups for job in group}
    )
    options = [job.profiles() for job in plan.jobs]
    choices = [0] * len(options)
    shifts_ps = [0] * len(options)
    score = bound = 1.0
    proven, interrupted = True, False
    if members:
        place = {number: index for index, number in enumerate(members)}
        # Jobs that share GPUs alone still have links of their own; those lose nothing at any shift.
        scored = shared or {link: flows for link, flows in on_link.items() if flows.keys() <= place.keys()}
        solved = _hocket.solve_cluster(
            [
                (network.links[link][1], [(place[job], count) for job, count in flows.items()])
                for link, flows in scored.items()
            ],
            [[plain(each) for each in options[number]] for number in members],
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
    fits = [
        (
            members,
            _hocket.commensurate([given[number].period_ps for number in members], plan.compat.tolerance),
        )
    ]
    fitted = _merged(given, fits if members else [])
    profiles = [plain(each) for each in on_circle(given, fitted)]
    return Found(
        score=score,
        bound=bound,
        proven_optimal=proven,
        choices=choices,
        fitted=fitted,
        shifts_ps=shifts_ps,
        precision_deg=search["precision_deg"] or 0.0,
        interrupted=interrupted,
        links=tuple(
            _jointly_scored(plan, network, link, flows, profiles, shifts_ps) for link, flows in shared.items()
        ),
        placement=placement,
    )


def _jointly_scored(
    plan: Plan,
    network: Network,
    link: int,
    flows: Mapping[int, int],
    profiles: Sequence[tuple[int, list[tuple[int, int, int]]]],
    shifts_ps: Sequence[int],
) -> LinkCompatibility:
    """A link's own score under shifts that maximise the mean over all links."""
    loads = [
        (profiles[job][0], [(start, length, rate * count) for start, length, rate in profiles[job][1]])
        for job, count in flows.items()
    ]
    score = _hocket.score(network.links[link][1], loads, [shifts_ps[job] for job in flows])
    return _link(plan, network, link, flows, score)


def _merged(
    given: Sequence[WorkloadProfile], groups: "Sequence[tuple[list[int], _hocket._Fitted]]"
) -> "_hocket._Fitted":
    """The fits of groups of jobs as one; a job in no group keeps its period. The perimeter is the longest."""
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


def _flows_on(row: "_hocket._LinkRow", flows: Sequence[Mapping[int, int]]) -> dict[int, int]:
    return {job: flows[job][row["link"]] for job in row["jobs"]}


def _link(
    plan: Plan, network: Network, link: int, flows: Mapping[int, int], score: float
) -> LinkCompatibility:
    name, capacity_bps = network.links[link]
    jobs = tuple(plan.jobs[job].name for job in flows)
    return LinkCompatibility(name, capacity_bps, jobs, tuple(flows.values()), score)


def _moved(plan: Plan, placement: Mapping[str, Sequence[str]]) -> int:
    """How many jobs run elsewhere in `placement` than the plan has them."""
    running = {job.name: set(job.placement) for job in plan.jobs if job.placement}
    return sum(set(placement.get(name, hosts)) != hosts for name, hosts in running.items())


def _gpu_groups(plan: Plan) -> list[list[int]]:
    """Jobs that share a GPU, by number."""
    users: dict[str, list[int]] = {}
    for number, job in enumerate(plan.jobs):
        for gpu in dict.fromkeys(job.gpus):
            users.setdefault(gpu, []).append(number)
    groups = (group for group in users.values() if len(group) > 1)
    return [list(group) for group in dict.fromkeys(tuple(group) for group in groups)]


def on_circle(given: Sequence[WorkloadProfile], fitted: "_hocket._Fitted") -> list[WorkloadProfile]:
    return [
        each if each.period_ps == period_ps else _stretched(each, period_ps)
        for each, period_ps in zip(given, fitted["periods_ps"], strict=True)
    ]


def _stretched(profile: WorkloadProfile, period_ps: int) -> WorkloadProfile:
    period_ps, phases = _hocket.stretched(plain(profile), period_ps)
    return replace(profile, period_ps=period_ps, phases=tuple(PhaseSpec(*phase) for phase in phases))
