"""X2 at a smaller size: lone collectives have their closed form, and without queues the engines agree."""

import pytest

from hocket_reproduce.targets import x2

QUIET = {scenario.name: scenario for scenario in x2.quiet_scenarios()}


@pytest.mark.parametrize("lone", x2.lone((2, 3, 16, 64)), ids=lambda lone: f"{lone.kind}-{lone.ranks}")
def test_a_lone_collective_has_the_busbw_of_its_closed_form_on_both_engines(lone: x2.Lone) -> None:
    assert lone.measure() == pytest.approx([lone.closed_form_bps] * 2, rel=0.02)


@pytest.mark.parametrize("scenario", QUIET.values(), ids=QUIET)
def test_without_queues_iterations_take_as_long_on_packets_as_on_flows(scenario: x2.Scenario) -> None:
    for _, flow_us, packet_us in x2.measure(scenario):
        assert packet_us == pytest.approx(flow_us, rel=0.05)


def test_every_scenario_with_queues_names_what_the_flow_engine_leaves_out() -> None:
    busy = list(x2.busy_scenarios())
    assert [scenario.name for scenario in busy if not scenario.why] == []
    names = [scenario.name for scenario in (*QUIET.values(), *busy)]
    assert len(set(names)) == len(names)
