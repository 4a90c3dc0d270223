"""Commands of other distributions, found by entry points; known ones are listed even if not installed."""

import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Makes these entry points the only ones; they name functions of a module made for the test."""
    (tmp_path / "theirs.py").write_text(
        "import typer\n"
        "def greet(name: str, loud: bool = False) -> None:\n"
        '    """Greet somebody."""\n'
        "    typer.echo(name.upper() if loud else name)\n"
        "group = typer.Typer(help='Meet people.')\n"
        "group.command('greet')(greet)\n"
        "@group.command('leave')\n"
        "def leave() -> None:\n"
        "    typer.echo('bye')\n"
    )
    (tmp_path / "broken.py").write_text("raise RuntimeError('half of it is gone')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(**targets: str) -> None:
        points = EntryPoints(EntryPoint(*target, "hocket.commands") for target in targets.items())
        monkeypatch.setattr(metadata, "entry_points", lambda group: points.select(group=group))

    yield install
    for module in ("theirs", "broken"):
        sys.modules.pop(module, None)


def test_a_command_of_another_distribution_runs_and_is_listed(
    hocket: Command, installed: Callable[..., None]
) -> None:
    installed(greet="theirs:greet")
    assert hocket("greet", "ada", "--loud").out == "ADA\n"
    assert "Greet somebody." in hocket("--help").out


def test_a_group_of_commands_of_another_distribution_runs_and_is_listed(
    hocket: Command, installed: Callable[..., None]
) -> None:
    installed(people="theirs:group")
    assert hocket("people", "leave").out == "bye\n"
    assert "Meet people." in hocket("--help").out


@pytest.mark.parametrize("command", ["reproduce", "validate"])
@pytest.mark.parametrize("arguments", [[], ["--all", "--out", "x"], ["--help"], ["H4"]])
def test_without_its_distribution_a_command_explains_how_to_install_it(
    hocket: Command, installed: Callable[..., None], command: str, arguments: list[str]
) -> None:
    installed()
    refused = hocket(command, *arguments)
    assert refused.code == 2
    assert refused.out == ""
    assert refused.err == (
        f"error: {command}: hocket-reproduce is not installed; pip install hocket-reproduce installs it\n"
    )


def test_help_names_commands_that_are_not_installed(hocket: Command, installed: Callable[..., None]) -> None:
    installed()
    assert "reproduce  Needs hocket-reproduce, which is not installed." in hocket("--help").out


@pytest.mark.parametrize("target", ["broken:greet", "theirs:nothing", "nowhere:greet", "theirs:__name__"])
def test_a_broken_distribution_breaks_only_its_own_command(
    hocket: Command, installed: Callable[..., None], target: str
) -> None:
    installed(greet=target)
    refused = hocket("greet", "ada")
    assert refused.code == 2
    assert f"greet: {target} cannot be loaded: " in refused.err
    listed = hocket("--help")
    assert listed.code == 0
    assert "Cannot be loaded." in listed.out
    assert hocket("--version").code == 0


def test_no_distribution_replaces_a_command_of_ours(hocket: Command, installed: Callable[..., None]) -> None:
    installed(compat="broken:greet")
    ours = hocket("compat", "--help")
    assert ours.code == 0
    assert "--precision" in ours.out
    assert hocket("--help").out.count("  compat ") == 1


def test_an_unknown_command_stays_unknown(hocket: Command, installed: Callable[..., None]) -> None:
    installed(greet="theirs:greet")
    refused = hocket("gret")
    assert refused.code == 2
    assert "No such command 'gret'" in refused.err
