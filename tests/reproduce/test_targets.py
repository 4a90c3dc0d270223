"""Every target reruns, explains its differences, and supports the papers' claims as its finding says."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from hocket import InputError, compatibility, simulate
from hocket.plan import parse_plan
from hocket_reproduce.targets import (
    TARGETS,
    Reproduction,
    Row,
    c3,
    c17,
    c19,
    h1,
    h3,
    h5,
    h6,
    h7,
    reproduce,
)
from hocket_reproduce.targets.fabrics import job, triangle
from hocket_reproduce.targets.measure import by_job, overlaps
from hocket_reproduce.targets.setting import (
    SNAPSHOTS,
    link_plan,
    shifted,
    snapshot,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


# Tests of the other targets' modules run these at a smaller size.
IN_SECONDS = [name for name, target in TARGETS.items() if not target.takes_minutes]

Rerun = Callable[[str], Reproduction]


@pytest.fixture
def row(rerun: Rerun) -> Callable[[str, str], Row]:
    def get(target: str, quantity: str) -> Row:
        (row,) = [each for each in rerun(target).rows if each.quantity == quantity]
        return row

    return get


@pytest.fixture
def number(row: Callable[[str, str], Row]) -> Callable[[str, str], float]:
    def get(target: str, quantity: str) -> float:
        ours = row(target, quantity).ours
        assert not isinstance(ours, str)
        return ours

    return get


@pytest.mark.parametrize("target", IN_SECONDS)
def test_every_target_has_rows_and_explains_its_differences(rerun: Rerun, target: str) -> None:
    reproduction = rerun(target)
    assert reproduction.id == target
    assert reproduction.rows
    assert [each.quantity for each in reproduction.rows if each.differs and not each.comment] == []


@pytest.mark.parametrize("target", IN_SECONDS)
def test_no_quantity_appears_twice_in_a_target(rerun: Rerun, target: str) -> None:
    quantities = [each.quantity for each in rerun(target).rows]
    assert len(set(quantities)) == len(quantities)


@pytest.mark.parametrize("target", IN_SECONDS)
def test_every_target_draws_its_figure(rerun: Rerun, target: str) -> None:
    draw = rerun(target).figure
    assert draw is not None
    figure = draw()
    assert isinstance(figure, Figure)
    assert all(axes.has_data() for axes in figure.axes)


def test_a_row_differs_above_ten_per_cent() -> None:
    assert not Row("time", 100, 110).differs
    assert Row("time", 100, 111).differs
    assert Row("verdict", "yes", "no").differs
    assert not Row("new", None, 3.0).differs
    assert Row("none", 0, 3.0).difference is None


def test_ids_are_case_insensitive_and_rerun_once() -> None:
    assert [each.id for each in reproduce(["h4", "H4"])] == ["H4"]


def test_an_unknown_target_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="'C99' is not a target; known: H1, H2"):
        reproduce(["c99"])


def test_progress_names_the_target() -> None:
    told: list[str] = []
    list(reproduce(["H4"], told.append))
    assert told == ["H4: circles"]


def test_fair_sharing_halves_the_link_and_unfair_sharing_gives_two_thirds(
    number: Callable[[str, str], float],
) -> None:
    assert number("H1", "J1 in iteration 1, fair") == pytest.approx(22.5)
    assert number("H1", "J1 in iteration 1, unfair") == pytest.approx(30.0)
    assert number("H1", "J2 in iteration 1, unfair") == pytest.approx(15.0)


def test_unfairness_speeds_up_both_jobs_of_a_compatible_pair(number: Callable[[str, str], float]) -> None:
    for quantity in ("J1 median speed-up", "J2 median speed-up"):
        assert number("H1", quantity) > 1.2


def test_without_jitter_the_slide_ends_and_the_jobs_never_overlap_again() -> None:
    shares = overlaps(h1.runs(0.0)["unfair"], "J1", "J2")
    assert shares[0] == pytest.approx(1.0)
    assert np.all(np.diff(shares[:6]) < 0)
    assert np.all(shares[6:] < h1.SEPARATED)


def test_verdicts_on_the_five_groups_are_those_of_the_paper(row: Callable[[str, str], Row]) -> None:
    for group in range(1, len(h3.GROUPS) + 1):
        assert not row("H3", f"group {group}: fully compatible").differs
        assert not row("H3", f"group {group}: unfairness slows no job").differs


def test_the_unified_circle_is_120_ms_and_j1_turns_by_30_degrees(number: Callable[[str, str], float]) -> None:
    assert number("H4", "unified circle of 40 and 60 ms") == pytest.approx(120)
    assert number("H4", "rotation of J1 against J2") == pytest.approx(30)


def test_adaptive_sharing_interleaves_compatible_jobs_and_is_fair_to_others() -> None:
    pairs = h5.pairs()
    compatible = h5.measure(pairs["DLRM ×2"])
    assert h5.steady_overlap(compatible, compatible.adaptive) < 0.05
    assert h5.steady_overlap(compatible, compatible.fair) > 0.5
    rates = h5.sent_rates_gbps(h5.measure(pairs["RoBERTa ×2"]).adaptive)
    assert rates["roberta-1"] == pytest.approx(rates["roberta-2"], rel=0.01)


def test_priorities_replace_unfairness_only_with_a_queue_per_job() -> None:
    assert h6.slowdown(4, 4) < 1.1 < h6.slowdown(4, None)
    assert h6.slowdown(8, 2) > h6.slowdown(8, 8)


def test_shifted_jobs_drift_into_each_other_without_the_agent() -> None:
    jobs = h7.fig_3_jobs()
    shifts_s = {"J1": 0.0, "J2": 0.1275}
    free = h7.measure(jobs, shifts_s, 0, readjust=False)
    kept = h7.measure(jobs, shifts_s, 0, readjust=True)
    assert kept.overlap < 0.01 < free.overlap
    assert free.adjustments_per_minute == 0 < kept.adjustments_per_minute


def test_a_cluster_has_one_circle_and_jobs_on_a_shared_gpu_never_compute_at_once(
    row: Callable[[str, str], Row], number: Callable[[str, str], float]
) -> None:
    assert number("H8", "perimeter over all jobs that share a link anywhere") == pytest.approx(720)
    assert number("H8", "compute overlap on GPUs of their own") == pytest.approx(90)
    assert row("H8", "compute overlap on a shared GPU").ours == "none"
    assert row("H8", "two jobs that compute 180 of 240 ms on one GPU").ours == "refused"
    assert number("H8", "batch size of VGG16 with the best score") == 1400


def test_the_four_traffic_patterns_have_the_phases_of_the_paper(
    rerun: Rerun, number: Callable[[str, str], float]
) -> None:
    rows = [each.quantity for each in rerun("C1").rows if each.differs]
    assert rows == ["GPT-3 (tensor): rate forward and backward"]
    assert number("C1", "GPT-3 (hybrid): phases by purpose") == 6
    # All-reduces at 50 Gbps take about four times as long as the compute between them: 40 Gbps on average.
    assert 30 < number("C1", "GPT-3 (tensor): rate forward and backward") < 45


def test_a_shift_speeds_up_the_90th_percentile_of_two_vgg19_jobs(number: Callable[[str, str], float]) -> None:
    for name in ("shift of 120 ms", "our shift"):
        assert number("C2", f"j1: 90th percentile, gain by {name}") > 1.1


def test_scores_equal_those_by_hand_and_the_proven_optima(rerun: Rerun) -> None:
    rows = [each for each in rerun("C3").rows if "score of" in each.quantity or "optimum" in each.quantity]
    assert len(rows) == len(c3.by_hand()) + len(c3.instances())
    for each in rows:
        assert each.ours == pytest.approx(each.paper, abs=1e-9)


def test_one_shift_per_job_keeps_the_relative_shifts_of_every_link(
    rerun: Rerun, row: Callable[[str, str], Row], number: Callable[[str, str], float]
) -> None:
    assert [each.quantity for each in rerun("C4").rows if each.paper == "kept" and each.ours != "kept"] == []
    assert number("C4", "shift of j3 against j1") > 0
    assert row("C4", "a loop whose shifts do not close").ours == "discarded"


@pytest.mark.parametrize("snapshot_number", SNAPSHOTS)
def test_snapshot_scores_are_within_0_05_of_the_paper(
    number: Callable[[str, str], float], snapshot_number: int
) -> None:
    score = number("C17", f"snapshot {snapshot_number}: score")
    assert score == pytest.approx(c17.SCORES[snapshot_number], abs=0.05)
    assert number("C17", f"snapshot {snapshot_number}: score at the paper's shifts") <= score + 1e-9


@pytest.mark.parametrize("snapshot_number", [1, 2, 3, 4])
def test_shifts_shorten_communication_on_every_compatible_snapshot(
    number: Callable[[str, str], float], snapshot_number: int
) -> None:
    for name, _, _ in SNAPSHOTS[snapshot_number]:
        here = f"snapshot {snapshot_number}: {name} communication"
        assert number("C17", f"{here}, Th+CASSINI") <= number("C17", f"{here}, Themis")


@pytest.mark.parametrize("snapshot_number", SNAPSHOTS)
def test_the_snapshots_are_those_of_the_examples(snapshot_number: int) -> None:
    example = tomllib.loads((EXAMPLES / f"snapshot{snapshot_number}.toml").read_text(encoding="utf-8"))
    ours, theirs = parse_plan(link_plan("snapshot", snapshot(snapshot_number))), parse_plan(example)
    for own, other in zip(ours.jobs, theirs.jobs, strict=True):
        assert (own.name, ours.profiles_of(own)) == (other.name, theirs.profiles_of(other))
    assert (ours.link and ours.link.capacity_bps) == (theirs.link and theirs.link.capacity_bps)


def test_five_degrees_reach_the_optimum_and_coarser_circles_do_not() -> None:
    instances = {"open-3-1": c19.plans()["open-3-1"], "snapshot 1": c19.plans()["snapshot 1"]}
    optima = {"open-3-1": c3.instances()[3]["optimal_score"], "snapshot 1": 1 - 12 / 274 * 8 / 50}
    fine, coarse = (c19.measure(instances, optima, degrees) for degrees in (5, 90))
    assert fine.least_accuracy > 0.99
    assert coarse.mean_accuracy < fine.mean_accuracy


def test_overlap_is_the_share_of_an_up_phase_in_which_the_other_sends() -> None:
    up = [{"start": "60 ms", "duration": "40 ms", "rate": "20 Gbps"}]
    jobs = [{"name": name, "period": "100 ms", "up": up} for name in ("a", "b")]
    run = simulate(link_plan("overlap", shifted(jobs, {"a": 0.0, "b": 0.03}), iterations=3))
    # b sends from 90 ms, so during the last 10 of the 40 ms in which a sends. 20 + 20 Gbps fit: nothing is
    # slowed.
    assert overlaps(run, "a", "b") == pytest.approx([0.25, 0.25, 0.25])
    assert by_job(run, "mean_iteration_s") == pytest.approx({"a": 0.1, "b": 0.1})


def test_a_loop_is_an_error_unless_loops_are_solved_jointly() -> None:
    jobs = [job(f"j{place}", 240, 80) for place in (1, 2, 3)]
    with pytest.raises(InputError, match="loop"):
        compatibility(triangle(jobs, "discard"))
    assert compatibility(triangle(jobs, "solve")).score == pytest.approx(1.0)
