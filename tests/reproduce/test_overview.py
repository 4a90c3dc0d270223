"""The tables of docs/validation.md: claims, results, and verdicts that the rows support."""

import re
import shutil
from pathlib import Path
from typing import get_args

import pytest

from hocket.errors import InputError
from hocket_reproduce import overview
from hocket_reproduce.targets import TARGETS, Reproduction, Row, report
from hocket_reproduce.targets.findings import FINDINGS, GAINS
from hocket_reproduce.targets.target import Verdict

OVERVIEW = Path(__file__).parents[2] / "docs" / "validation.md"

ROWS = (
    Row("fair, gain", 1.2, 1.1, "×"),
    Row("unfair, gain", 1.2, 1.5, "×"),
    Row("verdict", "yes", "yes"),
    Row("of ours alone", None, 3.0, "ms"),
)


@pytest.fixture(scope="module")
def shown() -> dict[str, overview.ShownSection]:
    return overview.sections(OVERVIEW)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the overview and its pages."""
    shutil.copytree(OVERVIEW.with_suffix(""), tmp_path / "validation")
    return Path(shutil.copy(OVERVIEW, tmp_path))


@pytest.fixture
def small(copied: Path) -> overview.ShownSection:
    report.write_validation(copied, [Reproduction("H1", "Sharing", ROWS)])
    return overview.sections(copied)["H1"]


def test_the_overview_is_made_from_the_pages_and_findings() -> None:
    text = OVERVIEW.read_text(encoding="utf-8")
    assert f"{overview.BEGIN}\n\n{overview.markdown(OVERVIEW)}\n{overview.END}" in text


def test_every_target_has_a_finding_and_a_line(shown: dict[str, overview.ShownSection]) -> None:
    assert list(FINDINGS) == list(TARGETS) == list(shown)
    lines = [line for line in overview.markdown(OVERVIEW).splitlines() if line.startswith("| [")]
    assert [line.partition("]")[0] for line in lines] == [f"| [{name}" for name in (*TARGETS, "ns-3")]


def words(text: str) -> int:
    """Words of `text`, where a count (`5 of 6`) or a range (`1 to 2`) is one."""
    return len(re.sub(r"(?<=\d) (of|to) (?=\d)", "–", text).split())


@pytest.mark.parametrize("target", TARGETS)
def test_a_finding_is_short_and_its_verdict_one_of_three(
    target: str, shown: dict[str, overview.ShownSection]
) -> None:
    finding = FINDINGS[target]
    assert finding.verdict in get_args(Verdict)
    assert len(finding.claim.split()) <= 15
    assert 0 < words(overview.quoted(finding.result, shown[target])) <= 15
    assert (finding.why != "") == (finding.verdict == "differs")
    assert words(overview.quoted(finding.why, shown[target])) <= 10


@pytest.mark.parametrize("target", TARGETS)
def test_the_rows_support_the_verdict(target: str, shown: dict[str, overview.ShownSection]) -> None:
    verdict, section = FINDINGS[target].verdict, shown[target]
    if verdict == "reproduced":
        assert section.compared > 0
        assert section.differing == 0
    if verdict == "differs":
        assert section.differing > 0


@pytest.mark.parametrize("target", TARGETS)
def test_most_values_agree_where_the_conclusion_is_the_same(
    target: str, shown: dict[str, overview.ShownSection]
) -> None:
    section = shown[target]
    # Both columns of R8 are ours.
    if FINDINGS[target].verdict == "same conclusion" and target != "R8":
        assert section.differing < section.compared / 2


def test_quotes_are_filled_in_from_the_rows(small: overview.ShownSection) -> None:
    assert overview.quoted("{fair, gain} and {of ours alone}", small) == "1.1× and 3 ms"
    assert overview.quoted("{*, gain}, off by {±*, gain}", small) == "1.1 to 1.5×, off by 25.0%"
    assert overview.quoted("{#*, gain}; {#verdict}", small) == "1 of 2; 1 of 1"
    assert (small.differing, small.compared) == (1, 3)


def test_a_value_is_quoted_with_the_interval_that_its_comment_starts_with(copied: Path) -> None:
    rows = (Row("gain", 1.6, 1.1, "×", "95%: 0.9 to 1.3; a reason"), Row("bare", None, 2.0, "", "a reason"))
    report.write_validation(copied, [Reproduction("C13", "Gains", rows)])
    section = overview.sections(copied)["C13"]
    assert overview.quoted("{gain} is {~gain}", section) == "1.1× is 1.1× (0.9 to 1.3)"
    with pytest.raises(AssertionError, match="'a reason' starts with no interval"):
        overview.quoted("{~bare}", section)


def test_the_statement_on_gains_has_numbers_of_rows_and_of_the_papers_claims_alone() -> None:
    text = re.sub(r"\{[^}]+\}|Algorithm 2|95% intervals", "", "\n".join(GAINS))
    # Names, such as NSDI'24 and C13, have a letter or an apostrophe before their digits.
    numbers = re.findall(r"(?<![\w'.])\d[\d.]*(?=\W)", text)
    assert "1.6" in numbers
    claimed = " ".join(each.claim for each in FINDINGS.values())
    assert {number for number in numbers if number.rstrip(".") not in claimed} == set()


def test_the_statement_on_gains_stands_below_the_tables(shown: dict[str, overview.ShownSection]) -> None:
    lines = overview.markdown(OVERVIEW).splitlines()
    heading = lines.index(GAINS[0])
    assert heading > max(number for number, line in enumerate(lines) if line.startswith("| ["))
    # A wrapped line such as "1. The" would start a list.
    assert [line for line in lines[heading:] if re.match(r"(\d+[.)]|[-+*]) ", line)] == []
    gains = [line for line in lines[heading:] if line.startswith("| C")]
    both = ("Th+CASSINI", "Th+CASSINI (fabric)")
    expected = [(target, each) for target in ("C13", "C14", "C15", "C16", "C18") for each in both]
    for line, (target, augmented) in zip(gains, expected, strict=True):
        row = shown[target].rows[f"Themis ÷ {augmented}: mean iteration"]
        assert line.startswith(f"| {target}, ")
        assert f" | {row.ours} ({row.interval}) | " in line


def test_a_quote_that_matches_no_row_is_an_error_that_names_it(small: overview.ShownSection) -> None:
    with pytest.raises(AssertionError, match="H1: Sharing: no row matches 'gain'"):
        overview.quoted("{gain}", small)


def test_a_missing_page_is_named(copied: Path) -> None:
    (copied.with_suffix("") / "hoti22.md").unlink()
    with pytest.raises(InputError, match=r"hoti22\.md: cannot be read"):
        overview.renew_overview(copied)


def test_a_new_section_changes_only_its_own_line(copied: Path) -> None:
    rows = (Row("accuracy at 5°", 100, 80.0, "%", "worse"), Row("accuracy at 90°", None, 70.0, "%"))
    report.write_validation(copied, [Reproduction("C19", "Precision", rows)])
    overview.renew_overview(copied)
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (OVERVIEW, copied))
    (line,) = [new for old, new in zip(before, after, strict=True) if old != new]
    assert line.startswith("| [C19](validation/nsdi24.md#c19-precision) | 5° makes time-shifts")
    assert "| 80% at 5° and 70% at 90°; " in line
    assert "| 0 of 1 |" in line


def test_runs_of_ns_3_beyond_their_limits_are_counted(copied: Path) -> None:
    page = copied.with_suffix("") / "engines.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("66 of 66 runs agree.", "64 of 66 runs agree."), encoding="utf-8")
    (line,) = (each for each in overview.markdown(copied).splitlines() if each.startswith("| [ns-3]"))
    assert line.endswith("| 64 of 66 | differs: 2 runs beyond their limits |")
