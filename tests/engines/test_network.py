"""The links that a job crosses, counted by hand on networks of a few cables."""

from typing import Any

import pytest

from hocket import InputError, _hocket, parse_plan
from hocket.engines.network import build_network, ring_input_links

UP = [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]


def plan(cables: list[tuple[str, str]], *placements: list[str]) -> Any:
    """A plan of one job per placement on `cables`, the k-th of which carries 50 + k Gbps."""
    links = [
        {"ends": list(ends), "rate": f"{50 + number} Gbps", "name": f"c{number}"}
        for number, ends in enumerate(cables)
    ]
    jobs = [
        {"name": f"j{number}", "period": "180 ms", "up": UP, "placement": placement}
        for number, placement in enumerate(placements)
    ]
    return parse_plan({"fabric": {"links": links}, "jobs": jobs})


TWO_RACKS = [("s1", "t1"), ("s2", "t1"), ("s3", "t2"), ("t1", "t2")]


def crossed(checked: Any) -> list[dict[str, int]]:
    """For each job, the directed links that it crosses with the number of flows on each."""
    network = build_network(checked)
    return [
        {network.links[link][0].split()[-1]: flows for link, flows in crossings}
        for crossings in network.crossings(checked, None)
    ]


def test_every_job_crosses_the_one_link_of_a_plan_once() -> None:
    job = {"name": "a", "period": "180 ms", "up": UP}
    checked = parse_plan({"link": {"capacity": "50 Gbps"}, "jobs": [job, {**job, "name": "b"}]})
    network = build_network(checked)
    assert [rate for _, rate in network.links] == [50 * 10**9]
    assert network.crossings(checked, None) == [[(0, 1)], [(0, 1)]]


def test_a_link_is_shown_by_the_name_that_the_plan_gives_it_and_its_direction() -> None:
    network = build_network(plan([("s1", "t1"), ("s2", "t1")], ["s1", "s2"]))
    assert [name for name, _ in network.links] == ["c0 s1->t1", "c0 t1->s1", "c1 s2->t1", "c1 t1->s2"]
    assert network.display_names()["t1->s2"] == "c1 t1->s2"


def test_every_cable_becomes_two_links_of_its_rate() -> None:
    network = build_network(plan(TWO_RACKS, ["s1", "s2"]))
    assert [rate // 10**9 for _, rate in network.links] == [50, 50, 51, 51, 52, 52, 53, 53]
    assert len({name for name, _ in network.links}) == 8
    assert set(network.nodes) == {"s1", "s2", "s3", "t1", "t2"}


def test_two_workers_of_a_rack_cross_their_own_cables_in_both_directions() -> None:
    (links,) = crossed(plan(TWO_RACKS, ["s1", "s2"]))
    assert links == {"s1->t1": 1, "t1->s1": 1, "s2->t1": 1, "t1->s2": 1}


def test_a_ring_over_two_racks_crosses_the_spine_once_in_each_direction_in_any_order() -> None:
    for ring in (["s1", "s2", "s3"], ["s2", "s3", "s1"], ["s3", "s1", "s2"]):
        (links,) = crossed(plan(TWO_RACKS, ring))
        assert len(links) == 8, "each cable in both directions"
        assert set(links.values()) == {1}


def test_one_worker_crosses_nothing() -> None:
    assert crossed(plan(TWO_RACKS, ["s1"])) == [{}]


def test_flows_are_spread_over_equal_paths_in_the_same_way_each_time() -> None:
    spines = [(rack, f"spine{number}") for number in range(4) for rack in ("t1", "t2")]
    hosts = [(f"{rack}s{number}", rack) for rack in ("t1", "t2") for number in range(16)]
    rings = [[f"t1s{number}", f"t2s{number}"] for number in range(16)]
    first, again = (crossed(plan(spines + hosts, *rings)) for _ in range(2))
    assert first == again
    used = {name for links in first for name in links if name.startswith("spine")}
    assert len(used) > 2, "sixteen rings do not all take one spine"


def test_a_job_with_the_label_of_another_job_takes_its_paths() -> None:
    spines = [(f"s{number}", f"t{number}") for number in (1, 2)]
    spines += [(tor, f"spine{number}") for tor in ("t1", "t2") for number in range(8)]
    several = plan(spines, *[["s1", "s2"]] * 4)
    crossings = crossed(several)
    assert crossings[0] != crossings[3], "the test needs paths that differ"
    labelled = parse_plan(
        {
            "fabric": several.model_dump(mode="json", by_alias=True, exclude_none=True)["fabric"],
            "jobs": [{"name": "a", "period": "180 ms", "up": UP, "placement": ["s1", "s2"], "label": 30_000}],
        }
    )
    assert crossed(labelled) == [crossings[3]]


def test_inputs_of_a_link_are_the_links_before_it_on_a_path() -> None:
    network = build_network(plan(TWO_RACKS, ["s1", "s3"]))
    names = [name.split()[-1] for name, _ in network.links]
    inputs = ring_input_links(network.fabric, [network.nodes["s1"], network.nodes["s3"]], 0)
    assert {(names[link], names[before]) for link, before in inputs} == {
        ("t1->t2", "s1->t1"),
        ("t2->s3", "t1->t2"),
        ("t2->t1", "s3->t2"),
        ("t1->s1", "t2->t1"),
    }


def test_a_candidates_placement_overrides_the_jobs_own() -> None:
    checked = plan(TWO_RACKS, ["s1", "s2"])
    network = build_network(checked)
    assert network.crossings(checked, {"j0": ["s1", "s3"]}) != network.crossings(checked, None)
    assert network.crossings(checked, {}) == network.crossings(checked, None)


def test_hosts_without_a_path_between_them_are_refused() -> None:
    with pytest.raises(InputError, match="'s9' has no path to 's1'"):
        plan([*TWO_RACKS, ("s9", "s10")], ["s1", "s9"])


def test_a_ring_uses_scale_up_switches_inside_servers_and_nics_between_them() -> None:
    shape = {"racks": 1, "servers_per_rack": 2, "gpus_per_server": 3, "spines": 1, "nic": "200 Gbps"}
    fabric = {"clos": {**shape, "uplink": "200 Gbps", "delay": "500 ns"}, "scale_up": True}
    ring = [f"s{server}:{gpu}" for server in range(2) for gpu in range(3)]
    job = {"name": "a", "period": "180 ms", "up": UP, "placement": ring}
    (links,) = crossed(parse_plan({"fabric": fabric, "jobs": [job]}))
    outside = {"s0:2->tor0", "tor0->s1:0", "s1:2->tor0", "tor0->s0:0"}
    inside = {
        end
        for server in ("s0", "s1")
        for gpu in (0, 1)
        for end in (
            f"{server}:{gpu}->{server}:nvswitch",
            f"{server}:nvswitch->{server}:{gpu + 1}",
        )
    }
    assert links == dict.fromkeys(outside | inside, 1)


def test_a_node_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r'node "s0": kind "gpu": must be "host", "switch" or "scale-up"'):
        _hocket.Fabric([("s0", "gpu")], [])  # type: ignore[list-item]
