"""The commands that create a testbed: they touch only the testbed's own namespaces."""

from hypothesis import given
from hypothesis import strategies as st
from tests.testbed.conftest import two_jobs

from hocket.plan import parse_plan
from hocket.testbed import steps
from hocket.testbed.layout import Layout, lay_out

OWN = "hk-bed-"


def layout(capacity_mbps: int = 200) -> Layout:
    plan = two_jobs()
    plan["link"]["capacity"] = f"{capacity_mbps} Mbps"
    for job in plan["jobs"]:
        job["up"][0]["rate"] = f"{capacity_mbps} Mbps"
    return lay_out(parse_plan(plan), "bed")


def namespace_of(command: steps.Command) -> str:
    """The namespace in which a command acts."""
    match command:
        case ("ip" | "tc", "-n", namespace, *_):
            return namespace
        case ("ip", "netns", "add" | "delete" | "exec", namespace, *_):
            return namespace
        case ("ip", "link", "add", *rest):
            ends = [rest[place + 1] for place, word in enumerate(rest) if word == "netns"]
            assert len(ends) == 2, "a veth pair has both its ends in namespaces"
            assert all(end.startswith(OWN) for end in ends)
            return ends[0]
    raise AssertionError(command)


def test_every_command_acts_in_a_namespace_of_the_testbed() -> None:
    for command in (*steps.up(layout()), *steps.down(layout().all_namespaces())):
        assert namespace_of(command).startswith(OWN), command


def test_everything_added_is_in_namespaces_that_are_removed() -> None:
    added = {command[3] for command in steps.up(layout()) if command[:3] == ("ip", "netns", "add")}
    removed = {command[3] for command in steps.down(layout().all_namespaces())}
    assert added == removed == set(layout().all_namespaces())


def test_both_ends_of_every_link_are_limited_to_their_rates() -> None:
    shaped = {
        (command[2], command[6]): command[command.index("rate") + 1]
        for command in steps.up(layout())
        if command[0] == "tc"
    }
    expected = {
        (port.namespace, port.interface): f"{port.rate_bps}bit"
        for link in layout().links
        for port in link.ports
    }
    assert shaped == expected


@given(st.integers(1, 10**6))
def test_buckets_and_queues_hold_the_largest_segment_and_fit_into_32_bits(capacity_mbps: int) -> None:
    for command in steps.up(layout(capacity_mbps)):
        if command[0] == "tc":
            for key in ("burst", "limit"):
                size = int(command[command.index(key) + 1].removesuffix("b"))
                assert 65_536 <= size <= 2**31


def test_the_same_plan_gives_the_same_commands() -> None:
    assert list(steps.up(layout())) == list(steps.up(layout()))
