"""Slots for two of three jobs that share a link, over a whole run."""

import json
from collections.abc import Callable
from typing import Any

from hocket.cluster.policies import Policy
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace
from hocket.results import Run

MakeScheduler = Callable[..., Any]
PLACEMENT = {"a": (0, 3), "b": (1, 4), "c": (2, 5)}


def trace_with(slots: str) -> Trace:
    """Three jobs of two workers on two racks of three servers: each has a worker in either rack."""

    def model(name: str, period_ms: int, up_ms: int, rate: str) -> dict[str, Any]:
        up = [{"start": f"{period_ms - up_ms} ms", "duration": f"{up_ms} ms", "rate": rate}]
        profile = {"workers": 2, "period": f"{period_ms} ms", "up": up}
        return {"name": name, "batch_size": 1, "nic": "50 Gbps", "memory": "1 GB", "profiles": [profile]}

    job = {"batch_size": 1, "workers": 2, "iterations": 400}
    return parse_trace(
        {
            "seed": 3,
            "fabric": {
                "clos": {
                    "racks": 2,
                    "servers_per_rack": 3,
                    "gpus_per_server": 1,
                    "spines": 1,
                    "cables_per_spine": 1,
                    "nic": "50 Gbps",
                    "uplink": "50 Gbps",
                }
            },
            # Worked out in tests/schedulers/cassini/test_subsets.py.
            "models": [
                model("A", 200, 90, "40 Gbps"),
                model("B", 190, 90, "40 Gbps"),
                model("C", 171, 20, "20 Gbps"),
            ],
            "jobs": [{"model": name.upper(), "name": name, **job} for name in PLACEMENT],
            "cassini": {"slots": slots},
        }
    )


def run_with(slots: str, scripted: MakeScheduler) -> Run:
    return simulate_cluster(trace_with(slots), Policy("scripted", scripted({0: PLACEMENT}), cassini=True))


def first_choice(run: Run) -> dict[str, Any]:
    """What CASSINI decided first, ready to read."""
    cassini: dict[str, Any] = json.loads(run.tables["decisions"]["why"][0])["cassini"]
    return cassini


def slowdowns(run: Run) -> dict[str, float]:
    jobs = run.tables["jobs"]
    return dict(zip(jobs["job"], jobs["slowdown"], strict=True))


def test_two_of_three_jobs_get_slots_and_none_is_slower(scripted: MakeScheduler) -> None:
    without, run = run_with("component", scripted), run_with("subset", scripted)
    assert first_choice(without)["slots"] == {}
    choice = first_choice(run)
    assert set(choice["slots"]) == {"a", "b"}
    (component,) = choice["components"]
    assert component["jobs"] == ["a", "b", "c"]
    assert component["reference"] in ("a", "b")
    assert set(component["circle"]) == {"a", "b"}
    assert component["gain"] > 1.01
    assert component["why_none"] is None
    before, after = slowdowns(without), slowdowns(run)
    assert after["a"] < before["a"] - 0.05
    assert after["b"] < before["b"] - 0.05
    assert after["c"] < before["c"] + 0.01


def test_links_that_a_job_without_a_slot_crosses_score_as_by_chance(scripted: MakeScheduler) -> None:
    for link in first_choice(run_with("subset", scripted))["links"]:
        assert link["jobs"] == ["a", "b", "c"]
        assert link["after"] == link["before"]


def test_the_same_trace_gives_the_same_slots(scripted: MakeScheduler) -> None:
    one, other = (run_with("subset", scripted) for _ in range(2))
    assert one.tables["iterations"].equals(other.tables["iterations"])
    assert one.tables["decisions"].equals(other.tables["decisions"])
