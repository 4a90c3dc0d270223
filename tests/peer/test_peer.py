"""The packet engine, given the arithmetic of an ns-3 based simulator, ends flows when that one does."""

from pathlib import Path

import pytest

from hocket_reproduce.validate import compare, read_recorded
from hocket_reproduce.validate.comparison import EXACT_TIME

CASES = {case.folder: case for case in read_recorded(Path(__file__).parent / "data") if case.has_inputs}
RANDOM = [
    "incast8/dcqcn",
    "incast8/hpccpint",
    "two2one/dcqcn",
    "two2one/hpccpint",
    "a2a8/hpccpint",
    "clos_4x8/dcqcn",
]


@pytest.mark.parametrize("folder", [folder for folder in CASES if folder not in RANDOM])
def test_where_nothing_random_steers_every_flow_ends_in_the_same_nanosecond(folder: str) -> None:
    found = compare(CASES[folder])
    assert not found.is_random
    assert (found.equal_flows, found.worst_flow) == (found.flows, 0)
    assert found.pauses.ours == found.pauses.recorded
    assert found.peak_queue_bytes.ours == pytest.approx(found.peak_queue_bytes.recorded, rel=1e-9)
    # Marks are drawn also where the control does not look at them.
    assert found.marks.within_limit or found.marks.may_be_chance


@pytest.mark.parametrize("folder", RANDOM)
def test_where_draws_steer_the_means_over_ten_seeds_agree(folder: str) -> None:
    found = compare(CASES[folder])
    assert found.is_random
    assert found.seeds == 10
    differing = {name: each for name, each in found.quantities.items() if not each.within_limit}
    assert differing == {}


@pytest.mark.parametrize(("folder", "slower"), [("incast8/pfc", 0.0107), ("clos_4x8/hpcc", 0.003)])
def test_exact_times_differ_by_what_the_simulator_rounds_away(folder: str, slower: float) -> None:
    found = compare(CASES[folder], fidelity=EXACT_TIME)
    assert found.mean_fct_ns.difference == pytest.approx(slower, abs=0.002)
    assert found.equal_flows == 0
    assert bool(found.failures) == (folder == "incast8/pfc")


def test_each_recorded_run_of_the_main_set_is_compared() -> None:
    single_switch = [folder for folder in CASES if not folder.startswith("clos")]
    assert len(single_switch) == 3 * 6
    assert len(CASES) == 21
