"""A rank's Chakra trace as a timeline: the order of operations, their durations, and the confidence."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.conftest import trace as file_of

from hocket.errors import InputError
from hocket.profiling.timelines.chakra import execute, profile_chakra, read_iteration
from hocket.training.chakra.schema import new_node
from hocket.training.workload import Operation

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "chakra"
COMP, COLLECTIVE = 4, 7
ALL_REDUCE = 0


def node(number: int, kind: int, duration_us: int, after: Sequence[int] = (), size: int = 0) -> bytes:
    """A node: a compute, or an all-reduce of `size` bytes."""
    message = new_node()
    message.id, message.name, message.type = number, f"node {number}", kind
    message.duration_micros = duration_us
    message.data_deps.extend(after)
    attributes = [("is_cpu_op", 0)] if kind == COMP else [("comm_type", ALL_REDUCE), ("comm_size", size)]
    for name, value in attributes:
        added = message.attr.add()  # type: ignore[attr-defined]
        added.name, added.int64_val = name, value
    return bytes(message.SerializeToString())  # type: ignore[attr-defined]


def trace(folder: Path, *nodes: bytes, ranks: int = 4) -> Path:
    """The file of rank 0, beside those of other ranks with the same operations."""
    for rank in range(ranks):
        (folder / f"job.{rank}.et").write_bytes(file_of(*nodes))
    return folder / "job.0.et"


def test_operations_start_when_those_that_they_depend_on_have_ended(tmp_path: Path) -> None:
    path = trace(
        tmp_path,
        node(1, COMP, 1000),
        node(2, COLLECTIVE, 3000, [1], size=10**6),
        node(3, COMP, 500, [1]),
        node(4, COLLECTIVE, 2000, [3], size=10**6),
    )
    timeline, period_s = read_iteration(path, None)
    # One communicator: the second all-reduce waits for the first, not for its compute alone. Time begins
    # with the first one, after 1 ms: the compute before it belongs to the end of the iteration.
    assert timeline.start_s == pytest.approx([0.0, 0.003])
    assert timeline.end_s == pytest.approx([0.003, 0.005])
    assert timeline.compute_s.ravel() == pytest.approx([0.0, 0.0005, 0.005, 0.006])
    assert period_s == pytest.approx(0.006)
    assert {each.group_size for each in timeline.operations} == {4}


def test_communication_without_a_duration_takes_its_bytes_at_the_rate(tmp_path: Path) -> None:
    path = trace(tmp_path, node(1, COMP, 1000), node(2, COLLECTIVE, 0, [1], size=1_000_000))
    with pytest.raises(
        InputError, match=r"job\.0\.et: rank 0: node 2 'node 2': has no duration; give the rate"
    ):
        profile_chakra(path)
    # An all-reduce among 4 ranks sends 1.5 times its size: 12 Mbit at 10 Gbps.
    profile = profile_chakra(path, rate="10 Gbps")
    assert profile.communication_s == pytest.approx(1.2e-3)
    assert profile.phases[0].rate_bps == pytest.approx(10e9)


def test_a_trace_is_one_iteration_without_confidence(tmp_path: Path) -> None:
    path = trace(tmp_path, node(1, COMP, 1000), node(2, COLLECTIVE, 3000, [1], size=10**6))
    profile = profile_chakra(path)
    assert profile.name == "job.0"
    assert profile.period_s == pytest.approx(0.004)
    assert (profile.compute_s, profile.exposed_s) == pytest.approx((0.001, 0.003))
    assert profile.confidence == 0
    assert any("durations and dependencies but no times" in note for note in profile.notes)


def test_repeats_in_a_trace_are_taken_for_layers(tmp_path: Path) -> None:
    nodes = []
    for layer in range(20):
        before = [2 * layer] if layer else []
        nodes += [
            node(2 * layer + 1, COMP, 5000, before),
            node(2 * layer + 2, COLLECTIVE, 1000, [2 * layer + 1], size=10**6),
        ]
    profile = profile_chakra(trace(tmp_path, *nodes))
    assert profile.period_s == pytest.approx(0.120)
    assert profile.exposed_s == pytest.approx(0.020)
    assert profile.confidence == 0
    # 1.5 times 20 MB.
    assert profile.bytes_per_iteration == pytest.approx(30e6)


def test_an_iteration_begins_after_its_longest_quiet_time(tmp_path: Path) -> None:
    nodes = [
        node(1, COMP, 1000),
        node(2, COLLECTIVE, 1000, [1], size=10**6),
        node(3, COMP, 8000, [2]),
        node(4, COLLECTIVE, 2000, [3], size=10**6),
    ]
    profile = profile_chakra(trace(tmp_path, *nodes))
    assert [(phase.start_s, phase.duration_s) for phase in profile.phases] == [
        pytest.approx((0.0, 0.002)),
        pytest.approx((0.003, 0.001)),
    ]
    assert profile.compute_s == pytest.approx(0.009)


def test_a_rank_computes_one_operation_at_a_time_in_the_order_of_its_program() -> None:
    operations = [Operation("", "compute", after) for after in ((), (), (0,), (1,))]
    starts_ps, ends_ps = execute(operations, lambda place: 10)
    assert starts_ps == [0, 10, 20, 30]
    assert ends_ps == [10, 20, 30, 40]


@st.composite
def programs(draw: st.DrawFn) -> list[Operation]:
    kinds = st.sampled_from(["compute", "all-reduce", "send", "recv"])
    return [
        Operation(
            "",
            draw(kinds),  # type: ignore[arg-type]
            tuple(sorted(draw(st.sets(st.integers(0, place - 1), max_size=3)))) if place else (),
            duration_ps=draw(st.integers(0, 5)),
            communicator=draw(st.integers(0, 1)),
        )
        for place in range(draw(st.integers(1, 20)))
    ]


@given(programs())
def test_no_operation_starts_too_early_and_no_two_of_a_stream_overlap(operations: list[Operation]) -> None:
    starts_ps, ends_ps = execute(operations, lambda place: operations[place].duration_ps)
    for place, operation in enumerate(operations):
        assert ends_ps[place] == starts_ps[place] + operation.duration_ps
        assert all(ends_ps[before] <= starts_ps[place] for before in operation.after)
    for stream in ("compute", 0, 1):
        own = sorted(
            (starts_ps[place], ends_ps[place])
            for place, operation in enumerate(operations)
            if stream
            == (operation.kind if operation.kind in ("compute", "send", "recv") else operation.communicator)
        )
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=60) | st.integers(0, 300))
def test_any_file_yields_a_profile_or_is_refused(tmp_path: Path, content: bytes | int) -> None:
    whole = trace(tmp_path, node(1, COMP, 1000), node(2, COLLECTIVE, 3000, [1], size=10**6))
    if isinstance(content, int):
        content = whole.read_bytes()[:content]
    whole.write_bytes(content)
    try:
        profile = profile_chakra(whole)
    except InputError:
        return
    assert profile.confidence == 0


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no recorded traces in {SHARED}")
def test_an_all_reduce_written_as_messages_sends_as_much_as_one_collective() -> None:
    whole, messages = (
        profile_chakra(SHARED / folder / file, rate="10 Gbps")
        for folder, file in (
            ("all_reduce_8", "all_reduce.0.et"),
            ("ring_all_reduce_custom_8", "custom_allreduce.0.et"),
        )
    )
    # 1 MiB over 8 ranks: 2 · 7/8 of it.
    assert whole.bytes_per_iteration == pytest.approx(2 * 7 / 8 * 2**20)
    assert messages.bytes_per_iteration == pytest.approx(whole.bytes_per_iteration)
