"""Tables from the logs of workers and the counters of interfaces."""

import json
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
from tests.testbed.conftest import two_jobs

from hocket.plan import parse_plan
from hocket.profiling.watch import Reading
from hocket.testbed.counters import Counters, utilisation, wire_bytes
from hocket.testbed.layout import lay_out
from hocket.testbed.processes import Rank
from hocket.testbed.tables import PhasesSent, tables

MS = 10**6
ORIGIN_NS = 1_000 * MS


def rank(folder: Path, number: int, rows: list[dict[str, Any]], cut: str = "") -> Rank:
    """A worker of job a that logged `rows`, and `cut`, the beginning of another."""
    log = folder / f"{number}.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + cut)
    (folder / f"{number}.agent.jsonl").touch()
    layout = lay_out(parse_plan(two_jobs()), "bed")
    return Rank(
        job="a",
        rank=number,
        worker=layout.jobs[0].workers[number],
        process=cast(Any, None),
        errors=folder / "none",
        log=log,
        agent_log=folder / f"{number}.agent.jsonl",
    )


def row(iteration: int, due: int, start: int, up: tuple[int, int], end: int) -> dict[str, Any]:
    """An iteration, its times in ms from the start of the run."""
    due, start, end, *phase = (ORIGIN_NS + MS * ms for ms in (due, start, end, *up))
    return {"iteration": iteration, "due_ns": due, "start_ns": start, "end_ns": end, "up_ns": [phase]}


def test_an_iteration_begins_and_ends_with_its_last_worker(tmp_path: Path) -> None:
    ranks = [
        rank(tmp_path, 0, [row(0, 0, 0, (60, 100), 101), row(1, 101, 131, (191, 231), 232)]),
        rank(tmp_path, 1, [row(0, 1, 1, (65, 100), 102), row(1, 102, 102, (162, 231), 231)], '{"iter'),
    ]
    made = tables({"a": PhasesSent((4_000_000,), shift_s=0.5)}, ranks, ORIGIN_NS, 0)
    assert made["iterations"].rows() == [
        # job, iteration, then in s: start, end, iteration, communication, computation, delay
        ("a", 0, 0.001, 0.102, 0.101, 0.035, 0.066, 0.5),
        ("a", 1, 0.131, 0.232, 0.101, 0.04, 0.061, 0.029),
    ]
    assert made["phases"]["mean_rate_bps"].to_list() == pytest.approx([4e6 * 8 / 0.035, 4e6 * 8 / 0.04])
    summary = made["jobs"].row(0, named=True)
    assert (summary["iterations"], summary["adjustments"], summary["policy_acted"]) == (2, 0, None)
    assert summary["mean_iteration_s"] == pytest.approx(0.101)
    # As in the engines, the delay before the first iteration is the time-shift.
    assert summary["mean_delayed_s"] == pytest.approx(0.029)
    assert summary["time_shift_s"] == 0.5


def test_an_iteration_that_one_worker_did_not_finish_is_left_out(tmp_path: Path) -> None:
    first = row(0, 0, 0, (60, 100), 101)
    ranks = [rank(tmp_path, 0, [first, row(1, 101, 101, (161, 201), 202)]), rank(tmp_path, 1, [first])]
    assert tables({"a": PhasesSent((1,))}, ranks, ORIGIN_NS, 0)["iterations"]["iteration"].to_list() == [0]


def test_a_run_without_an_iteration_has_tables_of_the_same_columns(tmp_path: Path) -> None:
    one = tables({"a": PhasesSent((1,))}, [rank(tmp_path, 0, [row(0, 0, 0, (60, 100), 101)])], ORIGIN_NS, 0)
    none = tables({"a": PhasesSent((1,))}, [], ORIGIN_NS, 0)
    assert {name: table.schema for name, table in none.items()} == {
        name: table.schema for name, table in one.items()
    }
    assert none["jobs"].select("job", "iterations", "mean_iteration_s").rows() == [("a", 0, None)]


def test_the_adjustments_of_all_workers_count_once(tmp_path: Path) -> None:
    ranks = [rank(tmp_path, number, []) for number in (0, 1)]
    line = {"iteration": 7, "start_ns": 5 * MS, "delay_ns": 3 * MS, "deviation_ns": -2 * MS, "adjusted": True}
    for each in ranks:
        quiet = {**line, "iteration": 6, "adjusted": False}
        each.agent_log.write_text(f"{json.dumps(quiet)}\n{json.dumps(line)}\n")
    made = tables({"a": PhasesSent((1,))}, ranks, ORIGIN_NS, 1 * MS)
    assert made["adjustments"].rows() == [("a", 0.004, -0.002, 0.003)]
    assert made["jobs"]["adjustments"].to_list() == [1]


@pytest.mark.parametrize(
    ("sent", "packets", "expected"),
    [
        # One piece of two full segments has one header where the wire has two.
        (66 + 2 * 1448, 1, 2 * 1514),
        (66 + 1448, 1, 1514),
        # Acknowledgements have no payload to correct.
        (66 * 10, 10, 660),
        (0, 0, 0),
    ],
)
def test_the_wire_carries_a_header_for_each_segment(sent: int, packets: int, expected: int) -> None:
    frame = pl.DataFrame({"sent": [sent], "packets": [packets]})
    assert frame.select(wire_bytes(pl.col("sent"), pl.col("packets"))).item() == pytest.approx(expected)


def test_utilisation_is_of_the_links_capacity_and_names_the_job_of_a_nic() -> None:
    layout = lay_out(parse_plan(two_jobs()), "bed")
    ends = 2 * len(layout.links)
    # 250 kB in 10 ms are 200 Mbps, by every end; the first reading is from before the start.
    readings = [Reading(ORIGIN_NS + 10 * MS * step, (250_000 * step, 0) * ends) for step in (-1, 0, 1)]
    found = utilisation(Counters(layout, [], readings), ORIGIN_NS)
    assert found.height == ends
    wire = 250_000 * 1514 / 1448
    assert set(found["bytes"]) == {round(wire)}
    rows = {row["link"]: row for row in found.to_dicts()}
    assert rows["link left->right"]["utilisation"] == pytest.approx(wire * 800 / 200e6)
    assert (rows["link left->right"]["job"], rows["a.left->left"]["job"]) == (None, "a")
    assert (rows["b.left->left"]["start_s"], rows["b.left->left"]["end_s"]) == (0, 0.01)


def test_bytes_before_a_late_first_reading_are_counted() -> None:
    layout = lay_out(parse_plan(two_jobs()), "bed")
    ends = 2 * len(layout.links)
    readings = [Reading(ORIGIN_NS + at_ms * MS, (sent, 0) * ends) for at_ms, sent in ((-4, 0), (60, 250_000))]
    found = utilisation(Counters(layout, [], readings), ORIGIN_NS)
    assert set(found["bytes"]) == {round(250_000 * 1514 / 1448)}
    assert set(found["start_s"]) == {0.0}
