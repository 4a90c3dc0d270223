"""Writes a plan to a file that `load_plan` reads."""

import json
from pathlib import Path

from hocket.errors import InputError
from hocket.plan.plan import Plan


def check_plan_file(path: Path, *, replace: bool = False) -> None:
    """Raises `InputError` if no plan can be written to `path`: if its suffix is neither .toml nor .json, its
    directory does not exist, or the file exists and `replace` is false.
    """
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"{path}: suffix {path.suffix!r}; a plan is written as .toml or .json")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no directory {path.parent}")
    if path.exists() and not replace:
        raise InputError(f"{path}: exists; write to another file with --out, or replace it with --force")


def write_plan(plan: Plan, path: Path, *, comment: str = "", replace: bool = False) -> None:
    """Writes `plan` to `path`, as TOML below a `comment` or as JSON without it.

    Raises `InputError` as `check_plan_file` does, and if the plan names files by relative paths and `path` is
    in another directory, from which they would lead nowhere.
    """
    # Again, even if a command has checked before its work: the file may have been written in the meantime.
    check_plan_file(path, replace=replace)
    home = plan.directory.resolve()
    if plan.files() and path.parent.resolve() != home:
        raise InputError(f"{path}: the plan's relative paths start from {home}; write it there")
    if path.suffix == ".json":
        text = json.dumps(plan.to_dict(), indent=2, ensure_ascii=False) + "\n"
    else:
        text = "".join(f"# {line}\n" for line in comment.splitlines()) + plan.to_toml()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
