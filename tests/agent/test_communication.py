"""Which collective begins a communication phase, and how long communication lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from hocket_agent.collectives import watch_collectives
from hocket_agent.communication import Communication, PhaseStart
from hocket_agent.marks import HostMarker


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def never(error: Exception) -> None:
    """Turns an error inside the agent into a failure of the test."""
    raise AssertionError("nothing may fail here") from error


def learnt(iterations: Sequence[Sequence[int]]) -> int | None:
    phase_start = PhaseStart()
    for gaps_ns in iterations:
        phase_start.learn(list(gaps_ns), 0)
    return phase_start.outcome


def test_the_phase_begins_with_the_collective_after_the_longest_gap() -> None:
    assert learnt([[10, 40]] * 11) == 1


def test_the_first_two_iterations_do_not_vote_since_buckets_are_rebuilt_after_them() -> None:
    assert learnt([[50]] * 2 + [[10, 40]] * 8) is None
    assert learnt([[50]] * 2 + [[10, 40]] * 9) == 1


def test_a_straggler_in_the_middle_of_a_phase_does_not_count() -> None:
    usual, straggler = [40, 10], [40, 450]
    assert learnt([usual, usual] + [usual, straggler, usual] * 3) == 0


def test_a_delay_does_not_count_as_a_gap() -> None:
    # 70 ms before the first collective, of which 60 ms were a delay, and 40 ms before the second.
    assert PhaseStart().learn([70, 40], 60) == 1
    assert PhaseStart().learn([70, 40], 0) == 0


def test_nothing_is_learnt_from_collectives_with_unknown_times() -> None:
    assert PhaseStart().learn([None, 10], 0) == 1
    assert PhaseStart().learn([None, None], 0) is None


def test_a_span_lasts_while_any_collective_is_under_way() -> None:
    clock = Clock()
    communication = Communication(clock, never)
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
    assert seen.is_whole
    assert [tuple(span) for span in seen.spans] == [(10, 30), (70, 75)]
    # Nothing precedes the first collective; the second began while the first was under way.
    assert [tuple(span) for span in seen.gaps] == [(10, 10), (15, 15), (30, 70)]


def test_spans_are_incomplete_where_the_end_of_a_collective_is_missing() -> None:
    communication = Communication(Clock(), never)
    communication.started()
    assert not communication.take().is_whole
    communication.span_started()
    assert not communication.take().is_whole
    # A late end belongs to an iteration that has already finished.
    communication.span_ended()
    seen = communication.take()
    assert seen.is_whole
    assert seen.spans == []


def test_after_learning_only_the_first_collective_of_a_phase_is_marked() -> None:
    clock = Clock()
    marks: list[int] = []

    def mark() -> int:
        marks.append(clock.now_ns)
        return clock.now_ns

    communication = Communication(mark, never)
    communication.settle(1)
    for now_ns in (1, 2, 3):
        clock.now_ns = now_ns
        communication.started()
    assert communication.take().start == 2
    assert marks == [2]


def test_marks_on_the_host_are_times() -> None:
    clock: Callable[[], Any] = Clock()
    marker = HostMarker(clock)
    assert marker.read_ns(marker.mark()) == 0
    assert not marker.is_due(10**18)


def test_collectives_are_observed_under_any_name_by_which_a_module_imported_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("torch.distributed.c10d", "torch.distributed", "megatron", "job")
    modules: list[Any] = [ModuleType(name) for name in names]
    internal, public, megatron, job = modules

    def all_gather_into_tensor() -> str:
        return "gathered"

    internal.all_gather_into_tensor = public.all_gather_into_tensor = all_gather_into_tensor
    # Like an older name that PyTorch keeps: it calls the newer function.
    public._all_gather_base = lambda: internal.all_gather_into_tensor()
    megatron.dist_all_gather_func = all_gather_into_tensor
    job.dist = public
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    communication = Communication(HostMarker(Clock()).mark, never)

    def seen(call: Callable[[], str]) -> int:
        communication.take()
        assert call() == "gathered"
        return len(communication.take().gaps)

    undo = watch_collectives(communication)
    assert seen(megatron.dist_all_gather_func) == 1
    assert seen(job.dist.all_gather_into_tensor) == 1
    assert seen(job.dist._all_gather_base) == 1
    assert internal.all_gather_into_tensor is all_gather_into_tensor
    undo()
    assert megatron.dist_all_gather_func is public.all_gather_into_tensor is all_gather_into_tensor
    assert seen(job.dist._all_gather_base) == 0
