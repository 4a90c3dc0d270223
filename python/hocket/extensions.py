"""Commands that other distributions add to `hocket`: entry points in the group `hocket.commands`, each of
which refers to a function or a Typer app.

Entry points are looked up only for a command that is not ours and to list all commands, so that other
installed distributions do not slow down our own commands.
"""

from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from hocket.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "hocket.commands"
"""The group of entry points."""

DISTRIBUTIONS = {"reproduce": "hocket-reproduce", "validate": "hocket-reproduce"}
"""By command of the Hocket project: the separate distribution that contains it."""


def names() -> list[str]:
    """The names of all commands that other distributions add, and of those in `DISTRIBUTIONS` even if these
    are not installed; in alphabetical order.
    """
    return sorted({*DISTRIBUTIONS, *(point.name for point in _entry_points())})


def command(name: str) -> Any:
    """The command `name` for a Typer group, or `None` if no distribution has it.

    A command that is not installed or fails to load raises `InputError` only when it is run: a broken
    distribution must not break `hocket --help`.
    """
    for point in _entry_points().select(name=name):
        try:
            return as_command(name, point.load())
        # The code of another distribution may raise anything.
        except Exception as error:
            provider = point.value if point.dist is None else point.dist.name
            reason = f"{provider} cannot be loaded: {type(error).__name__}: {error}"
            return _refusing(name, "Cannot be loaded.", reason)
    if name in DISTRIBUTIONS:
        distribution = DISTRIBUTIONS[name]
        reason = f"{distribution} is not installed; pip install {distribution} installs it"
        return _refusing(name, f"Needs {distribution}, which is not installed.", reason)
    return None


def as_command(name: str, target: Any) -> Any:
    """The command `name` made from a function or a Typer app."""
    if not isinstance(target, typer.Typer):
        function, target = target, _app()
        target.command(name)(function)
    return get_command(target)


def _entry_points() -> "EntryPoints":
    # Not at the top: it loads the standard library's modules for mail, which our own commands do not need.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _refusing(name: str, summary: str, reason: str) -> Any:
    """A command that accepts any arguments, `--help` too, and fails with `reason`."""
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
