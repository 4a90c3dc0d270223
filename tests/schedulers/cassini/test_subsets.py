"""Slots for some of the jobs of a component: they gain, or nobody gets them."""

from collections.abc import Sequence
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.specs import native_profile
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.schedulers.cassini import CassiniOptions, Slot
from hocket.schedulers.cassini.components import Member, Part, layout
from hocket.schedulers.cassini.padded_circles import padded_circles
from hocket.schedulers.cassini.slots import Prediction
from hocket.schedulers.cassini.subsets import LEAST_GAIN, SubsetSlots, subset_slots
from hocket.schedulers.cassini.time_shifts import TimeShiftSolver

RATE_BPS = 50 * 10**9
FABRIC = _hocket.Fabric.one_link(RATE_BPS)
NETWORK = Network(FABRIC, tuple(FABRIC.links()), {}, (0,))
MS = 10**9
JITTER = 0.01
OPTIONS = CassiniOptions(slots="subset")


def job(name: str, period_ms: int, up_ms: int, gbps: int = 40) -> Member:
    """A job on the one link that computes first, and then sends until its iteration ends."""
    phase = PhaseSpec((period_ms - up_ms) * MS, up_ms * MS, gbps * 10**9)
    return Member(name, (0,), 1, WorkloadProfile(period_ms * MS, (phase,), ()), [(0, 1)])


def part_of(*members: Member) -> Part:
    (part,) = layout(members, [RATE_BPS]).parts
    return part


def found(part: Part, seed: int = 3) -> SubsetSlots | None:
    prediction = Prediction(FABRIC, part, jitter=JITTER, adjust=True, seed=seed)
    return subset_slots(part, prediction, NETWORK, OPTIONS, seed)


def mean_ms(part: Part, slots: dict[str, Slot]) -> list[float]:
    """The mean iteration of each job with its wait, over five minutes in which those in `slots` have them."""
    run = _hocket.ClusterRun(
        FABRIC, {"seed": 11, "priority_queues": 1, "goodput": (), "merge": 0.0, "marks": None}
    )
    for number, member in enumerate(part.members):
        handle = run.add(member.name)
        run.start(
            handle,
            {
                "profile": native_profile(member.profile),
                "crossings": member.crossings,
                "inputs": [],
                "at_ps": 17 * number * MS,
                "iterations": 100_000,
                "share": ("fair", 1.0),
                "priority": 0,
                "jitter": JITTER,
            },
        )
        if member.name in slots:
            run.align(handle, slots[member.name].origin_ps, slots[member.name].period_ps, True)
    run.advance(300 * 1000 * MS)
    rows = run.take_tables()["iterations"]
    column = {name: np.frombuffer(each["buffer"], each["dtype"]) for name, each in rows.items()}
    total_ps = column["duration_ps"] + column["delayed_ps"]
    jobs = range(len(part.members))
    return [float(total_ps[column["job"] == each].mean()) / MS for each in jobs]


# Two jobs send for nearly half of about 200 ms, 40 of 50 Gbps each: padded from 190 to 200 ms, the second one
# takes turns with the first. The third sends little, and all three fit only on a circle of 16, 17 and 19
# iterations (3,200, 3,230 and 3,249 ms), on which they are at every relative position.
A, B, C = job("a", 200, 90), job("b", 190, 90), job("c", 171, 20, gbps=20)


def test_of_three_jobs_the_two_that_fit_get_slots_half_a_turn_apart_and_gain() -> None:
    part = part_of(A, B, C)
    best = found(part)
    assert best is not None
    assert best.places == (0, 1)
    assert best.gain > LEAST_GAIN
    a, b = best.slots[0], best.slots[1]
    assert a.period_ps == b.period_ps
    assert 200 * MS <= a.period_ps <= 1.05 * 200 * MS
    apart = (b.origin_ps - a.origin_ps) % a.period_ps / a.period_ps
    assert apart == pytest.approx(0.5, abs=0.06)
    together = mean_ms(part, {})
    slotted = mean_ms(part, {"a": a, "b": b})
    assert slotted[0] < 0.95 * together[0]
    assert slotted[1] < 0.95 * together[1]
    assert slotted[2] < 1.01 * together[2]


def test_slots_for_all_three_would_make_them_slower() -> None:
    part = part_of(A, B, C)
    (solution,) = TimeShiftSolver(CassiniOptions(), NETWORK, seed=0).solve([part])
    assert solution.circle is not None
    assert min(solution.circle.rounds) > 10
    spacing = Prediction(FABRIC, part, jitter=JITTER, adjust=True, seed=3).spacing(solution.circle.turned(0))
    assert spacing is None or spacing.gain < 1


def test_a_link_that_a_job_without_a_slot_crosses_has_no_score_of_slots() -> None:
    best = found(part_of(A, B, C))
    assert best is not None
    assert best.scores == {}


def test_all_jobs_of_a_component_may_be_padded() -> None:
    # Half of the link's time each: padded from 190 to 200 ms they take turns.
    part = part_of(job("a", 200, 95), job("b", 190, 90))
    best = found(part)
    assert best is not None
    assert best.places == (0, 1)
    assert best.circle.rounds == (1, 1)
    assert set(best.scores) == {0}
    assert best.scores[0] == pytest.approx(1)


def test_jobs_that_exceed_the_link_all_the_time_get_no_slots() -> None:
    assert found(part_of(job("a", 200, 190), job("b", 170, 165), job("c", 130, 125))) is None


def test_the_same_component_gets_the_same_slots() -> None:
    assert found(part_of(A, B, C)) == found(part_of(A, B, C))


def test_no_padding_leaves_jobs_of_other_periods_without_slots() -> None:
    part = part_of(job("a", 200, 95), job("b", 187, 90))
    prediction = Prediction(FABRIC, part, jitter=JITTER, adjust=True, seed=3)
    assert subset_slots(part, prediction, NETWORK, CassiniOptions(slots="subset", padding=0), 3) is None


def test_a_threshold_above_all_scores_leaves_all_without_slots() -> None:
    part = part_of(A, B, C)
    prediction = Prediction(FABRIC, part, jitter=JITTER, adjust=True, seed=3)
    options = CassiniOptions(slots="subset", shift_threshold=1.1)
    assert subset_slots(part, prediction, NETWORK, options, 3) is None


@st.composite
def parts(draw: st.DrawFn) -> Part:
    count = draw(st.integers(2, 4))
    jobs = [
        job(f"job {number}", period := draw(st.integers(60, 400)), draw(st.integers(20, period - 10)))
        for number in range(count)
    ]
    return part_of(*jobs)


@settings(max_examples=15, deadline=None)
@given(parts())
def test_slots_are_never_given_without_a_predicted_gain(part: Part) -> None:
    best = found(part)
    if best is None:
        return
    assert best.gain > LEAST_GAIN
    assert set(best.slots) == set(best.places)
    prediction = Prediction(FABRIC, part, jitter=JITTER, adjust=True, seed=3)
    assert min(prediction.gain(best.slots), prediction.gain(best.slots, draw=1)) == best.gain
    for place, slot in best.slots.items():
        # No slot is shorter than an iteration on an idle network.
        assert slot.period_ps >= part.members[place].profile.period_ps


@given(st.lists(st.integers(10, 10_000), min_size=1, max_size=4), st.floats(0, 1))
def test_circles_pad_every_period_and_none_by_more_than_allowed(
    periods_us: Sequence[int], most: float
) -> None:
    periods_ps = [period * 1_000_000 for period in periods_us]
    circles = padded_circles(periods_ps, most)
    assert [each.padding for each in circles] == sorted(each.padding for each in circles)
    for circle in circles:
        assert gcd(*circle.rounds) == 1
        for padded_ps, rounds, period_ps in zip(circle.periods_ps, circle.rounds, periods_ps, strict=True):
            assert padded_ps * rounds == circle.perimeter_ps
            # The perimeter is rounded up to a multiple of all rounds, which takes less than a microsecond.
            assert period_ps <= padded_ps <= period_ps * (1 + most) + 10**6
