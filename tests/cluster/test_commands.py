"""`hocket cluster`, `hocket explain` and `hocket trace`, as people run them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRACE = """
[fabric.clos]
racks = 2
servers_per_rack = 3
gpus_per_server = 1
spines = 1
cables_per_spine = 1
nic = "50 Gbps"
uplink = "50 Gbps"

[[jobs]]
name = "first"
model = "VGG16"
batch_size = 1400
workers = 2
iterations = 200
placement = ["s0", "s3"]

[[jobs]]
name = "second"
model = "VGG16"
batch_size = 1400
workers = 2
iterations = 200
placement = ["s1", "s4"]

[[jobs]]
name = "third"
model = "BERT"
batch_size = 8
workers = 2
iterations = 50
arrival = "20 s"
"""

OWN = """
from hocket.schedulers import Candidate, Decision

class Packed:
    def __init__(self, seed):
        pass

    def schedule(self, state, candidates):
        free = list(range(len(state.cluster.gpus)))
        return Decision([Candidate({
            each.job.name: tuple(free.pop(0) for _ in range(each.job.requested)) for each in state.jobs
        })])

class Idle(Packed):
    def schedule(self, state, candidates):
        return Decision([Candidate({})])

class Greedy(Packed):
    def schedule(self, state, candidates):
        return Decision([Candidate({each.job.name: (0, 1) for each in state.jobs})])
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "two_racks.toml"
    path.write_text(TRACE, encoding="utf-8")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    return path


def test_schedulers_are_compared_with_the_first(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "random", "--scheduler", "ideal", "--json")
    assert ran.code == 0
    random, ideal = ran.json()
    assert (random["scheduler"], ideal["scheduler"]) == ("random", "ideal")
    assert (random["mean_factor"], ideal["done"], ideal["slowdown"]) == (1, 3, pytest.approx(1, abs=0.01))
    assert ideal["mean_factor"] == pytest.approx(random["mean_iteration_s"] / ideal["mean_iteration_s"])
    manifest = json.loads(Path("hocket-runs/two_racks-ideal/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["scheduler"], manifest["status"]) == ("ideal", "complete")


def test_a_missing_scheduler_is_an_error(hocket: Callable[..., Any], trace: Path) -> None:
    asked = hocket("cluster", trace)
    assert asked.code == 2
    assert asked.err.startswith(
        "error: --scheduler: is missing; try --scheduler themis --scheduler themis+cassini"
    )
    # Whoever has given a plan has to hear of that first.
    hocket("init", "two-jobs")
    assert "is a plan" in hocket("cluster", "two-jobs.toml").err


def test_a_run_is_printed_with_its_tables(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "own.py:Packed", "--out", "runs")
    assert ran.code == 0
    assert "Packed     3 of 3" in ran.out
    assert "written to runs/two_racks-Packed: manifest.json and Parquet tables iterations (" in ran.out


def test_the_example_of_an_own_scheduler_runs_with_cassini(hocket: Callable[..., Any]) -> None:
    examples = Path(__file__).parents[2] / "examples/cluster"
    own = f"{examples / 'first_fit.py'}:FirstFit+cassini"
    ran = hocket("cluster", examples / "snapshot.toml", "--scheduler", own, "--scheduler", "ideal", "--json")
    assert ran.code == 0
    first_fit, ideal = ran.json()
    assert (first_fit["done"], ideal["done"]) == (3, 3)
    assert 1 <= first_fit["slowdown"] < 1.05


def test_settings_and_seed_change_the_trace(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "random", "--seed", 5, "--set", "until=10 s", "--json")
    assert ran.json()[0]["simulated_s"] == 10
    manifest = json.loads(Path("hocket-runs/two_racks-random/manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 5


def test_what_ran_before_a_failure_is_printed_and_the_failure_named(
    hocket: Callable[..., Any], trace: Path
) -> None:
    ran = hocket("cluster", trace, "--scheduler", "random", "--scheduler", "own.py:Greedy")
    assert ran.code == 2
    assert "random     3 of 3" in ran.out
    assert (
        ran.err.strip()
        == "error: scheduler 'Greedy': at 0.000 s: candidates[0]: GPU s0 is assigned twice: to "
        "'first' and 'second'; its tables until then are in hocket-runs/two_racks-Greedy"
    )
    manifest = json.loads(Path("hocket-runs/two_racks-Greedy/manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "failed"


def test_jobs_that_wait_for_ever_are_noted(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "own.py:Idle")
    assert ran.code == 0
    assert "note: Idle leaves 3 jobs waiting for ever, starting with 'first': " in ran.out
    assert "note:" not in hocket("cluster", trace, "--scheduler", "own.py:Idle", "--set", "until=30 s").out


def test_schedulers_that_resize_jobs_are_not_compared_by_times(
    hocket: Callable[..., Any], trace: Path
) -> None:
    resized = ("--set", "jobs[0].max_workers=6", "--set", "jobs[1].max_workers=6")
    ran = hocket("cluster", trace, "--scheduler", "random", "--scheduler", "pollux", *resized)
    assert "note: iteration times do not compare: the runs differ even on an idle network, because" in ran.out
    assert "note:" not in hocket("cluster", trace, "--scheduler", "random", "--scheduler", "ideal").out


def test_an_unknown_scheduler_is_named_before_anything_runs(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "random", "--scheduler", "idael")
    assert ran.code == 2
    assert ran.err.strip() == "error: scheduler 'idael': is not known; did you mean 'ideal'?"
    assert not Path("hocket-runs").exists()


def test_a_decision_lists_the_delays_between_jobs_by_link(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "random", "--set", "cluster.jitter=0")
    listed = hocket("explain", "hocket-runs/two_racks-random", "--json").json()
    assert [each["reason"] for each in listed[:2]] == ["arrival of first, second", "arrival of third"]
    explained = hocket("explain", "hocket-runs/two_racks-random", "--at", "0.2 min", "--json").json()
    assert (explained["decision"], explained["at_s"], explained["until_s"]) == (0, 0, 20)
    assert {job["job"]: job["gpus"] for job in explained["jobs"]} == {
        "first": ["s0", "s3"],
        "second": ["s1", "s4"],
    }
    assert {link["link"]: link["jobs"] for link in explained["links"]} == {
        link: ["first", "second"] for link in ("tor0->spine0", "spine0->tor1", "tor1->spine0", "spine0->tor0")
    }
    # Each gets 25 of the 29 Gbps that it asks for in 148 ms; what it loses is shared out by link.
    lost = dict.fromkeys(("first", "second"), 0.0)
    for delay in explained["delays"]:
        lost[delay["job"]] += delay["per_iteration_s"]
        assert delay["job"] != delay["other"]
        assert delay["link"] in {link["link"] for link in explained["links"]}
    assert lost == pytest.approx(dict.fromkeys(lost, 0.148 * 29 / 25 - 0.148), rel=0.02)


def test_an_explanation_is_printed_as_text(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "themis+cassini")
    explained = hocket("explain", "hocket-runs/two_racks-themis+cassini", "--at", "10 s")
    assert explained.code == 0
    assert "themis+cassini: decision 0 at 0.000 s (0.0 min), in force until 20.000 s" in explained.out
    assert "trigger: arrival of first, second" in explained.out
    assert "tor0->spine0  first, second" in explained.out
    assert "first, second: score " in explained.out


def test_a_decision_of_cassini_is_drawn(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "random+cassini", "--figure", "times.svg")
    assert "random+cassini" in Path("times.svg").read_text(encoding="utf-8")
    run = "hocket-runs/two_racks-random+cassini"
    drawn = hocket("explain", run, "--at", "10 s", "--figure", "circle.svg", "--link", "tor0->spine0")
    assert drawn.code == 0
    assert "tor0-&gt;spine0, capacity 50 Gbps" in Path("circle.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "c.svg"), "explain: --figure and --link are for one decision; select it with --at"),
        (
            ("--at", "1 s", "--figure", "c.svg"),
            "figure: the run is without CASSINI, which finds the circles",
        ),
    ],
)
def test_an_error_names_why_a_circle_cannot_be_drawn(
    hocket: Callable[..., Any], trace: Path, arguments: tuple[str, ...], message: str
) -> None:
    hocket("cluster", trace, "--scheduler", "random")
    explained = hocket("explain", "hocket-runs/two_racks-random", *arguments)
    assert explained.code == 2
    assert message in explained.err


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("3 h", "error: explain: the run ended at "),
        ("soon", "error: --at: "),
    ],
)
def test_a_time_without_a_decision_is_refused(
    hocket: Callable[..., Any], trace: Path, at: str, message: str
) -> None:
    hocket("cluster", trace, "--scheduler", "ideal")
    explained = hocket("explain", "hocket-runs/two_racks-ideal", "--at", at)
    assert explained.code == 2
    assert explained.err.startswith(message)


def test_only_runs_of_a_cluster_have_decisions(hocket: Callable[..., Any], tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[link]\ncapacity = "50 Gbps"\n[[jobs]]\nname = "a"\nperiod = "2 ms"\niterations = 2\n'
        'up = [{ start = "0 ms", duration = "1 ms", rate = "1 Gbps" }]\n',
        encoding="utf-8",
    )
    assert hocket("run", plan).code == 0
    explained = hocket("explain", "hocket-runs/plan")
    assert explained.code == 2
    assert "it is not one of `hocket cluster`" in explained.err


def test_a_trace_is_shown_before_it_runs(hocket: Callable[..., Any], trace: Path) -> None:
    shown = hocket("trace", trace)
    assert shown.code == 0
    assert "3 jobs on 6 GPUs in 6 servers and 2 racks" in shown.out
    assert {row["model"]: row["jobs"] for row in hocket("trace", trace, "--json").json()["models"]} == {
        "VGG16": 2,
        "BERT": 1,
    }


def test_a_trace_is_drawn(hocket: Callable[..., Any], trace: Path) -> None:
    assert hocket("trace", trace, "--figure", "trace.svg").code == 0
    drawn = Path("trace.svg").read_text(encoding="utf-8")
    assert "3 jobs on 6 GPUs" in drawn
    assert "second, 2 GPUs" in drawn


def test_a_replay_is_drawn(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "random")
    run = "hocket-runs/two_racks-random"
    window = ("--at", "10 s", "--for", "2 s", "--engine", "flow")
    drawn = hocket("replay", run, *window, "--figure", "replay.svg")
    assert drawn.code == 0, drawn.err
    text = Path("replay.svg").read_text(encoding="utf-8")
    assert "link use on tor" in text or "link use on spine0" in text
    assert "first" in text


@pytest.mark.parametrize("command", ["trace", "replay"])
def test_a_figure_that_cannot_be_written_is_refused_first(
    hocket: Callable[..., Any], trace: Path, command: str
) -> None:
    window = ("--at", "1 s", "--for", "1 s") if command == "replay" else ()
    refused = hocket(command, trace, *window, "--figure", "nowhere/drawn.svg")
    assert refused.code == 2
    assert refused.out == ""
    assert "nowhere/drawn.svg: cannot be written: there is no directory nowhere" in refused.err


def test_runs_under_two_schedulers_compare(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "random", "--scheduler", "ideal")
    compared = hocket(
        "compare", "hocket-runs/two_racks-random", "hocket-runs/two_racks-ideal", "--json"
    ).json()
    first = {row["run"]: row for row in compared["jobs"] if row["job"] == "first"}
    assert first["two_racks-ideal"]["ratio"] < 1
    assert [each["key"] for each in compared["differences"]] == ["scheduler"]


def test_the_bar_of_a_job_includes_the_wait_for_its_slot(hocket: Callable[..., Any], trace: Path) -> None:
    names = ("random", "ideal", "themis+cassini")
    hocket("cluster", trace, *(part for name in names for part in ("--scheduler", name)))
    random, ideal, shifted = (f"hocket-runs/two_racks-{name}" for name in names)
    for other, waits in ((shifted, True), (ideal, False)):
        assert hocket("compare", random, other, "--figure", "runs.svg").code == 0
        assert ("waiting for its slot" in Path("runs.svg").read_text(encoding="utf-8")) is waits


def test_a_window_must_be_longer_than_zero(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "random")
    replayed = hocket("replay", "hocket-runs/two_racks-random", "--at", "10 s", "--for", "0 s")
    assert replayed.code == 2
    assert replayed.err.strip() == "error: --for: a window must be longer than 0: got '0 s'"


def test_notes_of_a_scheduler_on_a_job_stay_on_one_line(hocket: Callable[..., Any], trace: Path) -> None:
    hocket("cluster", trace, "--scheduler", "pollux")
    explained = hocket("explain", "hocket-runs/two_racks-pollux", "--at", "10 s").out
    (line,) = [line for line in explained.splitlines() if line.startswith("  jobs.first: ")]
    assert line.startswith("  jobs.first: workers 2, servers 2, goodput ")


def test_a_run_of_summaries_is_reported_like_any_other(hocket: Callable[..., Any], trace: Path) -> None:
    ran = hocket("cluster", trace, "--scheduler", "random", "--out", "whole")
    summary = hocket(
        *("cluster", trace, "--scheduler", "random", "--out", "summary"),
        *("--set", 'cluster.record="summary"'),
    )
    assert (ran.code, summary.code) == (0, 0)
    table, last = summary.out.split("\n\n")
    assert table == ran.out.split("\n\n")[0]
    assert "; no iteration has a row (record: given)" in last
    assert "Parquet tables placements (" in last
    assert "iterations (" not in last
    assert hocket("explain", "summary/two_racks-random").code == 0
    refused = hocket("explain", "summary/two_racks-random", "--at", "1 s")
    assert refused.code == 2
    assert "recorded only summaries" in refused.err


def test_a_sampled_run_says_so(hocket: Callable[..., Any], trace: Path) -> None:
    sampled = ("--set", 'cluster.record="sampled"', "--set", "cluster.sampled_rows=45")
    ran = hocket("cluster", trace, "--scheduler", "random", "--out", "runs", *sampled)
    assert "; one of 10 iterations has a row (record: given)" in ran.out
    assert "Parquet tables iterations (45)" in ran.out
    explained = hocket("explain", "runs/two_racks-random", "--at", "1 s")
    assert "note: iterations are estimated from a sample, one of every 10" in explained.out


def test_a_figure_of_a_run_without_rows_is_refused_before_the_run(
    hocket: Callable[..., Any], trace: Path
) -> None:
    ran = hocket(
        *("cluster", trace, "--scheduler", "random", "--figure", "slowdowns.svg"),
        *("--set", 'cluster.record="summary"'),
    )
    assert (ran.code, ran.out) == (2, "")
    assert '--figure: draws iterations, but record is "summary"' in ran.err
