"""A trace as it is read: its cluster, its jobs, and everything made explicit."""

import json
from pathlib import Path
from typing import Any

import pytest

from hocket.cluster.description import by_model, headline, jobs_frame, load_over_time
from hocket.cluster.trace import load_trace, parse_trace
from hocket.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
TESTBED = {"testbed": "cassini"}


def job(name: str = "a", **keys: Any) -> dict[str, Any]:
    return {"name": name, "model": "VGG16", "batch_size": 1400, "workers": 4, "iterations": 100, **keys}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_is_a_trace_and_the_same_each_time(path: Path) -> None:
    trace = load_trace(path)
    assert trace.jobs == load_trace(path).jobs
    assert trace.name == path.stem
    assert all(job.requested in job.sizes for job in trace.jobs)
    assert [job.arrival_ps for job in trace.jobs] == sorted(job.arrival_ps for job in trace.jobs)


def test_gpus_are_numbered_rack_by_rack_even_if_the_links_are_not() -> None:
    links = [
        {"ends": [host, tor], "rate": "50 Gbps"}
        for host, tor in (("a", "t0"), ("b", "t1"), ("c", "t0"), ("d", "t1"))
    ]
    trace = parse_trace(
        {"fabric": {"links": [*links, {"ends": ["t0", "t1"], "rate": "50 Gbps"}]}, "jobs": [job()]}
    )
    assert trace.cluster.gpus == ("a", "c", "b", "d")
    assert trace.cluster.rack_of == (0, 0, 1, 1)


def test_gpus_of_a_host_share_its_nic_and_its_server() -> None:
    trace = parse_trace({"fabric": TESTBED, "cluster": {"gpus_per_host": 2}, "jobs": [job()]})
    assert trace.cluster.gpus[:3] == ("s0:0", "s0:1", "s1:0")
    assert trace.cluster.hosts[:3] == ("s0", "s0", "s1")
    assert trace.cluster.server_of[:3] == (0, 0, 1)
    assert trace.cluster.hosts[-1] in trace.network.nodes


def test_servers_of_several_nics_hold_their_gpus() -> None:
    trace = parse_trace({"fabric": {"clos": {"racks": 2}}, "jobs": [job()]})
    assert len(trace.cluster.gpus) == 32
    assert trace.cluster.server_of[7:9] == (0, 1)
    assert trace.cluster.rack_of == (0, 0, 1, 1)


def test_the_work_of_a_job_is_samples() -> None:
    (found,) = parse_trace({"fabric": TESTBED, "jobs": [job()]}).jobs
    assert found.samples == 100 * 4 * 1400
    assert found.iterations(found.samples, 2) == 200
    assert found.sizes == (1, 2, 3, 4)


def test_limits_bound_the_sizes_of_a_job() -> None:
    (found,) = parse_trace({"fabric": TESTBED, "jobs": [job(min_workers=3, max_workers=6)]}).jobs
    assert found.sizes == (3, 4, 5, 6)


def test_a_job_keeps_its_strategy_at_every_size() -> None:
    gpt3 = {"model": "GPT3", "batch_size": 16, "max_workers": 24}
    jobs = [job("two", **gpt3, workers=2), job("eight", **gpt3, workers=8)]
    two, eight = parse_trace({"fabric": TESTBED, "jobs": jobs}).jobs
    assert (two.strategy, two.sizes) == ("tensor", (2,))
    assert (eight.strategy, eight.sizes) == ("hybrid", (8, 12, 16, 20, 24))


def test_no_job_grows_beyond_the_cluster() -> None:
    fabric = {"dumbbell": {"left": 3, "right": 3, "nic": "50 Gbps"}}
    (found,) = parse_trace({"fabric": fabric, "jobs": [job(max_workers=12)]}).jobs
    assert found.sizes[-1] == 6


def test_jobs_are_in_order_of_arrival_and_keep_their_order_at_equal_times() -> None:
    jobs = [job("late", arrival="2 s"), job("first"), job("second")]
    found = parse_trace({"fabric": TESTBED, "jobs": jobs}).jobs
    assert [each.name for each in found] == ["first", "second", "late"]


def test_a_placement_lists_gpu_numbers_in_ascending_order() -> None:
    trace = parse_trace({"fabric": TESTBED, "jobs": [job(workers=2, placement=["s4", "s1"]), job("b")]})
    assert trace.placement == {"a": (1, 4)}


def test_settings_override_the_file() -> None:
    path = EXAMPLES / "poisson.toml"
    trace = load_trace(path, ["seed=7", "poisson.load=0.8", "cluster.restart_cost=1 s"])
    assert (trace.seed, trace.settings.restart_cost_ps) == (7, 10**12)
    assert trace.jobs != load_trace(path).jobs


def test_a_setting_with_two_values_is_refused() -> None:
    with pytest.raises(InputError, match="--set seed: a trace has one value of each key: got 2"):
        load_trace(EXAMPLES / "one_job.toml", ["seed=1,2"])


def test_the_manifest_names_each_default_with_its_source() -> None:
    resolved = parse_trace({"fabric": TESTBED, "jobs": [job()]}).resolved()
    defaults = {each["key"]: (each["value"], each["source"]) for each in resolved["defaults"]}
    assert defaults["cluster.restart_cost"] == (
        "30 s",
        "Pollux (OSDI'21 §5.3): restarts take 30 s in its simulator; measured were 15 to 120 s (§4.2)",
    )
    assert defaults["jobs[0].max_workers"][0] == 4
    assert json.loads(json.dumps(resolved)) == resolved


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_manifest_holds_the_trace(path: Path) -> None:
    trace = load_trace(path, ["seed=3"])
    again = parse_trace(json.loads(json.dumps(trace.resolved()["given"])))
    assert (again.name, again.jobs, again.placement) == (trace.name, trace.jobs, trace.placement)
    assert again.resolved() == {**trace.resolved(), "given": again.resolved()["given"]}


def test_a_description_adds_up() -> None:
    jobs_of_trace = [job(), job("b", arrival="5 s")]
    trace = parse_trace({"fabric": TESTBED, "until": "10 s", "jobs": jobs_of_trace})
    jobs = jobs_frame(trace)
    assert by_model(trace)["jobs"].to_list() == [2]
    assert by_model(trace)["gpu_hours"].sum() == pytest.approx(jobs["gpu_hours"].sum())
    # Both run for longer than 10 s: for the first half one has 4 of 24 GPUs, then each.
    assert (jobs["run_time_s"] > 10).all()
    assert load_over_time(trace, parts=2)["load"].to_list() == pytest.approx([4 / 24, 8 / 24])
    assert headline(trace).startswith("2 jobs on 24 GPUs in 24 servers and 6 racks")


def test_the_load_of_simultaneous_jobs_lasts_until_the_last_is_done() -> None:
    trace = parse_trace({"fabric": TESTBED, "jobs": [job(), job("b", iterations=50)]})
    first, second = load_over_time(trace, parts=2)["load"].to_list()
    assert (first, second) == (pytest.approx(8 / 24), pytest.approx(4 / 24))
