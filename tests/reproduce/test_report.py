"""Reproductions as text: on the terminal, as JSON, and in the results page."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hocket import InputError
from hocket_reproduce.targets import (
    TARGETS,
    Reproduction,
    Row,
    report,
)

RESULTS = Path(__file__).parents[2] / "docs" / "validation.md"
# Seconds are the machine's, and their ratios a little too.
TIMED = ("C19",)

SMALL = Reproduction(
    "H4",
    "A circle",
    (Row("angle", 30, 30.0, "°"), Row("verdict", "yes", "no", "", "because | it is"), Row("new", None, 2.5)),
    None,
    ("One note.",),
)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "validation.md"
    path.write_text(f"# Before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n", encoding="utf-8")
    return path


def test_the_table_shows_both_values_the_difference_and_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report.print_reproduction(SMALL)
    shown = capsys.readouterr().out
    for expected in ("H4", "30°", "+0.0%", "differs", "because | it is", "2.5", "One note."):
        assert expected in shown


def test_json_holds_the_same_rows() -> None:
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


def test_columns_have_other_names_where_no_paper_is_compared_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = Reproduction("X1", "Engines", (Row("time", 1.0, 1.1),), columns=("flow engine", "packet engine"))
    assert "| quantity | flow engine | packet engine | difference | comment |" in report.markdown(both)
    report.print_reproduction(both)
    assert "packet engine" in capsys.readouterr().out
    assert report.as_json([both])[0]["columns"] == ["flow engine", "packet engine"]


def test_results_are_replaced_and_what_stands_around_them_stays(page: Path) -> None:
    report.write_validation(page, [SMALL])
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Before\n\n{report.BEGIN}\n")
    assert text.endswith(f"{report.END}\n\nafter\n")
    assert "old" not in text
    assert "| verdict | yes | no | differs | because / it is |" in text


def test_writing_twice_changes_nothing_and_one_target_leaves_the_others(page: Path) -> None:
    other = Reproduction("C17", "Snapshots", (Row("score", 1.0, 0.99),))
    report.write_validation(page, [other, SMALL])
    first = page.read_text(encoding="utf-8")
    report.write_validation(page, [SMALL])
    assert page.read_text(encoding="utf-8") == first
    assert first.index("### H4") < first.index("### C17")


def test_a_page_without_markers_or_no_page_is_refused_by_name(tmp_path: Path) -> None:
    bare = tmp_path / "bare.md"
    bare.write_text("nothing here", encoding="utf-8")
    with pytest.raises(InputError, match=r"bare\.md: has no results to replace"):
        report.write_validation(bare, [SMALL])
    with pytest.raises(InputError, match=r"none\.md: cannot be read"):
        report.write_validation(tmp_path / "none.md", [SMALL])


@pytest.mark.parametrize(
    "target", [name for name, each in TARGETS.items() if name not in TIMED and not each.takes_minutes]
)
def test_the_results_page_is_what_the_command_writes(
    rerun: Callable[[str], Reproduction], target: str
) -> None:
    assert report.markdown(rerun(target)) in RESULTS.read_text(encoding="utf-8")


def test_the_results_page_has_every_target() -> None:
    text = RESULTS.read_text(encoding="utf-8")
    assert [name for name in TARGETS if f"\n### {name}: " not in text] == []
