"""Logs of NCCL Inspector, written here as its plugin does: which times they contain, and which not."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.profiling.timelines.inspector import profile_inspector, read_inspector

PERIOD_US = 250_000
# The operations of an iteration: start, kind, bytes as the plugin counts them, duration.
OPERATIONS = (
    (60_000, "AllGather", 8_000_000, 6_000),
    (90_000, "ReduceScatter", 8_000_000, 7_000),
    (120_000, "AllReduce", 100_000_000, 40_000),
)
BEGIN_US = 1_748_030_377_000_000


@dataclass(frozen=True)
class Ran:
    """An operation as it ran, in µs since 1970."""

    kind: str
    size: int
    start_us: int
    length_us: int


def job(iterations: int = 24) -> list[Ran]:
    return [
        Ran(kind, size, BEGIN_US + iteration * PERIOD_US + at_us, length_us)
        for iteration in range(iterations)
        for at_us, kind, size, length_us in OPERATIONS
    ]


def header(communicator: str = "0x7f8c", ranks: int = 8) -> dict[str, Any]:
    return {"id": communicator, "comm_name": "unknown", "rank": 2, "n_ranks": ranks, "nnodes": 2}


def metadata(time_us: int, version: str = "v4.0", pid: int = 7) -> dict[str, Any]:
    return {
        "inspector_output_format_version": version,
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": time_us,
        "hostname": "node",
        "pid": pid,
    }


def performed(ran: Ran, number: int, verbose: bool) -> dict[str, Any]:
    record = {
        "coll": ran.kind,
        "coll_sn": number,
        "coll_msg_size_bytes": ran.size,
        "coll_exec_time_us": ran.length_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.0,
        "coll_busbw_gbs": 1.0,
    }
    if verbose:
        kernels = [
            {"channel_id": channel, "kernel_start_ts": ran.start_us + 3 * channel} for channel in (1, 0)
        ]
        record["event_trace_ts"] = {"coll_start_ts": ran.start_us - 900, "kernel_events": kernels}
    return {"coll_perf": record}


def dumps(operations: Iterable[Ran], interval_us: int) -> list[tuple[int, list[Ran]]]:
    """Times of dumps by a thread at this interval, with the operations that had ended by then."""
    found: dict[int, list[Ran]] = {}
    for ran in operations:
        found.setdefault(-(-(ran.start_us + ran.length_us) // interval_us) * interval_us, []).append(ran)
    return sorted(found.items())


def by_record(operations: Iterable[Ran], interval_us: int, verbose: bool = False) -> list[dict[str, Any]]:
    """As versions 4.0 to 4.2 write: a header with each record, with the time of writing it."""
    return [
        {"header": header(), "metadata": metadata(time_us + 5 * place), **performed(ran, place, verbose)}
        for time_us, its in dumps(operations, interval_us)
        for place, ran in enumerate(its)
    ]


def by_marker(operations: Iterable[Ran], interval_us: int, dropped: int = 0) -> list[dict[str, Any]]:
    """As version 4.3 writes: a header with each dump."""
    lines = []
    for time_us, its in dumps(operations, interval_us):
        stats = {"coll_records": len(its), "coll_dropped_since_last_dump": dropped, "p2p_records": 0}
        lines.append({"header": header(), "metadata": metadata(time_us, "v4.3"), "dump_stats": stats})
        lines += [performed(ran, place, False) for place, ran in enumerate(its)]
    return lines


def by_both(operations: Iterable[Ran], interval_us: int) -> list[dict[str, Any]]:
    """As version 4.2 may write: statistics before each dump, and also a header with each record."""
    lines: list[dict[str, Any]] = []
    for line in by_marker(operations, interval_us):
        if "dump_stats" in line:
            time_us = line["metadata"]["dump_timestamp_us"]
            lines.append({**line, "metadata": metadata(time_us, "v4.2")})
        else:
            # A slow disk: milliseconds pass between records of one dump.
            time_us += 3_000
            lines.append({"header": header(), "metadata": metadata(time_us, "v4.2"), **line})
    return lines


def log(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_verbose_log_has_the_times_of_kernels(tmp_path: Path) -> None:
    path = log(tmp_path / "node-pid7.log", by_record(job(), PERIOD_US * 100, verbose=True))
    timeline, resolution_s = read_inspector(path)
    assert resolution_s == 0
    assert timeline.start_s[:4].tolist() == pytest.approx([0.0, 0.03, 0.06, 0.25])
    assert timeline.end_s[2] == pytest.approx(0.1)
    profile = profile_inspector(path)
    assert profile.name == "node-pid7"
    assert profile.period_s == pytest.approx(0.25, rel=1e-3)
    assert profile.confidence > 0.7
    assert profile.compute_s is None


def test_rounding_of_floats_is_not_taken_for_a_pattern_of_iterations(tmp_path: Path) -> None:
    profile = profile_inspector(log(tmp_path / "a.log", by_record(job(500), 500, verbose=True)))
    assert profile.period_s == pytest.approx(0.25)
    assert profile.confidence > 0.9


def test_bytes_are_those_on_the_wire(tmp_path: Path) -> None:
    profile = profile_inspector(log(tmp_path / "a.log", by_record(job(), 500, verbose=True)))
    # Each of 8 ranks sends 7 times 8 MB for the all-gather, as much for the reduce-scatter, and 2 · 7/8 of
    # 100 MB for the all-reduce.
    assert profile.bytes_per_iteration == pytest.approx(2 * 56e6 + 175e6)
    assert {use.kind: (use.count, use.message_bytes) for use in profile.collectives} == {
        "all-gather": (1, 64e6),
        "reduce-scatter": (1, 64e6),
        "all-reduce": (1, 100e6),
    }


@pytest.mark.parametrize("write", [by_record, by_both, by_marker])
def test_without_times_of_operations_those_of_frequent_dumps_are_used(tmp_path: Path, write: Any) -> None:
    path = log(tmp_path / "a.log", write(job(), 500))
    timeline, resolution_s = read_inspector(path)
    assert timeline.which.size == 72
    assert 0 < resolution_s < 0.05
    profile = profile_inspector(path)
    assert profile.period_s == pytest.approx(0.25, rel=5e-3)
    assert any("times are those of dumps" in note for note in profile.notes)


def test_dumps_as_rare_as_iterations_leave_little_confidence(tmp_path: Path) -> None:
    often, rarely = (
        profile_inspector(log(tmp_path / f"{interval_us}.log", by_marker(job(), interval_us)))
        for interval_us in (500, 300_000)
    )
    assert rarely.confidence < 0.2 < 0.5 < often.confidence


def test_a_log_written_only_at_the_end_is_refused_since_it_has_no_times(tmp_path: Path) -> None:
    path = log(tmp_path / "a.log", by_marker(job(), 100 * PERIOD_US))
    with pytest.raises(InputError, match=r"its 72 operations were written in 1 dumps.*NCCL_INSPECTOR_DUMP"):
        read_inspector(path)


def test_all_records_of_a_dump_have_its_time_whenever_they_were_written(tmp_path: Path) -> None:
    both, marker = (
        read_inspector(log(tmp_path / f"{write.__name__}.log", write(job(), 200_000)))[0]
        for write in (by_both, by_marker)
    )
    assert both.start_s.tolist() == marker.start_s.tolist()


def test_dropped_records_lower_the_confidence_and_are_noted(tmp_path: Path) -> None:
    whole = profile_inspector(log(tmp_path / "a.log", by_marker(job(), 500)))
    holes = profile_inspector(log(tmp_path / "b.log", by_marker(job(), 500, dropped=1)))
    # One of two was dropped.
    assert holes.confidence == pytest.approx(whole.confidence / 2)
    assert any("dropped 72 operations" in note for note in holes.notes)


def test_messages_are_distinguished_by_the_other_rank(tmp_path: Path) -> None:
    lines = [
        {
            "header": header(ranks=4),
            "metadata": metadata(BEGIN_US),
            "p2p_perf": {
                "p2p": kind,
                "p2p_sn": number,
                "p2p_peer": peer,
                "p2p_msg_size_bytes": 1_000_000,
                "p2p_exec_time_us": 1_000,
                "event_trace_ts": {"kernel_events": [{"kernel_start_ts": BEGIN_US + 10_000 * number}]},
            },
        }
        for number, (kind, peer) in enumerate([("Send", 1), ("Recv", 3)] * 8)
    ]
    timeline, _ = read_inspector(log(tmp_path / "a.log", lines))
    assert [(each.kind, each.detail[-6:]) for each in timeline.operations] == [
        ("send", "with 1"),
        ("recv", "with 3"),
    ]


def test_an_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    path = log(tmp_path / "a.log", by_record(job(), 500, verbose=True))
    path.write_bytes(path.read_bytes()[:-200])
    timeline, _ = read_inspector(path)
    assert timeline.which.size == 71


RECORD = {"header": header(), "metadata": metadata(BEGIN_US), **performed(job()[0], 0, True)}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"header": header(), "metadata": metadata(1)}], "contains no coll_perf or p2p_perf"),
        ([performed(job()[0], 0, True)], "line 1: an operation has neither a header nor"),
        ([{**RECORD, "metadata": None}], "line 1: the header has no metadata"),
        ([RECORD, {**RECORD, "metadata": metadata(1, pid=8)}], "has several processes, 'node:7', 'node:8'"),
        ([{**RECORD, "coll_perf": {**RECORD["coll_perf"], "coll": "Dance"}}], "unknown operation 'Dance'"),
        (
            [{**RECORD, "coll_perf": {**RECORD["coll_perf"], "coll_exec_time_us": -1}}],
            "line 1: is not a record",
        ),
        ([{**RECORD, "header": {**header(), "n_ranks": 0}}], "line 1: is not a record"),
        ([[1]], "line 1: is not a record"),
    ],
)
def test_a_file_that_is_not_such_a_log_is_refused_with_the_line(
    tmp_path: Path, lines: list[Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_inspector(log(tmp_path / "a.log", lines))


NUMBERS = st.integers(-1, 2**64) | st.floats(allow_nan=False) | st.just(BEGIN_US)
ANYTHING = st.none() | st.booleans() | NUMBERS | st.text(max_size=4)


@st.composite
def lines(draw: st.DrawFn) -> list[Any]:
    found = []
    for _ in range(draw(st.integers(1, 12))):
        record = json.loads(json.dumps(draw(st.sampled_from([RECORD, *by_marker(job(2), 500)]))))
        if draw(st.booleans()):
            table = record[draw(st.sampled_from(sorted(record)))]
            table[draw(st.sampled_from(sorted(table)))] = draw(ANYTHING)
        found.append(record)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines())
def test_any_log_yields_a_profile_or_is_refused(tmp_path: Path, lines: list[Any]) -> None:
    try:
        profile = profile_inspector(log(tmp_path / "a.log", lines))
    except InputError:
        return
    assert 0 <= profile.confidence <= 1
