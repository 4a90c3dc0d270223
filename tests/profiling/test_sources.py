"""The kind of a file follows from its content; options for other kinds are refused."""

import gzip
import inspect
import json
import sqlite3
import tarfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket import profile
from hocket.errors import InputError
from hocket.profiling.sources import OPTIONS, kind_of, outer_keys

RECORDED = Path(__file__).parents[2] / "experiments" / "recorded-allreduce" / "one-phase.csv"
EVENT = {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce", "ts": 1.5, "dur": 2, "pid": 0, "tid": 7}
INSPECTOR = {"header": {"id": "a", "n_ranks": 2}, "metadata": {}, "coll_perf": {}}
CONTENTS = {
    "counters": b"time_s,tx_bytes\n0,1\n",
    "prometheus": b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
    "kineto": json.dumps(
        {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [EVENT]}, indent=1
    ).encode(),
    "inspector": json.dumps(INSPECTOR).encode() + b"\n",
    "chakra": b"\x07\x0a\x050.0.4",
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("name", ["file", "file.csv", "file.json.gz"])
def test_the_kind_of_a_file_follows_from_its_content_whatever_its_name(
    tmp_path: Path, kind: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENTS[kind])
    assert kind_of(path) == kind


def test_a_profiler_trace_may_be_compressed_and_may_be_a_bare_list_of_events(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    for content in (CONTENTS["kineto"], json.dumps([EVENT]).encode()):
        path.write_bytes(gzip.compress(content))
        assert kind_of(path) == "kineto"


def test_a_database_is_taken_for_nsight(tmp_path: Path) -> None:
    path = tmp_path / "report"
    with sqlite3.connect(path) as database:
        database.execute("create table a (b)")
    assert kind_of(path) == "nsight"


def test_an_archive_is_refused_with_the_advice_to_unpack_it(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(CONTENTS["kineto"])
    for mode, name in (("w", "ranks.tar"), ("w:gz", "ranks.tar.gz")):
        with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(tmp_path / "rank0.json", "rank0.json")
        with pytest.raises(InputError, match="is a tar archive; unpack it"):
            kind_of(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"just words\n",
            "is none of the kinds that can be profiled: a CSV series of byte counters, a response of",
        ),
        (b'{"plan": 1}', "is none of the kinds that can be profiled"),
        (b"[1, 2]", "is none of the kinds that can be profiled"),
        (b"\x00\x01\x02\x03", "is none of the kinds that can be profiled"),
        (b"\x89PNG\r\n\x1a\n", "is none of the kinds that can be profiled"),
        (b'{"schema": "1.0.1-chakra.0.0.4", "pid": 1, "nodes": []}', "chakra_converter PyTorch"),
        (gzip.compress(b"time")[:9], "is damaged gzip"),
        (b"\x1f\x8bnonsense", "is damaged gzip"),
    ],
)
def test_the_error_for_an_unknown_kind_lists_the_known_ones(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        kind_of(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such file"):
        kind_of(tmp_path / "none")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        kind_of(tmp_path)


def test_an_option_for_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(CONTENTS["kineto"])
    with pytest.raises(
        InputError,
        match=r"is a profiler trace of PyTorch; unit .--unit. is only for a CSV series of byte counters, a",
    ):
        profile(path, unit="bytes")
    with pytest.raises(
        InputError,
        match=r"is a CSV series of byte counters; gpus_per_server .--gpus-per-server. is only for a p",
    ):
        profile(RECORDED, gpus_per_server=8)
    assert OPTIONS.keys() == inspect.signature(profile).parameters.keys() - {"source"}


def test_counters_are_profiled_with_their_options() -> None:
    job = profile(RECORDED, name="mine", column="tx_bytes")
    assert job.name == "mine"
    assert job.period_s == pytest.approx(0.1434, rel=1e-3)


def test_a_frame_is_profiled_like_the_file_that_it_was_read_from() -> None:
    frame = pl.read_csv(RECORDED)
    assert profile(frame, name="a").to_job() == profile(RECORDED, name="a").to_job()
    with pytest.raises(
        InputError, match=r"the frame: is a CSV series of byte counters; rate .--rate. is only for"
    ):
        profile(frame, rate="1 Gbps")


def test_keys_are_those_of_the_outermost_object() -> None:
    text = json.dumps({"a": {"b": 1, "c": [{"d": 2}]}, 'e"}': "f", "g": None}) + '{"h": 1}'
    assert outer_keys(text) == {"a", 'e\\"}', "g"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([b"", b"{", b"[{", b"\x1f\x8b", *CONTENTS.values()]), st.binary(max_size=80))
def test_any_file_is_profiled_or_refused(tmp_path: Path, start: bytes, rest: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(start + rest)
    try:
        job = profile(path)
    except InputError:
        return
    assert 0 <= job.confidence <= 1
