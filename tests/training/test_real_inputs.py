"""Real traces and workload files are read; with bytes changed they are workloads or are refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.training.chakra import Roofline, read_chakra
from hocket.training.simai import read_simai
from hocket.training.workload import Operation, Workload

SHARED = Path(__file__).parents[3] / "shared" / "traces"
pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the files of other projects are not here: {SHARED}"
)


def test_one_all_reduce_of_a_megabyte_over_eight_ranks() -> None:
    workload = read_chakra(SHARED / "chakra" / "all_reduce_8")
    assert workload.programs == ((Operation("all_reduce_8npus_1MB", "all-reduce", bytes=2**20),),)
    assert workload.groups == (tuple(range(8)),)
    assert [rank.program for rank in workload.ranks] == [0] * 8


def test_a_ring_of_explicit_messages_sends_what_a_ring_all_reduce_sends() -> None:
    workload = read_chakra(SHARED / "chakra" / "ring_all_reduce_custom_8")
    for rank, its in enumerate(workload.ranks):
        program = workload.programs[its.program]
        sends = [operation for operation in program if operation.kind == "send"]
        receives = [operation for operation in program if operation.kind == "recv"]
        # 2 (n - 1) steps, each with an n-th of the buffer, to the next rank and from the previous one.
        assert [(each.bytes, each.peer) for each in sends] == [(2**20 // 8, (rank + 1) % 8)] * 14
        assert [(each.bytes, each.peer) for each in receives] == [(2**20 // 8, (rank - 1) % 8)] * 14
        # Each of the n - 1 reductions takes 7 us.
        assert [each.duration_ps for each in program if each.kind == "compute"] == [7 * 10**6] * 7
    assert len(workload.programs) == 8


def test_the_same_traces_are_found_by_the_start_of_their_path_or_one_by_one_in_any_order() -> None:
    directory = SHARED / "chakra" / "all_reduce_8"
    workload = read_chakra(directory)
    assert read_chakra(str(directory / "all_reduce")) == workload
    assert read_chakra([directory]) == workload
    assert read_chakra(sorted(directory.glob("*.et"), reverse=True)) == workload


# A mutation: the position as a share of the file, the number of bytes removed, and their replacement.
mutations = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 4), st.one_of(st.binary(max_size=4), st.sampled_from([b"0", b" "]))
    ),
    min_size=1,
    max_size=4,
)
Mutations = list[tuple[float, int, bytes]]


def mutated(content: bytes, changes: Mutations) -> bytes:
    for part, gone, instead in changes:
        place = int(part * len(content))
        content = content[:place] + instead + content[place + gone :]
    return content


def is_in_order(workload: Workload) -> bool:
    """Whether operations wait for earlier ones only and communicate in groups that their rank is in."""
    for rank in workload.ranks:
        for place, operation in enumerate(workload.programs[rank.program]):
            assert all(0 <= after < place for after in operation.after)
            assert operation.kind == "compute" or operation.communicator < len(rank.communicators)
    return True


@pytest.mark.parametrize("traces", ["all_reduce_8", "ring_all_reduce_custom_8"])
@given(changes=mutations)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_mutated_chakra_traces(traces: str, changes: Mutations, tmp_path: Path) -> None:
    for file in (SHARED / "chakra" / traces).glob("*.et"):
        content = file.read_bytes()
        is_third = file.name.endswith(".2.et")
        (tmp_path / file.name).write_bytes(mutated(content, changes) if is_third else content)
    with suppress(InputError):
        assert is_in_order(read_chakra(tmp_path, roofline=Roofline(10**12, 10**12)))


@given(changes=mutations)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_mutated_workload_text(changes: Mutations, tmp_path: Path) -> None:
    lines = (SHARED / "simai" / "workload_analytical.txt").read_bytes().splitlines()
    # The first two of the 24 microbatches: six layers, and 74 for each.
    header = lines[0].replace(b"ga: 24", b"ga: 2")
    content = b"\n".join([header, b"154", *lines[2 : 2 + 6 + 2 * 74]])
    path = tmp_path / "workload.txt"
    path.write_bytes(mutated(content, changes))
    with suppress(InputError):
        assert is_in_order(read_simai(path, gpus=384))
