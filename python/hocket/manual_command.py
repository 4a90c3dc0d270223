"""The command `hocket man`, which shows or installs the manual page."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hocket import options
from hocket.console import err
from hocket.errors import InputError


def man_command(
    context: typer.Context,
    directory: Annotated[
        Path | None,
        options.out_directory(
            "Write hocket.1 to this directory; in ~/.local/share/man/man1, `man hocket` finds it."
        ),
    ] = None,
) -> None:
    """Show the manual page of all commands; into a file or a pipe, print it as roff."""
    from hocket.manual import manual_page
    from hocket.version import version_text

    page = manual_page(context.find_root().command, version_text())
    if directory is not None:
        path = directory.expanduser() / "hocket.1"
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(page, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        err.print(f"manual page: {escape(str(path))}")
    elif sys.stdout.isatty() and shutil.which("man") is not None:
        subprocess.run(["man", "--local-file", "-"], input=page, text=True, check=False)
    else:
        sys.stdout.write(page)
