"""The command line: which commands there are, each imported when it is used, and how any of them ends early.

Every mistake of a user is one message on stderr and exit code 2; Ctrl-C is exit code 130 after what was
finished has been kept; a failed self-check, and a validation that finds a difference, are exit code 1; a
defect of Hocket is exit code 70, with where it is and how to report it.
"""

import os
import sys
import traceback
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
import typer.core
from rich.markup import escape

from hocket import extensions
from hocket.console import (
    DEFECT,
    INPUT_ERROR,
    INTERRUPTED,
    WRONG,
    err,
    out,
)
from hocket.errors import InputError, SelfCheckError
from hocket.manual import ListingGroup

_WHOLE_TRACEBACK = "HOCKET_TRACEBACK"
_MOST_LINES = 3
_OF_RUST = "pyo3_runtime"
_PACKAGE = Path(__file__).parent

COMMANDS = {
    "init": ("starters.commands:init_command", "Write a commented plan to start from."),
    "compat": ("compat.commands:compat_command", "Find whether jobs can take turns, and their time-shifts."),
    "run": ("engines.commands:run_command", "Simulate a plan or an HPCC-style study."),
    "trace": ("cluster.commands:trace_command", "Show the jobs of a trace and their load over time."),
    "cluster": ("cluster.commands:cluster_command", "Run a trace of jobs under schedulers; compare them."),
    "explain": ("cluster.commands:explain_command", "Explain the decisions of a cluster run."),
    "replay": ("cluster.commands:replay_command", "Run a window of a cluster run packet by packet."),
    "profile": ("profiling.commands:profile_command", "Find the period and the Up phases of jobs."),
    "export": ("export.commands:export_command", "Print a plan as settings of NCCL, switches and NICs."),
    "agent": ("agent.commands:agent_command", "Run a training script whose agent follows a service."),
    "serve": ("service.commands:serve_command", "Serve slots to running jobs."),
    "register": ("service.commands:register_command", "Register the jobs of a plan with the service."),
    "jobs": ("service.commands:jobs_command", "Show the jobs of the service."),
    "unregister": ("service.commands:unregister_command", "Remove jobs from the service."),
    "doctor": ("doctor:doctor_command", "Check which live features this machine supports."),
    "fabric": ("fabrics.commands:fabric_command", "Show the fabric of a plan, and where its jobs run."),
    "compare": ("compare.commands:compare_command", "Put runs side by side."),
    "sweep": ("sweeps.commands:sweep_command", "Simulate every combination of values of a plan's keys."),
    "tcp": ("tcp.commands:app", "Adaptively unfair TCP for Linux."),
    "testbed": ("testbed.commands:app", "A plan's network and jobs for real, on this machine."),
    "man": ("manual_command:man_command", "Show the manual page, or install it."),
}
"""By name: where in `hocket` its function or group is, and the line of it in the list of commands."""

GROUPS = {
    "Plan": ("init", "compat", "run", "sweep", "compare", "fabric"),
    "Simulate a cluster": ("trace", "cluster", "explain", "replay"),
    "Measure and act on a real cluster": (
        *("profile", "export", "agent", "serve", "register", "jobs", "unregister", "testbed", "tcp"),
        "doctor",
    ),
    "Reproduce the papers": ("reproduce", "validate"),
    "Help": ("man",),
}
"""The commands as they are listed; those of other distributions come last."""


class ListedCommand(typer.core.TyperCommand):
    """A command of the list, imported when it is used or its own help is asked for."""

    def __init__(self, name: str, summary: str, load: Callable[[], Any]) -> None:
        super().__init__(name, short_help=summary, rich_markup_mode=None)
        self._load = load

    @cached_property
    def command(self) -> Any:
        """The command itself."""
        assert self.name is not None, "it is a command of the list"
        return extensions.as_command(self.name, self._load())

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """The context of the command itself: whoever parses, runs or completes it goes through here."""
        return self.command.make_context(*arguments, **settings)


class _Commands(ListingGroup):
    """The commands, those of other distributions after our own, and how each of them may end early."""

    titles = GROUPS

    def __init__(self, *, commands: Any = None, **settings: Any) -> None:
        listed = {
            name: ListedCommand(name, summary, partial(resolve_name, f"hocket.{where}"))
            for name, (where, summary) in COMMANDS.items()
        }
        super().__init__(commands={**listed, **(commands or {})}, **settings)

    def list_commands(self, ctx: Any) -> list[str]:
        ours = super().list_commands(ctx)
        return [*ours, *(name for name in extensions.names() if name not in ours)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or extensions.command(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            err.print(f"[red]error:[/red] {escape(str(error))}")
            raise typer.Exit(INPUT_ERROR) from None
        except SelfCheckError as error:
            err.print(f"[red]the run proved itself wrong:[/red] {escape(str(error))}")
            raise typer.Exit(WRONG) from None
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever reads our output has seen enough; nor may the interpreter's last flush fail on it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None


app = typer.Typer(
    name="hocket",
    cls=_Commands,
    help="Which training jobs can take turns on a shared network, and how far to shift each.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """The `hocket` command."""
    try:
        app(prog_name="hocket")
    except BaseException as error:
        # Of what is no `Exception`, a panic of the compiled module is a defect too.
        if not isinstance(error, Exception) and type(error).__module__ != _OF_RUST:
            raise
        _print_defect(error)
        sys.exit(DEFECT)


def _print_defect(error: BaseException) -> None:
    """What only a bug can cause: the innermost of our lines that led to it, and how to report it."""
    from hocket.version import version_text

    if os.environ.get(_WHOLE_TRACEBACK):
        traceback.print_exception(error)
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(each.filename).parents
    ]
    err.print(f"[red]internal error:[/red] {escape(f'{type(error).__name__}: {error}')}")
    for frame in frames[: -_MOST_LINES - 1 : -1]:
        place = Path(frame.filename).relative_to(_PACKAGE.parent)
        err.print(f"  {escape(f'{place}:{frame.lineno}, in {frame.name}')}")
    err.print(
        f"This is a defect of Hocket {escape(version_text())}, not a mistake in your input. Please report it "
        "to its maintainers with these lines, the command, and the files that it reads; with "
        f"{_WHOLE_TRACEBACK}=1 the command prints the whole traceback."
    )


def _version(asked: bool) -> None:
    if asked:
        from hocket.version import version_text

        out.print(f"hocket {version_text()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and commit.")
    ] = False,
) -> None:
    pass
