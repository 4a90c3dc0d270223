"""The command `hocket init`, which writes a plan to start from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hocket import options
from hocket.console import err, out, print_json, print_table
from hocket.errors import InputError
from hocket.starters import NAMES, find_starter, write_starter


def _completed(incomplete: str) -> Iterator[tuple[str, str]]:
    return ((name, find_starter(name).question) for name in NAMES if name.startswith(incomplete))


def init_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Which; without it, they are listed.", autocompletion=_completed
        ),
    ] = None,
    output: Annotated[
        Path | None, options.out_file("FILE.toml", "Where to write; NAME.toml if not given.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Write a commented plan for one of a few questions, ready to run and to change."""
    if name is None:
        if output is not None or force:
            raise InputError(f"init: {'--out' if output else '--force'} needs a NAME: {', '.join(NAMES)}")
        starters = [find_starter(each) for each in NAMES]
        if as_json:
            print_json([{"name": each.name, "question": each.question} for each in starters])
        else:
            print_table(("name", "question"), ((each.name, each.question) for each in starters), left=2)
            out.print("\n`hocket init NAME` writes one")
        return
    starter, path = write_starter(name, output, replace=force)
    if as_json:
        print_json({"name": starter.name, "file": str(path), "command": starter.command})
    else:
        err.print(f"plan: {escape(str(path))}")
        out.print(f"Next: {escape(starter.command)}")
