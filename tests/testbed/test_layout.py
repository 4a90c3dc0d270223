"""The layout of a testbed, before anything is created."""

import ipaddress
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.testbed.conftest import two_jobs

from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.plan import Plan, parse_plan
from hocket.plan.fabric import Fabric
from hocket.testbed.layout import Layout, lay_out, slug, warnings


def fabric_plan(racks: int, spines: int, rings: list[list[int]], rate_gbps: int = 1) -> Plan:
    """A Clos with two hosts in each rack; hosts are numbered across all racks."""
    up = [{"start": "0 ms", "duration": "10 ms", "rate": "100 Mbps"}]
    rate = f"{rate_gbps} Gbps"
    clos = {
        "racks": racks,
        "servers_per_rack": 2,
        "gpus_per_server": 1,
        "spines": spines,
        "nic": rate,
        "uplink": rate,
    }
    hosts = Fabric.model_validate({"clos": clos}).gpus()
    jobs = [
        {**job(f"job {number}", up), "placement": [hosts[host] for host in ring]}
        for number, ring in enumerate(rings)
    ]
    return parse_plan({"fabric": {"clos": clos}, "jobs": jobs})


def job(name: str, up: list[dict[str, str]]) -> dict[str, Any]:
    return {"name": name, "period": "20 ms", "up": up}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Jobs of two or more hosts each, on arbitrary hosts of a small Clos."""
    racks, spines = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    hosts = draw(st.permutations(range(2 * racks)))
    rings: list[list[int]] = []
    left = list(hosts)
    while len(left) >= 2 and (not rings or draw(st.booleans())):
        count = draw(st.integers(2, min(5, len(left))))
        rings.append(left[:count])
        left = left[count:]
    return fabric_plan(racks, spines, rings)


def walk(layout: Layout, start: str, source: str, destination: str) -> Iterator[str]:
    """The names of the directed links that a packet takes from namespace `start` along its routes."""
    leaving = {
        (port.namespace, port.interface): (name, link.ports[1 - side].namespace)
        for link in layout.links
        for side, (name, port) in enumerate(zip(link.names, link.ports, strict=True))
    }
    addresses = {worker.address: worker.namespace for worker in layout.workers()}
    here = start
    while here != addresses[destination]:
        fitting = [
            route
            for route in layout.routes
            if route.namespace == here and route.destination == destination and route.source in (None, source)
        ]
        # A rule for a source takes precedence over the main table.
        route = min(fitting, key=lambda route: route.source is None)
        name, here = leaving[here, route.interface]
        yield name


@given(plans())
@settings(max_examples=60, deadline=None)
def test_flows_take_the_links_that_the_engines_give_them(plan: Plan) -> None:
    layout = lay_out(plan, "bed")
    network = build_network(plan)
    by_host = {worker.host: worker for worker in layout.workers()}
    names = list(network.nodes)
    for ring in network.flows(plan, None):
        for flow in ring:
            start, end, label = flow["from_node"], flow["to_node"], flow["label"]
            one, other = by_host[names[start]], by_host[names[end]]
            expected = [network.links[link][0] for link in network.fabric.route(start, end, label)]
            assert list(walk(layout, one.namespace, one.address, other.address)) == expected


@given(plans())
@settings(max_examples=60, deadline=None)
def test_every_worker_reaches_every_other_of_its_job(plan: Plan) -> None:
    layout = lay_out(plan, "bed")
    for each in layout.jobs:
        for one, other in permutations(each.workers, 2):
            assert list(walk(layout, one.namespace, one.address, other.address))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_names_and_addresses_are_unique(plan: Plan) -> None:
    layout = lay_out(plan, "bed")
    ports = [port for link in layout.links for port in link.ports]
    ports += [port for worker in layout.workers() for port in worker.control]
    assert len({port.address for port in ports}) == len(ports)
    assert len({(port.namespace, port.interface) for port in ports}) == len(ports)
    # The kernel's IFNAMSIZ is 16 with the final zero.
    assert all(len(port.interface) <= 15 for port in ports)
    assert all(ipaddress.ip_address(port.address).is_private for port in ports)
    assert len(set(layout.all_namespaces())) == len(layout.all_namespaces())
    assert all(namespace.startswith("hk-bed-") for namespace in layout.all_namespaces())


@given(st.lists(st.text("aA1-.é", min_size=1), min_size=2, max_size=8, unique=True))
def test_nodes_with_similar_names_get_different_namespaces(names: list[str]) -> None:
    hosts = [f"h{number}" for number in range(2)]
    links = [{"ends": [node, "hub"], "rate": "1 Gbps"} for node in (*hosts, *names)]
    up = [{"start": "0 ms", "duration": "1 ms", "rate": "1 Gbps"}]
    plan = {"fabric": {"links": links}, "jobs": [{**job("a", up), "placement": hosts}]}
    layout = lay_out(parse_plan(plan), "bed")
    assert len(set(layout.all_namespaces())) == len(links) + 2


def test_one_link_has_a_host_of_each_job_on_either_side() -> None:
    layout = lay_out(parse_plan(two_jobs()), "bed")
    assert [worker.host for worker in layout.workers()] == ["a.left", "a.right", "b.left", "b.right"]
    shared, *nics = layout.links
    assert [port.rate_bps for port in shared.ports] == [200_000_000, 200_000_000]
    assert shared.names == ("link left->right", "link right->left")
    # What a host sends is limited to its job's rate, what it receives only to the link's.
    assert (
        sorted(port.rate_bps for link in nics for port in link.ports) == [160_000_000] * 4 + [200_000_000] * 4
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"placement": ["r0s0"]}, "at least two workers: got 1"),
        ({"up": []}, "never sends"),
    ],
)
def test_an_unsupported_plan_is_rejected_with_the_key(change: dict[str, Any], said: str) -> None:
    table = fabric_plan(1, 1, [[0, 1]]).model_dump(mode="json", by_alias=True, exclude_unset=True)
    if "placement" in change:
        change = {"placement": table["jobs"][0]["placement"][:1]}
    table["jobs"][0] |= change
    with pytest.raises(InputError, match=said):
        lay_out(parse_plan(table), "bed")


def test_phases_of_several_rates_are_rejected() -> None:
    plan = two_jobs()
    plan["jobs"][1]["up"] = [
        {"start": "0 ms", "duration": "10 ms", "rate": "50 Mbps"},
        {"start": "50 ms", "duration": "10 ms", "rate": "100 Mbps"},
    ]
    with pytest.raises(InputError, match=r"jobs\[1\].up: .*'b' has phases of 50 Mbps and 100 Mbps"):
        lay_out(parse_plan(plan), "bed")


def test_a_host_has_one_job() -> None:
    plan = fabric_plan(2, 1, [[0, 1], [2, 3]])
    table = plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
    table["jobs"][1]["placement"][0] = table["jobs"][0]["placement"][0]
    with pytest.raises(InputError, match="already has job 'job 0'"):
        lay_out(parse_plan(table), "bed")


def test_a_fabric_too_large_for_one_machine_is_rejected_with_the_limit() -> None:
    with pytest.raises(InputError, match="at most 256 hosts and switches: this plan has 300"):
        lay_out(fabric_plan(99, 3, [[0, 1]]), "bed")


def test_rates_and_delays_that_a_testbed_cannot_reproduce_yield_warnings() -> None:
    plan = two_jobs()
    plan["link"] |= {"capacity": "10 Gbps", "delay": "1 ms"}
    for each in plan["jobs"]:
        each["up"][0]["rate"] = "5 Gbps"
    said = warnings(lay_out(parse_plan(plan), "bed"))
    assert ["20 Gbps" in said[0], "1 ms" in said[1]] == [True, True]
    # The default delay of links yields no warning.
    del plan["link"]["delay"]
    plan["link"]["capacity"] = "200 Mbps"
    for each in plan["jobs"]:
        each["up"][0]["rate"] = "160 Mbps"
    assert warnings(lay_out(parse_plan(plan), "bed")) == []


@given(st.text(max_size=100))
def test_a_slug_is_a_valid_part_of_a_name(text: str) -> None:
    found = slug(text)
    assert 0 < len(found) <= 24
    assert found.isascii()
    assert found.replace("-", "").isalnum()
    assert slug(found) == found
