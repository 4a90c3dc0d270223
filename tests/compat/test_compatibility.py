"""Scores and shifts that can be checked by hand, and the guarantees of an answer."""

import json
import os
import re
import signal
import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Tables, half, shared_link

from hocket import Compatibility, InputError, _hocket, compatibility
from hocket.compat.verdict import Verdict
from hocket.engines.specs import native_profile

ROOT = Path(__file__).parents[2]
Command = Callable[..., Any]


def job(name: str, period: str, *up: tuple[str, str, str], **changes: object) -> Tables:
    """A job with Up phases of (start, duration, rate)."""
    phases = [dict(zip(("start", "duration", "rate"), phase, strict=True)) for phase in up]
    return {"name": name, "period": period, "up": phases, **changes}


def ring_of_racks(racks: int, *jobs: Tables, **changes: object) -> Tables:
    """A fabric of racks `t0`, `t1`, … joined in a ring, with hosts `s0a`, `s0b`, … below each."""
    hosts = [(f"s{rack}{letter}", f"t{rack}") for rack in range(racks) for letter in "abc"]
    spines = [(f"t{rack}", f"t{(rack + 1) % racks}") for rack in range(racks)]
    links = [{"ends": list(ends), "rate": "50 Gbps"} for ends in hosts + spines]
    return {"fabric": {"links": links}, "jobs": list(jobs), **changes}


def alone(answer: Compatibility, job: str, column: str) -> float:
    """A number of the prediction for `job`."""
    return float(answer.prediction.row(by_predicate=pl.col("job") == job, named=True)[column])


def test_two_jobs_that_each_need_half_the_period_shift_by_half_of_it() -> None:
    answer = compatibility(shared_link(half("a"), half("b")))
    assert (answer.score, answer.bound, answer.proven_optimal) == (1.0, 1.0, True)
    assert answer.perimeter_s == 0.18
    assert abs(answer.time_shifts_s["b"] - answer.time_shifts_s["a"]) == pytest.approx(0.09)
    assert abs(answer.rotations_deg["b"] - answer.rotations_deg["a"]) == pytest.approx(180)


def test_three_jobs_that_each_need_a_third_are_a_third_apart() -> None:
    third = [job(name, "180 ms", ("0 ms", "60 ms", "40 Gbps")) for name in "abc"]
    answer = compatibility(shared_link(*third))
    assert answer.score == 1
    assert sorted(answer.time_shifts_s.values()) == pytest.approx([0, 0.06, 0.12])


def test_two_jobs_up_for_two_thirds_exceed_the_link_by_30_gbps_for_a_third_of_the_circle() -> None:
    # Up 120 of 180 ms each: at least 60 ms overlap, where 80 Gbps exceed 50 by 30; 30 / 50 / 3 = 0.2.
    jobs = [job(name, "180 ms", ("0 ms", "120 ms", "40 Gbps")) for name in "ab"]
    answer = compatibility(shared_link(*jobs))
    assert answer.score == pytest.approx(0.8, abs=1e-12)
    assert answer.proven_optimal
    assert answer.verdict is Verdict.HELPS


def test_jobs_that_never_pause_are_incompatible() -> None:
    answer = compatibility(
        shared_link(*(job(name, "180 ms", ("0 ms", "180 ms", "50 Gbps")) for name in "ab"))
    )
    assert answer.score == pytest.approx(0.0, abs=1e-12)
    assert answer.verdict is Verdict.DOES_NOT_HELP


def test_jobs_of_20_gbps_each_fit_side_by_side_but_not_one_at_a_time() -> None:
    small = [job(name, "100 ms", ("0 ms", "80 ms", "20 Gbps")) for name in "ab"]
    assert compatibility(shared_link(*small)).score == 1
    strict = compatibility(shared_link(*small), strict=True)
    # During at least 60 of 100 ms two jobs are Up, where one is allowed.
    assert strict.score == pytest.approx(0.4, abs=1e-12)


def test_periods_of_40_and_60_ms_have_a_circle_of_120_ms() -> None:
    # HotNets'22 Figure 5.
    answer = compatibility(
        shared_link(
            job("a", "40 ms", ("0 ms", "10 ms", "40 Gbps")), job("b", "60 ms", ("0 ms", "10 ms", "40 Gbps"))
        )
    )
    assert answer.perimeter_s == pytest.approx(0.12)
    assert {each.name: each.rounds for each in answer.jobs} == {"a": 3, "b": 2}
    assert answer.score == 1


def test_a_shift_between_two_steps_is_found_only_by_the_exact_solver() -> None:
    # Job b fits only if it begins 50 to 51 ms after a; steps of 30 degrees are 15 ms.
    a = job("a", "180 ms", ("0 ms", "50 ms", "40 Gbps"), ("111 ms", "69 ms", "40 Gbps"))
    b = job("b", "180 ms", ("0 ms", "60 ms", "40 Gbps"))
    coarse = compatibility(shared_link(a, b), precision_deg=30)
    exact = compatibility(shared_link(a, b))
    assert coarse.score < 1
    assert exact.score == 1
    assert (coarse.precision_deg, exact.precision_deg) == (30, 0)
    assert (exact.time_shifts_s["b"] - exact.time_shifts_s["a"]) % 0.18 == pytest.approx(0.0505, abs=0.0006)


@pytest.mark.parametrize("precision_deg", [90.0, 30.0, 5.0, 1.0])
def test_a_finer_step_never_scores_less_than_one_that_it_divides(precision_deg: float) -> None:
    jobs = [job("a", "180 ms", ("3 ms", "77 ms", "40 Gbps")), job("b", "90 ms", ("7 ms", "41 ms", "31 Gbps"))]
    coarse = compatibility(shared_link(*jobs), precision_deg=precision_deg)
    fine = compatibility(shared_link(*jobs), precision_deg=precision_deg / 5)
    exact = compatibility(shared_link(*jobs), precision_deg=0)
    assert coarse.score - 1e-12 <= fine.score <= exact.score + 1e-12


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_all_shifts_are_searched_by_default_and_score_no_less_than_steps(data: st.DataObject) -> None:
    period_ms = data.draw(st.sampled_from([60, 90, 180, 367]))
    jobs = []
    for name in "abc"[: data.draw(st.integers(2, 3))]:
        start, end = sorted(
            data.draw(st.lists(st.integers(0, period_ms), min_size=2, max_size=2, unique=True))
        )
        rate = f"{data.draw(st.integers(1, 50))} Gbps"
        jobs.append(job(name, f"{period_ms} ms", (f"{start} ms", f"{end - start} ms", rate)))
    answer = compatibility(shared_link(*jobs))
    assert (answer.precision_deg, answer.proven_optimal) == (0, True)
    assert answer.score >= compatibility(shared_link(*jobs), precision_deg=5).score - 1e-12


def test_if_searching_all_shifts_takes_too_long_the_answer_says_so(hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "hard.json").write_text(json.dumps(hard_plan("1 s", precision_deg=0)), encoding="utf-8")
    outcome = hocket("compat", "hard.json")
    assert re.search(r"score -?[0-9.]+ \(the best found; no shifts reach more than [0-9.]+\)", outcome.out)
    assert re.search(r"not all shifts searched in time|because all shifts take too long", outcome.out)


def test_more_jobs_than_the_exact_solver_takes_are_searched_in_steps() -> None:
    jobs = [job(f"j{number}", "367 ms", ("0 ms", f"{10 + number} ms", "1 Gbps")) for number in range(65)]
    answer = compatibility(shared_link(*jobs))
    assert (answer.precision_deg > 0, answer.in_steps) == (True, False)


@pytest.mark.parametrize("number", [0, 7, 19, 31, 43])
def test_the_optimum_that_a_constraint_solver_proved_is_found(number: int) -> None:
    reference = json.loads((ROOT / "crates/hocket-compat/tests/data/instances.json").read_text())["instances"]
    instance = reference[number % len(reference)]
    jobs = [
        job(
            f"j{index}",
            f"{each['period_ms']} ms",
            *((f"{start} ms", f"{length} ms", f"{gbps} Gbps") for start, length, gbps in each["phases"]),
        )
        for index, each in enumerate(instance["jobs"])
    ]
    plan = {"link": {"capacity": f"{instance['capacity_gbps']} Gbps"}, "jobs": jobs}
    answer = compatibility(plan, precision_deg=instance["precision_deg"])
    assert answer.proven_optimal
    assert answer.score == pytest.approx(instance["optimal_score"], abs=1e-9)


def test_the_batch_size_that_lets_two_jobs_take_turns_is_chosen() -> None:
    # HotNets'22 §5: at 1400 per GPU VGG16 and WideResNet101 have equal periods and fit (NSDI'24 snapshot 1).
    def plan(batch_size: object) -> Tables:
        return shared_link(
            {"name": "v", "workload": "VGG16", "batch_size": batch_size, "workers": 2},
            {"name": "w", "workload": "WideResNet101", "batch_size": 800, "workers": 2},
        )

    single = {size: compatibility(plan(size)).score for size in (1000, 1400)}
    answer = compatibility(plan([1000, 1400]))
    assert {each.name: each.batch_size for each in answer.jobs} == {"v": 1400, "w": None}
    assert answer.score == pytest.approx(max(single.values()), abs=1e-9)
    assert single[1000] < single[1400]
    assert answer.to_dict()["batch_sizes"] == {"v": 1400}


def test_jobs_on_one_gpu_compute_at_different_times() -> None:
    # Each computes for half its period and sends little enough to overlap freely on the link.
    jobs = [job(name, "180 ms", ("0 ms", "90 ms", "10 Gbps"), gpus=["s1:0"]) for name in "ab"]
    answer = compatibility(shared_link(*jobs))
    assert answer.score == 1
    assert abs(answer.time_shifts_s["b"] - answer.time_shifts_s["a"]) == pytest.approx(0.09)


def test_jobs_on_one_gpu_that_compute_most_of_the_time_are_refused() -> None:
    jobs = [job(name, "180 ms", ("0 ms", "60 ms", "10 Gbps"), gpus=["s1:0"]) for name in "ab"]
    with pytest.raises(InputError, match="share a GPU cannot avoid computing at the same time"):
        compatibility(shared_link(*jobs))


def test_candidates_are_ranked_by_score_with_the_shared_links_of_the_best() -> None:
    def placed(name: str) -> Tables:
        return job(name, "180 ms", ("0 ms", "150 ms", "40 Gbps"))

    plan = ring_of_racks(
        2,
        placed("a"),
        placed("b"),
        candidates=[
            {"name": "crossing", "placement": {"a": ["s0a", "s1a"], "b": ["s0b", "s1b"]}},
            {"name": "apart", "placement": {"a": ["s0a", "s0b"], "b": ["s1a", "s1b"]}},
        ],
    )
    del plan["fabric"]["links"][-1]  # Two racks in a ring would have two cables with one name.
    answer = compatibility(plan)
    assert [each.name for each in answer.candidates] == ["apart", "crossing"]
    assert (answer.score, answer.links) == (1.0, ())
    # Up 150 of 180 ms each: 120 ms with 80 Gbps on a link of 50.
    assert answer.candidates[1].score == pytest.approx(1 - 30 / 50 * 120 / 180, abs=1e-9)


def loop_of_three(**compat: object) -> Tables:
    """Jobs a, b and c that share links pairwise in a triangle of racks, with a loop that cannot close."""
    up = ("0 ms", "30 ms", "40 Gbps")
    jobs = [
        job("a", "60 ms", up, placement=["s0a", "s1a"]),
        job("b", "60 ms", up, placement=["s1b", "s2b"]),
        job("c", "60 ms", up, placement=["s2c", "s0c"]),
    ]
    plan = ring_of_racks(3, *jobs, compat=compat)
    # Jobs a and b share s1's uplink, b and c s2's, c and a s0's: all hosts of a rack share one.
    plan["fabric"]["links"] = [
        *({"ends": [f"s{rack}{x}", f"r{rack}"], "rate": "50 Gbps"} for rack in range(3) for x in "abc"),
        *({"ends": [f"r{rack}", "spine"], "rate": "50 Gbps"} for rack in range(3)),
    ]
    return plan


def test_a_loop_that_does_not_close_is_discarded_with_its_reason() -> None:
    # Three jobs Up for half the circle cannot be pairwise opposite on it.
    with pytest.raises(InputError, match=r"candidates: all were discarded: 'as placed'.*loop"):
        compatibility(loop_of_three())


def test_a_loop_that_does_not_close_is_solved_for_the_best_mean_on_request() -> None:
    answer = compatibility(loop_of_three(loops="solve"))
    # Two of the three pairs take turns; the third overlaps for half the circle, an excess of 30 of 50.
    assert sorted(link.score for link in answer.links)[-1] == pytest.approx(1.0)
    assert answer.score == pytest.approx(1 - 0.3 / 3, abs=1e-9)
    assert set(answer.time_shifts_s) == {"a", "b", "c"}


def test_periods_that_do_not_fit_are_rounded_and_the_answer_says_for_how_long_it_holds() -> None:
    jobs = [
        job("a", "180 ms", ("0 ms", "80 ms", "40 Gbps")),
        job("b", "181 ms", ("0 ms", "80 ms", "40 Gbps")),
    ]
    answer = compatibility(shared_link(*jobs))
    # Per iteration they drift by 1 ms; 5% of 180 ms are 9 ms: nine iterations of about 180 ms.
    assert answer.fit.holds_for_s == pytest.approx(9 * 0.18, rel=0.02)
    assert 0 < answer.fit.error <= 0.01
    assert answer.fit.padded_periods_s == pytest.approx({"a": 0.181, "b": 0.181})
    assert answer.fit.padding_cost == pytest.approx({"a": 1 / 180, "b": 0.0})
    for name in "ab":
        assert alone(answer, name, "padded_p99_s") == pytest.approx(0.181)
        assert alone(answer, name, "sharing_p99_s") > 0.182


def test_periods_that_fit_hold_for_ever_without_padding() -> None:
    answer = compatibility(shared_link(half("a"), half("b")))
    assert (answer.fit.error, answer.fit.holds_for_s) == (0.0, None)
    assert answer.fit.padding_cost == {"a": 0.0, "b": 0.0}
    assert "padded_mean_s" not in answer.prediction.columns


def test_periods_without_a_common_multiple_within_the_tolerance_are_refused() -> None:
    jobs = [half("a"), job("b", "181.000001 ms", ("0 ms", "9 ms", "40 Gbps"))]
    with pytest.raises(InputError, match="no common multiple up to 720 iterations"):
        compatibility(shared_link(*jobs, compat={"tolerance": 0}))


def test_the_prediction_is_1_3_times_faster_with_shifts() -> None:
    # Alone 180 ms. Sharing 50 Gbps, each phase of 90 ms at 40 Gbps takes 144 ms at 25 Gbps: 234 ms.
    answer = compatibility(shared_link(half("a"), half("b")))
    for name in "ab":
        assert alone(answer, name, "alone_mean_s") == pytest.approx(0.18)
        assert alone(answer, name, "sharing_mean_s") == pytest.approx(0.234)
        assert alone(answer, name, "sharing_p99_s") == pytest.approx(0.234)
        assert alone(answer, name, "shifted_mean_s") == pytest.approx(0.18)


def test_json_has_the_keys_that_programs_read_and_is_json() -> None:
    answer = compatibility(shared_link(half("a"), half("b"))).to_dict()
    assert {"verdict", "speedup", "padded", "score", "proven_optimal", "perimeter_s", "time_shifts_s"} <= set(
        answer
    )
    assert (answer["verdict"], answer["speedup"]["mean"]) == ("helps", pytest.approx(1.3))
    assert set(answer["time_shifts_s"]) == set(answer["rotations_deg"]) == {"a", "b"}
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_toml_json_and_tables_give_equal_answers(example: Path, tmp_path: Path) -> None:
    tables = tomllib.loads(example.read_text(encoding="utf-8"))
    as_json = tmp_path / "plan.json"
    as_json.write_text(json.dumps(tables), encoding="utf-8")
    as_toml = tmp_path / "plan.toml"
    as_toml.write_text(tomli_w.dumps(tables), encoding="utf-8")
    answers = [compatibility(plan).to_dict() for plan in (example, as_json, as_toml, tables)]
    for answer in answers:
        del answer["solve_s"]
    assert answers.count(answers[0]) == 4


def hard_plan(time_limit: str, precision_deg: float = 1) -> Tables:
    """Twenty jobs with several phases each, whose optimum is not proven within a second. Their mean demand is
    87.7 Gbps, so it does not follow from the load.
    """
    periods_ms = [360, 180, 120, 90, 72, 60] * 4
    jobs = [
        job(
            f"j{number}",
            f"{period_ms} ms",
            ("0 ms", f"{5 + number} ms", f"{10 + number} Gbps"),
            ("40 ms", f"{3 + number % 7} ms", f"{12 + 3 * number % 31} Gbps"),
        )
        for number, period_ms in enumerate(periods_ms[:20])
    ]
    compat = {"time_limit": time_limit, "precision_deg": precision_deg}
    return shared_link(*jobs, link={"capacity": "88 Gbps"}, compat=compat)


def test_at_the_time_limit_the_best_score_found_is_not_above_its_bound() -> None:
    answer = compatibility(hard_plan("100 ms"))
    assert not answer.proven_optimal
    assert answer.score <= answer.bound <= 1
    assert answer.solve_s < 2


def test_the_searches_for_all_candidates_share_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, limits_s = 100.0, []
    solver = _hocket.solve_cluster

    def slow(*arguments: Any) -> Any:
        nonlocal now_s
        now_s += 4
        limits_s.append(arguments[-1]["time_limit_s"])
        return solver(*arguments)

    monkeypatch.setattr(_hocket, "solve_cluster", slow)
    monkeypatch.setattr("hocket.compat.ranking.time.monotonic", lambda: now_s)
    placement = {"a": ["s0a", "s1a"], "b": ["s0b", "s1b"]}
    candidates = [{"name": name, "placement": placement} for name in ("one", "two")]
    compat = {"time_limit": "10 s", "joint": True}
    plan = ring_of_racks(2, half("a"), half("b"), candidates=candidates, compat=compat)
    del plan["fabric"]["links"][-1]  # Two racks in a ring would have two cables with one name.
    compatibility(plan)
    # The first has half of the 10 s; the second has the 6 s that are left.
    assert limits_s == [5, 6]


def interrupting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends Ctrl-C while the solver `name` runs."""
    solver: Callable[..., object] = getattr(_hocket, name)

    def interrupted(*arguments: object) -> object:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return solver(*arguments)

    monkeypatch.setattr(_hocket, name, interrupted)


def test_ctrl_c_ends_a_search_with_the_best_score_found_and_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupting("solve_link", monkeypatch)
    answer = compatibility(hard_plan("1 h"))
    assert answer.interrupted
    assert not answer.proven_optimal
    assert answer.score <= answer.bound
    assert answer.solve_s < 60


def test_ctrl_c_ends_the_choice_of_batch_sizes_and_the_search_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupting("solve_cluster", monkeypatch)
    plan = hard_plan("1 h")
    plan["jobs"] += [
        {"name": "v", "workload": "VGG16", "batch_size": [1200, 1400], "workers": 2},
    ]
    plan["compat"]["tolerance"] = 0.05
    answer = compatibility(plan)
    assert answer.interrupted
    assert answer.solve_s < 60


def test_ctrl_c_ends_the_ranking_of_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting("rank", monkeypatch)
    on_link = hard_plan("1 h")
    placed = [
        {**each, "placement": [f"s{number}", f"r{number}"]} for number, each in enumerate(on_link["jobs"])
    ]
    ends = [(f"{side}{number}", side) for number in range(len(placed)) for side in "sr"] + [("s", "r")]
    # As on the link, the optimum does not follow from the load.
    links = [{"ends": list(pair), "rate": "88 Gbps"} for pair in ends]
    plan = {"fabric": {"links": links}, "jobs": placed, "compat": on_link["compat"]}
    # The spine has two directions: one may be solved, the other not begun yet.
    with suppress(KeyboardInterrupt):
        assert compatibility(plan).interrupted


@st.composite
def small_plans(draw: st.DrawFn) -> Tables:
    """Up to four jobs with up to three phases, with periods that often do not fit."""

    def phases(period_us: int) -> list[tuple[str, str, str]]:
        edges = sorted(
            draw(st.lists(st.integers(0, period_us), min_size=2, max_size=6, unique=True).filter(len))
        )
        rates = draw(st.lists(st.integers(1, 50_000), min_size=3, max_size=3))
        return [
            (f"{start} us", f"{end - start} us", f"{rate} Mbps")
            for start, end, rate in zip(edges[::2], edges[1::2], rates, strict=False)
        ]

    jobs = []
    for number in range(draw(st.integers(1, 4))):
        period_us = draw(st.one_of(st.integers(10, 10_000), st.sampled_from([500, 1000, 2000])))
        jobs.append(job(f"j{number}", f"{period_us} us", *phases(period_us)))
    compat = {
        "strict": draw(st.booleans()),
        "precision_deg": draw(st.sampled_from([0, 1, 5, 7.5, 45])),
        "tolerance": draw(st.sampled_from([0, 0.01, 0.2])),
        "time_limit": "50 ms",
    }
    return shared_link(*jobs, compat=compat)


@settings(max_examples=60, deadline=None)
@given(small_plans())
def test_any_small_plan_has_an_answer_within_its_bound_or_a_reason(plan: Tables) -> None:
    try:
        answer = compatibility(plan)
    except InputError as refused:
        if "no common multiple" not in str(refused):
            raise
        return
    assert answer.score <= answer.bound + 1e-9 <= 1 + 2e-9
    assert answer.proven_optimal == (answer.bound <= answer.score + 1e-12)
    for each in answer.jobs:
        assert 0 <= each.time_shift_ps < each.profile.period_ps
        assert 0 <= answer.rotations_deg[each.name] < 360 / each.rounds + 1e-6
        assert each.rounds * each.profile.period_ps == pytest.approx(answer.perimeter_s * 1e12, rel=1e-6)
    profiles = [native_profile(each.profile) for each in answer.jobs]
    if not plan["compat"]["strict"]:
        shifts_ps = [each.time_shift_ps for each in answer.jobs]
        assert _hocket.score(answer.capacity_bps, profiles, shifts_ps) == pytest.approx(
            answer.score, abs=1e-9
        )
