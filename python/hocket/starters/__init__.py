"""Starter plans: for each of a few questions, a commented file that runs without changes.

The files are data of this package. Each begins with its question and, indented, the command that answers it.
"""

import re
import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from hocket.errors import InputError
from hocket.units import shown

NAMES = ("two-jobs", "placements", "training", "cluster")
"""The starters, in the order in which they are listed."""

_COMMAND = re.compile(r"^#   (hocket .+)$", re.MULTILINE)


@dataclass(frozen=True)
class Starter:
    """A starter plan: its name, and its text, whose commands read `NAME.toml`."""

    name: str
    text: str

    @property
    def question(self) -> str:
        """The question that the plan answers.

        >>> find_starter("training").question
        'How long does an iteration of a training job take, and how much of it is exposed communication?'
        """
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def command(self) -> str:
        """The command that answers the question.

        >>> find_starter("two-jobs").command
        'hocket compat two-jobs.toml'
        """
        # The first command answers the question; further ones continue from the answer.
        match = _COMMAND.search(self.text)
        assert match is not None, f"{self.name}: a starter begins with a command"
        return match[1]

    def written_to(self, path: Path) -> "Starter":
        """The same starter with commands that read `path`, quoted for a shell.

        >>> find_starter("two-jobs").written_to(Path("my plan.toml")).command
        "hocket compat 'my plan.toml'"
        """
        return Starter(self.name, self.text.replace(f"{self.name}.toml", shlex.quote(str(path))))


def find_starter(name: str) -> Starter:
    """The starter called `name`. If there is none, raises `InputError` with all names and the closest one."""
    if name not in NAMES:
        # Imported here, since completion of words in a shell should be fast.
        from hocket.plan.table_errors import closest

        raise InputError(f"starter {shown(name)}: must be one of {', '.join(NAMES)}{closest(name, NAMES)}")
    data = resources.files("hocket.starters") / f"{name}.toml"
    return Starter(name, data.read_text(encoding="utf-8"))


def write_starter(name: str, path: Path | None = None, *, replace: bool = False) -> tuple[Starter, Path]:
    """Writes the starter called `name` to `path`, by default NAME.toml; returns what was written, and where.

    Raises `InputError` for an unknown name, for a suffix other than `.toml`, if the file cannot be written,
    or if it exists and `replace` is false.
    """
    starter = find_starter(name)
    path = path or Path(f"{name}.toml")
    if path.suffix != ".toml":
        raise InputError(f"{path}: suffix {path.suffix!r}; a starter is written as .toml")
    if path.exists() and not replace:
        raise InputError(f"{path}: exists; write to another file with --out, or replace it with --force")
    starter = starter.written_to(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(starter.text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return starter, path
