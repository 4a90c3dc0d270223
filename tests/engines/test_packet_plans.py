"""Plans on the packet engine: times calculated by hand, both engines on one plan, and how runs end."""

import json
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.engines.conftest import iteration_times_s

from hocket import InputError, Run, SelfCheckError, simulate
from hocket.results.times import in_ps

Tables = dict[str, Any]

PACKET_BITS, HEADER_BITS = 4_096 * 8, 82 * 8


def half(name: str, **changes: object) -> Tables:
    """A job that is Up at 40 Gbps for the second half of 2 ms: 5 MB, as 1,221 packets."""
    up = [{"start": "1 ms", "duration": "1 ms", "rate": "40 Gbps"}]
    return {"name": name, "period": "2 ms", "up": up, "congestion": "pfc-only", **changes}


def shared_link(*jobs: Tables, **changes: object) -> Tables:
    """A plan of `jobs` on one link of 50 Gbps, for three iterations on the packet engine."""
    run = {"engine": "packet", "iterations": 3}
    return {"link": {"capacity": "50 Gbps"}, "run": run, "jobs": list(jobs), **changes}


def two_racks(*jobs: Tables, **changes: object) -> Tables:
    """A plan on s1 and s2 behind t1, s3 and s4 behind t2, and two spines between."""
    cables = [("s1", "t1"), ("s2", "t1"), ("s3", "t2"), ("s4", "t2")]
    cables += [(leaf, spine) for leaf in ("t1", "t2") for spine in ("p1", "p2")]
    links = [{"ends": list(ends), "rate": "50 Gbps"} for ends in cables]
    run = {"engine": "packet", "iterations": 2}
    return {"fabric": {"links": links}, "run": run, "jobs": list(jobs), **changes}


def carried_bytes(run: Run, link: str) -> int:
    """The data bytes carried by one direction of a link."""
    return int(run.tables["links"].filter(pl.col("link") == link)["bytes"].sum())


def test_a_job_alone_takes_its_period_and_the_delay_of_its_last_packet() -> None:
    run = simulate(shared_link(half("a")))
    # The round trip over three links of 500 ns and sending the last packet on each take some microseconds.
    assert all(2e-3 < each < 2.01e-3 for each in iteration_times_s(run, "a"))
    assert run.manifest["engine"] == "packet"
    assert run.manifest["status"] == "complete"
    assert carried_bytes(run, "link") == 3 * 5_000_000


def test_two_jobs_that_send_together_take_the_links_time_for_both() -> None:
    run = simulate(shared_link(half("a"), half("b")))
    both_s = 2 * 5_000_000 * 8 * (1 + HEADER_BITS / PACKET_BITS) / 50e9
    for name in "ab":
        assert iteration_times_s(run, name) == pytest.approx([1e-3 + both_s] * 3, rel=0.01)


def test_jobs_that_are_shifted_apart_never_contend_on_either_engine() -> None:
    plan = shared_link(half("a"), half("b", time_shift="1 ms"))
    for engine in ("flow", "packet"):
        run = simulate(plan, engine=engine)
        assert iteration_times_s(run, "a") == pytest.approx([2e-3] * 3, rel=0.005)
        assert iteration_times_s(run, "b") == pytest.approx([2e-3] * 3, rel=0.005)


def test_priority_0_is_served_first_by_strict_switches() -> None:
    run = simulate(shared_link(half("first"), half("second", priority=1)))
    assert iteration_times_s(run, "first")[0] == pytest.approx(2e-3, rel=0.01)
    assert iteration_times_s(run, "second")[0] > 2.5e-3


def test_each_job_has_its_own_congestion_control() -> None:
    run = simulate(shared_link(half("a", congestion="dcqcn"), half("b", congestion="hpcc"), half("c")))
    parameters = run.manifest["parameters"]["jobs"]
    assert (parameters["a"]["policy"]["value"], parameters["b"]["policy"]["value"]) == ("dcqcn", "hpcc")
    # HPCC limits bytes in flight, DCQCN does not.
    assert parameters["a"]["window"]["value"][0] == "unlimited"
    assert parameters["b"]["window"]["value"][0] == "path-full-scaled"
    cuts = run.manifest["counts"]["rate_cuts"]
    assert cuts["dcqcn"] > 0
    assert cuts["hpcc"] > 0
    signals = run.tables["flows"].group_by("job").agg(pl.col("cnps").sum()).sort("job")
    assert signals["cnps"].to_list() == [run.manifest["counts"]["cnps"], 0, 0]


def test_a_job_without_congestion_control_gets_dcqcn_and_the_manifest_gives_the_source() -> None:
    run = simulate(shared_link({key: value for key, value in half("a").items() if key != "congestion"}))
    policy = run.manifest["parameters"]["jobs"]["a"]["policy"]
    assert policy == {"value": "dcqcn", "source": "HotNets'22 §2: RoCE's default"}


def test_a_window_keeps_the_queue_short() -> None:
    def longest(**changes: object) -> Any:
        run = simulate(shared_link(half("a", **changes), half("b", **changes)))
        return max(run.tables["ports"]["peak_bytes"].to_list())

    assert longest(window="40 kB") < 80_000 < longest()


def test_a_ring_uses_the_links_that_its_path_names() -> None:
    placement = ["s1", "s3"]
    for spine, other in (("p1", "p2"), ("p2", "p1")):
        path = ["s1-t1", f"t1-{spine}", f"t2-{spine}", "s3-t2"]
        plan = two_racks(half("a", placement=placement, path=path))
        for engine in ("flow", "packet"):
            run = simulate(plan, engine=engine)
            assert carried_bytes(run, f"t1->{spine}") == carried_bytes(run, f"{spine}->t1") == 10_000_000
            assert carried_bytes(run, f"t1->{other}") == 0
    with pytest.raises(InputError, match=r"jobs\[0\]\.path: its links do not lead from 's1' to 's3'"):
        simulate(two_racks(half("a", placement=placement, path=["s1-t1", "s3-t2"])))


def test_sprayed_packets_take_all_paths() -> None:
    run = simulate(two_racks(half("a", placement=["s1", "s3"], path="spray")))
    first, second = carried_bytes(run, "t1->p1"), carried_bytes(run, "t1->p2")
    assert first + second == 10_000_000
    assert first == pytest.approx(second, rel=0.01)


def test_a_node_with_two_links_that_is_named_as_a_host_sends_on_both() -> None:
    cables = [("s1", "t1"), ("s1", "t2"), ("s2", "t1"), ("s3", "t2")]
    fabric = {"links": [{"ends": list(ends), "rate": "50 Gbps"} for ends in cables], "hosts": ["s1"]}
    jobs = [half("a", placement=["s1", "s2"]), half("b", placement=["s1", "s3"])]
    run = simulate(two_racks(*jobs, fabric=fabric))
    assert carried_bytes(run, "s1->t1") == carried_bytes(run, "s1->t2") == 10_000_000


def test_flows_avoid_a_failed_link_and_slow_down_on_a_slower_one() -> None:
    path = ["s1-t1", "t1-p1", "t2-p1", "s3-t2"]
    placed = half("a", placement=["s1", "s3"])
    failed = simulate(
        two_racks(placed, changes=[{"at": "1.2 ms", "link": name, "down": True} for name in path[1:2]])
    )
    assert failed.manifest["status"] == "complete"
    assert carried_bytes(failed, "t1->p2") > 0
    slow = [{"at": "0 ms", "link": "link", "rate": "20 Gbps"}]
    run = simulate(shared_link(half("a"), changes=slow))
    assert iteration_times_s(run, "a")[0] == pytest.approx(
        1e-3 + 5_000_000 * 8 * (1 + 82 / 4096) / 20e9, rel=0.01
    )
    with pytest.raises(InputError, match="changes: the flow engine does not support links that change"):
        simulate(shared_link(half("a"), changes=slow), engine="flow")


def test_samples_are_recorded_only_with_sample_every() -> None:
    plan = shared_link(half("a"), half("b"))
    assert "queues" not in simulate(plan).tables
    sampled = simulate({**plan, "run": {**plan["run"], "sample_every": "10 us"}})
    queues = sampled.tables["queues"]
    at_ps = queues.select(in_ps("at_s"))["at_s"]
    assert set(at_ps % 10_000_000) - {sampled.manifest["simulated_s"] * 1e12 % 10_000_000} <= {0}
    assert {"switch_queues", "rates", "utilisation"} <= set(sampled.tables)


def test_keys_that_an_engine_ignores_are_listed_with_the_reason() -> None:
    plan = shared_link(half("a", share={"weighted": 2}), switch={"pfc": True})
    assert [each["key"] for each in simulate(plan).manifest["ignored"]] == ["jobs[0].share"]
    ignored = simulate(plan, engine="flow").manifest["ignored"]
    assert [each["key"] for each in ignored] == ["switch", "jobs[0].congestion"]
    assert all(each["why"] for each in ignored)


def test_a_run_without_pfc_retransmits_lost_packets() -> None:
    switch = {"pfc": False, "buffer": "200 kB", "headroom": "0 B"}
    run = simulate(shared_link(half("a"), half("b"), switch=switch))
    assert run.manifest["counts"]["losses"] > 0
    assert carried_bytes(run, "link") >= 6 * 5_000_000
    assert "no packet found a buffer full" not in run.manifest["checked"]


def test_a_run_whose_self_check_fails_keeps_its_tables_with_the_status_failed(tmp_path: Path) -> None:
    # Without headroom there is no buffer for packets that arrive after a PAUSE frame was sent.
    switch = {"headroom": "0 B", "buffer": "200 kB", "dynamic_threshold": 4}
    with pytest.raises(SelfCheckError, match=r"a packet of flow 1 .* was dropped"):
        simulate(shared_link(half("a"), half("b"), switch=switch), directory=tmp_path)
    run = Run.read(tmp_path)
    assert run.manifest["status"] == "failed"
    assert "was dropped although PFC is on" in run.manifest["failure"]


def test_the_same_plan_gives_the_same_tables_in_memory_and_in_a_directory(tmp_path: Path) -> None:
    jobs = [half("a", congestion="dcqcn", jitter=0.1), half("b", congestion="dcqcn")]
    plan = shared_link(*jobs)
    memory, stored = simulate(plan), simulate(plan, directory=tmp_path)
    assert set(memory.tables) == set(stored.tables) == set(Run.read(tmp_path).tables)
    assert all(memory.tables[name].equals(stored.tables[name]) for name in memory.tables)
    other = simulate({**plan, "seed": 2})
    assert not memory.tables["iterations"].equals(other.tables["iterations"])


def test_a_run_that_skips_ahead_records_what_it_repeated_and_gives_the_same_rows() -> None:
    jobs = [half("a"), half("b", time_shift="1 ms")]
    run = {"engine": "packet", "iterations": 40}
    simulated = simulate(shared_link(*jobs, run=run))
    skipped = simulate(shared_link(*jobs, run={**run, "skip_ahead": True}))
    assert skipped.tables["iterations"].equals(simulated.tables["iterations"])
    repeated = skipped.tables["repeated"]
    assert repeated["job"].to_list() == ["a", "b"]
    assert repeated["exact"].to_list() == [1, 1]
    told = skipped.manifest["skip_ahead"]
    assert told["obstacle"] is None
    assert 0 < told["packet_hops"] < skipped.manifest["packet_hops"] == simulated.manifest["packet_hops"]


def test_jobs_with_jitter_are_simulated_to_the_end() -> None:
    run = {"engine": "packet", "iterations": 5, "skip_ahead": {"cycles": 2}}
    skipped = simulate(shared_link(half("a", jitter=0.1), run=run))
    assert skipped.tables["repeated"].is_empty()
    assert skipped.manifest["skip_ahead"] == {"packet_hops": 0, "obstacle": 'job "a" has jitter'}


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path) -> None:
    plan = shared_link(half("a"), half("b"), run={"engine": "packet", "iterations": 10**6})
    told: list[tuple[float, int, int | None]] = []

    def press(*at: Any) -> None:
        told.append(at)
        if len(told) == 3:
            signal.raise_signal(signal.SIGINT)

    run = simulate(plan, directory=tmp_path, progress=press)
    assert run.interrupted
    assert told == sorted(told)
    assert told[0][2] == 2 * 10**6
    assert Run.read(tmp_path).tables["iterations"].height > 0
    assert json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["status"] == "interrupted"
