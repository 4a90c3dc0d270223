"""Options that several commands share, declared once so that each means the same everywhere.

`--out` names the directory to which a command writes its result, or the file if the result is a single file.
`--figure` draws the result; `--json` prints it for other programs. `--set`, `--seed` and `--engine` override
the plan or trace. Each command passes the part of the help that is its own, such as what `--figure` draws.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from hocket.console import err, out
from hocket.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DEFAULT_OUT = Path("hocket-runs")
"""Where runs are written by default; created if it is missing."""


def in_a_directory(path: Path | None) -> Path | None:
    """Returns `path` if the directory that contains it exists, else raises `InputError`.

    As a callback it runs before any work is done, and a mistyped path creates no directories.
    """
    if path is not None and path.parent != _DEFAULT_OUT and not path.expanduser().parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no directory {path.parent}")
    return path


def _drawable(path: Path | None) -> Path | None:
    """Returns `path` if a figure can be written to it, else raises `InputError`."""
    if path is not None:
        from hocket.figures import check_format

        check_format(path)
    return in_a_directory(path)


def figure(help_text: str) -> Any:
    """`--figure FILE`: draws the result."""
    return typer.Option("--figure", metavar="FILE.svg|png", callback=_drawable, help=help_text)


def save_figure(figure: "Figure", path: Path) -> None:
    """Writes `figure` to the file that `--figure` names, and prints its path on stderr."""
    from hocket.figures import save

    err.print(f"figure: {escape(str(save(figure, path)))}")


def _from_standard_input(path: Path | None) -> Path | None:
    """`path`, or standard input for `-`."""
    if path == Path("-"):
        from hocket.plan.reading import STANDARD_INPUT

        return STANDARD_INPUT
    return path


def file(help_text: str, metavar: str | None = None) -> Any:
    """A plan or a trace that a command reads; `-` is standard input."""
    return typer.Argument(
        metavar=metavar, callback=_from_standard_input, help=f"{help_text}; - for standard input."
    )


def out_directory(help_text: str) -> Any:
    """`--out DIR`: where a result of several files is written."""
    return typer.Option("--out", metavar="DIR", callback=in_a_directory, help=help_text)


def out_file(kinds: str, help_text: str) -> Any:
    """`--out FILE`: where a result of one file is written."""
    return typer.Option("--out", metavar=kinds, callback=in_a_directory, help=help_text)


def seconds(help_text: str) -> Any:
    """`--seconds N`: how long a command runs, in real time."""
    return typer.Option("--seconds", metavar="N", help=help_text)


def interval(help_text: str) -> Any:
    """`--interval TIME`: the time between two readings."""
    return typer.Option("--interval", metavar="TIME", help=help_text)


def service(help_text: str) -> Any:
    """`--service URL`: the service that hands out slots."""
    return typer.Option("--service", metavar="URL", help=help_text)


def _print_wide(wide: bool) -> bool:
    out.wide = wide
    return wide


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Wide = Annotated[
    bool, typer.Option("--wide", callback=_print_wide, help="Show all columns of tables, however wide.")
]
"""For commands that print tables. The callback sets `out.wide`, so the commands do not read the value."""

Force = Annotated[bool, typer.Option("--force", help="Replace existing output.")]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file; may be repeated."),
]
Axes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=V1,V2,…", help="Override a key with each of these values; may be repeated."
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Override the file's seed.", min=0)]
Engine = Annotated[
    Literal["flow", "packet"] | None, typer.Option("--engine", help="Override the plan's engine.")
]
Candidate = Annotated[
    str | None, typer.Option("--candidate", metavar="NAME", help="Use the placement of this candidate.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Read the token from this file, not HOCKET_TOKEN."),
]
