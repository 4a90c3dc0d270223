"""Commands that other distributions add to `hocket`: an entry point in the group `hocket.commands` names a
function, or a group of Typer's, of which a command is made as of ours.

Entry points are looked up when a command is not one of ours or when all are listed, so that the commands of
this package start no slower for what else is installed.
"""

from importlib.metadata import entry_points
from typing import Any

import typer
from typer.main import get_command

from hocket.errors import InputError

GROUP = "hocket.commands"
"""The group of entry points."""

DISTRIBUTIONS = {"reproduce": "hocket-reproduce", "validate": "hocket-reproduce"}
"""Commands of the Hocket project that come with a distribution of their own, and which."""


def names() -> list[str]:
    """The names of all commands that are installed or could be, in order."""
    return sorted({*DISTRIBUTIONS, *(point.name for point in entry_points(group=GROUP))})


def command(name: str) -> Any:
    """The command `name` as Typer's group takes it, or `None` if nobody provides or knows it.

    A command that is known but not installed, or that fails to load, raises `InputError` when it is run, and
    not before: one broken distribution must not take `hocket --help` away.
    """
    for point in entry_points(group=GROUP, name=name):
        try:
            return as_command(name, point.load())
        # Whatever the code of another distribution raises.
        except Exception as error:
            provider = point.value if point.dist is None else point.dist.name
            reason = f"{provider} cannot be loaded: {type(error).__name__}: {error}"
            return _refusing(name, "Cannot be loaded.", reason)
    if name in DISTRIBUTIONS:
        distribution = DISTRIBUTIONS[name]
        reason = f"{distribution} is not installed; pip install {distribution} installs it"
        return _refusing(name, f"Needs {distribution}, which is not installed.", reason)
    return None


def as_command(name: str, found: Any) -> Any:
    """The command `name` that a function, or a group of Typer's, becomes."""
    if not isinstance(found, typer.Typer):
        function, found = found, _app()
        found.command(name)(function)
    return get_command(found)


def _refusing(name: str, summary: str, reason: str) -> Any:
    """A command that takes any arguments and refuses them for `reason`."""
    app = _app()

    @app.command(
        name,
        help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def refuse() -> None:
        raise InputError(f"{name}: {reason}")

    return as_command(name, app)


def _app() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None)
