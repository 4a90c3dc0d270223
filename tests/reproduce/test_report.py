"""Reproductions as text: on the terminal, as JSON, and on the pages of docs/validation/."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from hocket import InputError
from hocket_reproduce.targets import (
    TARGETS,
    Reproduction,
    Row,
    report,
)
from hocket_reproduce.validation_pages import page_of

OVERVIEW = Path(__file__).parents[2] / "docs" / "validation.md"
# Its execution times, and a little their ratios, depend on the machine.
TIMED = ("C19",)

SMALL = Reproduction(
    "H4",
    "A circle",
    (Row("angle", 30, 30.0, "°"), Row("verdict", "yes", "no", "", "because | it is"), Row("new", None, 2.5)),
    None,
    ("One note.",),
)


@pytest.fixture
def overview(tmp_path: Path) -> Path:
    """An overview whose folder has two pages with markers for sections."""
    path = tmp_path / "validation.md"
    for target in ("H4", "C17"):
        page = page_of(path, target)
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# Before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n", encoding="utf-8")
    return path


def text_of(overview: Path, target: str) -> str:
    return page_of(overview, target).read_text(encoding="utf-8")


def test_the_table_shows_both_values_the_difference_and_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report.print_reproduction(SMALL)
    shown = capsys.readouterr().out
    for expected in ("H4", "30°", "+0.0%", "differs", "because | it is", "2.5", "One note."):
        assert expected in shown


def test_json_has_the_same_rows() -> None:
    (written,) = json.loads(json.dumps(report.as_json([SMALL])))
    assert written["id"] == "H4"
    assert written["rows"][0] == {
        "quantity": "angle",
        "paper": 30,
        "ours": 30.0,
        "unit": "°",
        "difference": 0.0,
        "comment": "",
    }
    assert written["rows"][2]["paper"] is None


def test_columns_have_other_names_if_there_is_no_paper_to_compare_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = Reproduction("X1", "Engines", (Row("time", 1.0, 1.1),), columns=("flow engine", "packet engine"))
    assert "| quantity | flow engine | packet engine | difference | comment |" in report.markdown(both)
    report.print_reproduction(both)
    assert "packet engine" in capsys.readouterr().out
    assert report.as_json([both])[0]["columns"] == ["flow engine", "packet engine"]


def test_only_the_text_between_the_markers_is_replaced(overview: Path) -> None:
    report.write_validation(overview, [SMALL])
    text = text_of(overview, "H4")
    assert text.startswith(f"# Before\n\n{report.BEGIN}\n")
    assert text.endswith(f"{report.END}\n\nafter\n")
    assert "old" not in text
    assert "| verdict | yes | no | differs | because / it is |" in text


def test_each_target_goes_to_the_page_of_its_paper(overview: Path) -> None:
    report.write_validation(overview, [SMALL, Reproduction("C17", "Snapshots", (Row("score", 1.0, 0.99),))])
    assert "## H4: A circle" in text_of(overview, "H4")
    assert "## C17: Snapshots" in text_of(overview, "C17")
    assert "C17" not in text_of(overview, "H4")


def test_writing_twice_changes_nothing_and_one_target_leaves_the_others(overview: Path) -> None:
    other = Reproduction("H8", "Clusters", (Row("score", 1.0, 0.99),))
    report.write_validation(overview, [other, SMALL])
    first = text_of(overview, "H4")
    report.write_validation(overview, [SMALL])
    assert text_of(overview, "H4") == first
    assert first.index("## H4") < first.index("## H8")


def test_a_missing_page_or_one_without_markers_is_an_error_that_names_it(tmp_path: Path) -> None:
    overview = tmp_path / "validation.md"
    with pytest.raises(InputError, match=r"hotnets22\.md: cannot be read"):
        report.write_validation(overview, [SMALL])
    bare = page_of(overview, "H4")
    bare.parent.mkdir()
    bare.write_text("nothing here", encoding="utf-8")
    with pytest.raises(InputError, match=r"hotnets22\.md: has no results to replace"):
        report.write_validation(overview, [SMALL])


def test_a_figure_is_kept_beside_the_page_that_shows_it(overview: Path) -> None:
    drawn = Reproduction("C4", "Shifts", (Row("shift", 255, 255.0),), Figure)
    for _ in range(2):
        report.write_validation(overview, [drawn])
        assert "![Shifts](C4.svg)" in text_of(overview, "C4")
        assert page_of(overview, "C4").with_name("C4.svg").read_bytes().startswith(b"<?xml")


def test_figures_on_the_pages_are_small_and_from_targets_that_take_seconds() -> None:
    kept = sorted(OVERVIEW.with_suffix("").glob("*.svg"))
    assert [each.stem for each in kept] == sorted(report.PICTURED)
    assert [each.name for each in kept if each.stat().st_size > 60_000] == []
    assert [name for name in report.PICTURED if TARGETS[name].takes_minutes] == []


@pytest.mark.parametrize(
    "target", [name for name, each in TARGETS.items() if name not in TIMED and not each.takes_minutes]
)
def test_the_page_of_a_target_is_what_the_command_writes(
    rerun: Callable[[str], Reproduction], target: str
) -> None:
    assert report.markdown(rerun(target)) in text_of(OVERVIEW, target)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_section_on_its_page(target: str) -> None:
    assert f"\n## {target}: " in text_of(OVERVIEW, target)
