"""Shapes of fabrics: counted by hand, and as the papers print them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.fabrics import (
    Cable,
    CassiniTree,
    ScaleUpNetwork,
    Topology,
    cassini_testbed,
    clos,
    dumbbell,
    fat_tree,
    from_cables,
    rail_optimised,
    with_scale_up,
)
from hocket.fabrics.tiers import tiers_of

GBPS = 10**9
DELAY_PS = 500_000


def hoti_clos(
    racks: int = 2, gpus_per_server: int = 8, spines: int = 8, cables_per_spine: int = 2
) -> Topology:
    return clos(
        racks=racks,
        servers_per_rack=2,
        gpus_per_server=gpus_per_server,
        spines=spines,
        nic_bps=200 * GBPS,
        uplink_bps=200 * GBPS,
        cables_per_spine=cables_per_spine,
        delay_ps=DELAY_PS,
    )


def rails(servers: int, servers_per_unit: int) -> Topology:
    return rail_optimised(
        servers=servers,
        gpus_per_server=4,
        servers_per_unit=servers_per_unit,
        spines=2,
        nic_bps=400 * GBPS,
        uplink_bps=400 * GBPS,
        cables_per_spine=1,
        delay_ps=DELAY_PS,
    )


def rate_bps(topology: Topology, node: str, kind_of_others: str) -> int:
    """What `node` exchanges with others whose names start so, in each direction."""
    return sum(
        cable.rate_bps
        for cable in topology.cables
        for one, other in (cable.ends, cable.ends[::-1])
        if one == node and other.startswith(kind_of_others)
    )


def of_kind(topology: Topology, kind: str) -> list[str]:
    return [node for node, found in topology.nodes.items() if found == kind]


def test_tors_of_the_hoti22_platform_have_equal_capacity_above_and_below() -> None:
    fabric = hoti_clos(racks=16)
    assert len(fabric.gpus) == 256
    assert rate_bps(fabric, "tor3", "s") == 2 * 16 * 200 * GBPS, "servers and spines start alike"
    assert rate_bps(fabric, "tor3", "spine") == 16 * 200 * GBPS
    assert fabric.tiers["tor15"] == 1
    assert fabric.tiers["spine7"] == 2


def test_gpus_are_named_by_server_and_number_and_servers_of_one_gpu_by_the_server() -> None:
    eight, one = hoti_clos(), hoti_clos(gpus_per_server=1)
    assert eight.gpus[:9] == ("s0:0", "s0:1", "s0:2", "s0:3", "s0:4", "s0:5", "s0:6", "s0:7", "s1:0")
    assert one.gpus == ("s0", "s1", "s2", "s3")
    assert eight.servers["s3"][-1] == "s3:7"
    assert eight.neighbours["s3:7"] == ["tor1"]


def test_parallel_cables_have_different_labels() -> None:
    labels = [cable.label for cable in hoti_clos().cables]
    assert len(set(labels)) == len(labels) == 32 + 2 * 8 * 2
    assert labels[-2:] == ["tor1-spine7", "tor1-spine7/2"]


def test_one_rack_needs_no_spine() -> None:
    fabric = hoti_clos(racks=1, spines=0)
    assert of_kind(fabric, "switch") == ["tor0"]


def test_gpus_of_one_number_share_a_rail_switch_and_units_have_their_own() -> None:
    fabric = rails(servers=5, servers_per_unit=3)
    assert [server for server in range(5) if "rail1" in fabric.neighbours[f"s{server}:1"]] == [0, 1, 2]
    assert fabric.neighbours["s4:1"] == ["rail5"]
    assert Counter(fabric.tiers.values()) == {1: 8, 2: 2}
    assert len(fabric.cables) == 5 * 4 + 8 * 2


@pytest.mark.parametrize("k", [2, 4, 8])
def test_a_fat_tree_has_the_numbers_of_al_fares(k: int) -> None:
    fabric = fat_tree(k=k, gpus_per_server=1, rate_bps=100 * GBPS, delay_ps=DELAY_PS)
    assert len(fabric.gpus) == k**3 // 4
    assert Counter(fabric.tiers.values()) == {1: k * k // 2, 2: k * k // 2, 3: k * k // 4}
    ports = {
        node: len(others) for node, others in fabric.neighbours.items() if fabric.nodes[node] == "switch"
    }
    assert set(ports.values()) == {k}


def test_each_core_of_a_fat_tree_has_one_link_to_every_pod() -> None:
    fabric = fat_tree(k=4, gpus_per_server=2, rate_bps=100 * GBPS, delay_ps=DELAY_PS)
    assert fabric.gpus[:4] == ("s0:0", "s0:1", "s1:0", "s1:1")
    assert fabric.neighbours["core3"] == ["agg1", "agg3", "agg5", "agg7"]
    assert fabric.neighbours["edge0"] == ["s0:0", "s0:1", "agg0", "agg1"]


def test_a_dumbbell_has_one_link_between_its_sides() -> None:
    fabric = dumbbell(
        left=2, right=3, gpus_per_server=1, nic_bps=100 * GBPS, bottleneck_bps=50 * GBPS, delay_ps=DELAY_PS
    )
    assert fabric.gpus == ("s0", "s1", "s2", "s3", "s4")
    assert fabric.neighbours["s1"] == ["left"]
    assert fabric.neighbours["s2"] == ["right"]
    assert rate_bps(fabric, "left", "right") == 50 * GBPS


def test_the_cassini_testbed_has_the_numbers_of_nsdi24() -> None:
    fabric = cassini_testbed()
    assert len(fabric.gpus) == 24
    assert len(of_kind(fabric, "switch")) == 13
    assert len(fabric.cables) == 48
    for tor in range(6):
        below = rate_bps(fabric, f"tor{tor}", "s")
        assert below == 2 * rate_bps(fabric, f"tor{tor}", "agg"), "2:1"
    for agg in range(4):
        assert rate_bps(fabric, f"agg{agg}", "core") == rate_bps(fabric, f"agg{agg}", "tor")
    assert set(fabric.islands.values()) == {0}


@pytest.mark.parametrize(
    ("tree", "tors", "oversubscribed"),
    [
        ("cassini", 6, ["2:1", "1:1"]),
        ("cassini-6-3-4", 6, ["2:1", "1:1"]),
        ("cassini-6-6-1", 6, ["2:1", "1:1"]),
        ("cassini-8-4-1", 8, ["1.5:1", "2:1"]),
    ],
)
def test_several_regular_trees_have_the_numbers_of_the_cassini_testbed(
    tree: CassiniTree, tors: int, oversubscribed: list[str]
) -> None:
    fabric = cassini_testbed(tree)
    assert (len(fabric.gpus), len(of_kind(fabric, "switch")), len(fabric.cables)) == (24, 13, 48)
    tiers = tiers_of(fabric)
    assert len(tiers[0].switches) == tors
    assert [tier.oversubscription() for tier in tiers[:2]] == oversubscribed
    # Regular: the switches of a tier have the same cables down and up.
    assert all(len(set(tier.switches.values())) == 1 for tier in tiers)
    assert set(fabric.islands.values()) == {0}


def test_each_server_of_several_gpus_has_a_scale_up_switch() -> None:
    fabric = with_scale_up(hoti_clos(), ScaleUpNetwork(1_600 * GBPS, 25_000))
    assert of_kind(fabric, "scale-up") == ["s0:nvswitch", "s1:nvswitch", "s2:nvswitch", "s3:nvswitch"]
    assert fabric.neighbours["s1:nvswitch"] == [f"s1:{gpu}" for gpu in range(8)]
    assert fabric.gpus == hoti_clos().gpus
    assert set(fabric.nic_rates_bps.values()) == {200 * GBPS}, "NVLink is no NIC"
    assert fabric.tiers == hoti_clos().tiers


def test_listed_links_make_hosts_of_nodes_with_one_link_and_of_named_ones() -> None:
    ends = [("a:1", "t"), ("a:0", "t"), ("b", "t"), ("b", "u"), ("t", "u")]
    fabric = from_cables([Cable(pair, GBPS, 0) for pair in ends], hosts=["b"])
    assert dict(fabric.nodes) == {"a:1": "host", "t": "switch", "a:0": "host", "b": "host", "u": "switch"}
    assert fabric.servers == {"a": ("a:0", "a:1"), "b": ("b",)}
    assert fabric.gpus == ("a:0", "a:1", "b")


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_every_gpu_has_one_nic_and_reaches_every_other(
    racks: int, servers: int, gpus_per_server: int, spines: int
) -> None:
    fabric = clos(
        racks=racks,
        servers_per_rack=servers,
        gpus_per_server=gpus_per_server,
        spines=spines,
        nic_bps=GBPS,
        uplink_bps=GBPS,
        cables_per_spine=1,
        delay_ps=0,
    )
    assert len(fabric.gpus) == len(set(fabric.gpus)) == racks * servers * gpus_per_server
    assert all(len(fabric.neighbours[gpu]) == 1 for gpu in fabric.gpus)
    assert set(fabric.islands.values()) == {0}
    assert len({cable.label for cable in fabric.cables}) == len(fabric.cables)
