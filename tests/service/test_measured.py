"""Measured and predicted iterations, and the reasons why a slot is not followed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.conftest import MS, S, Served, registered, reported

from hocket.plan.reading import parse_as
from hocket.service.iterations import LATEST, LatestTimes
from hocket.service.models import JobView, Report
from hocket.service.overview import mean, row, sentences


def report(count: int, mean_ms: int, min_ms: int | None = None, max_ms: int | None = None) -> Report:
    times = {
        "total_ns": count * mean_ms * MS,
        "min_ns": (mean_ms if min_ms is None else min_ms) * MS,
        "max_ns": (mean_ms if max_ms is None else max_ms) * MS,
    }
    return parse_as(Report, reported(count=count, iteration=count, **times), "test", "")


class Course:
    """Jobs `a` and `b`, which take turns on link `l1`; `a` reports 10 iterations at a time."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._iteration = 10
        for name in "ab":
            served.register(name, registered())
        served.run("a", "b")

    def report(self, mean_ms: int, times: int = 1, **changed: Any) -> None:
        each = {"total_ns": 10 * mean_ms * MS, "min_ns": mean_ms * MS, "max_ns": mean_ms * MS}
        for _ in range(times):
            self.served.now_ns += S
            self._iteration += 10
            answer = self.served.report("a", iteration=self._iteration, **each, **changed)
            assert answer.status_code == 200

    def follow(self, mean_ms: int, times: int = 1) -> None:
        self.report(mean_ms, times, applied=self.served.slot("a")["version"])

    def view(self) -> Any:
        return self.served.view("a")

    @property
    def said(self) -> list[str]:
        return list(sentences(JobView.model_validate(self.view())))


@pytest.fixture
def course(served: Served) -> Course:
    """Two jobs with slots that neither has followed yet."""
    return Course(served)


class TestLatestTimes:
    """Mean and 99th percentile of the latest iterations."""

    def test_of_a_hundred_iterations_one_is_above_the_99th_percentile(self) -> None:
        latest = LatestTimes()
        latest.add(report(98, 100))
        latest.add(report(2, 300, 200, 400))

        measured = latest.measured()

        assert measured is not None
        assert measured.model_dump() == {"mean_ns": 104 * MS, "p99_ns": 200 * MS, "iterations": 100}

    def test_reports_without_iterations_measure_nothing(self) -> None:
        latest = LatestTimes()
        latest.add(report(0, 0))
        assert latest.measured() is None

    def test_only_the_latest_reports_count(self) -> None:
        latest = LatestTimes()
        latest.add(report(1, 900))
        for _ in range(LATEST):
            latest.add(report(1, 100))

        measured = latest.measured()

        assert measured is not None
        assert (measured.mean_ns, measured.p99_ns) == (100 * MS, 100 * MS)

    @given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 90), st.integers(0, 90)), min_size=1))
    def test_the_99th_percentile_is_between_the_shortest_and_the_longest(
        self, stretches: list[tuple[int, int, int]]
    ) -> None:
        latest = LatestTimes()
        for count, less, more in stretches:
            if count > 2:
                total = {"total_ns": (100 * (count - 2) + 200 - less + more) * MS}
            else:
                less = more = 0
                total = {"total_ns": 100 * count * MS}
            times = {**total, "min_ns": (100 - less) * MS, "max_ns": (100 + more) * MS}
            latest.add(parse_as(Report, reported(count=count, iteration=count, **times), "test", ""))

        measured = latest.measured()

        assert measured is not None
        assert 10 * MS <= measured.p99_ns <= 190 * MS
        assert measured.iterations == sum(count for count, _, _ in stretches)


def test_the_prediction_shows_how_much_slots_help(course: Course) -> None:
    predicted = course.view()["predicted"]

    # Two jobs of 80 ms at 40 of 50 Gbps in every 180 ms collide about half of the time.
    assert 180 * MS < predicted["without_slot"]["mean_ns"] < 228 * MS
    assert predicted["in_slot"]["mean_ns"] < predicted["without_slot"]["mean_ns"]
    assert predicted["speedup"]["mean"] == pytest.approx(
        predicted["without_slot"]["mean_ns"] / predicted["in_slot"]["mean_ns"], abs=1e-6
    )
    assert predicted["speedup"]["verdict"] == "helps"
    assert course.view()["reason"].startswith(
        "score 1.000 with b on l1: taking turns helps, predicted speed-up 1.10 on average, "
    )


def test_iterations_in_slots_are_compared_with_those_without(course: Course) -> None:
    course.report(210, times=4, applied=None)
    course.follow(182, times=4)

    measured = course.view()["measured"]

    # The first report of each kind is not counted: it mixes both kinds, or began before both jobs had
    # reported.
    assert (measured["without_slot"]["iterations"], measured["without_slot"]["mean_ns"]) == (40, 210 * MS)
    assert (measured["in_slot"]["iterations"], measured["in_slot"]["mean_ns"]) == (30, 182 * MS)
    assert measured["against"] == "measured"
    assert measured["speedup"]["mean"] == pytest.approx(210 / 182)
    assert measured["speedup"]["verdict"] == "helps"
    assert course.said[2] == (
        "measured: taking turns helps, speed-up 1.15 on average, 1.15 at p99, "
        "against 40 iterations without its slot"
    )


@pytest.mark.parametrize(
    ("in_slot_ms", "verdict"),
    [(180, "helps"), (204, "helps little"), (210, "does not help"), (230, "harms")],
)
def test_the_verdict_is_that_of_the_measurement(course: Course, in_slot_ms: int, verdict: str) -> None:
    course.report(210, times=4, applied=None)
    course.follow(in_slot_ms, times=4)

    assert course.view()["measured"]["speedup"]["verdict"] == verdict


def test_slots_are_compared_with_a_dry_run(course: Course) -> None:
    course.report(210, times=4, dry_run=True)
    assert course.view()["measured"]["speedup"] is None
    # The job restarts, and counts from 0.
    course._iteration = 0
    course.follow(182, times=4)

    assert course.view()["measured"]["against"] == "measured"
    assert course.view()["measured"]["speedup"]["verdict"] == "helps"


def test_with_too_few_iterations_without_slots_the_prediction_is_used(course: Course) -> None:
    course.report(205, applied=None)
    course.follow(311, times=4)

    view = course.view()
    assert view["measured"]["against"] == "predicted"
    assert view["measured"]["speedup"]["verdict"] == "harms"
    # A measurement that the verdict does not use is not shown beside it.
    assert row(JobView.model_validate(view), mean)[7:] == ("–", "311.0", "harms")
    assert course.said[2].endswith(
        "against the prediction without slots, as too few such iterations were measured"
    )
    assert course.said[3].endswith("times as long as predicted: profile the job again")


def test_fewer_than_twenty_iterations_in_slots_get_no_verdict(course: Course) -> None:
    course.report(210, times=4, applied=None)
    course.follow(182, times=2)

    assert course.view()["measured"]["in_slot"]["iterations"] == 10
    assert course.view()["measured"]["speedup"] is None


def test_measurements_among_other_jobs_are_discarded(course: Course) -> None:
    course.report(210, times=4, applied=None)
    course.served.register("c", registered(up="10 ms"))
    course.served.run("c")

    assert course.view()["measured"]["without_slot"] is None


def test_a_job_without_contention_is_measured_without_a_slot(served: Served) -> None:
    served.register("a", registered())
    served.run("a")
    served.report("a", iteration=20)

    view = served.view("a")

    assert view["predicted"] is None
    assert view["measured"]["without_slot"]["mean_ns"] == 180 * MS


class TestSlotNotFollowed:
    """If a rank does not follow its slot, the reason is shown."""

    def test_a_slot_that_is_followed_has_no_reason(self, course: Course) -> None:
        course.follow(182)

        assert course.view()["not_followed"] is None
        assert course.said[0].endswith("is followed, 0 adjustments")

    def test_a_dry_run(self, course: Course) -> None:
        course.report(182, dry_run=True, reason="dry run")

        assert course.view()["not_followed"] == "dry run"
        version = course.served.slot("a")["version"]
        assert course.said[0] == f"slot {version} is not followed: dry run"

    def test_an_agent_that_abandoned_its_slot(self, course: Course) -> None:
        why = "adjustments took more than 20% of the last 50 iterations, which do not fit the slot's period"
        course.report(182, times=3, reason=why)

        assert course.view()["not_followed"] == why

    def test_an_agent_that_gives_no_reason(self, course: Course) -> None:
        course.report(182, times=3)

        assert course.view()["not_followed"] == "its agent gives no reason"

    def test_a_slot_that_has_not_begun(self, course: Course) -> None:
        course.report(182, reason="the service has not answered yet")

        first = course.served.slot("a")["iteration"]
        assert course.view()["not_followed"] == f"the slot begins at iteration {first}"

    def test_an_older_slot(self, course: Course) -> None:
        course.report(182, times=3, applied=0)

        assert course.view()["not_followed"] == "still follows slot 0"

    def test_a_job_that_fell_silent(self, course: Course) -> None:
        course.follow(182)
        course.served.now_ns += 61 * S

        assert course.view()["not_followed"] == "silent for 61 s; agents stop following a slot after 60 s"

    def test_the_first_of_several_ranks(self, served: Served) -> None:
        for name in "ab":
            served.register(name, registered())
            for rank in range(3):
                served.report(name, rank, 3)
        served.settle()
        version = served.slot("a")["version"]
        served.report("a", 0, 3, applied=version, iteration=100)
        for rank in (1, 2):
            served.report("a", rank, 3, reason="the clock is not known", iteration=100)

        assert served.view("a")["not_followed"] == "2 of 3 ranks, such as 1: the clock is not known"

    def test_a_service_that_was_restarted(self, course: Course) -> None:
        course.follow(182)
        course.served.restart()

        assert course.view()["not_followed"] == "no rank has reported since the job or the service started"


@pytest.mark.parametrize("reason", ["a\nb", "\x1b[2J", "x" * 1_001])
def test_a_reason_with_control_characters_is_rejected(served: Served, reason: str) -> None:
    served.register("a", registered())

    assert served.report("a", reason=reason).status_code == 422
