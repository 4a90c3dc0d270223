"""The traffic class of each job."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Tables
from tests.export.conftest import job

from hocket.errors import InputError
from hocket.export.classes import Classes, job_classes, parse_classes
from hocket.plan import parse_plan


def classes_of(jobs: list[Tables], lossless: tuple[int, ...] = (4, 3), **network: Any) -> Classes:
    plan = parse_plan({**(network or {"link": {"capacity": "50 Gbps"}}), "jobs": jobs})
    return job_classes(plan, lossless=lossless)


def of(classes: Classes) -> dict[str, tuple[int, int]]:
    return {each.job: (each.priority, each.traffic_class) for each in classes.jobs}


def two_spines() -> Tables:
    """Two unconnected pairs of racks; of pair N, hosts aN1 to aN3 are left, bN1 to bN3 right."""
    links = []
    for pair in ("1", "2"):
        links.append({"ends": [f"left{pair}", f"right{pair}"], "rate": "50 Gbps", "delay": "500 ns"})
        for number in range(1, 4):
            for side, rack in (("a", "left"), ("b", "right")):
                host = f"{side}{pair}{number}"
                links.append({"ends": [host, f"{rack}{pair}"], "rate": "50 Gbps", "delay": "500 ns"})
    return {"links": links}


def test_priorities_are_unique_and_the_first_job_goes_first() -> None:
    assert of(classes_of([job("a"), job("b")])) == {"a": (0, 4), "b": (1, 3)}


def test_class_3_has_the_usual_dscp_and_traffic_class_byte_of_roce() -> None:
    (only,) = classes_of([job("a")], lossless=(3,)).jobs
    # AF31 is DSCP 26; 26 × 4 + ECT(0), which is 2.
    assert (only.traffic_class, only.dscp, only.nccl_ib_tc) == (3, 26, 106)


def test_jobs_that_share_no_link_have_the_same_priority() -> None:
    placed = {"a": ["a11", "b11"], "b": ["a21", "b21"], "c": ["a12", "b12"]}
    jobs = [job(name, placement=hosts) for name, hosts in placed.items()]
    classes = classes_of(jobs, fabric=two_spines())
    assert of(classes) == {"a": (0, 4), "b": (0, 4), "c": (1, 3)}
    assert classes.sharers == {}


def test_priorities_of_the_plan_are_used_and_fold_into_the_last_class_as_on_the_engines() -> None:
    classes = classes_of([job("a", priority=7), job("b"), job("c", priority=1)])
    assert of(classes) == {"a": (7, 3), "b": (0, 4), "c": (1, 3)}
    assert classes.from_plan
    assert classes.folded
    assert classes.sharers == {3: ("a", "c")}


def test_a_plan_with_one_queue_puts_all_jobs_into_one_class() -> None:
    classes = classes_of([job("a"), job("b")], link={"capacity": "50 Gbps", "priority_queues": 1})
    assert of(classes) == {"a": (0, 4), "b": (1, 4)}
    assert not classes.folded
    assert classes.used == (4,)


def test_classes_are_served_highest_first_in_whatever_order_they_are_given() -> None:
    assert parse_classes("2,5,3") == (5, 3, 2)


@pytest.mark.parametrize("text", ["", "6", "0", "7", "3,", "3,3", "3 4", "x", "3,-1", "٣", "1,2,3,4,5,6"])
def test_other_classes_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(InputError, match=r"^--classes: ") as refused:
        parse_classes(text)
    assert repr(text) in str(refused.value)


@given(st.lists(st.sets(st.integers(1, 6), min_size=2, max_size=4), min_size=1, max_size=8))
def test_no_two_jobs_of_a_link_have_the_same_priority(hosts: list[set[int]]) -> None:
    links = [{"ends": [f"h{each}", "tor"], "rate": "50 Gbps", "delay": "500 ns"} for each in range(1, 7)]
    jobs = [
        job(f"j{number}", placement=[f"h{host}" for host in sorted(each)])
        for number, each in enumerate(hosts)
    ]
    classes = classes_of(jobs, fabric={"links": links})
    for one, hosts_of_one in zip(classes.jobs, hosts, strict=True):
        for other, hosts_of_other in zip(classes.jobs, hosts, strict=True):
            # A ring uses both directions of each of its hosts' links.
            share = one != other and hosts_of_one & hosts_of_other
            assert not share or one.priority != other.priority


def test_a_thousand_jobs_on_one_link_fold_into_the_last_priority() -> None:
    classes = classes_of([job(f"j{number}") for number in range(1_000)])
    assert [each.priority for each in classes.jobs[:300]] == [*range(256), *[255] * 44]
    assert len(classes.sharers[3]) == 999


def test_a_job_without_a_placement_is_named() -> None:
    with pytest.raises(InputError, match="job 'a' has none"):
        classes_of(
            [job("a")],
            fabric=two_spines(),
            candidates=[{"name": "x", "placement": {"a": ["a11", "b11"]}}],
        )
