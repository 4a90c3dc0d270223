"""Which collective begins a communication phase, and how long communication goes on."""

from collections.abc import Callable
from typing import Any

from hocket.agent.communication import Communication, Lessons
from hocket.agent.marks import HostMarker


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def never(error: Exception) -> None:
    """What goes wrong in a test is a failure."""
    raise AssertionError("nothing may fail here") from error


def learnt(iterations: list[list[tuple[int, int]]]) -> int | None:
    lessons = Lessons()
    for events in iterations:
        lessons.learn([(start, since) for start, since in events], 0)
    return lessons.outcome


def test_the_phase_begins_with_the_collective_after_the_longest_quiet() -> None:
    # 10 ms before the first of an iteration, 40 ms before the second.
    assert learnt([[(10, 0), (60, 20)]] * 11) == 1


def test_the_first_iterations_teach_nothing_as_buckets_are_cut_anew_after_them() -> None:
    assert learnt([[(50, 0)]] * 2 + [[(10, 0), (60, 20)]] * 8) is None
    assert learnt([[(50, 0)]] * 2 + [[(10, 0), (60, 20)]] * 9) == 1


def test_a_straggler_in_the_middle_of_a_phase_does_not_count() -> None:
    usual, straggler = [(40, 0), (60, 50)], [(40, 0), (500, 50)]
    assert learnt([usual, usual] + [usual, straggler, usual] * 3) == 0


def test_what_an_iteration_was_delayed_is_no_quiet() -> None:
    # 70 ms before the first collective, of which 60 ms were a delay, and 40 ms before the second.
    events: list[tuple[int | None, int | None]] = [(70, 0), (120, 80)]
    assert Lessons().learn(events, 60) == 1
    assert Lessons().learn(events, 0) == 0


def test_time_in_communication_is_that_with_any_collective_under_way() -> None:
    clock = Clock()
    communication = Communication(clock, never, clock)
    for now_ns, happens in [
        (10, communication.span_started),
        (15, communication.span_started),
        (20, communication.span_ended),
        (30, communication.span_ended),
        (70, communication.span_started),
        (75, communication.span_ended),
    ]:
        clock.now_ns = now_ns
        happens()
    seen = communication.take()
    assert seen.communication_ns == 20 + 5
    # The first has nothing before it, the second began while the first went on.
    assert [tuple(event) for event in seen.events] == [(10, 10), (15, 15), (70, 30)]


def test_time_in_communication_is_unknown_where_an_end_is_missing() -> None:
    communication = Communication(Clock(), never, Clock())
    communication.started()
    assert communication.take().communication_ns is None
    communication.span_started()
    assert communication.take().communication_ns is None
    # What ends late belongs to an iteration that is over.
    communication.span_ended()
    assert communication.take().communication_ns is None


def test_once_it_is_settled_only_the_first_collective_of_a_phase_is_marked() -> None:
    clock = Clock()
    marks: list[int] = []

    def mark() -> int:
        marks.append(clock.now_ns)
        return clock.now_ns

    communication = Communication(mark, never, clock)
    communication.settle(1)
    for now_ns in (1, 2, 3):
        clock.now_ns = now_ns
        communication.started()
    assert communication.take().start == 2
    assert marks == [2]


def test_a_hosts_marks_are_times() -> None:
    clock: Callable[[], Any] = Clock()
    marker = HostMarker(clock)
    assert marker.read_ns(marker.mark()) == 0
    assert not marker.is_due(10**18)
