"""The training loop: what waits for what, what overlaps, and what shares an all-reduce."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.training.layers import Buckets, Exchange, Layer, training_loop
from hocket.training.workload import Operation, Rank, Workload

MIB = 2**20


def two_ranks(program: tuple[Operation, ...]) -> Workload:
    return Workload((program,), ((0, 1),), (Rank(0, (0,)), Rank(0, (0,))))


def all_reduced(size: int) -> Exchange:
    return Exchange("all-reduce", size)


def test_gradients_travel_while_earlier_layers_compute(replay: Callable[..., list[Any]]) -> None:
    # 3 layers of 10 + 10 + 10 ps; the all-reduce of each takes 10 ps and only the first layer's is exposed.
    layers = [Layer(f"fc{i}", 10, 10, 10, weight_gradient_exchange=all_reduced(10)) for i in range(3)]
    executed = replay(two_ranks(training_loop(layers)), ps_per_byte=1)
    assert max(each.end_ps for each in executed) == 3 * 30 + 10


def test_an_exchange_of_activations_stops_the_next_layer(replay: Callable[..., list[Any]]) -> None:
    layers = [Layer("embedding", 10, forward_exchange=Exchange("all-to-all", 7)), Layer("fc", 10)]
    executed = replay(two_ranks(training_loop(layers)), ps_per_byte=1)
    starts = {each.operation.name: each.start_ps for each in executed}
    assert starts["fc forward"] == 10 + 7


def test_an_exchange_of_input_gradients_overlaps_with_weight_gradients_only(
    replay: Callable[..., list[Any]],
) -> None:
    # Backward of the last layer: inputs until 30, exchanged until 45, weights meanwhile until 40; the first
    # layer's inputs follow at 45.
    last = Layer("last", 10, 10, 10, input_gradient_exchange=all_reduced(15))
    executed = replay(two_ranks(training_loop([Layer("first", 10, 10, 10), last])), ps_per_byte=1)
    starts = {each.operation.name: each.start_ps for each in executed}
    assert starts["last weight gradient"] == 30
    assert starts["first input gradient"] == 45


def test_the_update_waits_for_all_gradients(replay: Callable[..., list[Any]]) -> None:
    layers = [
        Layer(f"fc{i}", 10, 10, 10, update_ps=3, weight_gradient_exchange=all_reduced(100)) for i in range(2)
    ]
    executed = replay(two_ranks(training_loop(layers)), ps_per_byte=1)
    # The last layer's gradients are there after 20 + 20 ps; two all-reduces of 100 ps follow.
    update = executed[-1]
    assert (update.operation.name, update.start_ps, update.end_ps) == ("update", 240, 246)


def test_a_layer_that_only_computes_forward_adds_no_other_operation() -> None:
    assert [each.name for each in training_loop([Layer("loss", 5)])] == ["loss forward"]


def test_a_bucket_is_sent_when_it_is_full_and_the_first_one_early() -> None:
    sizes = [30, 10, 10, 10, 1]  # MiB, in the order of the model; backward they come 1, 10, 10, 10, 30.
    layers = [
        Layer(f"fc{i}", 1, 1, 1, weight_gradient_exchange=all_reduced(size * MIB))
        for i, size in enumerate(sizes)
    ]
    sent = [each.bytes // MIB for each in training_loop(layers, buckets=Buckets()) if each.bytes]
    assert sent == [1, 30, 30]


def test_what_is_left_in_a_bucket_is_sent_at_the_end() -> None:
    layers = [Layer(f"fc{i}", 1, 1, 1, weight_gradient_exchange=all_reduced(2 * MIB)) for i in range(3)]
    program = training_loop(layers, buckets=Buckets())
    assert [each.bytes // MIB for each in program if each.bytes] == [2, 4]
    # The last all-reduce waits for the weight gradients of both layers in it.
    assert [program[i].name for i in program[-1].after] == ["fc1 weight gradient", "fc0 weight gradient"]


def test_gradients_of_different_groups_share_no_bucket() -> None:
    layers = [
        Layer(f"expert{i}", 1, 1, 1, weight_gradient_exchange=Exchange("all-reduce", MIB // 2, i))
        for i in range(2)
    ]
    sent = [each for each in training_loop(layers, buckets=Buckets()) if each.bytes]
    assert sorted((each.communicator, each.bytes) for each in sent) == [(0, MIB // 2), (1, MIB // 2)]


def exchanges() -> st.SearchStrategy[Exchange | None]:
    return st.none() | st.builds(
        Exchange, st.sampled_from(["all-reduce", "all-to-all", "reduce-scatter"]), st.integers(0, 50)
    )


def layers() -> st.SearchStrategy[list[Layer]]:
    duration = st.integers(0, 20)
    layer = st.builds(
        Layer,
        st.just("layer"),
        duration,
        duration,
        duration,
        duration,
        exchanges(),
        exchanges(),
        exchanges(),
    )
    return st.lists(layer, min_size=1, max_size=6)


def total_bytes(layers: list[Layer]) -> int:
    return sum(
        exchange.bytes
        for layer in layers
        for exchange in (
            layer.forward_exchange,
            layer.input_gradient_exchange,
            layer.weight_gradient_exchange,
        )
        if exchange is not None
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # `replay` keeps nothing
@given(layers=layers(), buckets=st.none() | st.builds(Buckets, st.integers(1, 30), st.integers(1, 90)))
def test_every_loop_ends_computes_all_and_exchanges_every_byte(
    replay: Callable[..., list[Any]], layers: list[Layer], buckets: Buckets | None
) -> None:
    program = training_loop(layers, buckets=buckets)
    assert all(one < i for i, each in enumerate(program) for one in each.after)
    assert sum(each.bytes for each in program) == total_bytes(layers)
    compute = sum(
        layer.forward_ps + layer.input_gradient_ps + layer.weight_gradient_ps + layer.update_ps
        for layer in layers
    )
    assert sum(each.duration_ps for each in program) == compute
    if program:
        executed = replay(two_ranks(program), ps_per_byte=1)
        assert compute <= max(each.end_ps for each in executed) <= compute + total_bytes(layers)


@pytest.mark.parametrize("buckets", [None, Buckets()])
def test_computes_of_a_loop_run_in_the_order_of_the_program(
    replay: Callable[..., list[Any]], buckets: Buckets | None
) -> None:
    loop = training_loop(
        [
            Layer(
                f"fc{i}",
                10,
                10,
                10,
                5,
                all_reduced(3),
                all_reduced(4),
                all_reduced(MIB),
            )
            for i in range(4)
        ],
        buckets=buckets,
    )
    executed = [each for each in replay(two_ranks(loop), ps_per_byte=1) if each.rank == 0]
    computed = [each for each in executed if each.operation.kind == "compute"]
    assert [each.operation for each in computed] == [each for each in loop if each.kind == "compute"]
    assert all(before.end_ps <= after.start_ps for before, after in pairwise(computed))
