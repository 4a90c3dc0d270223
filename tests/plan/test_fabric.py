"""`[fabric]`: shapes by their parameters, scale-up networks, and placements by server or by GPU."""

from collections.abc import Callable
from typing import Any

import pytest

from hocket import InputError, parse_plan
from hocket.engines.network import build_network
from hocket.engines.packet import model_parameters
from hocket.plan import Fabric, Plan

Tables = dict[str, Any]
Mistakes = Callable[[object], list[str]]


def benchmark(**changes: object) -> Tables:
    """A job of one All-Reduce, with `changes`."""
    return {"name": "a", "training": {"collective": "all-reduce", "bytes": "1 MB"}, **changes}


def plan_on(*jobs: Tables, **fabric: object) -> Tables:
    return {"fabric": fabric, "jobs": list(jobs) or [benchmark()]}


def checked(*jobs: Tables, **fabric: object) -> tuple[Plan, Fabric]:
    plan = parse_plan(plan_on(*jobs, **fabric))
    assert plan.fabric is not None
    return plan, plan.fabric


SMALL = {"racks": 2, "servers_per_rack": 1, "gpus_per_server": 2, "spines": 1}


def test_a_clos_with_nothing_but_racks_is_the_platform_of_hoti22() -> None:
    plan, fabric = checked(clos={"racks": 8}, scale_up=True)
    assert len(fabric.gpus()) == 128
    assert fabric.server_of("s15:7") == "s15"
    assert len(fabric.topology.cables) == 128 + 8 * 8 * 2 + 128
    resolved = plan.resolved()
    assert resolved["fabric"]["scale_up"]["rate"] == "1.6 Tbps", "200 GB/s"
    sources = {each["key"]: each["source"] for each in resolved["defaults"]}
    assert sources["fabric.clos.nic"].startswith("HOTI'22 Table I")
    assert sources["fabric.scale_up.delay"].startswith("HOTI'22 Table I")


def test_by_default_there_are_as_many_cables_as_carry_the_rate_of_all_nics() -> None:
    for uplink, cables in (("200 Gbps", 2), ("400 Gbps", 1), ("150 Gbps", 3)):
        _, fabric = checked(clos={"racks": 2, "uplink": uplink})
        assert fabric.clos is not None
        assert fabric.clos.cables_per_spine == cables, "16 GPUs of 200 Gbps, 8 spines"
    _, fabric = checked(rail={"servers": 64, "servers_per_unit": 32, "spines": 4})
    assert fabric.rail is not None
    assert fabric.rail.cables_per_spine == 8


@pytest.mark.parametrize(
    ("shape", "gpus"),
    [
        ({"clos": SMALL}, 4),
        ({"rail": {"servers": 3, "gpus_per_server": 4}}, 12),
        ({"fat_tree": {"k": 4}}, 16),
        ({"dumbbell": {"left": 2, "right": 1}}, 3),
        ({"testbed": "cassini"}, 24),
        ({"testbed": "cassini-8-4-1"}, 24),
    ],
)
def test_a_fabric_is_the_same_after_building_resolving_and_reading(shape: Tables, gpus: int) -> None:
    plan, fabric = checked(**shape)
    assert len(fabric.gpus()) == gpus
    network = build_network(plan)
    assert set(network.nodes) == set(fabric.topology.nodes)
    again = plan.resolved()
    assert parse_plan({"fabric": again["fabric"], "jobs": [benchmark()]}).fabric is not None


def test_a_fabric_of_8192_gpus_is_built() -> None:
    plan, fabric = checked(clos={"racks": 512}, scale_up=True)
    network = build_network(plan)
    assert len(fabric.gpus()) == 8192
    assert len(network.nodes) == 8192 + 512 + 8 + 1024
    assert len(network.links) == 2 * (8192 + 512 * 8 * 2 + 8192)


def test_a_server_stands_for_its_gpus_and_no_placement_for_all() -> None:
    plan, _ = checked(benchmark(placement=["s1", "s0:1"]), benchmark(name="b"), clos=SMALL)
    assert plan.hosts_of(plan.jobs[0]) == ("s1:0", "s1:1", "s0:1")
    assert plan.hosts_of(plan.jobs[1]) == ("s0:0", "s0:1", "s1:0", "s1:1")
    assert plan.hosts_of(plan.jobs[1], {"b": ("s0",)}) == ("s0:0", "s0:1")


def test_jobs_with_up_phases_run_on_named_gpus_of_a_shape() -> None:
    up = [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]
    job = {"name": "a", "period": "180 ms", "up": up, "placement": ["s0:0", "s1:0"]}
    plan, _ = checked(job, clos=SMALL)
    network = build_network(plan)
    (crossed,) = network.crossings(plan, None)
    assert len(crossed) == 8, "NIC, uplink, downlink and NIC, both ways"


def test_a_link_of_a_shape_can_fail_by_its_label() -> None:
    tables = plan_on(clos={**SMALL, "cables_per_spine": 2})
    changes = [{"at": "1 ms", "link": "tor1-spine0/2", "down": True}]
    assert parse_plan({**tables, "changes": changes}).changes[0].link == "tor1-spine0/2"


def test_the_packet_engine_gets_the_payload_inside_servers() -> None:
    plan, _ = checked(clos=SMALL, scale_up={"payload": "8 KiB"})
    parameters = {each.name: (each.value, each.source) for each in model_parameters(plan)}
    assert parameters["scale_up_mtu_bytes"] == (8192, "plan")
    without, _ = checked(clos=SMALL)
    assert "scale_up_mtu_bytes" not in {each.name for each in model_parameters(without)}


def test_a_list_of_links_gets_a_scale_up_network_if_hosts_are_gpus_of_one_server() -> None:
    links = [{"ends": [host, "t"], "rate": "100 Gbps"} for host in ("a:0", "a:1", "b:0")]
    _, fabric = checked(links=links, scale_up={"rate": "900 Gbps"})
    assert fabric.topology.neighbours["a:nvswitch"] == ["a:0", "a:1"]
    assert "b:nvswitch" not in fabric.topology.nodes


def test_a_training_job_whose_phases_only_a_run_shows_has_no_profiles() -> None:
    plan, _ = checked(clos=SMALL)
    with pytest.raises(
        InputError, match=r"job 'a': \[jobs.training\] describes what its GPUs do, not when it sends"
    ):
        plan.jobs[0].profiles()


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (
            plan_on(),
            "fabric: needs exactly one of clos, rail, fat_tree, dumbbell, testbed, lingjun, links: got none",
        ),
        (
            plan_on(clos=SMALL, testbed="cassini"),
            "fabric: needs exactly one of clos, rail, fat_tree, dumbbell, testbed, lingjun, links: "
            "got clos and testbed",
        ),
        (plan_on(clso=SMALL), "fabric.clso: is not a known key; did you mean 'clos'?"),
        (plan_on(clos={}), "fabric.clos.racks: is missing"),
        (plan_on(clos={"racks": 0}), "fabric.clos.racks: must be at least 1: got 0"),
        (
            plan_on(clos={"racks": 2, "nic": "fast"}),
            "fabric.clos.nic: a rate is a finite number and a unit, such as \"10 Gbps\": got 'fast'",
        ),
        (
            plan_on(clos={"racks": 2, "spines": 0}),
            "fabric.clos.spines: 2 racks need at least one spine between them: got 0",
        ),
        (
            plan_on(clos={"racks": 100_000, "servers_per_rack": 2}),
            "fabric.clos: has 3,200,000 links, above the limit of 1,000,000",
        ),
        (
            plan_on(rail={"servers": 2, "servers_per_unit": 3}),
            "fabric.rail.servers_per_unit: 3 is above servers, 2",
        ),
        (
            plan_on(rail={"servers": 4, "servers_per_unit": 2, "spines": 0}),
            "fabric.rail.spines: several units need at least one spine between them: got 0",
        ),
        (plan_on(fat_tree={"k": 3}), "fabric.fat_tree.k: must be even: got 3"),
        (
            plan_on(fat_tree={"k": 4, "gpus_per_server": 8}),
            "fabric.fat_tree.gpus_per_server: 8 does not divide the 2 GPUs below each edge switch",
        ),
        (
            plan_on(testbed="casini"),
            "fabric.testbed: must be 'cassini', 'cassini-6-3-4', 'cassini-6-6-1' or 'cassini-8-4-1': "
            "got 'casini'",
        ),
        (plan_on(clos=SMALL, hosts=["s0:0"]), "fabric.hosts: belongs to links; the hosts of clos are known"),
        (
            plan_on(clos=SMALL, scale_up=1),
            "fabric.scale_up: must be true, false or a table of rate, delay and payload: got 1",
        ),
        (
            plan_on(clos=SMALL, scale_up={"payload": "1 MB"}),
            "fabric.scale_up.payload: must be from 64 B to 32 KiB: got '1 MB'",
        ),
        (
            plan_on(testbed="cassini", scale_up=True),
            "fabric.scale_up: joins GPUs of one server, such as 's0:0' and 's0:1', and no server has two",
        ),
        (
            plan_on(
                links=[{"ends": [host, "a:nvswitch"], "rate": "1 Gbps"} for host in ("a:0", "a:1")],
                scale_up=True,
            ),
            "fabric.links[1].ends: 'a:nvswitch' is the name of the scale-up switch of a server",
        ),
        (
            plan_on(benchmark(placement=["s0:2"]), clos=SMALL),
            "jobs[0].placement[0]: 's0:2' is not a host of the fabric; 's0' has 2, 's0:0' to 's0:1'",
        ),
        (
            plan_on(benchmark(placement=["s0", "tor1"]), clos=SMALL),
            "jobs[0].placement[1]: 'tor1' is a switch",
        ),
        (
            plan_on(benchmark(placement=["s0:nvswitch"]), clos=SMALL, scale_up=True),
            "jobs[0].placement[0]: 's0:nvswitch' is a switch",
        ),
        (
            plan_on(benchmark(placement=["s0", "s0:1"]), clos=SMALL),
            "jobs[0].placement: 's0:1' has rank 1 of the job, and cannot have rank 2 too",
        ),
        (
            plan_on({"name": "a", "period": "1 s", "up": [], "placement": ["s0"]}, clos=SMALL),
            "jobs[0].placement[0]: 's0' is a server of 2 GPUs; name those, such as 's0:0'",
        ),
        (
            plan_on({"name": "a", "period": "1 s", "up": []}, clos=SMALL),
            "jobs[0].placement: is missing; on a [fabric] each job needs the hosts of its workers",
        ),
    ],
)
def test_a_mistake_names_its_key_value_and_limit(tables: Tables, line: str, mistakes: Mistakes) -> None:
    assert line in mistakes(tables)


def test_errors_that_follow_from_an_invalid_key_are_not_reported(mistakes: Mistakes) -> None:
    assert mistakes(plan_on(clos={"racks": 2, "spines": -1})) == [
        "fabric.clos.spines: must be at least 0: got -1"
    ]
    assert mistakes(plan_on(benchmark(placement=["x"]), fat_tree={"k": 5})) == [
        "fabric.fat_tree.k: must be even: got 5"
    ]
