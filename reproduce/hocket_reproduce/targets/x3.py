"""X3: ECN marks of the flow engine's model against the packet engine, and a new fit of the model."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
import polars as pl

from hocket import _hocket
from hocket.cluster.marks import CONGESTION, FITTED, RATE_BPS, SWITCH, Marks
from hocket.compat import compatibility
from hocket.engines.network import build_network
from hocket.engines.run import simulate
from hocket.engines.specs import native_profile
from hocket.plan import parse_plan
from hocket.results import Run, frame
from hocket.units import format_rate
from hocket_reproduce.targets.measure import PS_PER_S
from hocket_reproduce.targets.setting import (
    CAPACITY,
    JITTER,
    SEED,
    SNAPSHOTS,
    Tables,
    across_one_link,
    in_time,
    link_plan,
    shifted,
    snapshot,
    workload,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SEEDS = (1, 2, 3)
CAPS = ("30 Gbps", "40 Gbps")
"""Demands of the flows: two exceed the link, and beyond that marks hardly depend on the demand."""

MOST_FLOWS = 6

ITERATIONS = 10
"""Iterations of each job of a case: runs of a few seconds on packets."""

_UNENDING_S = 10.0
"""Up time of flows that do not stop: longer than any of these runs."""
_JOIN_S = 0.2
"""Time between the joins of two flows: the burst of the first is over after half of it."""
_EARLY_S = 0.005
"""Time after a join at which the burst's time constant is read: about as long as that constant."""
_RETURN_S = 0.04
"""Up time of a flow that leaves and returns."""
_SHORT_S, _LONG_S = 0.02, 0.2
"""Times for which it is gone: shorter, and longer, than rates take to recover."""


_LONGER = (
    "phases that hardly overlap on the flow engine overlap on packets, where a phase takes longer once "
    "DCQCN has cut its rate"
)
_SMALL = "the model shares marks by bytes; on packets a flow of low demand has more, and phases take longer"
_TOGETHER = (
    "three flows that join within a burst of each other share a queue on packets; the model gives each its "
    "own burst"
)
_WHY = {2: _SMALL, 5: _TOGETHER}
_EDGES = "on packets each edge of a ring has its own rate, on the flow engine all have that of the slowest"
_FULL = (
    "headers take 2% of a link, so that packets queue where payloads just fit; and as long as DCQCN's rates "
    "lie far above 25 Gbps, cuts change nothing"
)


@dataclass(frozen=True)
class Case:
    """Jobs on a fabric; `why` names the effect that the flow engine's model leaves out."""

    name: str
    fabric: Tables
    jobs: Sequence[Tables]
    why: str = ""

    def plan(self, engine: str) -> Tables:
        """The plan for `engine`."""
        return {
            "name": self.name,
            "seed": SEED,
            "fabric": self.fabric,
            "switch": SWITCH,
            "run": {"engine": engine, "iterations": ITERATIONS},
            "jobs": [{"congestion": CONGESTION, "jitter": JITTER, **job} for job in self.jobs],
        }


def fit(progress: Progress, caps: Sequence[str] = CAPS, seeds: Sequence[int] = SEEDS) -> Marks:
    """The model, fitted to packet runs in which flows join one after another, or one leaves and returns."""
    joins = []
    for cap, seed in product(caps, seeds):
        progress(f"flows of {cap}, seed {seed}")
        joins.append(_joins(cap, seed))
    early, late, end = np.mean(joins, axis=0)
    # In the second half of each interval the burst of the join is over; marks beyond that rate are the burst.
    per_second = (end - late) / (_JOIN_S / 2)
    bursts = end - per_second * _JOIN_S
    begun = (early - per_second * _EARLY_S).sum() / bursts.sum()
    short, long = (
        np.mean([_return_burst(cap, seed, gone_s, per_second[0]) for cap, seed in product(caps, seeds)])
        for gone_s in (_SHORT_S, _LONG_S)
    )
    # Jobs return in every iteration, and a returning flow is marked more often than a new one.
    bursts *= long / bursts[0]
    return Marks(
        tuple(per_second.tolist()),
        tuple(bursts.tolist()),
        settling_ps=_time_constant_ps(_EARLY_S, float(begun)),
        recovery_ps=_time_constant_ps(_SHORT_S, float(short / long)),
    )


def _time_constant_ps(elapsed_s: float, part: float) -> int:
    """The time constant of an exponential approach that has reached `part` of its limit after `elapsed_s`."""
    return round(-elapsed_s / math.log(1 - part) * PS_PER_S)


def _joins(cap: str, seed: int) -> npt.NDArray[np.float64]:
    """Marks (3, n) since the join of each flow but the first: after `_EARLY_S`, and after half and all of the
    time to the next join.
    """
    jobs = [
        _job(f"flow {number}", cap, _UNENDING_S, arrival=in_time(number * _JOIN_S))
        for number in range(MOST_FLOWS)
    ]
    joined_s = _JOIN_S * np.arange(1, MOST_FLOWS)
    # A run for each time: counters are read at its end, and the same seed repeats the same packets.
    before, *after = (
        [_marked(_until(jobs, time_s + later_s, seed)) for time_s in joined_s]
        for later_s in (0.0, _EARLY_S, _JOIN_S / 2, _JOIN_S)
    )
    return np.array([np.subtract(marks, before) for marks in after], dtype=np.float64)


def _return_burst(cap: str, seed: int, gone_s: float, per_second: float) -> float:
    """Marks beyond `per_second` for each return of a flow to another one, after it was gone for `gone_s`."""
    jobs = [_job("stays", cap, _UNENDING_S), _job("returns", cap, _RETURN_S, gone_s)]
    run = _until(jobs, _UNENDING_S / 5, seed)
    phases = run.tables["phases"]
    together_s = float((phases["end_s"] - phases["start_s"]).sum())
    return float(_marked(run) - per_second * together_s) / phases.height


def _job(name: str, cap: str, up_s: float, down_s: float = 0.0, **policy: object) -> Tables:
    up = {"start": in_time(down_s), "duration": in_time(up_s), "rate": cap}
    return {
        "name": name,
        "period": in_time(down_s + up_s),
        "up": [up],
        "congestion": CONGESTION,
        **policy,
    }


def _until(jobs: Sequence[Tables], until_s: float, seed: int) -> Run:
    return simulate(
        {
            "seed": seed,
            "link": {"capacity": format_rate(RATE_BPS)},
            "switch": SWITCH,
            "run": {"engine": "packet", "until": in_time(until_s), "record_flows": False},
            "jobs": list(jobs),
        }
    )


def _marked(run: Run) -> int:
    return int(run.tables["ports"]["marked"].sum())


def cases() -> Iterator[Case]:
    """Cases that the model was not fitted to: the snapshots of NSDI'24 Table 2, jobs that share two links of
    its testbed, and two jobs that together demand exactly a link.
    """
    for number in SNAPSHOTS:
        jobs = snapshot(number)
        why = _WHY.get(number, _LONGER)
        yield Case(f"snapshot {number}, at once", *_on_a_dumbbell(jobs), why)
        shifts_s = compatibility(link_plan("shifts", jobs)).time_shifts_s
        yield Case(f"snapshot {number}, shifted", *_on_a_dumbbell(shifted(jobs, shifts_s)), why)
    # By the ECMP hash of their labels, the second job shares tor0–agg0 with the first and tor2–agg0 with the
    # third, in both directions.
    placed = zip(
        (
            workload("vgg16", "VGG16", 1400),
            workload("roberta", "RoBERTa", 12),
            workload("vgg19", "VGG19", 1400),
        ),
        (["s1", "s5"], ["s0", "s11"], ["s9", "s20"]),
        strict=True,
    )
    three = [{**job, "workers": len(hosts), "placement": hosts} for job, hosts in placed]
    yield Case("testbed, one of three meets two", {"testbed": "cassini"}, three, _EDGES)
    full = [_job(name, "25 Gbps", 0.15, 0.05) for name in ("first", "second")]
    yield Case("25 and 25 Gbps", *_on_a_dumbbell(full), _FULL)


def _on_a_dumbbell(jobs: Sequence[Tables]) -> tuple[Tables, list[Tables]]:
    """A dumbbell fabric, and the jobs with workers on either side of its bottleneck."""
    fabric, hosts = across_one_link([job.get("workers", 2) for job in jobs])
    return fabric, [{**job, "placement": placement} for job, placement in zip(jobs, hosts, strict=True)]


def modelled(case: Case) -> dict[str, float]:
    """Marks per iteration of each job on the flow engine."""
    plan = parse_plan(case.plan("flow"))
    network = build_network(plan)
    options: _hocket._ClusterOptions = {
        "seed": SEED,
        "priority_queues": plan.priority_queues,
        "goodput": (),
        "merge": 0.0,
        "marks": FITTED.spec(),
    }
    engine = _hocket.ClusterRun(network.fabric, options)
    routes = zip(network.crossings(plan, None), network.inputs(plan, None), strict=True)
    for job, (crossings, inputs) in zip(plan.jobs, routes, strict=True):
        spec: _hocket._StartSpec = {
            "profile": native_profile(plan.profiles_of(job)[0]),
            "crossings": crossings,
            "inputs": inputs,
            "at_ps": job.time_shift_ps or 0,
            "iterations": ITERATIONS,
            "share": ("fair", 1.0),
            "priority": 0,
            "jitter": job.jitter,
        }
        engine.start(engine.add(job.name), spec)
    running = len(plan.jobs)
    while running > 0:
        running -= len(engine.advance(round(_UNENDING_S * ITERATIONS * PS_PER_S)))
    rows = frame(engine.take_tables()["iterations"])
    sums = [float(rows.filter(pl.col("job") == number)["marks"].sum()) for number in range(len(plan.jobs))]
    return {job.name: total / ITERATIONS for job, total in zip(plan.jobs, sums, strict=True)}


def counted(case: Case) -> dict[str, float]:
    """Marks per iteration of each job on the packet engine."""
    flows = simulate(case.plan("packet")).tables["flows"]
    of_job = {job["name"]: flows.filter(pl.col("job") == job["name"])["marks"] for job in case.jobs}
    return {name: float(marks.sum()) / ITERATIONS for name, marks in of_job.items()}


def reproduce(progress: Progress) -> Reproduction:
    """The model's numbers as used and as fitted anew, and its marks beside those of the packet engine."""
    fitted = fit(progress)
    rows = list(_fit_rows(fitted))
    ratios = []
    for case in cases():
        progress(case.name)
        model, packets = modelled(case), counted(case)
        for name, marks in packets.items():
            row = Row(f"{case.name}: {name}, marks per iteration", model[name], marks)
            rows.append(replace(row, comment=case.why) if row.differs else row)
            if model[name] > 0 and marks > 0:
                ratios.append(marks / model[name])
    ratio = float(np.median(ratios))
    rows.append(Row("marks on packets ÷ the model's, median", None, ratio, "", "over the rows above"))
    return Reproduction(
        "X3",
        "ECN marks: the flow engine's model against the packet engine",
        tuple(rows),
        notes=(
            f"The model is fitted to flows of {' and '.join(CAPS)} that join one after another on a link of "
            f"{CAPACITY}, and to one that starts and stops, with seeds {', '.join(map(str, SEEDS))}. Marks "
            "are packets of 4,096 bytes. WRED from 1,000 to 2,000 cells of 80 bytes, P_max 0.2, DCQCN as "
            "in H1.",
            f"The cases were not fitted to: catalogue jobs on two workers, {ITERATIONS} iterations with "
            f"{JITTER:.0%} jitter.",
            "Bursts are those of flows that return. In an earlier form they were those of flows that start "
            "for the first time, a third smaller, and the model had 0.5 to 1.0 times the marks of the "
            "snapshots; what the fit itself shows of returning flows led to this form.",
        ),
        columns=("flow engine", "packet engine"),
    )


def _fit_rows(fitted: Marks) -> Iterator[Row]:
    pairs = zip(FITTED.per_second, fitted.per_second, FITTED.per_join, fitted.per_join, strict=True)
    for flows, (used, fitted_rate, used_join, fitted_join) in enumerate(pairs, start=2):
        yield Row(f"fit: marks per second of {flows} flows", used, fitted_rate)
        yield Row(f"fit: further marks when flow {flows} joins", used_join, fitted_join)
    for name, used_ps, fitted_ps in (
        ("a burst's time constant", FITTED.settling_ps, fitted.settling_ps),
        ("time constant of recovery", FITTED.recovery_ps, fitted.recovery_ps),
    ):
        yield Row(f"fit: {name}", used_ps / 1e9, fitted_ps / 1e9, "ms")
