"""R6 to R8: training jobs on HOTI'22's platform, at sizes that take seconds instead of 128 GPUs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hocket import load_plan, parse_plan
from hocket.figures.bars import StackedBars
from hocket_reproduce.targets import (
    Row,
    packets,
    platform,
    r6,
    r7,
    r8,
)
from hocket_reproduce.targets.packets import HPCC, PFC_ONLY, Control
from hocket_reproduce.targets.platform import (
    ONE_D,
    STATIC,
    TWO_D,
    JobTimes,
    PlatformRun,
)

RACKS = 2
EXAMPLES = Path(__file__).parents[2] / "examples" / "training"


def small(control: Control, jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Jobs on two racks of one server below four spines, 2:1 like two servers per rack below eight spines,
    with buffers that a few MB fill."""
    plan = platform.plan(control, RACKS, jobs)
    plan["fabric"]["clos"] |= {"servers_per_rack": 1, "spines": 4}
    plan["switch"]["buffer"] = "2 MiB"
    return plan


def run(controls: Sequence[Control], cases: Mapping[str, Any]) -> dict[tuple[str, str], PlatformRun]:
    plans = {
        (case, control.name): small(control, jobs) for case, jobs in cases.items() for control in controls
    }
    return platform.measure(plans, lambda doing: None)


def verdicts(rows: Sequence[Row]) -> dict[str, float | str]:
    return {row.quantity: row.ours for row in rows}


@pytest.mark.parametrize("control", [*packets.CONTROLS, STATIC])
def test_plans_have_the_congestion_controls_of_r3_to_r5(control: Control) -> None:
    plan = parse_plan(platform.plan(control, 8, [r7.job(TWO_D)]))
    assert len(plan.fabric.gpus() if plan.fabric else ()) == 128
    assert plan.switch.buffer_bytes == packets.BUFFER_BYTES
    assert plan.host.mtu_bytes == packets.PAYLOAD_BYTES
    (job,) = plan.jobs
    assert job.congestion is not None
    given = {each.name: each.value for each in job.congestion.parameters(packets.RATE_BPS, 10**5)}
    assert {**given, **control.parameters} == given
    marked = [
        (each.rate_bps, each.minimum_bytes, each.maximum_bytes, each.probability)
        for each in plan.switch.marking
    ]
    assert marked == control.model.get("marking", marked)
    assert plan.switch.telemetry_unit == control.model.get("telemetry_unit", 1)
    assert (job.window == "path-scaled") == (control.window == packets.WINDOW)


def test_pfc_alone_pauses_most_without_being_slower_and_2d_is_faster_with_fewer_pauses() -> None:
    cases = {case.name: [case.job("10 MB")] for case in r6.CASES}
    measured = run((PFC_ONLY, HPCC), cases)
    ours = verdicts(list(r6.rows(measured)))
    for case in cases:
        assert ours[f"{case}: most PAUSE frames"] == "PFC only"
        assert ours[f"{case}: PFC only takes as long as the best, or is the best"] == "yes"
    assert ours["PFC only: 2D is clearly faster than 1D"] == "yes"
    assert ours["PFC only: 2D has far fewer PAUSE frames than 1D"] == "yes"


def test_the_other_number_of_chunks_in_flight_is_four_for_one_and_one_for_four() -> None:
    one, _, two = r6.CASES
    assert (one.algorithm.in_flight, one.with_other_chunks.algorithm.in_flight) == (1, 4)
    assert (two.algorithm.in_flight, two.with_other_chunks.algorithm.in_flight) == (4, 1)


def test_2d_shortens_an_iteration_of_dlrm_under_every_control() -> None:
    cases = {algorithm.name: [r7.job(algorithm)] for algorithm in r7.ALGORITHMS}
    measured = run((PFC_ONLY, HPCC), cases)
    ours = verdicts(list(r7.rows(measured)))
    assert ours["2D is much better than 1D"] == "yes"
    assert ours["2D: the worst policy"] == "HPCC"
    for ran in measured.values():
        assert ran.alone.exposed_ms > 0


def test_dlrm_exchanges_as_much_as_the_paper_says() -> None:
    rows = {row.quantity: row for row in r7.volumes()}
    assert rows["All-Reduce per iteration"].difference == pytest.approx(0, abs=0.001)
    assert rows["All-To-All per iteration"].difference == 0


def test_static_windows_prevent_pauses_of_two_jobs_and_hardly_slow_them() -> None:
    # Each job has one server in each of two racks, so that both share all links between the racks.
    plans = {}
    for control in r8.CONTROLS:
        plan = platform.plan(control, RACKS, [job("one", 0), job("other", 1)])
        plan["fabric"]["clos"]["spines"] = 4
        plan["switch"]["buffer"] = "6 MiB"
        plans["two jobs", control.name] = plan
    rows = {row.quantity: row for row in r8.rows(platform.measure(plans, lambda doing: None))}
    pauses = rows["two jobs: PAUSE frames"]
    assert isinstance(pauses.paper, int)
    assert (pauses.paper > 0, pauses.ours) == (True, 0)
    for name in ("one", "other"):
        assert (rows[f"two jobs: iteration of {name}"].difference or 0) < 0.05


def job(name: str, which: int) -> dict[str, Any]:
    reducing = {"collective": "all-reduce", "bytes": "32 MB"}
    return platform.training_job(name, reducing, TWO_D, placement=r8.half(RACKS, which))


def test_two_jobs_have_one_server_of_each_rack_each_and_share_no_nic() -> None:
    first, second = (set(r8.half(8, which)) for which in (0, 1))
    assert not first & second
    assert first | second == {f"s{server}" for server in range(16)}


def test_exposed_communication_is_the_mean_iteration_minus_compute() -> None:
    times = JobTimes((4.0, 6.0), (3.0, 3.0))
    assert (times.iteration_ms, times.exposed_ms) == (5.0, 2.0)


def test_stacked_bars_add_up_to_the_iteration() -> None:
    ran = PlatformRun({"dlrm": JobTimes((7.0,), (5.0,))}, 3, 1.5, 10)
    panels = r7.panels({(algorithm.name, "PFC only"): ran for algorithm in (ONE_D, TWO_D)})
    assert [type(panel) for panel in panels] == [StackedBars] * 2
    assert [sum(values[0] or 0 for values in panel.values.values()) for panel in panels] == [7.0, 7.0]


def test_the_example_is_the_plan_of_r7() -> None:
    plan = parse_plan(platform.plan(PFC_ONLY, r7.RACKS, [r7.job(TWO_D)]))
    example = load_plan(EXAMPLES / "hoti22_dlrm.toml")
    written = [each.model_dump() for each in (plan, example)]
    assert written[0] == written[1]
