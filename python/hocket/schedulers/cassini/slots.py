"""How far apart slots must be to last, and whether they win anything: predicted on the flow engine.

Slots as far apart as iterations on an idle network do not last where jobs still collide a little: each
iteration then ends late for the next slot, and a job that is late can only be delayed further. So slots are
as far apart as the slowest job needs, and jobs that are early wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from hocket import _hocket
from hocket.runner import plain
from hocket.schedulers.cassini.answers import Circle
from hocket.schedulers.cassini.components import Part
from hocket.workloads import WorkloadProfile

ADJUSTMENT_SHARE = 0.05
"""A job that communicates this share of an ideal iteration off its slot is adjusted (NSDI'24 §5.7)."""

ADJUSTED = 0.001
"""The share of iterations after which jitter may have taken a job out of its slot. Hocket: 0.3 adjustments in
a minute of 300 iterations, where NSDI'24 Fig 17 has fewer than two."""

_RANDOM_STARTS = 8
"""Relative places of jobs without slots. Hocket: as many as for the snapshots of NSDI'24 Table 2."""
# Of the flow engine's iterations; the first holds numbers of jobs.
_COLUMNS = ("job", "start_ps", "end_ps")
_LAPS = 30
"""Iterations of the longest job behind the prediction without slots."""
_ATTEMPTS = 4
"""How often slots are made longer before a component goes without. Each attempt is as long as the one before
needed; with more room there is less that collides."""


@dataclass(frozen=True)
class Spacing:
    """Slots of the jobs of a part, by place in its members."""

    periods_ps: tuple[int, ...]
    offsets_ps: tuple[int, ...]
    """From the origin, below the period."""
    gain: float
    """An iteration without slots, at random starts, ÷ the period of its slots; mean over jobs."""


def spacing(fabric: _hocket.Fabric, part: Part, circle: Circle, jitter: float, seed: int) -> Spacing | None:
    """Slots that last for the jobs of `part`, whose computing varies by `jitter`; none if no slots last."""
    perimeter_ps = _lasting_perimeter_ps(fabric, part, circle)
    if perimeter_ps is None:
        return None
    slack = max(slack_share(member.profile, jitter) for member in part.members)
    perimeter_ps = _in_steps(circle, round(perimeter_ps * (1 + slack)))
    periods_ps, offsets_ps = _laid_out(circle, perimeter_ps)
    free_ps = _free_ps(fabric, part, seed)
    ratios = [free / period for free, period in zip(free_ps, periods_ps, strict=True)]
    return Spacing(periods_ps, offsets_ps, sum(ratios) / len(ratios))


def slack_share(profile: WorkloadProfile, jitter: float) -> float:
    """How much longer than its iterations a job's slots are, as a share of its period, so that variation of
    its computing takes it out of them in `ADJUSTED` of all iterations at most.

    Each Down phase of length d varies normally by `jitter` × d. How late a job is grows by what an iteration
    is too long, shrinks by the slack m of its slot and never falls below 0, so it exceeds x with a
    probability of at most exp(−2 m x ÷ σ²) (Kingman 1970, Inequalities in the theory of queues, for normal
    steps).

    >>> from hocket.workloads import PhaseSpec
    >>> half = WorkloadProfile(200, (PhaseSpec(100, 100, 40),), ())
    >>> round(slack_share(half, jitter=0.01), 6)  # 0.005² × ln 1000 ÷ (2 × 0.05)
    0.001727
    """
    ends = [0, *(phase.start_ps + phase.duration_ps for phase in profile.phases)]
    starts = [*(phase.start_ps for phase in profile.phases), profile.period_ps]
    downs_ps = [start - end for end, start in zip(ends, starts, strict=True)]
    variance = sum((jitter * down_ps / profile.period_ps) ** 2 for down_ps in downs_ps)
    return variance * math.log(1 / ADJUSTED) / (2 * ADJUSTMENT_SHARE)


def _lasting_perimeter_ps(fabric: _hocket.Fabric, part: Part, circle: Circle) -> int | None:
    """The shortest turn found in which every iteration ends within its slot, so that all turns are alike."""
    perimeter_ps = circle.padded_perimeter_ps
    for _ in range(_ATTEMPTS):
        needed_ps = _needed_perimeter_ps(fabric, part, circle, perimeter_ps)
        if needed_ps > perimeter_ps:
            perimeter_ps = needed_ps
            continue
        # The last attempt may have asked for more room than its jobs then took.
        shorter_ps = max(needed_ps, circle.padded_perimeter_ps)
        lasts = _needed_perimeter_ps(fabric, part, circle, shorter_ps) <= shorter_ps
        return shorter_ps if lasts else perimeter_ps
    return None


def _needed_perimeter_ps(fabric: _hocket.Fabric, part: Part, circle: Circle, perimeter_ps: int) -> int:
    """The turn with slots as long as the iterations of those of a turn of `perimeter_ps`."""
    periods_ps, offsets_ps = _laid_out(circle, perimeter_ps)
    jobs = [
        _job(part, place, offset_ps, pad_to_ps=period_ps)
        for place, (period_ps, offset_ps) in enumerate(zip(periods_ps, offsets_ps, strict=True))
    ]
    # The first turn begins on an idle network; of the second, all iterations end in the third.
    taken_ps = _durations_ps(fabric, jobs, until_ps=3 * perimeter_ps)
    longest_ps = [int(each.max()) * rounds for each, rounds in zip(taken_ps, circle.rounds, strict=True)]
    return _in_steps(circle, max(longest_ps))


def _in_steps(circle: Circle, perimeter_ps: int) -> int:
    """The first turn from `perimeter_ps` on that all jobs divide into whole picoseconds."""
    step = math.lcm(*circle.rounds)
    return -(-perimeter_ps // step) * step


def _laid_out(circle: Circle, perimeter_ps: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Periods and offsets on a turn of another length, with jobs at the angles of the circle."""
    periods_ps = tuple(perimeter_ps // rounds for rounds in circle.rounds)
    offsets_ps = tuple(shift_ps * perimeter_ps // circle.perimeter_ps for shift_ps in circle.shifts_ps)
    return periods_ps, offsets_ps


def _free_ps(fabric: _hocket.Fabric, part: Part, seed: int) -> list[float]:
    """By place, the mean iteration without slots, over random relative places."""
    until_ps = _LAPS * max(member.profile.period_ps for member in part.members)
    draws = Random(f"{seed} starts of {' '.join(part.names)}")
    sums = np.zeros(len(part.members))
    for _ in range(_RANDOM_STARTS):
        jobs = [
            _job(part, place, draws.randrange(member.profile.period_ps), pad_to_ps=None)
            for place, member in enumerate(part.members)
        ]
        sums += [each.mean() for each in _durations_ps(fabric, jobs, until_ps)]
    return [float(each) for each in sums / _RANDOM_STARTS]


def _job(part: Part, place: int, shift_ps: int, pad_to_ps: int | None) -> "_hocket._JobSpec":
    """A member as the flow engine takes it, without jitter."""
    member = part.members[place]
    return {
        "name": str(place),
        "profile": plain(member.profile),
        "first": None,
        "crossings": member.crossings,
        "training": None,
        "arrival_ps": 0,
        "iterations": None,
        "share": ("fair", 1.0),
        "priority": 0,
        "time_shift_ps": shift_ps,
        "clock_error_ps": 0,
        "readjust": False,
        "jitter": 0.0,
        "pad_to_ps": pad_to_ps,
    }


def _durations_ps(
    fabric: _hocket.Fabric, jobs: "Sequence[_hocket._JobSpec]", until_ps: int
) -> list[npt.NDArray[np.int64]]:
    """By job, how long the iterations took that ended by `until_ps`, without the waits between them.

    Where none ended, one that took until then.
    """
    ran = _hocket.simulate(
        fabric,
        jobs,
        {
            "priority_queues": 1,
            "seed": 0,
            "iterations": None,
            "until_ps": until_ps,
            "record_rates_until_ps": 0,
            "record_operations": 0,
            "sample_every_ps": None,
            "record_flows": False,
        },
        lambda *_: None,
    )
    if ran["interrupted"]:
        raise KeyboardInterrupt
    rows = ran["tables"]["iterations"]
    number, start_ps, end_ps = (np.frombuffer(rows[name][1], rows[name][0]) for name in _COLUMNS)
    taken_ps = (end_ps - start_ps).astype(np.int64)
    by_job = [taken_ps[number == code] for code in range(len(jobs))]
    return [each if each.size else np.array([until_ps]) for each in by_job]
