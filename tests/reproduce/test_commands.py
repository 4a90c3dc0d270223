"""`hocket reproduce`: listing, rerunning and leaving out targets, and writing pages."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hocket_reproduce import overview
from hocket_reproduce.targets import TARGETS, report

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("validation/hotnets22.md", "validation/hoti22.md", "validation/nsdi24.md")

Command = Callable[..., Any]


def test_reproduce_all_leaves_out_targets_that_the_machine_cannot_run(
    hocket: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = replace(TARGETS["LIVE"], missing=lambda: ["a testbed needs root"])
    monkeypatch.setattr("hocket_reproduce.targets.TARGETS", {"LIVE": lacking, "H4": TARGETS["H4"]})
    outcome = hocket("reproduce", "--all", "--json")
    assert outcome.code == 0
    assert "LIVE is left out: a testbed needs root" in outcome.err
    assert [each["id"] for each in outcome.json()] == ["H4"]


def test_reproduce_lists_its_targets(hocket: Command) -> None:
    cassini = [1, 2, 3, 4, 9, *range(13, 22)]
    numbers = {"H": [*range(1, 9)], "R": [*range(3, 9)], "C": cassini, "B": [1], "X": [1, 2, 3]}
    targets = [f"{paper}{number}" for paper in numbers for number in numbers[paper]] + ["LIVE"]
    listed = [line.split()[0] for line in hocket("reproduce", "--list").out.splitlines()[1:]]
    assert listed == targets
    assert [each["id"] for each in hocket("reproduce", "--list", "--json").json()] == targets


def test_reproduce_prints_the_papers_value_beside_ours(hocket: Command, tmp_path: Path) -> None:
    outcome = hocket("reproduce", "h4", "--json", "--out", tmp_path)
    assert outcome.code == 0
    (target,) = outcome.json()
    rows = {row["quantity"]: (row["paper"], row["ours"]) for row in target["rows"]}
    assert rows["unified circle of 40 and 60 ms"] == (120, 120)
    assert (tmp_path / "H4.png").read_bytes().startswith(b"\x89PNG")


def test_write_renews_the_pages_their_figures_and_the_table(hocket: Command, tmp_path: Path) -> None:
    assert "C4" in report.PICTURED
    shutil.copytree(DOCS / "validation", tmp_path / "validation")
    page, figure = tmp_path / "validation.md", tmp_path / "validation" / "C4.svg"
    text = (DOCS / "validation.md").read_text(encoding="utf-8")
    page.write_text(text.replace("reproduced", "doubtful"), encoding="utf-8")
    figure.unlink()
    outcome = hocket("reproduce", "h4", "c4", "--out", tmp_path / "drawn", "--write", page)
    assert outcome.code == 0
    for name in PAGES:
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()
    assert overview.markdown(page) in page.read_text(encoding="utf-8")
    assert figure.read_bytes().startswith(b"<?xml")
