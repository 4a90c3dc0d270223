"""Slots on the flow engine: they last, they win, and where they do not there are none."""

import numpy as np
import pytest

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.specs import native_profile
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.schedulers.cassini import CassiniOptions, Slot
from hocket.schedulers.cassini.components import Member, Part, layout
from hocket.schedulers.cassini.slots import Prediction, Spacing
from hocket.schedulers.cassini.time_shifts import TimeShiftSolver
from hocket.workloads import profile

RATE_BPS = 50 * 10**9
JITTER = 0.01

FABRIC = _hocket.Fabric.one_link(RATE_BPS)
NETWORK = Network(FABRIC, tuple(FABRIC.links()), {}, (0,))


def part_of(*models: tuple[str, int]) -> Part:
    """Jobs of two workers that share one link."""
    members = [
        Member(f"{model}-{number}", (number,), batch_size, profile(model, batch_size, 2), [(0, 1)])
        for number, (model, batch_size) in enumerate(models)
    ]
    return layout(members, [RATE_BPS]).parts[0]


def spaced(part: Part, jitter: float = JITTER) -> Spacing:
    (solution,) = TimeShiftSolver(CassiniOptions(), NETWORK, seed=0).solve([part])
    assert solution.circle is not None
    found = Prediction(FABRIC, part, jitter=jitter, adjust=True, seed=3).spacing(solution.circle.turned(0))
    assert found is not None
    return found


def test_goodput_lost_to_contention_raises_the_predicted_gain_of_slots() -> None:
    part = part_of(("VGG16", 1400), ("WideResNet101", 800))
    (solution,) = TimeShiftSolver(CassiniOptions(), NETWORK, seed=0).solve([part])
    assert solution.circle is not None
    gains = []
    for goodput in ((), (0.8,)):
        prediction = Prediction(FABRIC, part, goodput=goodput, jitter=JITTER, adjust=True, seed=3)
        spacing = prediction.spacing(solution.circle.turned(0))
        assert spacing is not None
        gains.append(spacing.gain)
    assert gains[1] > gains[0] + 0.03


def paid_and_adjusted(part: Part, slots: Spacing | None, until_ps: int) -> tuple[float, float]:
    """The mean iteration with its wait in ms, and adjustments per minute of the job that has most; all jobs
    start at once unless they have slots.
    """
    run = _hocket.ClusterRun(
        FABRIC, {"seed": 11, "priority_queues": 1, "goodput": (), "merge": 0.0, "marks": None}
    )
    for place, member in enumerate(part.members):
        job = run.add(member.name)
        run.start(
            job,
            {
                "profile": native_profile(member.profile),
                "crossings": member.crossings,
                "inputs": [],
                "at_ps": 0 if slots is None else slots.offsets_ps[place],
                "iterations": 100_000,
                "share": ("fair", 1.0),
                "priority": 0,
                "jitter": JITTER,
            },
        )
        if slots is not None:
            run.align(job, slots.offsets_ps[place], slots.periods_ps[place], True)
    run.advance(until_ps)
    tables = run.take_tables()
    rows = {name: np.frombuffer(its["buffer"], its["dtype"]) for name, its in tables["iterations"].items()}
    paid_ps = (rows["duration_ps"].sum() + rows["delayed_ps"].sum()) / rows["count"].sum()
    adjusted_jobs = tables["adjustments"]["job"]
    adjusted = np.frombuffer(adjusted_jobs["buffer"], adjusted_jobs["dtype"])
    most = int(np.bincount(adjusted, minlength=1).max())
    return float(paid_ps) / 1e9, most / (until_ps / 60e12)


@pytest.mark.parametrize(
    "models",
    [
        pytest.param([("WideResNet101", 800), ("VGG16", 1400)], id="snapshot 1"),
        pytest.param([("VGG19", 1400), ("VGG16", 1700), ("ResNet50", 1600)], id="snapshot 2"),
        pytest.param([("VGG19", 1024), ("VGG16", 1200)], id="snapshot 3"),
    ],
)
def test_slots_bring_a_speed_up_and_jobs_stay_in_them(models: list[tuple[str, int]]) -> None:
    part = part_of(*models)
    slots = spaced(part)
    assert slots.gain > 1
    until_ps = 300 * 10**12
    together_ms, _ = paid_and_adjusted(part, None, until_ps)
    in_slots_ms, adjustments_per_minute = paid_and_adjusted(part, slots, until_ps)
    assert in_slots_ms < together_ms
    # NSDI'24 Fig 17.
    assert adjustments_per_minute < 2


def test_without_jitter_jobs_that_fit_need_no_more_than_their_period() -> None:
    # In every 200 ms one is up for 45 ms twice, the other for 40 ms once: it fits into either pause of 55 ms.
    quick = WorkloadProfile(100 * 10**9, (PhaseSpec(0, 45 * 10**9, 40 * 10**9),), ())
    slow = WorkloadProfile(200 * 10**9, (PhaseSpec(0, 40 * 10**9, 40 * 10**9),), ())
    members = [Member(name, (0,), 1, each, [(0, 1)]) for name, each in (("quick", quick), ("slow", slow))]
    slots = spaced(layout(members, [RATE_BPS]).parts[0], jitter=0.0)
    assert slots.periods_ps == (quick.period_ps, slow.period_ps)
    assert slots.gain > 1


def test_jobs_of_dissimilar_periods_are_faster_without_slots() -> None:
    # 19, 9 and 11 iterations to a turn (snapshot 5): padding all of them costs more than collisions do.
    assert spaced(part_of(("BERT", 8), ("VGG19", 1400), ("WideResNet101", 800))).gain < 1


def test_the_next_slot_is_at_or_after_a_time_and_origins_may_lie_ahead() -> None:
    slot = Slot(origin_ps=1_000, period_ps=300)
    assert [slot.next_ps(at_ps) for at_ps in (0, 100, 101, 1_000, 1_001)] == [100, 100, 400, 1_000, 1_300]
