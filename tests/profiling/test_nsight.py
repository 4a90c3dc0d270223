"""Databases of Nsight Systems, with the tables of `nsys export --type sqlite`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.profiling.timelines import profile_timeline, read_nsight

MS = 1_000_000
PERIOD_NS = 100 * MS
NCCL_SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STRINGS = {1: "void gemm<float>()", 2: NCCL_SUM, 3: "ncclDevKernel_AllGather_RING_LL()", 4: "iteration 7"}


def export(path: Path, *, iterations: int = 8, without: str = "", steps: bool = True) -> Path:
    """A rank that computes for 60 ms, all-reduces for 20 ms and all-gathers for 10 ms in 100 ms on GPU 1;
    another on GPU 0 does less. The table `without` is left out.
    """
    statements = [
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, "
        "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX INT, "
        "gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT)",
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT)",
    ]
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
        for number in range(iterations):
            begin = 5_000 * MS + number * PERIOD_NS
            kernels = [(0, 60, 1, 7, 1, 1), (60, 80, 1, 20, 2, 4), (85, 95, 1, 20, 3, 2), (0, 9, 0, 20, 2, 1)]
            database.executemany(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
                "VALUES (?, ?, ?, 1, ?, 1, 1, ?, ?, ?, 1, 1, 96, 1, 1)",
                [
                    (begin + start * MS, begin + end * MS, gpu, stream, name, name, grid)
                    for start, end, gpu, stream, name, grid in kernels
                ],
            )
            if steps:
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, 1, 4)", (begin, begin + MS))
        if without:
            database.execute(f"DROP TABLE {without}")
        database.commit()
    return path


def test_the_gpu_with_the_most_communication_is_profiled(tmp_path: Path) -> None:
    profile = profile_timeline(read_nsight(export(tmp_path / "rank0.sqlite")), rate="40 Gbps")
    assert profile.name == "rank0"
    assert profile.period_s == pytest.approx(0.1)
    assert profile.confidence > 0.8
    assert [(round(each.start_s, 6), round(each.duration_s, 6)) for each in profile.phases] == [
        (0.0, 0.02),
        (0.025, 0.01),
    ]
    assert [each.kind for each in profile.collectives] == ["all-reduce", "all-gather"]
    assert profile.compute_s == pytest.approx(0.06)
    assert profile.exposed_s == pytest.approx(0.03)


def test_without_ranges_the_sequence_of_operations_is_enough(tmp_path: Path) -> None:
    bare = profile_timeline(read_nsight(export(tmp_path / "a.sqlite", without="NVTX_EVENTS")))
    assert bare.period_s == pytest.approx(0.1)
    annotated = profile_timeline(read_nsight(export(tmp_path / "b.sqlite")))
    assert 0.5 < bare.confidence < annotated.confidence


@pytest.mark.parametrize("table", ["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"])
def test_a_missing_table_is_named(table: str, tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", without=table)
    with pytest.raises(InputError, match=rf"a\.sqlite: no table {table}: record with"):
        read_nsight(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId")
    with pytest.raises(InputError, match="CUPTI_ACTIVITY_KIND_KERNEL has no column streamId"):
        read_nsight(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "none of the 0 kernels"),
        ("UPDATE StringIds SET value = 'memcpy'", "none of the 32 kernels"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "must be integers"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = NULL", "must be integers"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1", "durations not negative"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807", "s apart; the limit"),
    ],
)
def test_wrong_rows_are_refused(change: str, message: str, tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute(change)
        database.commit()
    with pytest.raises(InputError, match=message):
        profile_timeline(read_nsight(path))


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with pytest.raises(InputError, match="no such file"):
        read_nsight(path)
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(InputError, match="not a database of Nsight Systems"):
        read_nsight(path)


def test_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    path.write_bytes(path.read_bytes().replace(b"streamId", b"stream\xff\xc0"))
    with pytest.raises(InputError, match="not a database of Nsight Systems"):
        read_nsight(path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export(tmp_path_factory.mktemp("nsight") / "a.sqlite").read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_databases_yield_a_profile_or_are_refused(
    exported: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray(exported[: data.draw(st.integers(1, len(exported)))])
    for _ in range(data.draw(st.integers(0, 20))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.sqlite"
    path.write_bytes(damaged)
    try:
        profile = profile_timeline(read_nsight(path))
    except InputError:
        return
    assert 0.0 <= profile.confidence <= 1.0
