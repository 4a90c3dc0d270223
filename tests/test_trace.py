"""A trace shows what the tables say, in the format that Perfetto and Chrome document."""

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
from hocket.trace import perfetto

US = 1_000_000


def flows(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    """Messages from, to, start and end in µs."""
    return pl.DataFrame(
        {
            "flow": list(range(len(rows))),
            "job": ["" for _ in rows],
            "src": [src for src, *_ in rows],
            "dst": [dst for _, dst, *_ in rows],
            "bytes": [1_000 for _ in rows],
            "start_ps": [start_us * US for *_, start_us, _ in rows],
            "end_ps": [end_us * US for *_, end_us in rows],
            "marks": [0 for _ in rows],
            "rate_cuts": [0 for _ in rows],
            "retransmissions": [0 for _ in rows],
        },
        schema_overrides={"src": pl.String, "dst": pl.String, "start_ps": pl.UInt64, "end_ps": pl.UInt64},
    )


def pauses(*rows: tuple[int, str, int]) -> pl.DataFrame:
    """Frames at a time in µs, to a link: 1 to stop, 0 to go on."""
    return pl.DataFrame(
        {
            "time_ps": [time_us * US for time_us, *_ in rows],
            "link": [link for _, link, _ in rows],
            "priority": [3 for _ in rows],
            "pause": [pause for *_, pause in rows],
        }
    )


def traced(directory: Path, **tables: pl.DataFrame) -> list[dict[str, Any]]:
    path = perfetto(Run(tables, {"status": "complete"}), directory / "trace.json")
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert trace["displayTimeUnit"] == "ns"
    events: list[dict[str, Any]] = trace["traceEvents"]
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
    events = traced(tmp_path, flows=flows(("h0", "h1", 5, 8)))
    assert slices(events) == [("h0", "to h1", 5.0, 8.0)]
    [message] = [event for event in events if event["ph"] == "X"]
    assert message["args"]["bytes"] == 1_000
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["hosts"]


def test_messages_that_overlap_stand_beside_each_other_and_lanes_are_used_again(tmp_path: Path) -> None:
    rows = [("h0", "a", 0, 10), ("h0", "b", 4, 6), ("h0", "c", 6, 9), ("h1", "d", 5, 7), ("h0", "e", 10, 11)]
    assert slices(traced(tmp_path, flows=flows(*rows))) == [
        ("h0", "to a", 0.0, 10.0),
        ("h0 (2)", "to b", 4.0, 6.0),
        ("h0 (2)", "to c", 6.0, 9.0),
        ("h0", "to e", 10.0, 11.0),
        ("h1", "to d", 5.0, 7.0),
    ]


def test_a_port_is_paused_until_it_may_go_on_or_the_run_ends(tmp_path: Path) -> None:
    frames = pauses((1, "a->s", 1), (2, "b->s", 1), (3, "a->s", 1), (4, "a->s", 0), (5, "a->s", 0))
    events = traced(tmp_path, pauses=frames, flows=flows(("a", "b", 0, 9)))
    paused = [each for each in slices(events) if each[1] == "paused"]
    assert paused == [("a->s, priority 3", "paused", 1.0, 4.0), ("b->s, priority 3", "paused", 2.0, 9.0)]


def test_phases_lie_within_the_iterations_of_their_job(tmp_path: Path) -> None:
    iterations = pl.DataFrame({"job": ["x"], "iteration": [0], "start_ps": [0], "end_ps": [100 * US]})
    phases = pl.DataFrame(
        {
            "job": ["x"],
            "iteration": [0],
            "phase": [1],
            "start_ps": [40 * US],
            "end_ps": [90 * US],
            "bytes": [7],
        }
    )
    assert slices(traced(tmp_path, iterations=iterations, phases=phases)) == [
        ("x", "iteration 0", 0.0, 100.0),
        ("x", "phase 1", 40.0, 90.0),
    ]


def test_samples_are_counters_to_the_picosecond(tmp_path: Path) -> None:
    queues = pl.DataFrame({"time_ps": [1, 3_000_000], "link": ["s->h0", "s->h0"], "bytes": [1_082, 0]})
    rates = pl.DataFrame({"time_ps": [5], "flow": [3], "job": [""], "rate_bps": [10**11]})
    events = traced(tmp_path, queues=queues, rates=rates)
    found = [(event["name"], event["ts"], event["args"]) for event in events if event["ph"] == "C"]
    assert found == [
        ("queue of s->h0", 1e-6, {"bytes": 1_082}),
        ("queue of s->h0", 3.0, {"bytes": 0}),
        ("rate of flow 3", 5e-6, {"rate_bps": 10**11}),
    ]


def test_rates_of_the_flow_engine_are_those_of_jobs(tmp_path: Path) -> None:
    rates = pl.DataFrame({"job": ["x"], "start_ps": [2 * US], "rate_bps": [10**9]})
    [counter] = [event for event in traced(tmp_path, rates=rates) if event["ph"] == "C"]
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
    for track, _, start, end in slices(traced(tmp_path_factory.mktemp("trace"), flows=flows(*rows))):
        by_track[track].append((start, end))
    assert sum(len(each) for each in by_track.values()) == len(rows)
    for each in by_track.values():
        assert all(before[1] <= after[0] for before, after in pairwise(each))


def test_every_event_has_what_the_format_asks_for(tmp_path: Path) -> None:
    frames = pauses((1, "a->s", 1), (2, "a->s", 0))
    queues = pl.DataFrame({"time_ps": [1], "link": ["s->h0"], "bytes": [1_082]})
    events = traced(tmp_path, flows=flows(("h0", "h1", 5, 8)), pauses=frames, queues=queues)
    needed = {
        "M": {"name", "pid", "args"},
        "X": {"name", "pid", "tid", "ts", "dur"},
        "C": {"name", "pid", "ts", "args"},
    }
    assert {event["ph"] for event in events} == set(needed)
    for event in events:
        assert needed[event["ph"]] <= event.keys(), event


def test_a_run_without_anything_to_show_and_a_file_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the tables that a trace shows"):
        perfetto(Run({}, {"status": "complete"}), tmp_path / "trace.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        perfetto(
            Run({"flows": flows(("a", "b", 0, 1))}, {"status": "complete"}), tmp_path / "file" / "trace.json"
        )
