"""The version of Hocket and its commit."""

import subprocess
from pathlib import Path

import hocket
from hocket._hocket import COMMIT

_CHECKOUT = Path(hocket.__file__).parents[2]


def version_text() -> str:
    """Version and commit as `hocket --version` prints them: `0.2.0 (0123abc)`, or the version alone if the
    commit is unknown, as in a build from a source distribution.
    """
    commit = commit_of(_CHECKOUT) or COMMIT
    return hocket.__version__ if commit is None else f"{hocket.__version__} ({commit})"


def commit_of(checkout: Path) -> str | None:
    """The commit of a checkout, in seven digits or as many as make it unique, with `-dirty` if files differ
    from it; `None` if the directory is no checkout or Git is not installed.

    The compiled module contains the commit that it was built from. In a checkout, the Python files may be
    newer, so the answer comes from Git.
    """
    if not (checkout / ".git").exists():
        return None
    # `--exclude=*` ignores all tags, so that `--always` falls back to the commit itself.
    command = ("git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=7")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return (answer.stdout.strip() or None) if answer.returncode == 0 else None
