"""One version for everything: that in Cargo.toml, with which builds, pins and citations agree."""

import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import hocket
from hocket import version
from hocket.version import commit_of, version_text

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {"hocket": ".", "hocket-agent": "agent", "hocket-reproduce": "reproduce"}


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


VERSION = toml("Cargo.toml")["workspace"]["package"]["version"]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_takes_its_version_from_the_workspace(name: str) -> None:
    project = toml(f"{DISTRIBUTIONS[name]}/pyproject.toml")["project"]
    assert project["name"] == name
    assert "version" not in project
    assert "version" in project["dynamic"]
    assert metadata.version(name) == VERSION


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_needs_exactly_this_version_of_the_others(name: str) -> None:
    needed = toml(f"{DISTRIBUTIONS[name]}/pyproject.toml")["project"]["dependencies"]
    pins = [requirement for requirement in needed if requirement.partition("==")[0] in DISTRIBUTIONS]
    assert all(pin.endswith(f"=={VERSION}") for pin in pins), pins
    assert len(pins) == {"hocket": 1, "hocket-agent": 0, "hocket-reproduce": 1}[name]


def test_the_crates_the_changelog_and_the_citation_name_it_too() -> None:
    locked = [package for package in toml("Cargo.lock")["package"] if "source" not in package]
    assert {package["version"] for package in locked} == {VERSION}
    assert f"\n## [{VERSION}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def git(checkout: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ("git", "-C", str(checkout), *identity, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_in_a_checkout_git_names_the_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == head[:7]
    (tmp_path / "file").write_text("two")
    assert commit_of(tmp_path) == f"{head[:7]}-dirty"


def test_a_built_distribution_has_its_commit_or_prints_its_version_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(version, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(version, "COMMIT", "0123abc")
    assert version_text() == f"{hocket.__version__} (0123abc)"
    monkeypatch.setattr(version, "COMMIT", None)
    assert version_text() == hocket.__version__
