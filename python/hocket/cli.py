"""The command line: the table of commands, each imported when it is used, and their exit codes.

Invalid input prints one message on stderr and exits with 2. Ctrl-C keeps what was finished and exits with
130. A failed self-check, or a validation that finds a difference, exits with 1. A defect of Hocket exits with
70 and prints its place in the code and how to report it.
"""

import gc
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
    FAILED,
    INPUT_ERROR,
    INTERRUPTED,
    err,
    out,
)
from hocket.errors import InputError, SelfCheckError
from hocket.manual import ListingGroup

_TRACEBACK_VARIABLE = "HOCKET_TRACEBACK"
_MAX_FRAMES = 3
_PANIC_MODULE = "pyo3_runtime"
_PACKAGE = Path(__file__).parent

COMMANDS = {
    "init": ("starters.commands:init_command", "Write a commented plan to start from."),
    "schema": ("plan.commands:schema_command", "Print the JSON Schema of plans, for editors."),
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
"""By name: the command's function or group, as `MODULE:NAME` below `hocket`, and its summary in the list of
commands.
"""

GROUPS = {
    "Plan": ("init", "compat", "run", "sweep", "compare", "fabric", "schema"),
    "Simulate a cluster": ("trace", "cluster", "explain", "replay"),
    "Measure and act on a real cluster": (
        # Unpacked, because the formatter would otherwise put each name on its own line.
        *("profile", "export", "agent", "serve", "register", "jobs", "unregister", "testbed", "tcp"),
        "doctor",
    ),
    "Reproduce the papers": ("reproduce", "validate"),
    "Help": ("man",),
}
"""The commands by heading, in the order of `hocket --help`; those of other distributions come last."""


class ListedCommand(typer.core.TyperCommand):
    """A command in the list, imported only when it runs or prints its own help."""

    def __init__(self, name: str, summary: str, load: Callable[[], Any]) -> None:
        super().__init__(name, short_help=summary, rich_markup_mode=None)
        self._load = load

    @cached_property
    def command(self) -> Any:
        """The command that this one stands for."""
        assert self.name is not None, "it is a command of the list"
        # Imports create many objects and drop few: looking for garbage among them takes a tenth of the time.
        gc.disable()
        try:
            return extensions.as_command(self.name, self._load())
        finally:
            gc.enable()

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """The context of `command`, with which Click parses arguments, runs and completes words."""
        return self.command.make_context(*arguments, **settings)


class _Commands(ListingGroup):
    """Our commands, then those of other distributions; turns their exceptions into exit codes."""

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
        # Ours first, so that no other distribution can replace them.
        return super().get_command(ctx, cmd_name) or extensions.command(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            err.print(f"[red]error:[/red] {escape(str(error))}")
            raise typer.Exit(INPUT_ERROR) from None
        except SelfCheckError as error:
            err.print(f"[red]self-check failed:[/red] {escape(str(error))}")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of the pipe, such as `head`, has closed it, which is no error. Without redirection,
            # the interpreter's last flush of stdout would fail on the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None


app = typer.Typer(
    name="hocket",
    cls=_Commands,
    help="Which training jobs can take turns on a shared network, and how far to shift each.",
    no_args_is_help=True,
    # `main` reports exceptions.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """The `hocket` command."""
    try:
        app(prog_name="hocket")
    except BaseException as error:
        # PyO3 raises a Rust panic as a `BaseException`; it is a defect nevertheless.
        if not isinstance(error, Exception) and type(error).__module__ != _PANIC_MODULE:
            raise
        _print_defect(error)
        sys.exit(DEFECT)


def _print_defect(error: BaseException) -> None:
    """Prints an exception that only a bug can cause, its last frames in our code, and how to report it."""
    # `hocket.version` loads the compiled module, which not every command needs.
    from hocket.version import version_text

    if os.environ.get(_TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(each.filename).parents
    ]
    err.print(f"[red]internal error:[/red] {escape(f'{type(error).__name__}: {error}')}")
    for frame in frames[: -_MAX_FRAMES - 1 : -1]:
        place = Path(frame.filename).relative_to(_PACKAGE.parent)
        err.print(f"  {escape(f'{place}:{frame.lineno}, in {frame.name}')}")
    err.print(
        f"This is a defect of Hocket {escape(version_text())}, not a mistake in your input. Please report it "
        "to its maintainers with these lines, the command, and the files that it reads. "
        f"Set {_TRACEBACK_VARIABLE}=1 to print the whole traceback."
    )


def _version(requested: bool) -> None:
    if requested:
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
