"""A file for Perfetto shows the tables of a run, in the format that Perfetto and Chrome document."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.results import Run
from hocket.results.perfetto import perfetto

US = 1e-6


def flows(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    """Messages: source, destination, start and end in µs."""
    return pl.DataFrame(
        {
            "flow": list(range(len(rows))),
            "job": ["" for _ in rows],
            "src": [src for src, *_ in rows],
            "dst": [dst for _, dst, *_ in rows],
            "bytes": [1_000 for _ in rows],
            "start_s": [start_us * US for *_, start_us, _ in rows],
            "end_s": [end_us * US for *_, end_us in rows],
            "marks": [0 for _ in rows],
            "rate_cuts": [0 for _ in rows],
            "retransmissions": [0 for _ in rows],
        },
        schema_overrides={"src": pl.String, "dst": pl.String, "start_s": pl.Float64, "end_s": pl.Float64},
    )


def pauses(*rows: tuple[int, str, int]) -> pl.DataFrame:
    """PAUSE frames: time in µs, link, and 1 to pause or 0 to resume."""
    return pl.DataFrame(
        {
            "at_s": [time_us * US for time_us, *_ in rows],
            "link": [link for _, link, _ in rows],
            "priority": [3 for _ in rows],
            "pause": [pause for *_, pause in rows],
        }
    )


def operations(*rows: tuple[str, int, str, str, int, int]) -> pl.DataFrame:
    """Operations of the first iteration: job, rank, name, kind, start and end in µs."""
    columns = ("job", "rank", "name", "kind", "start_s", "end_s")
    scaled = [(*of, start_us * US, end_us * US) for *of, start_us, end_us in rows]
    frame = pl.DataFrame(scaled, schema=columns, orient="row")
    return frame.with_columns(iteration=0, operation=pl.int_range(pl.len()))


def collectives(*rows: tuple[int, str, int, int]) -> pl.DataFrame:
    """All-reduces of the job `dlrm` in its first iteration: group, name, start and end in µs."""
    scaled = [(group, name, start_us * US, end_us * US) for group, name, start_us, end_us in rows]
    frame = pl.DataFrame(scaled, schema=("group", "name", "start_s", "end_s"), orient="row")
    return frame.with_columns(
        job=pl.lit("dlrm"),
        iteration=0,
        kind=pl.lit("all-reduce"),
        algorithm=pl.lit("ring"),
        ranks=2,
        bytes=1_000,
        algbw_bps=8e9,
        busbw_bps=8e9,
    )


def arrows(events: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """The arrows: from which group of tracks to which, and when."""
    groups = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    begins = [event for event in events if event["ph"] == "s"]
    assert len(ends) == len(begins)
    return [(groups[each["pid"]], groups[ends[each["id"]]["pid"]], each["ts"]) for each in begins]


def exported(directory: Path, **tables: pl.DataFrame) -> list[dict[str, Any]]:
    path = perfetto(Run(tables, {"status": "complete"}), directory / "perfetto.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["displayTimeUnit"] == "ns"
    events: list[dict[str, Any]] = content["traceEvents"]
    return events


def slices(events: list[dict[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Track, name, start and end in µs of each slice."""
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    complete = (event for event in events if event["ph"] == "X")
    return [
        (tracks[event["pid"], event["tid"]], event["name"], event["ts"], event["ts"] + event["dur"])
        for event in complete
    ]


def test_a_message_is_a_slice_of_the_host_that_sends_it(tmp_path: Path) -> None:
    events = exported(tmp_path, flows=flows(("h0", "h1", 5, 8)))
    assert slices(events) == [("h0", "to h1", 5.0, 8.0)]
    [message] = [event for event in events if event["ph"] == "X"]
    assert message["args"]["bytes"] == 1_000
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["hosts"]


def test_messages_that_overlap_have_lanes_side_by_side_and_lanes_are_reused(tmp_path: Path) -> None:
    rows = [("h0", "a", 0, 10), ("h0", "b", 4, 6), ("h0", "c", 6, 9), ("h1", "d", 5, 7), ("h0", "e", 10, 11)]
    assert slices(exported(tmp_path, flows=flows(*rows))) == [
        ("h0", "to a", 0.0, 10.0),
        ("h0 (2)", "to b", 4.0, 6.0),
        ("h0 (2)", "to c", 6.0, 9.0),
        ("h0", "to e", 10.0, 11.0),
        ("h1", "to d", 5.0, 7.0),
    ]


def test_a_port_is_paused_until_it_may_resume_or_the_run_ends(tmp_path: Path) -> None:
    frames = pauses((1, "a->s", 1), (2, "b->s", 1), (3, "a->s", 1), (4, "a->s", 0), (5, "a->s", 0))
    events = exported(tmp_path, pauses=frames, flows=flows(("a", "b", 0, 9)))
    paused = [each for each in slices(events) if each[1] == "paused"]
    assert paused == [("a->s, priority 3", "paused", 1.0, 4.0), ("b->s, priority 3", "paused", 2.0, 9.0)]


def test_phases_lie_within_the_iterations_of_their_job(tmp_path: Path) -> None:
    iterations = pl.DataFrame({"job": ["x"], "iteration": [0], "start_s": [0], "end_s": [100 * US]})
    phases = pl.DataFrame(
        {
            "job": ["x"],
            "iteration": [0],
            "phase": [1],
            "start_s": [40 * US],
            "end_s": [90 * US],
            "bytes": [7],
        }
    )
    assert slices(exported(tmp_path, iterations=iterations, phases=phases)) == [
        ("x", "iteration 0", 0.0, 100.0),
        ("x", "phase 1", 40.0, 90.0),
    ]


def test_iterations_that_overlap_because_ranks_differ_have_lanes_side_by_side(
    tmp_path: Path,
) -> None:
    starts, ends = [0.0, 28.0, 58.0], [30.0, 60.0, 91.0]
    iterations = pl.DataFrame({"job": "x", "iteration": [0, 1, 2], "start_s": starts, "end_s": ends})
    tracks = [each[:2] for each in slices(exported(tmp_path, iterations=iterations))]
    assert tracks == [("x", "iteration 0"), ("x (2)", "iteration 1"), ("x", "iteration 2")]


def test_samples_are_counters_with_a_resolution_of_picoseconds(tmp_path: Path) -> None:
    queues = pl.DataFrame({"at_s": [1e-12, 3e-6], "link": ["s->h0", "s->h0"], "bytes": [1_082, 0]})
    rates = pl.DataFrame({"at_s": [5e-12], "flow": [3], "job": [""], "rate_bps": [10**11]})
    events = exported(tmp_path, queues=queues, rates=rates)
    found = [(event["name"], event["ts"], event["args"]) for event in events if event["ph"] == "C"]
    assert found == [
        ("queue of s->h0", 1e-6, {"bytes": 1_082}),
        ("queue of s->h0", 3.0, {"bytes": 0}),
        ("rate of flow 3", 5e-6, {"rate_bps": 10**11}),
    ]


def test_rates_of_the_flow_engine_are_those_of_jobs(tmp_path: Path) -> None:
    rates = pl.DataFrame({"job": ["x"], "start_s": [2 * US], "rate_bps": [10**9]})
    [counter] = [event for event in exported(tmp_path, rates=rates) if event["ph"] == "C"]
    assert (counter["name"], counter["ts"]) == ("rate of x", 2.0)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.just("z"), st.integers(0, 20), st.integers(1, 10)), max_size=30
    )
)
def test_slices_of_one_track_never_overlap(
    tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[str, str, int, int]]
) -> None:
    rows = [(src, dst, start, start + span) for src, dst, start, span in spans]
    by_track = defaultdict(list)
    for track, _, start, end in slices(exported(tmp_path_factory.mktemp("perfetto"), flows=flows(*rows))):
        by_track[track].append((start, end))
    assert sum(len(each) for each in by_track.values()) == len(rows)
    for each in by_track.values():
        assert all(before[1] <= after[0] for before, after in pairwise(each))


def test_a_rank_has_a_track_for_computation_and_one_for_each_kind_of_communication(tmp_path: Path) -> None:
    rows = [
        ("dlrm", 3, "a2a", "all-to-all", 1, 4),
        ("dlrm", 3, "forward", "compute", 0, 2),
        ("dlrm", 3, "ar1", "all-reduce", 2, 9),
        ("dlrm", 3, "ar2", "all-reduce", 4, 6),
        ("dlrm", 3, "backward", "compute", 2, 5),
    ]
    ranks = pl.DataFrame({"job": ["dlrm"], "iteration": [0], "rank": [3], "host": ["s0:3"]})
    events = exported(tmp_path, operations=operations(*rows), ranks=ranks)
    assert slices(events) == [
        ("compute", "forward", 0.0, 2.0),
        ("all-to-all", "a2a", 1.0, 4.0),
        ("compute", "backward", 2.0, 5.0),
        ("all-reduce", "ar1", 2.0, 9.0),
        ("all-reduce (2)", "ar2", 4.0, 6.0),
    ]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["dlrm rank 3 (s0:3)"]


def test_each_rank_has_its_own_group_and_ranks_are_sorted_by_number(tmp_path: Path) -> None:
    rows = [("dlrm", rank, "forward", "compute", 0, 1) for rank in (10, 2, 0)]
    rows += [("bert", 1, "forward", "compute", 0, 1)]
    events = exported(tmp_path, operations=operations(*rows), flows=flows(("h0", "h1", 5, 8)))
    groups = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    order = {
        event["args"]["sort_index"]: groups[event["pid"]] for event in events if "sort_index" in event["args"]
    }
    assert [order[index] for index in sorted(order)] == [
        "bert rank 1",
        "dlrm rank 0",
        "dlrm rank 2",
        "dlrm rank 10",
    ]
    assert len(set(groups)) == 5


def test_arrows_go_from_the_last_rank_to_those_that_waited_for_it(tmp_path: Path) -> None:
    posted = [("dlrm", rank, "ar", "all-reduce", start, 9) for rank, start in enumerate((1, 5, 2))]
    events = exported(tmp_path, operations=operations(*posted), collectives=collectives((0, "ar", 1, 9)))
    assert arrows(events) == [("dlrm rank 1", "dlrm rank 0", 5.0), ("dlrm rank 1", "dlrm rank 2", 5.0)]


def test_ranks_that_start_last_or_end_before_do_not_wait(tmp_path: Path) -> None:
    posted = [
        ("dlrm", rank, "ar", "all-reduce", start, end)
        for rank, start, end in ((0, 1, 3), (1, 3, 9), (2, 3, 9))
    ]
    events = exported(tmp_path, operations=operations(*posted), collectives=collectives((0, "ar", 1, 9)))
    assert arrows(events) == []


def test_collectives_with_the_same_name_in_several_groups_have_no_arrows(tmp_path: Path) -> None:
    posted = [("dlrm", rank, "ar", "all-reduce", 1 + rank, 9) for rank in range(4)]
    found = collectives((0, "ar", 1, 9), (1, "ar", 3, 9))
    events = exported(tmp_path, operations=operations(*posted), collectives=found)
    assert arrows(events) == []
    tracks = [each[0] for each in slices(events) if "group" in each[0]]
    assert tracks == ["dlrm, group 0", "dlrm, group 1"]


def test_a_collective_that_takes_no_time_has_no_bandwidth_and_the_file_is_valid_json(tmp_path: Path) -> None:
    instant = collectives((0, "ar", 1, 1)).with_columns(algbw_bps=pl.lit(float("inf")))
    [event] = [event for event in exported(tmp_path, collectives=instant) if event["ph"] == "X"]
    assert (event["dur"], event["args"]["algbw_bps"], event["args"]["busbw_bps"]) == (0.0, None, 8e9)


def test_every_event_has_the_fields_that_the_format_requires(tmp_path: Path) -> None:
    frames = pauses((1, "a->s", 1), (2, "a->s", 0))
    queues = pl.DataFrame({"at_s": [1e-12], "link": ["s->h0"], "bytes": [1_082]})
    shown = {"flows": flows(("h0", "h1", 5, 8)), "pauses": frames, "queues": queues}
    late = operations(("dlrm", 0, "ar", "all-reduce", 1, 4), ("dlrm", 1, "ar", "all-reduce", 2, 4))
    events = exported(tmp_path, **shown, operations=late, collectives=collectives((0, "ar", 1, 4)))
    needed = {
        "M": {"name", "pid", "args"},
        "X": {"name", "pid", "tid", "ts", "dur"},
        "C": {"name", "pid", "ts", "args"},
        "s": {"name", "cat", "id", "pid", "tid", "ts"},
        "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    }
    assert {event["ph"] for event in events} == set(needed)
    for event in events:
        assert needed[event["ph"]] <= event.keys(), event


def test_a_run_with_nothing_to_show_and_a_file_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the tables that Perfetto can show"):
        perfetto(Run({}, {"status": "complete"}), tmp_path / "perfetto.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        perfetto(
            Run({"flows": flows(("a", "b", 0, 1))}, {"status": "complete"}),
            tmp_path / "file" / "perfetto.json",
        )
