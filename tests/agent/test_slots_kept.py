"""Agents without I/O keep simulated jobs in their slots."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.jobs import Job, Rank, answering, simulate, slot_of

from hocket_agent.offset import Offset
from hocket_agent.slots import Slot
from hocket_agent.state import (
    LEASE_NS,
    Answer,
    Delay,
    Iteration,
    Shifter,
)

MS = 1_000_000
SECOND = 1_000 * MS


def test_two_colliding_jobs_interleave_and_stay_interleaved() -> None:
    def pair(slotted: bool) -> list[Job]:
        jobs = [Job(jitter=0.01, draws=Random(seed)) for seed in (1, 2)]
        if slotted:
            # 2% more than an iteration: room for twice the deviation, as CASSINI's slots leave.
            jobs[0].slot = slot_of(1_000, 183.6)
            jobs[1].slot = slot_of(1_000 + 183.6 / 2, 183.6)
        simulate(jobs, 600, answering(jobs))
        return jobs

    for job in pair(slotted=False):
        # Both at once get 25 of the 40 Gbps that they demand: 144 ms instead of 90 ms.
        assert job.mean_ms(since=20) > 195
        assert job.adjustments == 0
    for job in pair(slotted=True):
        assert job.mean_ms(since=20) < 186
        # NSDI'24 Figure 17: under two a minute.
        assert job.adjustments < 2 * 10


def test_ranks_whose_clocks_differ_and_drift_keep_a_slot_together() -> None:
    draws = Random(5)
    ranks = [Rank(Shifter(), draws.randrange(10**12), drift) for drift in (-80, 0, 15, 80)]
    slot = slot_of(1_000, 183.6)
    job = Job(jitter=0.005, ranks=ranks)

    def every_second(now_ns: int) -> None:
        for rank in ranks:
            rank.hears(now_ns, slot, error_ns=draws.randrange(-MS, MS))

    simulate([job], 300, every_second)
    late_ms = [slot.late_ns(at) / MS for at in job.communication_ns[30:]]
    assert max(map(abs, late_ms)) < 9
    assert job.adjustments < 2 * 5


def test_stragglers_cost_one_adjustment_each_and_the_job_returns_to_its_slot() -> None:
    ranks = [Rank(Shifter()) for _ in range(4)]
    slot = slot_of(1_000, 182)
    job = Job(ranks=ranks, slot=slot, straggles=lambda number: 50.0 if number % 100 == 50 else 0.0)
    simulate([job], 180, answering([job]))
    late_ms = [slot.late_ns(at) / MS for at in job.communication_ns]
    stragglers = range(50, len(late_ms) - 3, 100)
    assert len(stragglers) >= 9
    assert [late_ms[number] for number in stragglers] == pytest.approx([50.0] * len(stragglers))
    assert all(abs(late_ms[number + 2]) <= 9 for number in stragglers)
    assert job.adjustments == len(stragglers)
    assert job.mean_ms() < 182 * 1.02


def test_a_rank_that_loses_the_service_does_not_slow_its_job() -> None:
    ranks = [Rank(Shifter()) for _ in range(3)]
    slot = slot_of(1_000, 182)
    job = Job(jitter=0.005, ranks=ranks)

    def every_second(now_ns: int) -> None:
        for rank in ranks if now_ns < 20 * SECOND else ranks[1:]:
            rank.hears(now_ns, slot)

    simulate([job], 180, every_second)
    assert ranks[0].shifter.applied is None
    assert ranks[0].shifter.reason == "the service has not answered for 60 s"
    assert all(rank.shifter.applied == slot.version for rank in ranks[1:])
    assert max(abs(slot.late_ns(at)) for at in job.communication_ns[30:]) < 9 * MS
    assert job.mean_ms(since=30) < 182 * 1.01


def test_all_ranks_apply_a_slot_at_the_same_iteration_whenever_they_hear_of_it() -> None:
    ranks = [Rank(Shifter()) for _ in range(3)]
    slot = slot_of(1_077, 180, iteration=20)
    job = Job(ranks=ranks)

    def every_second(now_ns: int) -> None:
        # One rank after the other, a second apart, and the last still before iteration 20.
        ranks[min(2, now_ns // SECOND)].hears(now_ns, slot)

    simulate([job], 5, every_second)
    delayed = [number for number, delay_ns in enumerate(job.delays_ns) if delay_ns > 0]
    assert delayed == [20]
    assert all(slot.late_ns(at) == 0 for at in job.communication_ns[20:])


def test_a_slot_that_comes_after_its_iteration_is_applied_at_the_next() -> None:
    job = Job(slot=slot_of(1_077, 180, iteration=3))
    simulate([job], 5, answering([job], from_second=2))
    assert [number for number, delay_ns in enumerate(job.delays_ns) if delay_ns > 0] == [12]


def test_a_new_slot_replaces_the_old_one_and_a_withdrawn_one_ends_all_delays() -> None:
    job = Job()

    def every_second(now_ns: int) -> None:
        second = now_ns // SECOND
        slot = slot_of(1_000, 190) if second < 10 else slot_of(1_050, 200, version=2)
        job.ranks[0].hears(now_ns, slot if second < 20 else None)

    simulate([job], 30, every_second)

    def mean_ms(first_s: int, last_s: int) -> float:
        started = [at for at in job.communication_ns if first_s * SECOND <= at < last_s * SECOND]
        return (started[-1] - started[0]) / (len(started) - 1) / MS

    assert mean_ms(2, 10) == pytest.approx(190)
    assert mean_ms(12, 20) == pytest.approx(200)
    assert mean_ms(21, 30) == pytest.approx(180)


def measured(shifter: Shifter, *, since: int = 0, count: int = 5, took_ms: int = 180) -> Shifter:
    """Gives `shifter` some iterations of `took_ms` in which communication starts after 60 ms."""
    for number in range(since, since + count):
        start_ns = number * took_ms * MS
        shifter.completed(
            Iteration(number, start_ns, start_ns + 60 * MS, start_ns + took_ms * MS, 0, False, None)
        )
    return shifter


def answer(slot: Slot | None, at_ns: int = 0, uncertainty_ns: int = 0, reason: str = "") -> Answer:
    return Answer(slot, reason, Offset(0, uncertainty_ns, at_ns), at_ns)


def test_without_an_answer_nothing_is_delayed() -> None:
    shifter = measured(Shifter())
    assert shifter.delay(5, 900 * MS) == Delay(0, False)
    assert shifter.reason == "the service has not answered yet"


def test_the_services_reason_for_no_slot_is_passed_on() -> None:
    shifter = measured(Shifter())
    shifter.answered(answer(None, reason="shares no link"))
    assert shifter.delay(5, 900 * MS) == Delay(0, False)
    assert shifter.reason == "shares no link"


def test_without_a_precise_clock_nothing_is_shifted_and_the_reason_says_so() -> None:
    shifter = measured(Shifter())
    shifter.answered(answer(slot_of(1_000, 190), 900 * MS, uncertainty_ns=9 * MS + 1))
    assert shifter.delay(5, 900 * MS) == Delay(0, False)
    assert shifter.reason == (
        "the service's clock is known only to within 9.000 ms, but slots allow 9.000 ms"
    )
    shifter.answered(answer(slot_of(1_000, 190), 900 * MS, uncertainty_ns=9 * MS))
    assert shifter.delay(6, 900 * MS).wait_ns == 40 * MS


def test_the_clocks_possible_drift_since_the_answer_counts() -> None:
    # 15 ppm in 59 s are 0.885 ms.
    shifter = measured(Shifter())
    shifter.answered(answer(slot_of(1_000, 190), uncertainty_ns=8_200_000))
    assert shifter.delay(5, 0).wait_ns > 0
    assert shifter.delay(6, 59 * SECOND).wait_ns == 0
    assert "known only to within 9.085 ms" in shifter.reason


def test_a_slot_ends_when_the_service_has_been_silent_for_its_lease() -> None:
    shifter = measured(Shifter())
    shifter.answered(answer(slot_of(1_000, 190)))
    assert shifter.delay(5, LEASE_NS).wait_ns > 0
    assert shifter.delay(6, LEASE_NS + 1).wait_ns == 0
    assert shifter.reason == "the service has not answered for 60 s"


def test_slots_made_for_another_profile_are_not_followed() -> None:
    shifter = measured(Shifter())
    shifter.answered(answer(slot_of(0, 361, ideal_ms=361)))
    assert shifter.delay(5, 900 * MS) == Delay(0, False)
    assert shifter.reason == (
        "the slot's period of 361.000 ms is more than 2 times the usual iteration of 180.000 ms"
    )
    shifter.answered(answer(slot_of(0, 360, ideal_ms=360)))
    assert shifter.delay(6, 900 * MS).wait_ns == 120 * MS


def test_a_slot_too_short_for_its_iterations_is_abandoned() -> None:
    # Iterations of 185 ms in slots 180 ms apart: every other one needs an adjustment of most of a period.
    job = Job(rest=35.0, slot=slot_of(1_000, 180))
    simulate([job], 60, answering([job]))
    (rank,) = job.ranks
    assert 10 <= job.adjustments <= 50
    assert rank.shifter.applied is None
    assert rank.shifter.reason == (
        "adjustments took more than 20% of the last 50 iterations, "
        "which do not fit the slot's period of 180.000 ms"
    )
    assert job.delays_ns[-200:] == [0] * 200
    # Another slot gets another chance.
    rank.hears(0, slot_of(1_000, 190, version=2))
    assert rank.shifter.delay(10**6, 0).wait_ns > 0


def test_unobserved_communication_is_assumed_to_start_at_the_configured_time() -> None:
    shifter = Shifter(communication_after_ns=60 * MS)
    shifter.completed(Iteration(0, 0, None, 180 * MS, 0, False, None))
    shifter.answered(answer(slot_of(250, 190)))
    # It would communicate at 240 ms.
    assert shifter.delay(1, 180 * MS).wait_ns == 10 * MS


def test_without_a_known_start_of_communication_nothing_is_delayed() -> None:
    shifter = Shifter()
    shifter.completed(Iteration(0, 0, None, 180 * MS, 0, False, None))
    shifter.answered(answer(slot_of(250, 190)))
    assert shifter.delay(1, 180 * MS) == Delay(0, False)
    assert shifter.reason == "no start of communication has been observed yet"


def test_the_host_waits_for_its_gpu_only_where_it_matters() -> None:
    shifter = measured(Shifter())
    assert not shifter.needs_start(5, 900 * MS)
    shifter.answered(answer(slot_of(1_000, 180, iteration=7)))
    assert not shifter.needs_start(6, 900 * MS)
    assert shifter.needs_start(7, 900 * MS)
    shifter.delay(7, 940 * MS)
    # Aligned, and each iteration as long as its slot: nothing to do.
    measured(shifter, since=7)
    shifter.completed(Iteration(12, 1_120 * MS, 1_180 * MS, 1_300 * MS, 0, False, None))
    assert not shifter.needs_start(13, 1_300 * MS)
    # 20 ms late.
    shifter.completed(Iteration(13, 1_320 * MS, 1_380 * MS, 1_500 * MS, 0, False, None))
    assert shifter.needs_start(14, 1_500 * MS)


@given(
    origin_ns=st.integers(0, 2**62),
    period_ns=st.integers(2, 2**41),
    ideal_ns=st.integers(1, 2**41),
    offset_ns=st.integers(-(2**62), 2**62),
    uncertainty_ns=st.integers(0, 10**9),
    now_ns=st.integers(0, 2**62),
    after_ns=st.integers(0, 2**40),
    took_ns=st.integers(1, 2**41),
)
def test_a_delay_is_never_negative_and_shorter_than_two_iterations(
    origin_ns: int,
    period_ns: int,
    ideal_ns: int,
    offset_ns: int,
    uncertainty_ns: int,
    now_ns: int,
    after_ns: int,
    took_ns: int,
) -> None:
    shifter = Shifter()
    shifter.completed(Iteration(0, 0, after_ns, took_ns, 0, False, None))
    slot = Slot(1, origin_ns, period_ns, ideal_ns, 0, max(1, period_ns // 20))
    shifter.answered(Answer(slot, "", Offset(offset_ns, uncertainty_ns, now_ns), now_ns))
    for number in range(1, 4):
        wait_ns = shifter.delay(number, now_ns).wait_ns
        assert 0 <= wait_ns < period_ns
        assert wait_ns < 2 * took_ns
        start_ns = now_ns + wait_ns
        begun_ns = start_ns + after_ns
        shifter.completed(Iteration(number, start_ns, begun_ns, start_ns + took_ns, wait_ns, False, None))
        now_ns = start_ns + took_ns
