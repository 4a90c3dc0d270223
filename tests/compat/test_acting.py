"""Acting on an answer: its plan, in memory or as a file, and the answer for each candidate."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hocket import InputError, compatibility, load_plan, parse_plan, simulate, sweep
from hocket.compat.verdict import Verdict
from hocket.plan import Job, Up, plan_schema
from hocket.plan.writing import write_plan

Command = Callable[..., Any]
Tables = dict[str, Any]


def half(name: str, **changes: object) -> Tables:
    """A job that is Up at 40 Gbps for the first half of 180 ms."""
    up = [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]
    return {"name": name, "period": "180 ms", "up": up, **changes}


def halves() -> Tables:
    """A plan of two jobs that can take turns."""
    return {"link": {"capacity": "50 Gbps"}, "run": {"iterations": 30}, "jobs": [half("a"), half("b")]}


def two_sides() -> Tables:
    """Two jobs on a dumbbell that only candidates place: both across its link, or one on each side."""
    return {
        "fabric": {"dumbbell": {"left": 2, "right": 2, "nic": "50 Gbps", "bottleneck": "50 Gbps"}},
        "run": {"iterations": 30},
        "jobs": [half("a"), half("b")],
        "candidates": [
            {"name": "apart", "placement": {"a": ["s0", "s1"], "b": ["s2", "s3"]}},
            {"name": "across", "placement": {"a": ["s0", "s2"], "b": ["s1", "s3"]}},
        ],
    }


def mean_s(run: Any) -> list[float]:
    """The mean iteration time of each job."""
    return list(run.tables["jobs"]["mean_iteration_s"])


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "halves.json"
    path.write_text(json.dumps(halves()), encoding="utf-8")
    return path


def test_simulating_an_answer_runs_the_plan_with_its_shifts() -> None:
    answer = compatibility(halves())
    assert mean_s(simulate(halves())) == pytest.approx([0.234, 0.234])
    assert mean_s(simulate(answer)) == mean_s(simulate(answer.plan())) == pytest.approx([0.18, 0.18])


def test_the_shifts_of_an_answer_are_valid_in_a_plan() -> None:
    answer = compatibility(halves())
    jobs = [half(name, time_shift_s=answer.time_shifts_s[name]) for name in "ab"]
    assert parse_plan({**halves(), "jobs": jobs}) == answer.plan()


def test_the_plan_of_an_answer_has_the_placement_of_the_best_candidate() -> None:
    plan = compatibility(two_sides()).plan()
    assert [job.placement for job in plan.jobs] == [("s0", "s1"), ("s2", "s3")]
    assert plan.candidates == ()


def test_the_padded_plan_of_an_answer_keeps_its_interleaving() -> None:
    jobs = [half("a"), {**half("b"), "period": "181 ms"}]
    answer = compatibility({**halves(), "jobs": jobs})
    assert [job.pad_to_ps for job in answer.plan().jobs] == [None, None]
    assert [job.pad_to_ps for job in answer.plan(padded=True).jobs] == [181_000_000_000, None]


def test_compat_writes_the_shifted_plan(hocket: Command, plan_file: Path, tmp_path: Path) -> None:
    outcome = hocket("compat", plan_file, "--out", "shifted.toml")
    assert (outcome.code, outcome.err) == (0, "plan: shifted.toml\n")
    written = tmp_path / "shifted.toml"
    assert load_plan(written) == compatibility(plan_file).plan()
    assert written.read_text(encoding="utf-8").startswith(
        "# hocket compat halves.json: shifting helps, speed-up 1.30 on average, 1.30 at p99\n"
    )
    assert mean_s(simulate(written)) == pytest.approx([0.18, 0.18])
    assert hocket("compat", plan_file, "--out", "shifted.json").code == 0
    assert load_plan(tmp_path / "shifted.json") == load_plan(written)


def test_compat_replaces_a_file_only_with_force(hocket: Command, plan_file: Path) -> None:
    refused = hocket("compat", plan_file, "--out", plan_file)
    assert refused.code == 2
    assert "exists; write to another file with --out, or replace it with --force" in refused.err
    assert "time_shift" not in plan_file.read_text(encoding="utf-8")
    assert hocket("compat", plan_file, "--out", plan_file, "--force").code == 0
    assert load_plan(plan_file).jobs[1].time_shift_ps == 90_000_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "none/shifted.toml"), "none/shifted.toml: cannot be written: there is no directory none"),
        (("--out", "shifted.yaml"), "shifted.yaml: suffix '.yaml'; a plan is written as .toml or .json"),
        (("--force",), "--force: applies only to the plan that --out writes; add --out FILE.toml"),
        (("--pad",), "--pad: applies only to the plan that --out writes; add --out FILE.toml"),
        (("--all",), "halves.json has no [[candidates]]"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_solving(
    hocket: Command, plan_file: Path, arguments: tuple[str, ...], message: str
) -> None:
    outcome = hocket("compat", plan_file, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not (plan_file.parent / "none").exists()


def test_a_plan_with_relative_paths_is_only_written_to_its_own_directory(
    tmp_path: Path, hocket: Command
) -> None:
    traced = {"name": "c", "training": {"chakra": "trace.et"}, "placement": ["s0"]}
    plan = {**two_sides(), "jobs": [half("a"), half("b"), traced]}
    (tmp_path / "sub").mkdir()
    checked = parse_plan(plan, directory=tmp_path)
    with pytest.raises(InputError, match=r"the plan's relative paths start from .*; write it there"):
        write_plan(checked, tmp_path / "sub" / "shifted.toml")
    write_plan(checked, tmp_path / "shifted.toml")
    assert load_plan(tmp_path / "shifted.toml") == checked


def test_keys_in_seconds_are_rounded_to_the_nearest_picosecond() -> None:
    job = Job("a", period="180 ms", up=[Up("0 ms", "90 ms", "40 Gbps")], time_shift_s=0.1 + 0.2)
    assert job.time_shift_ps == 300_000_000_000
    assert job.replace(time_shift_s=0.045).time_shift_ps == 45_000_000_000
    assert job.replace(time_shift_s=None).time_shift_ps is None
    assert job.replace(pad_to_s=0.2).to_dict()["pad_to"] == "200 ms"
    assert plan_schema()["$defs"]["Job"]["properties"]["time_shift_s"]["type"] == "number"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"time_shift_s": "45 ms"}, "time_shift_s: must be a number of seconds; text with a unit is for the"),
        ({"time_shift_s": -1}, "time_shift_s: must be from 0 to 9223372 seconds: got -1"),
        ({"pad_to_s": float("inf")}, "pad_to_s: must be a finite number: got inf"),
        ({"time_shift_s": 1, "time_shift": "1 s"}, "time_shift: means the same as time_shift_s; give one"),
    ],
)
def test_a_value_that_is_not_a_number_of_seconds_is_refused(keys: Tables, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_plan({**halves(), "jobs": [half("a", **keys)]})
    assert message in str(refused.value)


def test_every_candidate_has_its_own_answer_on_request() -> None:
    answer = compatibility(two_sides(), every_candidate=True)
    apart, across = answer.candidates
    assert apart.answer is not None
    assert across.answer is not None
    assert [each.name for each in answer.candidates] == ["apart", "across"]
    # On sides of their own no job gains; across the link, one is shifted by half a period.
    assert (apart.answer.verdict, across.answer.verdict) == (Verdict.DOES_NOT_HELP, Verdict.HELPS)
    assert across.answer.speedup.mean == pytest.approx(1.3)
    assert [job.placement for job in across.answer.plan().jobs] == [("s0", "s2"), ("s1", "s3")]
    assert [each.answer for each in compatibility(two_sides()).candidates] == [None, None]


def test_all_prints_a_prediction_for_each_candidate(hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "sides.json").write_text(json.dumps(two_sides()), encoding="utf-8")
    lines = [" ".join(line.split()) for line in hocket("compat", "sides.json", "--all").out.splitlines()]
    assert "apart 1.000 does not help 180.00 180.00 180.00 180.00" in lines
    assert "across 1.000 helps 180.00 234.00 180.00 180.00" in lines
    _, across = hocket("compat", "sides.json", "--all", "--json").json()["candidates"]
    assert (across["name"], across["verdict"]) == ("across", "helps")
    assert pl.DataFrame(across["prediction"])["shifted_mean_s"].to_list() == pytest.approx([0.18, 0.18])


def test_running_jobs_that_only_candidates_place_explains_how_to_choose_one(
    hocket: Command, tmp_path: Path
) -> None:
    (tmp_path / "sides.json").write_text(json.dumps(two_sides()), encoding="utf-8")
    outcome = hocket("run", "sides.json")
    assert outcome.code == 2
    assert "only candidates place job 'a'; choose one with --candidate" in outcome.err
    assert "'apart', 'across'" in outcome.err
    assert hocket("run", "sides.json", "--candidate", "apart").code == 0


def test_for_a_single_job_the_verdict_says_that_there_is_no_other_job(
    hocket: Command, plan_file: Path
) -> None:
    plan_file.write_text(json.dumps({**halves(), "jobs": [half("a")]}), encoding="utf-8")
    printed = hocket("compat", plan_file).out
    assert "shifting does not help" in printed
    assert "there is no other job to take turns with" in printed


def test_an_answer_can_be_swept_as_its_plan() -> None:
    answer = compatibility(halves())
    swept = sweep(answer, {"seed": [1]}, workers=1, cache=False)
    assert swept.table["mean_iteration_s"].to_list() == mean_s(simulate(answer))


def test_in_the_joint_form_jobs_that_share_nothing_are_compatible() -> None:
    plan = two_sides()
    answer = compatibility({**plan, "candidates": plan["candidates"][:1], "compat": {"joint": True}})
    assert (answer.score, answer.proven_optimal) == (1, True)
    assert [job.time_shift_ps for job in answer.jobs] == [0, 0]


def test_in_the_strict_form_a_link_scores_as_its_candidate_does() -> None:
    # Two of them could send at once at 20 of 50 Gbps, but the strict form allows one at a time.
    up = [{"start": "0 ms", "duration": "90 ms", "rate": "20 Gbps"}]
    jobs = [{"name": name, "period": "100 ms", "up": up} for name in ("a", "b")]
    plan = {**two_sides(), "jobs": jobs, "candidates": two_sides()["candidates"][1:]}
    for joint in (False, True):
        answer = compatibility({**plan, "compat": {"joint": joint, "strict": True}})
        # Both send for at least 80 of 100 ms.
        assert answer.score == pytest.approx(0.2)
        assert [link.score for link in answer.links] == pytest.approx([0.2] * len(answer.links))
