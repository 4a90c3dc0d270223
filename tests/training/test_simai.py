"""Workload text of SimAI, AICB and ASTRA-sim becomes workloads."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.conftest import is_valid

from hocket.errors import InputError
from hocket.training.simai import read_simai
from hocket.training.workload import Operation, Workload

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "simai"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the workload files of other projects are not here: {SHARED}"
)

TRANSFORMER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: 1 ga: {ga} "
)
TRANSFORMER += "all_gpus: {gpus} checkpoints: 0 checkpoint_initiates: 0 pp_comm: {pp_comm}"


GATHER = "grad_gather weight gradient all-gather"


def header(**degrees: int) -> str:
    """The first line, for one GPU by default."""
    return TRANSFORMER.format(**{"tp": 1, "ep": 1, "pp": 1, "ga": 1, "gpus": 1, "pp_comm": 0, **degrees})


def row(
    name: str,
    forward: tuple[int, str, int] = (0, "NONE", 0),
    inputs: tuple[int, str, int] = (0, "NONE", 0),
    weights: tuple[int, str, int] = (0, "NONE", 0),
    update: int = 0,
    *more: str,
) -> str:
    """A layer: the nanoseconds, the exchange and its bytes for each pass."""
    values = (name, -1, *forward, *inputs, *weights, update, *more)
    return "\t".join(str(value) for value in values)


Read = Callable[..., Workload]
Refuse = Callable[..., str]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a file of this first line and these layers."""

    def of(first: str, *rows: str, **options: Any) -> Workload:
        path = tmp_path / "workload.txt"
        path.write_text("\n".join([first, str(len(rows)), *rows]))
        return read_simai(path, **options)

    return of


@pytest.fixture
def refuse(read: Read, tmp_path: Path) -> Refuse:
    """The error message for such a file, without the file's name."""

    def of(first: str, *rows: str, **options: Any) -> str:
        with pytest.raises(InputError) as caught:
            read(first, *rows, **options)
        return str(caught.value).replace(f"{tmp_path}/workload.txt: ", "")

    return of


def told(operations: Sequence[Operation]) -> list[tuple[str, list[str]]]:
    """The name of each operation with the names of those it waits for."""
    return [(each.name, [operations[after].name for after in each.after]) for each in operations]


def names(operations: Sequence[Operation]) -> list[str]:
    return [operation.name for operation in operations]


def exchanging(workload: Workload, rank: int) -> dict[int, tuple[int, ...]]:
    """For each exchange of a rank, by its bytes, the ranks that take part."""
    its = workload.ranks[rank]
    exchanges = [each for each in workload.programs[its.program] if each.bytes]
    return {each.bytes: workload.groups[its.communicators[each.communicator]] for each in exchanges}


@needs_shared
def test_the_microbenchmark_all_reduces_within_eight_tensor_parallel_ranks() -> None:
    workload = read_simai(SHARED / "microAllReduce.txt")
    assert workload.groups == (tuple(range(8)),)
    assert [rank.program for rank in workload.ranks] == [0] * 8
    (program,) = workload.programs
    assert [operation.bytes for operation in program if operation.kind == "all-reduce"] == [2**24, 2**26]
    # Two layers forward of 556 us each; backward, each computes 1 ns for inputs and 1 ns for weights.
    computes_ps = [operation.duration_ps for operation in program if operation.kind == "compute"]
    assert computes_ps == [556 * 10**6] * 2 + [1000] * 4


@needs_shared
def test_a_mixture_of_experts_on_9216_gpus_is_divided_by_its_header() -> None:
    workload = read_simai(SHARED / "workload_analytical.txt")
    assert len(workload.ranks) == 9216
    # 9,216 GPUs = 2 that share a layer × 384 replicas × 12 stages; 16 divide the experts, 24 have the same.
    sizes = Counter(len(members) for members in workload.groups)
    assert sizes == {2: 4608, 384: 24, 16: 576, 24: 384, 12: 768}
    assert len(workload.programs) == 12
    assert Counter(rank.program for rank in workload.ranks) == dict.fromkeys(range(12), 768)
    # 24 microbatches of 8 mixture-of-expert layers, dispatch and combine, forward and backward.
    middle = workload.programs[5]
    experts = [each for each in middle if each.kind == "all-to-all" and each.communicator == 2]
    assert [each.bytes for each in experts] == [100_663_296] * (24 * 8 * 2 * 2)
    # Stages in the middle send activations forward and gradients backward, for each microbatch.
    sends = [operation for operation in middle if operation.kind == "send"]
    assert Counter(operation.peer for operation in sends) == {4: 24, 6: 24}
    assert {operation.bytes for operation in sends} == {50_331_648}


@needs_shared
def test_the_same_model_on_fewer_gpus_has_fewer_replicas_and_the_same_bytes() -> None:
    path = SHARED / "workload_analytical.txt"
    workload = read_simai(path, gpus=64, pipeline=1, microbatches=2)
    sizes = Counter(len(members) for members in workload.groups)
    # 64 GPUs = 2 × 32 replicas in one stage: 2 groups of all replicas, 4 of 16 with all experts, 32 with
    # the same experts in 2, and 32 of 2 that share a layer.
    assert sizes == {2: 32 + 32, 32: 2, 16: 4}
    (program,) = workload.programs
    whole = read_simai(path).programs[0]
    gathered = [[each.bytes for each in its if each.name == GATHER] for its in (program, whole)]
    assert gathered == [[2_807_758_848]] * 2
    # Two microbatches of the 24.
    all_to_alls = [sum(each.kind == "all-to-all" for each in its) for its in (program, whole)]
    assert all_to_alls[0] * 12 == all_to_alls[1]


def test_a_layer_computes_then_exchanges_and_backward_waits_for_each_exchange(read: Read) -> None:
    workload = read(
        header(tp=2, gpus=4),
        row("fc", (5, "ALLREDUCE", 100), (6, "ALLGATHER", 200), (7, "REDUCESCATTER", 400), 9),
    )
    (program,) = workload.programs
    assert told(program)[:-1] == [
        ("fc forward", []),
        ("fc forward all-reduce", ["fc forward"]),
        ("fc input gradient", ["fc forward all-reduce"]),
        ("fc input gradient all-gather", ["fc input gradient"]),
        ("fc weight gradient", ["fc input gradient all-gather"]),
        ("fc weight gradient reduce-scatter", ["fc weight gradient"]),
    ]
    assert program[-1].name == "update"
    assert {"fc weight gradient", "fc weight gradient reduce-scatter"} < set(told(program)[-1][1])
    assert [each.duration_ps for each in program] == [5000, 0, 6000, 0, 7000, 0, 9000]
    assert [each.bytes for each in program] == [0, 100, 0, 200, 0, 400, 0]
    # Forward and inputs among ranks that share the layer, weights among replicas.
    assert [workload.groups[group] for group in workload.ranks[0].communicators] == [(0, 1), (0, 2)]
    assert [each.communicator for each in program] == [0, 0, 0, 0, 0, 1, 0]


def test_the_gradient_of_weights_waits_for_a_blocking_exchange_and_overlaps_with_others(read: Read) -> None:
    layer = row("fc", (0, "NONE", 0), (6, "ALLREDUCE", 200), (7, "NONE", 0))
    (blocking,) = read(header(tp=2, gpus=2), layer).programs
    assert told(blocking)[2] == ("fc weight gradient", ["fc input gradient all-reduce"])
    (overlapping,) = read("HYBRID_DATA_MODEL model_parallel_NPU_group: 2 all_gpus: 2", layer).programs
    assert told(overlapping)[2] == ("fc weight gradient", [])


def test_weight_gradients_are_exchanged_during_the_backward_pass_of_earlier_layers(read: Read) -> None:
    layers = [row(name, (1, "NONE", 0), (1, "NONE", 0), (1, "ALLREDUCE", 8)) for name in ("a", "b")]
    (program,) = read(header(gpus=2), *layers).programs
    assert names(program) == [
        "a forward",
        "b forward",
        "b input gradient",
        "b weight gradient",
        "b weight gradient all-reduce",
        "a input gradient",
        "a weight gradient",
        "a weight gradient all-reduce",
    ]
    assert told(program)[5] == ("a input gradient", ["b input gradient"])


def test_exchanges_of_experts_are_among_replicas_that_divide_or_duplicate_experts(read: Read) -> None:
    workload = read(
        header(tp=2, ep=2, gpus=8),
        row("moe", (1, "ALLTOALL_EP", 10), (1, "ALLTOALL", 20), (1, "ALLREDUCE_DP_EP", 30)),
        row("dense", (0, "NONE", 0), (0, "NONE", 0), (1, "ALLREDUCE", 40)),
    )
    # Ranks are numbered by tensor first, then by replica 0 to 3: 0 1 | 2 3 | 4 5 | 6 7.
    assert exchanging(workload, 0) == {10: (0, 2), 20: (0, 1), 30: (0, 4), 40: (0, 2, 4, 6)}
    assert exchanging(workload, 7) == {10: (5, 7), 20: (6, 7), 30: (3, 7), 40: (1, 3, 5, 7)}


def test_exchanges_of_no_bytes_and_within_one_rank_are_left_out(read: Read) -> None:
    layer = row("fc", (5, "ALLREDUCE", 0), (6, "ALLREDUCE", 100), (7, "ALLREDUCE", 100))
    (program,) = read(header(gpus=2), layer).programs
    assert names(program) == [
        "fc forward",
        "fc input gradient",
        "fc weight gradient",
        "fc weight gradient all-reduce",
    ]


MICROBATCHES = [
    row("grads", weights=(0, "REDUCESCATTER", 8)),
    *[row("embedding_layer", (1, "NONE", 0), (1, "NONE", 0)), row("mlp", (2, "NONE", 0), (2, "NONE", 0))] * 2,
    row("cross_entropy1", (3, "NONE", 0)),
]


def test_stages_of_a_pipeline_pass_microbatches_in_the_order_of_the_file(read: Read) -> None:
    workload = read(header(pp=2, ga=2, gpus=4, pp_comm=64), *MICROBATCHES)
    first, second = workload.programs
    assert [rank.program for rank in workload.ranks] == [0, 0, 1, 1]
    assert workload.groups == ((0, 1), (2, 3), (0, 2), (1, 3))
    assert names(first) == [
        "embedding_layer forward #0",
        "mlp forward #0",
        "activations send #0",
        "embedding_layer forward #1",
        "mlp forward #1",
        "activations send #1",
        "cross_entropy1 forward",
        "gradients recv #1",
        "mlp input gradient #1",
        "embedding_layer input gradient #1",
        "gradients recv #0",
        "mlp input gradient #0",
        "embedding_layer input gradient #0",
        "grads weight gradient reduce-scatter",
    ]
    assert [each.name for each in second if each.kind in ("send", "recv")] == [
        "activations recv #0",
        "activations recv #1",
        "gradients send #1",
        "gradients send #0",
    ]
    exchanges = [each for each in (*first, *second) if each.kind in ("send", "recv")]
    assert {(each.bytes, each.communicator) for each in exchanges} == {(64, 1)}
    # A stage's place in the pipeline's group is its number.
    assert {each.peer for each in first if each.kind in ("send", "recv")} == {1}
    assert [(each.name, each.tag) for each in exchanges if each.tag != int(each.name[-1])] == []


def test_the_schedule_can_be_one_forward_one_backward(read: Read) -> None:
    workload = read(header(pp=2, ga=2, gpus=2, pp_comm=64), *MICROBATCHES, schedule="1f1b")
    assert [name for name in names(workload.programs[1]) if name.startswith("mlp")] == [
        "mlp forward #0",
        "mlp input gradient #0",
        "mlp forward #1",
        "mlp input gradient #1",
    ]


def test_one_stage_can_run_alone_and_with_fewer_microbatches(read: Read) -> None:
    options = {"pipeline": 1, "microbatches": 1}
    workload = read(header(pp=2, ga=2, gpus=4, pp_comm=64), *MICROBATCHES, **options)
    # Each of the two stages has two GPUs.
    assert len(workload.ranks) == 2
    assert names(workload.programs[0]) == [
        "embedding_layer forward",
        "mlp forward",
        "cross_entropy1 forward",
        "mlp input gradient",
        "embedding_layer input gradient",
        "grads weight gradient reduce-scatter",
    ]


def test_activations_are_recomputed_from_the_preceding_checkpoint(read: Read) -> None:
    first = "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 2 0 2 checkpoint_initiates: 2 3 1"
    layers = [row(name, (1, "NONE", 0), (1, "NONE", 0)) for name in "abcd"]
    (program,) = read(first, *layers, gpus=2, tensor=2).programs
    assert names(program) == [
        *(f"{name} forward" for name in "abcd"),
        # The backward pass of layer 3 needs the output of layer 2, a checkpoint; that of layer 1 needs 0.
        "c forward again",
        "d input gradient",
        "c input gradient",
        "a forward again",
        "b input gradient",
        "a input gradient",
    ]


def test_micro_is_a_benchmark_of_one_exchange_after_another(read: Read) -> None:
    sizes = (1024, 2048)
    workload = read("MICRO", *(row("micro_test", weights=(1, "ALLTOALL", size)) for size in sizes), gpus=4)
    assert workload.programs == (
        (
            Operation("micro_test", "all-to-all", (), bytes=1024),
            Operation("micro_test", "all-to-all", (0,), bytes=2048),
        ),
    )
    assert workload.groups == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("policy", "passes", "weights"),
    [
        ("DATA", None, (0, 1, 2, 3, 4, 5)),
        ("MODEL", (0, 1, 2, 3, 4, 5), None),
        ("HYBRID_DATA_MODEL", (0, 1), (0, 2, 4)),
        ("HYBRID_MODEL_DATA", (0, 2, 4), (0, 1)),
        ("HYBRID_TRANSFORMER", (0, 1), (0, 2, 4)),
    ],
)
def test_the_parallelism_defines_the_groups_of_exchanges(
    policy: str, passes: tuple[int, ...] | None, weights: tuple[int, ...] | None, read: Read
) -> None:
    def exchange(size: int, members: tuple[int, ...] | None) -> tuple[int, str, int]:
        return (1, "ALLREDUCE", size) if members else (1, "NONE", 0)

    layer = row("fc", exchange(10, passes), exchange(20, passes), exchange(30, weights))
    workload = read(policy, layer, gpus=6, tensor=2)
    found = exchanging(workload, 0)
    expected = {10: passes, 20: passes, 30: weights}
    assert found == {size: members for size, members in expected.items() if members}


def test_layers_may_have_a_parallelism_each(read: Read) -> None:
    workload = read(
        "HYBRID_CUSTOMIZED",
        row("a", (1, "NONE", 0), (1, "NONE", 0), (1, "ALLREDUCE", 10), 1, "DATA"),
        row("b", (1, "ALLGATHER", 20), (1, "NONE", 0), (1, "ALLREDUCE", 30), 1, "HYBRID_MODEL_DATA"),
        gpus=4,
        tensor=2,
    )
    found = exchanging(workload, 1)
    assert found == {10: (0, 1, 2, 3), 20: (1, 3), 30: (0, 1)}


def test_inference_goes_forward_only(read: Read) -> None:
    layers = [row(name, (1, "ALLREDUCE", 8), (1, "NONE", 0), (1, "NONE", 0)) for name in ("a", "b")]
    (program,) = read("DISTRIBUTED_INFERENCE", *layers, gpus=2).programs
    assert names(program) == ["a forward", "a forward all-reduce", "b forward", "b forward all-reduce"]


@pytest.mark.parametrize("first", ["HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 1", "HYBRID_DLRM_ENHANCED 1"])
def test_looked_up_vectors_are_exchanged_while_bottom_layers_compute(first: str, read: Read) -> None:
    weights = (1, "ALLREDUCE", 8)
    (program,) = read(
        first,
        row("tables", (1, "ALLTOALL", 64), (1, "ALLTOALL", 64), (1, "NONE", 0)),
        row("bottom", (1, "NONE", 0), (1, "NONE", 0), weights),
        row("top", (1, "NONE", 0), (1, "NONE", 0), weights),
        gpus=2,
    ).programs
    waits = dict(told(program))
    assert waits["tables forward all-to-all"] == ["tables forward"]
    assert waits["bottom forward"] == ["tables forward"]
    assert waits["top forward"] == ["tables forward all-to-all", "bottom forward"]
    assert waits["tables input gradient all-to-all"] == ["top input gradient", "top weight gradient"]
    assert waits["bottom input gradient"] == ["top input gradient", "top weight gradient"]
    assert names(program)[-1] == "tables weight gradient"


def test_columns_are_separated_by_any_white_space_and_numbers_may_be_fractions(
    read: Read, tmp_path: Path
) -> None:
    expected = read(header(tp=2, gpus=2, pp=1, pp_comm=0), row("fc", (1500, "ALLREDUCE", 100)))
    path = tmp_path / "other.txt"
    path.write_text(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 expert_parallel_npu_group: 1 pp: 1 \\\n"
        "".replace("\\\n", "ga: 1 all_gpus: 2 checkpoints: 0 checkpoint_initiates: 0 pp_comm 0.0\r\n")
        + "1\t\t\t\r\n\r\nfc     -1  1500.0  ALLREDUCE  100.0   0 NONE 0   0 NONE  0    0  \r\n\r\n"
    )
    assert read_simai(path) == expected


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (
            "DATA_PARALLEL",
            "line 1: 'DATA_PARALLEL' is not a known parallelism; known: DATA, MODEL, HYBRID_DATA",
        ),
        (
            "DATA gpus: 4",
            "line 1: 'gpus' is not a known key; known: model_parallel_npu_group, ep, pp, vpp, ga",
        ),
        ("DATA all_gpus:", "line 1: all_gpus: has no value"),
        ("DATA all_gpus: many", "line 1: all_gpus: must be a finite number: got 'many'"),
        ("DATA all_gpus: 0", "line 1: all_gpus: must be a whole number from 1 to 1048576: got '0'"),
        ("DATA all_gpus: 1.5", "line 1: all_gpus: must be a whole number from 1 to 1048576: got '1.5'"),
        ("DATA all_gpus: 4 pp: 2", "line 1: pp: is 2; must be 1 for DATA"),
        (
            "DATA checkpoints: 1 0",
            "line 1: checkpoints: is only for HYBRID_TRANSFORMER_FWD_IN_BCKWD, not DATA",
        ),
        (f"{header()} checkpoints: 1", "line 1: checkpoints: gives 1 layers, but 0 follow"),
        (f"{header()} checkpoints: 1 1", "line 1: checkpoints: must be a whole number from 0 to 0: got '1'"),
        (
            f"{header()} checkpoint_initiates: 1 0",
            "line 1: checkpoint_initiates: layer 0, counted from 0, has no checkpoint",
        ),
        (header(gpus=6, tp=4), "6 GPUs do not divide into 1 stages of 4 ranks that share a layer"),
        (
            header(gpus=12, tp=2, ep=4),
            "12 GPUs are 6 replicas, which do not divide into groups of 4 with all experts (ep); the fewest",
        ),
        (header(gpus=5, pp=2), "all_gpus: 5 do not divide into 2 stages (pp)"),
        (
            header(gpus=4, pp=2),
            "pp is 2, but the file has no pp_comm, the bytes that stages send; set `pipeline` = 1",
        ),
        (
            header(gpus=4, pp=2, pp_comm=8, ga=3),
            "ga is 3 microbatches, but 0 layers are named embedding_layer, with which each",
        ),
        ("HYBRID_DLRM all_gpus: 2", "line 1: DLRM_LAST_BOTTOM_LAYER is missing"),
        ("HYBRID_DLRM 7 all_gpus: 2", "line 1: DLRM_LAST_BOTTOM_LAYER: is 7; the layers are 0 to 0"),
        (
            "HYBRID_TRANSFORMER all_gpus: 2",
            "model_parallel_NPU_group, the number of ranks that share a layer, is",
        ),
        ("DATA", "all_gpus is missing; give the number of GPUs as `gpus`"),
    ],
)
def test_an_invalid_header_is_refused(first: str, message: str, refuse: Refuse) -> None:
    assert refuse(first, row("fc", (1, "NONE", 0), (1, "NONE", 0), (1, "NONE", 0))).startswith(message)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("fc -1 1 NONE 0", "line 3: has 5 columns; a layer of HYBRID_TRANSFORMER_FWD_IN_BCKWD has 12"),
        (row("fc", (-1, "NONE", 0)), "line 3: column 3, forward compute: must not be negative: got '-1'"),
        (
            row("fc", (1, "ALLREDUCE", -8)),
            "line 3: column 5, forward bytes: must be a whole number from 0 to 9223372036854775807: got '-8'",
        ),
        (
            row("fc", (1, "NONE", 0), (1, "ALLREDUCEALLTOALL", 8)),
            "line 3: column 7, input gradient exchange: 'ALLREDUCEALLTOALL' is not supported; known",
        ),
        (
            row("fc", weights=(1, "ALLREDUCE_TP", 8)),
            "line 3: column 10, weight gradient exchange: 'ALLREDUCE_TP' is not supported; known:",
        ),
        (row("fc", update=-1), "line 3: column 12, update time: must not be negative: got '-1'"),
        ("fc x" + " 0 NONE 0" * 3 + " 0", "line 3: column 2, dependency: must be a finite number: got 'x'"),
        (
            row("fc", (2**63, "NONE", 0)),
            "line 3: column 3, forward compute: must be at most 9223372036854775: got",
        ),
    ],
)
def test_an_invalid_layer_is_refused_with_line_and_column(layer: str, message: str, refuse: Refuse) -> None:
    assert refuse(header(gpus=2), layer).startswith(message)


def test_all_errors_of_a_file_are_reported_together(refuse: Refuse) -> None:
    found = refuse(header(gpus=2), row("a", (-1, "SUM", 0)), row("b", update=-3))
    assert [line.split(":")[0] + line.split(":")[1] for line in found.splitlines()] == [
        "line 3 column 3, forward compute",
        "line 3 column 4, forward exchange",
        "line 4 column 12, update time",
    ]


def test_exchanges_that_the_parallelism_does_not_have_are_refused(refuse: Refuse) -> None:
    assert refuse("DATA all_gpus: 2", row("fc", (1, "ALLREDUCE", 8))) == (
        "line 3: column 4, forward exchange: must be NONE, as this parallelism exchanges nothing here: "
        "got 'ALLREDUCE'"
    )
    assert refuse("DATA all_gpus: 2", row("fc", weights=(1, "ALLREDUCE_EP", 8))) == (
        "line 3: column 10, weight gradient exchange: 'ALLREDUCE_EP' names experts, which only "
        "HYBRID_TRANSFORMER supports"
    )
    assert refuse(
        "HYBRID_CUSTOMIZED all_gpus: 2", row("fc", (1, "NONE", 0), more_policy := (0, "NONE", 0))
    ) == (f"line 3: has {9 + len(more_policy)} columns; a layer of HYBRID_CUSTOMIZED has 13")


def test_options_that_do_not_fit_the_file_are_refused(refuse: Refuse) -> None:
    layer = row("embedding_layer", (1, "NONE", 0))
    assert refuse(header(), layer, gpus=0) == "gpus: must be from 1 to 1048576: got 0"
    assert refuse(header(), layer, pipeline=2) == "pipeline: 2 stages are more than the file's pp, 1"
    assert (
        refuse(header(), layer, microbatches=2) == "microbatches: must be from 1 to the file's ga, 1: got 2"
    )
    assert refuse(header(), layer, schedule="2f2b") == "schedule: '2f2b' is none of gpipe, 1f1b"


def test_the_number_of_layers_must_be_right(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_text(f"{header()}\n3\n{row('fc')}\n")
    with pytest.raises(InputError, match=r"w\.txt: line 2: gives 3 layers, but 1 follow"):
        read_simai(path)
    path.write_text(f"{header()}\nfew\n{row('fc')}\n")
    with pytest.raises(
        InputError, match=r"w\.txt: line 2: number of layers: must be a whole number from 1 to"
    ):
        read_simai(path)
    path.write_text("MICRO\n")
    with pytest.raises(InputError, match=r"w\.txt: has 1 lines; at least the parallelism"):
        read_simai(path)
    with pytest.raises(InputError, match=r"gone\.txt: no such file"):
        read_simai(tmp_path / "gone.txt")


def test_a_file_in_which_nothing_happens_is_refused(refuse: Refuse) -> None:
    assert refuse(header(gpus=4), row("fc")) == "on 4 GPUs no layer computes or exchanges anything"


numbers = st.sampled_from(["0", "1", "2", "3", "4", "-1", "1.5", "nan", "9" * 30, ""])
exchanges = st.sampled_from(["NONE", "ALLREDUCE", "ALLTOALL_EP", "ALLGATHER_DP_EP", "BROADCAST", "?"])
words = st.one_of(
    numbers,
    exchanges,
    st.sampled_from(["ep:", "pp:", "ga:", "all_gpus:", "pp_comm", "checkpoints:", "checkpoint_initiates:"]),
)
headers = st.builds(
    lambda policy, more: " ".join([policy, *more]),
    st.sampled_from(
        ["DATA", "MICRO", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DLRM", "HYBRID_CUSTOMIZED", "?"]
    ),
    st.lists(words, max_size=8),
)
layers = st.builds(
    lambda name, passes, more: " ".join(
        [name, "-1", *(word for each in passes for word in each), "0", *more]
    ),
    st.sampled_from(["embedding_layer", "mlp", "cross_entropy1"]),
    st.lists(st.tuples(numbers, exchanges, numbers), min_size=3, max_size=3),
    st.sampled_from([[], ["DATA"], ["HYBRID_MODEL_DATA"]]),
)


@given(headers, st.lists(layers, max_size=4), st.integers(1, 8), st.sampled_from(["gpipe", "1f1b"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header_and_layers_are_a_workload_or_are_refused(
    tmp_path: Path, first: str, rows: list[str], gpus: int, schedule: Any
) -> None:
    path = tmp_path / "w.txt"
    path.write_text("\n".join([first, str(len(rows)), *rows]))
    with suppress(InputError):
        assert is_valid(read_simai(path, gpus=gpus, schedule=schedule))


@given(st.binary(max_size=200))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_workload_or_are_refused(tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes(b"MICRO\n1\n" + file)
    with suppress(InputError):
        assert is_valid(read_simai(path, gpus=2))
