"""Which version of Hocket this is, and which commit."""

import subprocess
from pathlib import Path

import hocket
from hocket._hocket import COMMIT

_CHECKOUT = Path(hocket.__file__).parents[2]


def version_text() -> str:
    """Version and commit as `hocket --version` prints them: `0.2.0 (0123abc)`, or the version alone where no
    commit is known, as in a build from a source distribution.
    """
    commit = commit_of(_CHECKOUT) or COMMIT
    return hocket.__version__ if commit is None else f"{hocket.__version__} ({commit})"


def commit_of(checkout: Path) -> str | None:
    """The commit of a checkout, seven digits or as many as are needed, with `-dirty` if files differ from it;
    `None` if the directory is no checkout or Git is not there.

    In a checkout the Python files are used as they stand, whenever the compiled module was built, so Git is
    asked; a built distribution has the commit in it.
    """
    if not (checkout / ".git").exists():
        return None
    asked = ("git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=7")
    try:
        answered = subprocess.run(asked, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return (answered.stdout.strip() or None) if answered.returncode == 0 else None
