"""LIVE's two plans, the cases of each, and both engines' predictions."""

from dataclasses import dataclass

from hocket.engines.run import simulate
from hocket.plan import Plan, parse_plan
from hocket.results import Run
from hocket.service.contention import Contender, contention, solve
from hocket.testbed.session import Agents
from hocket_reproduce.targets.setting import (
    JITTER,
    PRECISION_DEG,
    SEED,
    Tables,
    each_with,
    in_time,
)
from hocket_reproduce.targets.testbed import T_AGGRESSIVE_US, T_US, dcqcn

CAPACITY = "500 Mbps"
"""Hocket: a rate at which two processors are not busy. Only rates relative to it matter."""

RATE = "400 Mbps"
"""Rate of an Up phase. Hocket: four fifths of the link; in NSDI'24 Table 2 it is about two thirds."""

PERIOD_MS = 300
"""Hocket: in the range of NSDI'24 Table 2, whose iterations take 165 to 330 ms."""

UP_MS = {"compatible": 120, "incompatible": 200}
"""Up time by plan. Hocket: two jobs can take turns if each is Up for less than half of its period."""

JOBS = ("a", "b")
ITERATIONS = 150
"""Hocket: slots arrive some 15 iterations after the start; the last half is also measured alone."""

WEIGHT = 2.0
"""Weight of the first job in the unequal case: HotNets'22 §2 found 30 against 15 Gbps."""

SAMPLE_MS = 10
_MTU = "1500 B"
"""Ethernet's, as on the testbed's links."""


@dataclass(frozen=True)
class Case:
    """How the jobs share the link.

    `shares` apply on the testbed and on the flow engine; on packets, `timers_us` and `adaptive` of DCQCN
    correspond to them. `why` explains differences between predictions and live runs.
    """

    name: str
    why: str = ""
    agents: Agents = "none"
    shares: tuple[object, object] = ("fair", "fair")
    timers_us: tuple[int, int] = (T_US, T_US)
    adaptive: bool = False


ALONE = Case("alone", "the machine may have done other work meanwhile")
UNSHIFTED = Case(
    "no shifts",
    "chance makes TCP's shares unequal, and unequal jobs slide apart as in H2; the flow engine's never do",
)
SHIFTED = Case(
    "shifts",
    "an iteration that is late for its slot waits for the next one, and slots are those of jobs alone",
    agents="shift",
)
UNEQUAL = Case(
    "unequal",
    "twice the increase is not twice the share: where both jobs lose packets, both windows are halved",
    shares=({"weighted": WEIGHT}, "fair"),
    timers_us=(T_AGGRESSIVE_US, T_US),
)
ADAPTIVE = Case(
    "adaptive",
    "windows this large grow by little within a phase; experiments/adaptive-tcp has smaller ones",
    shares=({"adaptive": 1.0}, {"adaptive": 1.0}),
    adaptive=True,
)
CASES = (UNSHIFTED, SHIFTED, UNEQUAL, ADAPTIVE)


def live_plan(name: str, iterations: int = ITERATIONS) -> Tables:
    """Two equal jobs of two workers each, on one link."""
    up_ms = UP_MS[name]
    up = [{"start": f"{PERIOD_MS - up_ms} ms", "duration": f"{up_ms} ms", "rate": RATE}]
    return {
        "name": f"live, {name} jobs",
        "seed": SEED,
        "link": {"capacity": CAPACITY, "delay": "0 ms", "precision_deg": PRECISION_DEG},
        "run": {"iterations": iterations},
        "jobs": [{"name": job, "period": f"{PERIOD_MS} ms", "up": up} for job in JOBS],
    }


def in_case(plan: Tables, case: Case) -> Tables:
    """`plan` with the shares of `case`."""
    jobs = [{**job, "share": share} for job, share in zip(plan["jobs"], case.shares, strict=False)]
    return {**plan, "jobs": jobs}


def predicted(plan: Tables, case: Case) -> tuple[Run, Run]:
    """The flow engine's and the packet engine's run of `plan` in `case`, with jitter."""
    jobs = each_with(plan["jobs"], jitter=JITTER)
    if case.agents == "shift":
        jobs = _in_slots(parse_plan(plan), jobs)
    iterations = plan["run"]["iterations"]
    # No iteration here takes twice as long as alone, so rates are recorded until the end.
    recorded = {"iterations": iterations, "record_rates_until": f"{2 * PERIOD_MS * iterations} ms"}
    flow = simulate({**plan, "jobs": jobs, "run": recorded})
    governed = [
        {**job, "congestion": dcqcn(timer_us, adaptive=case.adaptive)}
        for job, timer_us in zip(jobs, case.timers_us, strict=False)
    ]
    sampled = {"iterations": iterations, "engine": "packet", "sample_every": f"{SAMPLE_MS} ms"}
    packet = simulate({**plan, "jobs": governed, "host": {"mtu": _MTU}, "run": sampled})
    return flow, packet


def _in_slots(plan: Plan, jobs: list[Tables]) -> list[Tables]:
    """`jobs` in the slots that the service would give them, if any."""
    assert plan.link is not None, "its jobs share one link"
    crossed = {"link": (plan.link.capacity_bps, 1)}
    contenders = [
        Contender(job.name, number, plan.profiles_of(job)[0], crossed) for number, job in enumerate(plan.jobs)
    ]
    (component,) = contention(contenders).components
    places = solve(component, {}, JITTER).places
    if not places:
        return jobs
    return [
        {
            **job,
            # A slot is for the job's mark, which is `mark_ps` after the start of its iteration.
            "time_shift": in_time((places[each.name].offset_ns - each.mark_ps / 1000) / 1e9),
            "pad_to": in_time(places[each.name].period_ns / 1e9),
            "readjust": True,
        }
        for job, each in zip(jobs, contenders, strict=True)
    ]
