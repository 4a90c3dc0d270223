"""Comparing with recorded runs: what counts as agreement, how it is shown, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hocket.errors import InputError
from hocket_reproduce.validate import (
    Case,
    Comparison,
    Quantity,
    compare,
    read_recorded,
    report,
)
from hocket_reproduce.validate.comparison import ALIKE, SAME

DATA = Path(__file__).parent / "data"


def case_of(folder: str, directory: Path = DATA) -> Case:
    (found,) = [case for case in read_recorded(directory) if case.folder == folder]
    return found


@pytest.fixture(scope="module")
def same() -> Comparison:
    return compare(case_of("two2one/pfc"))


def test_a_case_is_read_with_its_repetitions() -> None:
    single, repeated = case_of("two2one/pfc"), case_of("two2one/dcqcn")
    assert (single.name, single.policy, single.parameters) == ("two2one", "pfc", "main")
    (totals,) = single.recorded
    assert (totals.max_fct_ns, totals.pauses, totals.peak_queue_bytes) == (3_324_182, 222, 6_719_496)
    assert len(repeated.recorded) == 10
    assert repeated.recorded[1].marks == 217
    # Of these only the totals are here.
    assert not case_of("incast8/timely__tsbug").has_inputs


def test_compressed_inputs_are_read_as_others_are() -> None:
    case = case_of("clos_4x8/pfc")
    assert not (case.directory / "flow.txt").exists()
    with case.study() as study:
        assert len(study.flows) == case.completions().height == 992


def test_one_switch_without_randomness_has_the_narrow_limits(same: Comparison) -> None:
    assert same.limits == SAME
    assert same.failures == []
    assert compare(case_of("clos_4x8/pfc")).limits == ALIKE


@pytest.mark.parametrize(
    ("ours", "recorded", "error", "agrees"),
    [
        (101.0, 100.0, 0.0, True),
        (103.0, 100.0, 0.0, False),
        (97.0, 100.0, 0.0, False),
        # Three standard errors of 1 may be chance.
        (103.0, 100.0, 1.0, True),
        (104.0, 100.0, 1.0, False),
        (0.0, 0.0, 0.0, True),
        (1.0, 0.0, 0.0, False),
    ],
)
def test_a_total_agrees_within_its_limit_or_by_chance(
    ours: float, recorded: float, error: float, agrees: bool, same: Comparison
) -> None:
    quantity = Quantity(ours, recorded, 0.02, error)
    assert (replace(same, pauses=quantity).failures == []) == agrees


def test_one_late_flow_is_enough_to_differ(same: Comparison) -> None:
    assert replace(same, worst_flow=0.0009).failures == []
    assert replace(same, worst_flow=0.0011).failures == ["a completion time +0.11%"]


def test_the_section_is_replaced_and_what_stands_around_it_stays(tmp_path: Path) -> None:
    page = tmp_path / "validation" / "engines.md"
    page.parent.mkdir()
    page.write_text(f"# Before\n\n{report.BEGIN}\nstale\n{report.END}\n\nafter\n", encoding="utf-8")
    validation = report.Validation.of(DATA, ["two2one/pfc"])
    (case,) = validation.chosen
    validation.add(case, 1, unrounded=True)
    for _ in range(2):
        report.write_validation(tmp_path / "validation.md", validation)
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# Before\n\n{report.BEGIN}\n\n## Packet engine")
        assert text.endswith(f"{report.END}\n\nafter\n")
        assert "stale" not in text
    assert "1 of 1 runs agree" in text
    assert "| two2one | pfc | main | 2 | 2 | 3,324.10 / 3,324.10 (+0.00%)" in text
    # 1,036 bytes at 50 Gb/s take 165.76 ns, and 166 there.
    assert "| two2one | pfc | -0.14% | -0.14% |" in text
    assert "incast8 62.5 ms instead of 3.29 ms" in text
    assert "differ by up to 0.18%" in text


def test_the_page_of_results_has_a_place_for_the_section() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "validation" / "engines.md").read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1
    assert report.SUMMARY.search(text)


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "engines.md").write_text("text")
    with pytest.raises(InputError, match=r"engines\.md: has no results to replace"):
        report.write_validation(tmp_path / "page.md", report.Validation([], []))


def test_the_command_prints_a_row_per_run_and_its_verdict(hocket: Any) -> None:
    outcome = hocket("validate", "--reference", DATA, "two2one/pfc", "two2one/timely")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["run", "two2one/pfc", "two2one/timely"]
    assert outcome.out.splitlines()[1].split()[-1] == "yes"


def test_a_difference_is_exit_code_1_and_named(hocket: Any, tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "doctored")
    summary = tmp_path / "doctored" / "summary.csv"
    summary.write_text(summary.read_text().replace("3324.182,3324.099,222", "3324.182,3324.099,250", 1))
    outcome = hocket("validate", "--reference", "doctored", "two2one/pfc", "--json")
    assert outcome.code == 1
    (found,) = json.loads(outcome.out)
    assert found["failures"] == ["PAUSE frames -11.20%"]
    assert "1 of 1 runs differ beyond their limits" in outcome.err


def test_recorded_runs_that_are_not_there_are_explained(hocket: Any, tmp_path: Path) -> None:
    outcome = hocket("validate")
    assert outcome.code == 2
    # The default lies beside a checkout; tests run elsewhere.
    assert f"{tmp_path.parent}/shared/reference/ns3: has no summary.csv" in outcome.err.replace("\n", "")
    assert "--reference" in outcome.err


def test_a_case_of_another_name_is_refused(hocket: Any) -> None:
    outcome = hocket("validate", "--reference", DATA, "incast9")
    assert outcome.code == 2
    assert "'incast9' is not among the recorded runs; cases: incast8, two2one, a2a8, clos_4x8" in outcome.err


def test_recorded_runs_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text("case,cc\nincast8,pfc\n")
    (tmp_path / "seeds.csv").write_text("case,cc\n")
    with pytest.raises(InputError, match="cannot be read as recorded runs"):
        read_recorded(tmp_path)
