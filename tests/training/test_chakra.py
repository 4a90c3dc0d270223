"""Chakra traces become workloads. Files are written byte by byte without the code under test."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.conftest import content, is_valid, trace, varint, whole

from hocket.errors import InputError
from hocket.training.chakra import Roofline, read_chakra
from hocket.training.workload import Operation, Workload

METADATA, MEM_LOAD, COMP, SEND, RECV, COLLECTIVE = 1, 2, 4, 5, 6, 7
ALL_REDUCE, REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 1, 2, 5, 6, 7, 9

# Field numbers in the union of attribute values.
KINDS = {
    "double": 3,
    "int32": 7,
    "int64": 9,
    "uint64": 13,
    "sint64": 17,
    "fixed64": 21,
    "bool": 27,
    "bool_list": 28,
    "string": 29,
}


def attribute(name: str, value: Any) -> bytes:
    """The bytes of an attribute; its kind follows from the value, or is the first of a pair."""
    guessed = {bool: "bool", int: "int64", str: "string", list: "bool_list"}
    kind, value = value if isinstance(value, tuple) else (guessed[type(value)], value)
    number = KINDS[kind]
    match kind:
        case "double":
            encoded = varint(number << 3 | 1) + struct.pack("<d", value)
        case "fixed64":
            encoded = varint(number << 3 | 1) + struct.pack("<Q", value)
        case "sint64":
            encoded = whole(number, 2 * value if value >= 0 else -2 * value - 1)
        case "string":
            encoded = content(number, value.encode())
        case "bool_list":
            encoded = content(number, content(1, bytes(value)))
        case _:
            encoded = whole(number, value)
    return content(10, content(1, name.encode()) + encoded)


def node(
    number: int,
    kind: int,
    *,
    name: str = "",
    data: Sequence[int] = (),
    control: Sequence[int] = (),
    micros: int = 0,
    inputs: str = "",
    **attributes: Any,
) -> bytes:
    """A node's bytes, without their length."""
    parts = [whole(1, number), content(2, name.encode()), whole(3, kind)]
    # One list packed and one not: a reader takes both.
    parts += [content(4, b"".join(varint(each) for each in control))] if control else []
    parts += [whole(5, each) for each in data]
    parts += [whole(7, micros)] if micros else []
    parts += [content(8, content(1, inputs.encode()))] if inputs else []
    parts += [attribute(each, value) for each, value in attributes.items()]
    return b"".join(parts)


def collective(number: int, kind: int, size: int, **more: Any) -> bytes:
    """A collective into which each rank puts `size` bytes."""
    return node(number, COLLECTIVE, **{"comm_type": kind, "comm_size": size, **more})


Read = Callable[..., Workload]
Refuse = Callable[..., str]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a workload whose ranks have these nodes; the files are `job.RANK.et`."""

    def of(*ranks: Sequence[bytes], **options: Any) -> Workload:
        for rank, nodes in enumerate(ranks):
            (tmp_path / f"job.{rank}.et").write_bytes(trace(*nodes))
        return read_chakra(tmp_path, **options)

    return of


@pytest.fixture
def refuse(read: Read, tmp_path: Path) -> Refuse:
    """The error message for ranks of these nodes, without the directory."""

    def of(*ranks: Sequence[bytes], **options: Any) -> str:
        with pytest.raises(InputError) as caught:
            read(*ranks, **options)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return of


def kinds(operations: Sequence[Operation]) -> list[str]:
    return [operation.kind for operation in operations]


def test_a_compute_lasts_its_recorded_time_and_precedes_its_successors(read: Read) -> None:
    nodes = [
        collective(5, ALL_REDUCE, 100, data=[7], name="grads"),
        node(7, COMP, micros=20, control=[2]),
        node(2, COMP, micros=3),
    ]
    assert read(nodes, nodes).programs == (
        (
            Operation("node 2", "compute", (), 3 * 10**6),
            Operation("node 7", "compute", (0,), 20 * 10**6),
            Operation("grads", "all-reduce", (1,), bytes=100),
        ),
    )


def test_among_nodes_that_could_come_next_the_lowest_id_comes_first(read: Read) -> None:
    nodes = [node(number, COMP, micros=number) for number in (9, 1, 4)]
    (program,) = read(nodes).programs
    assert [operation.duration_ps // 10**6 for operation in program] == [1, 4, 9]


@pytest.mark.parametrize(
    ("kind", "expected", "size"),
    [
        (ALL_REDUCE, "all-reduce", 600),
        (ALL_TO_ALL, "all-to-all", 600),
        (REDUCE_SCATTER, "reduce-scatter", 600),
        (BROADCAST, "broadcast", 600),
        # nccl-tests counts the output of each rank: the inputs of all three.
        (ALL_GATHER, "all-gather", 1800),
        (BARRIER, "all-reduce", 4),
    ],
)
def test_bytes_are_counted_as_by_nccl_tests(kind: int, expected: str, size: int, read: Read) -> None:
    nodes = [collective(0, kind, 600)]
    (program,) = read(nodes, nodes, nodes).programs
    assert [(operation.kind, operation.bytes) for operation in program] == [(expected, size)]


@pytest.mark.parametrize(
    "value",
    [("int32", 4096), 4096, ("uint64", 4096), ("sint64", 4096), ("fixed64", 4096), ("double", 4096.0)],
)
def test_an_attribute_may_be_of_any_kind_of_number(value: Any, read: Read) -> None:
    nodes = [node(0, COLLECTIVE, comm_type=ALL_REDUCE, comm_size=value)]
    assert read(nodes, nodes).programs[0][0].bytes == 4096


def test_successors_of_nodes_that_take_no_time_wait_for_their_predecessors(read: Read) -> None:
    nodes = [
        node(0, COMP, micros=1),
        node(1, COMP, micros=2),
        node(2, COMP, data=[0, 1]),
        node(3, METADATA, data=[2]),
        collective(4, ALL_REDUCE, 0, data=[3]),
        collective(5, ALL_REDUCE, 8, data=[4]),
    ]
    (program,) = read(nodes, nodes).programs
    assert kinds(program) == ["compute", "compute", "all-reduce"]
    assert program[2].after == (0, 1)


def test_a_missing_control_dependency_is_ignored(read: Read) -> None:
    (program,) = read([node(1, COMP, micros=1), node(2, COMP, micros=1, data=[1], control=[0])]).programs
    assert program[1].after == (0,)


def test_many_common_predecessors_become_one_operation(read: Read) -> None:
    width = 100
    nodes = [node(number, COMP, micros=1) for number in range(width)]
    nodes += [node(width, METADATA, name="join", data=range(width))]
    nodes += [node(width + 1 + number, COMP, micros=1, data=[width]) for number in range(width)]
    (program,) = read(nodes).programs
    assert program[width] == Operation("join", "compute", tuple(range(width)), 0)
    assert {operation.after for operation in program[width + 1 :]} == {(width,)}


def test_computes_on_the_cpu_take_no_time_in_the_trace_of_a_gpu(read: Read) -> None:
    launch = node(0, COMP, micros=50, is_cpu_op=True)
    (program,) = read([launch, node(1, COMP, micros=9, data=[0], is_cpu_op=False)]).programs
    assert program == (Operation("node 1", "compute", (), 9 * 10**6),)


def test_computes_take_their_time_in_a_trace_of_a_cpu_only(read: Read) -> None:
    (program,) = read([node(0, COMP, micros=50, is_cpu_op=True)]).programs
    assert program == (Operation("node 0", "compute", (), 50 * 10**6),)


def test_a_compute_without_a_duration_takes_the_time_of_the_roofline(read: Read) -> None:
    nodes = [
        # 2 GFLOP at 1 TFLOP/s are 2 ms, and 1 MB at 1 GB/s is 1 ms: bound by compute.
        node(0, COMP, num_ops=2 * 10**9, tensor_size=10**6),
        # 5 MB are 5 ms: bound by memory.
        node(1, COMP, num_ops=2 * 10**9, tensor_size=5 * 10**6),
        # A recorded duration is kept.
        node(2, COMP, micros=7, num_ops=2 * 10**9),
        node(3, MEM_LOAD, tensor_size=3 * 10**6),
    ]
    (program,) = read(nodes, roofline=Roofline(peak_flops=10**12, memory_bytes_per_s=10**9)).programs
    assert [operation.duration_ps for operation in program] == [2 * 10**9, 5 * 10**9, 7 * 10**6, 3 * 10**9]


def test_communicators_are_named_in_a_file_beside_the_traces(read: Read, tmp_path: Path) -> None:
    (tmp_path / "comm_group.json").write_text('{"1": [0, 1], "2": [3, 2], "3": [0, 1]}')

    def rank(name: str) -> list[bytes]:
        return [collective(0, ALL_REDUCE, 64, pg_name=name), collective(1, ALL_GATHER, 10)]

    workload = read(rank("1"), rank("1"), rank("2"), rank("2"))
    assert workload.groups == ((0, 1), (0, 1, 2, 3), (2, 3))
    assert [rank.communicators for rank in workload.ranks] == [(0, 1), (0, 1), (2, 1), (2, 1)]
    # All do the same, each within its own groups.
    assert len(workload.programs) == 1


def test_two_names_for_the_same_ranks_are_two_communicators(read: Read, tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text('{"1": [0, 1], "3": [0, 1]}')
    nodes = [collective(0, ALL_REDUCE, 64, pg_name="1"), collective(1, ALL_REDUCE, 64, pg_name="3")]
    workload = read(nodes, nodes, groups=tmp_path / "groups.json")
    assert workload.groups == ((0, 1), (0, 1))
    assert [operation.communicator for operation in workload.programs[0]] == [0, 1]


def test_pytorch_names_process_groups_in_the_trace(read: Read) -> None:
    groups = [{"pg_name": "0", "ranks": []}, {"pg_name": "7", "ranks": [1, 2], "pg_desc": "it's"}]
    metadata = node(0, METADATA, name="## process_group:init ##", inputs=f"['{json.dumps(groups)}']")
    within = collective(1, ALL_REDUCE, 8, pg_name="7")
    everywhere = collective(2, ALL_REDUCE, 8, pg_name="0")
    workload = read([metadata, everywhere], [metadata, within, everywhere], [metadata, within, everywhere])
    assert workload.groups == ((0, 1, 2), (1, 2))
    assert [rank.communicators for rank in workload.ranks] == [(0,), (1, 0), (1, 0)]


def test_a_collective_may_involve_some_dimensions_of_the_topology(read: Read) -> None:
    # 2 × 3 ranks, numbered along the first dimension first: 0 1 | 2 3 | 4 5.
    nodes = [
        collective(0, ALL_REDUCE, 8, involved_dim=[True, False, False]),
        collective(1, ALL_REDUCE, 8, involved_dim=[False, True, True]),
        collective(2, ALL_REDUCE, 8, involved_dim=[True, True, True]),
    ]
    workload = read(*[nodes] * 6, dimensions=[2, 3])
    groups = [[workload.groups[group] for group in rank.communicators] for rank in workload.ranks]
    everybody = (0, 1, 2, 3, 4, 5)
    assert groups[0] == [(0, 1), (0, 2, 4), everybody]
    assert groups[5] == [(4, 5), (1, 3, 5), everybody]


def test_a_collective_of_a_rank_with_itself_is_left_out(read: Read) -> None:
    (program,) = read([collective(0, ALL_REDUCE, 8), node(1, COMP, micros=1, data=[0])]).programs
    assert program == (Operation("node 1", "compute", (), 10**6),)


def test_a_rank_may_belong_to_groups_that_only_other_ranks_use(read: Read) -> None:
    workload = read(
        [node(0, SEND, comm_dst=1, comm_size=5, comm_tag=3)],
        [node(0, RECV, comm_src=0, comm_size=5, comm_tag=3)],
        [node(0, COMP, micros=1)],
    )
    assert workload.groups == ((0, 1, 2),)
    assert [rank.communicators for rank in workload.ranks] == [(0,)] * 3
    assert workload.programs[0] == (Operation("node 0", "send", (), bytes=5, peer=1, tag=3),)


def test_every_file_cut_anywhere_but_between_messages_is_refused(tmp_path: Path) -> None:
    messages = [node(0, COMP, name="forward", micros=1), node(1, COMP, name="x" * 200, micros=300)]
    whole_file = trace(*messages)
    ends = [len(trace(*messages[:count])) for count in range(len(messages) + 1)]
    for length in range(1, len(whole_file)):
        (tmp_path / "a.0.et").write_bytes(whole_file[:length])
        if length in ends[1:]:
            assert len(read_chakra(tmp_path).programs[0]) == ends.index(length)
        elif length != ends[0]:
            with pytest.raises(
                InputError, match=r"a\.0\.et: rank 0: is cut short: the (message|length of the message) at"
            ):
                read_chakra(tmp_path)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "is empty; a Chakra trace begins with its metadata"),
        (b"\x80", "is cut short: the length of the message at byte 0 is incomplete"),
        (b"\xff" * 12, "is no Chakra trace: the length of the message at byte 0 has more than 10 bytes"),
        (b"\x1f\x8b\x08\x00", "is compressed by gzip; decompress it first"),
        (
            b'{\n  "schema": "1.0.1"',
            "is JSON; convert PyTorch's own execution traces, in JSON, with",
        ),
        (b"\x03\x12\x05a", "the 3 bytes at byte 1 are not a GlobalMetadata of a Chakra trace: "),
        (
            trace(metadata=node(1, COMP)),
            "is no Chakra trace: the first message is a node, not the metadata",
        ),
        (trace(b"\x12\x05a"), "the 3 bytes at byte 9 are not a Node of a Chakra trace: "),
    ],
)
def test_a_file_that_is_not_a_chakra_trace_is_refused(file: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.0.et").write_bytes(file)
    with pytest.raises(InputError) as caught:
        read_chakra(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/a.0.et: rank 0: {message}")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node(4, COMP), node(4, COMP)], "node 4: byte 16: the id is taken by node 4"),
        ([node(4, COMP, name="f", data=[9])], "node 4 'f': waits for node 9, which is not in the file"),
        ([node(4, COMP, data=[4])], "node 4: waits for itself: 4 → 4"),
        (
            [node(1, COMP, data=[3]), node(2, COMP, data=[1]), node(3, COMP, control=[2])],
            "node 1: waits for itself: 1 → 3 → 2 → 1",
        ),
        ([node(1, 8)], "node 1: is of type 8, which is not supported; known: 0 (INVALID), 1 (METADATA)"),
        ([node(1, COLLECTIVE, comm_size=8)], "node 1: a COMM_COLL needs the attribute comm_type"),
        ([node(1, COLLECTIVE, comm_type=ALL_REDUCE)], "node 1: a COMM_COLL needs the attribute comm_size"),
        ([collective(1, REDUCE, 8)], "node 1: comm_type: 1 (REDUCE) is not supported"),
        ([collective(1, 99, 8)], "node 1: comm_type: 99 (an unknown type) is not supported"),
        (
            [collective(1, ALL_REDUCE, -8)],
            "node 1: comm_size: must be a whole number from 0 to 9223372036854775807: got -8",
        ),
        (
            [node(1, COLLECTIVE, comm_type=ALL_REDUCE, comm_size="8 MB")],
            "node 1: comm_size: must be a whole number from 0 to 9223372036854775807: got '8 MB'",
        ),
        (
            [collective(1, ALL_GATHER, 2**62)],
            "node 1: moves 9223372036854775808 bytes; the limit is 9223372036854775807",
        ),
        ([node(1, COMP, micros=2**63)], "node 1: takes 9223372036854775808000000 ps; the limit is"),
        (
            [node(1, COMP, name="gemm", num_ops=5)],
            "node 1 'gemm': has no duration, only 5 operations; give a roofline (peak",
        ),
        (
            [collective(1, ALL_REDUCE, 8, pg_name="tp")],
            "node 1: names the communicator 'tp'; neither the trace nor a file of groups defines it",
        ),
        ([collective(1, ALL_REDUCE, 8, pg_name=[True])], "node 1: pg_name: must be a name: got a tuple"),
        (
            [collective(1, ALL_REDUCE, 8, involved_dim=[True, False])],
            "node 1: involves only some dimensions of the topology, [1, 0]; give the number of ranks",
        ),
        ([node(1, SEND, comm_size=8)], "node 1: a COMM_SEND needs the attribute comm_dst"),
        ([node(1, RECV, comm_size=8)], "node 1: a COMM_RECV needs the attribute comm_src"),
        ([node(1, SEND, comm_size=8, comm_dst=2)], "node 1: comm_dst: is 2; there are files of ranks 0 to 1"),
        ([node(1, SEND, comm_size=8, comm_dst=0)], "node 1: comm_dst: is 0, the rank itself"),
        (
            [node(1, SEND, comm_size=8, comm_src=1, comm_dst=1)],
            "node 1: comm_src: is 1 in the trace of rank 0",
        ),
    ],
)
def test_a_node_that_cannot_run_is_named(nodes: list[bytes], message: str, refuse: Refuse) -> None:
    assert refuse(nodes, nodes).startswith(f"job.0.et: rank 0: {message}")


def test_ranks_that_run_different_collectives_are_named(refuse: Refuse) -> None:
    ours = [collective(0, ALL_REDUCE, 8), collective(1, ALL_TO_ALL, 8, data=[0])]
    theirs = [collective(5, ALL_REDUCE, 8), collective(6, ALL_TO_ALL, 9, data=[5])]
    assert refuse(ours, theirs) == (
        "job.1.et: rank 1: node 6: collective 2 of ranks 0, 1 is an all-to-all of 9 bytes; "
        "for rank 0 it is an all-to-all of 8 bytes, node 1"
    )


def test_ranks_with_collectives_in_another_order_are_named(refuse: Refuse) -> None:
    reduce, gather = collective(0, ALL_REDUCE, 8), collective(1, ALL_GATHER, 8)
    swapped = [collective(0, ALL_GATHER, 8), collective(1, ALL_REDUCE, 8)]
    assert refuse([reduce, gather], swapped) == (
        "job.1.et: rank 1: node 0: collective 1 of ranks 0, 1 is an all-gather of 16 bytes; "
        "for rank 0 it is an all-reduce of 8 bytes, node 0"
    )


def test_a_rank_with_fewer_collectives_is_named(refuse: Refuse) -> None:
    one, two = collective(0, ALL_REDUCE, 8), collective(1, ALL_REDUCE, 8)
    assert refuse([one], [one, two]) == (
        "job.1.et: rank 1: node 1: all-reduce of 8 bytes is collective 2 of ranks 0, 1; rank 0 has 1 there"
    )
    assert refuse([one, two], [one]) == (
        "job.0.et: rank 0: node 1: all-reduce of 8 bytes is collective 2 of ranks 0, 1; rank 1 has 1 there"
    )


def test_a_rank_that_takes_no_part_in_a_collective_is_named(refuse: Refuse) -> None:
    assert refuse([collective(0, ALL_REDUCE, 8)], [node(0, COMP, micros=1)]) == (
        "job.0.et: rank 0: node 0: all-reduce of 8 bytes in ranks 0, 1; rank 1 has none there"
    )


def test_ranks_that_disagree_about_the_members_of_a_group_are_named(refuse: Refuse) -> None:
    def rank(members: list[int]) -> list[bytes]:
        groups = json.dumps([{"pg_name": "3", "ranks": members}])
        return [node(0, METADATA, inputs=f"['{groups}']"), collective(1, ALL_REDUCE, 8, pg_name="3")]

    assert refuse(rank([0, 1]), rank([0, 1, 2]), rank([0, 1, 2])) == (
        "job.0.et: rank 0: node 1: all-reduce of 8 bytes in communicator '3' of ranks 0, 1; "
        "rank 1 has none there"
    )
    assert refuse(rank([1, 2]), rank([1, 2]), rank([1, 2])) == (
        "job.0.et: rank 0: node 1: its rank is not in the communicator '3' of ranks 1, 2"
    )


def test_a_send_without_a_receive_and_a_receive_without_a_send_are_named(refuse: Refuse) -> None:
    send = node(3, SEND, comm_dst=1, comm_size=8, comm_tag=2)
    receive = node(4, RECV, comm_src=0, comm_size=8, comm_tag=2)
    idle = node(0, COMP, micros=1)
    assert refuse([send], [idle]) == (
        "job.0.et: rank 0: node 3: send 1 from rank 0 to rank 1 with tag 2 has no receive; there are 0"
    )
    assert refuse([idle], [receive]) == (
        "job.1.et: rank 1: node 4: receive 1 from rank 0 to rank 1 with tag 2 has no send; there are 0"
    )
    assert refuse([send], [node(4, RECV, comm_src=0, comm_size=9, comm_tag=2)]) == (
        "job.0.et: rank 0: node 3: send 1 from rank 0 to rank 1 with tag 2 has 8 bytes; "
        "its receive, node 4, has 9"
    )


def test_traces_in_pytorchs_own_format_are_refused_with_the_converter(tmp_path: Path) -> None:
    (tmp_path / "eg_0.json").write_text('{"schema": "1.0.1"}')
    for path in (tmp_path, tmp_path / "eg_0.json", tmp_path / "traces.tar.gz"):
        with pytest.raises(InputError, match=r"; convert PyTorch's own execution traces, in JSON, with"):
            read_chakra([path])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.0\.et: rank 0: cannot be read: No such file or directory"):
        read_chakra([tmp_path / "a.0.et"])
    with pytest.raises(InputError, match=r"job: has no trace; the file of rank 0 must be named NAME"):
        read_chakra(tmp_path / "job")
    with pytest.raises(InputError, match=r"traces: none are given"):
        read_chakra([])


def test_missing_and_duplicate_ranks_are_named(tmp_path: Path) -> None:
    file = trace(node(0, COMP, micros=1))

    def message() -> str:
        with pytest.raises(InputError) as caught:
            read_chakra(tmp_path)
        return str(caught.value).replace(str(tmp_path), "DIR")

    assert message() == "DIR: has no trace; the file of rank 0 must be named NAME.0.et"
    for rank in (0, 1, 3):
        (tmp_path / f"a.{rank}.et").write_bytes(file)
    assert message() == "DIR: the file of rank 2 is missing; the highest rank is 3"
    (tmp_path / "b.2.et").write_bytes(file)
    assert message() == "DIR: has traces of several jobs, a and b; name one, such as a"
    (tmp_path / "b.1.et").write_bytes(file)
    assert message() == "DIR/b.1.et: is a second file of rank 1; the first is DIR/a.1.et"
    (tmp_path / "a.01.et").write_bytes(file)
    assert message() == "DIR/a.01.et: must be named NAME.RANK.et, where RANK is a number"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("{", "is not JSON: "),
        ("[[0, 1]]", "must be an object of communicators, each a list of ranks: got a list"),
        ('{"1": 5}', "communicator '1': must be a list of ranks: got 5"),
        ('{"1": [0, 2]}', "communicator '1': has 2; there are files of ranks 0 to 1"),
        ('{"1": [0, true]}', "communicator '1': has true; there are files of ranks 0 to 1"),
        ('{"1": [0, 1, 0]}', "communicator '1': has a rank twice: ranks 0, 1, 0"),
    ],
)
def test_a_file_of_groups_is_checked(groups: str, message: str, refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "comm_group.json").write_text(groups)
    nodes = [collective(0, ALL_REDUCE, 8)]
    assert refuse(nodes, nodes).startswith(f"comm_group.json: {message}")


def test_the_product_of_dimensions_must_be_the_number_of_ranks(refuse: Refuse) -> None:
    nodes = [node(0, COMP, micros=1)]
    assert refuse(nodes, nodes, dimensions=[2, 2]) == "dimensions: 2 × 2 are 4 ranks; the traces have 2"
    assert refuse(nodes, nodes, dimensions=[2, 0]) == "dimensions: each must be at least 1: got 0"


def test_a_job_that_does_nothing_is_refused(refuse: Refuse) -> None:
    assert refuse([node(0, METADATA)]).endswith("no node of the traces computes on a GPU or communicates")


@given(st.binary(max_size=300))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_workload_or_are_refused(tmp_path: Path, file: bytes) -> None:
    (tmp_path / "a.0.et").write_bytes(trace() + file)
    with suppress(InputError):
        assert is_valid(read_chakra(tmp_path))


attributes = st.fixed_dictionaries(
    {},
    optional={
        "comm_type": st.integers(0, 9),
        "comm_size": st.integers(-1, 2**40),
        "comm_src": st.integers(0, 3),
        "comm_dst": st.integers(0, 3),
        "comm_tag": st.integers(0, 2),
        "num_ops": st.integers(0, 2**40),
        "is_cpu_op": st.booleans(),
        "pg_name": st.sampled_from(["", "0", "1", "é"]),
        "involved_dim": st.lists(st.booleans(), max_size=3),
    },
)
dependencies = st.lists(st.integers(0, 6), max_size=3)


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 9), dependencies, st.integers(0, 9), attributes),
        max_size=6,
    ),
    st.integers(1, 3),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_nodes_are_a_workload_or_are_refused(
    tmp_path: Path, found: list[tuple[int, int, list[int], int, Mapping[str, Any]]], ranks: int
) -> None:
    nodes = [
        node(number, kind, data=data, micros=micros, **more) for number, kind, data, micros, more in found
    ]
    files = [tmp_path / f"a.{rank}.et" for rank in range(ranks)]
    for file in files:
        file.write_bytes(trace(*nodes))
    with suppress(InputError):
        assert is_valid(read_chakra(files, roofline=Roofline(10**12, 10**12)))
