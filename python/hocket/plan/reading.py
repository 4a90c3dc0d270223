"""Reads TOML and JSON files, and plans from a file or from tables in memory; the JSON Schema of plans."""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from hocket.errors import InputError
from hocket.plan.file_kinds import check_kind
from hocket.plan.json_schema import schema_of
from hocket.plan.lines import Lines
from hocket.plan.plan import Plan
from hocket.plan.schema import Table
from hocket.plan.table_errors import refusal
from hocket.units import shown

AnyTable = TypeVar("AnyTable", bound=Table)

MAX_FILE_BYTES = 16_000_000
"""The largest plan that is read: a hundred times what a plan of a thousand jobs needs."""

STANDARD_INPUT = Path("/dev/stdin")
"""Standard input as a file; relative paths in a plan from it are relative to the current directory."""

_CONTENTS_OF_A_PLAN = "a plan has at least a [link] or [fabric] and one of [[jobs]]"


@dataclass(frozen=True)
class TablesFile:
    """The contents of a file, not checked yet."""

    tables: object
    source: str
    """The name of the file in messages."""
    directory: Path
    """The directory that relative paths in it start from."""
    lines: Lines | None
    """The lines of its keys; `None` for JSON."""


def load_plan(path: str | Path) -> Plan:
    """The plan in the file at `path`, as `read_tables` reads it.

    Raises `InputError`, one line per mistake, each naming file, line, key, value and limit.
    """
    file = read_tables(path)
    return parse_plan(file.tables, file.source, file.directory, file.lines)


def read_tables(path: str | Path, contents: str = _CONTENTS_OF_A_PLAN) -> TablesFile:
    """The tables in the file at `path`: JSON if its name ends in `.json`, TOML if in `.toml`; with another
    name, JSON if it begins with a brace, which TOML cannot.

    Raises `InputError` if it cannot be read or is neither; for an empty file, the message ends in `contents`.
    """
    path = Path(path)
    text = _read(path, contents)
    suffix = path.suffix.lower()
    is_json = suffix == ".json" or (suffix != ".toml" and text.lstrip().startswith("{"))
    try:
        tables = (read_json if is_json else _read_toml)(text)
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be a plan") from None
    # Besides an `InputError`, this is what Python raises for an integer of more than 4,300 digits.
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    directory = Path() if path == STANDARD_INPUT else path.parent
    return TablesFile(tables, str(path), directory, None if is_json else Lines(text))


def parse_plan(
    tables: object, source: str = "plan", directory: str | Path = "", lines: Lines | None = None
) -> Plan:
    """The plan in `tables`, as TOML or JSON readers return them; error messages begin with `source`, and with
    `lines` also name the line of the key.

    Relative paths in it start from `directory`, by default the current one.

    Raises `InputError`, one line per mistake.

    >>> plan = parse_plan({
    ...     "link": {"capacity": "50 Gbps"},
    ...     "jobs": [{"name": "a", "period": "180 ms",
    ...               "up": [{"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}]}],
    ... })
    >>> plan.jobs[0].profiles()[0].period_ps
    180000000000
    """
    check_kind(tables, "plan", source)
    return parse_as(Plan, tables, source, directory, lines)


def parse_as(
    kind: type[AnyTable],
    tables: object,
    source: str,
    directory: str | Path,
    lines: Lines | None = None,
) -> AnyTable:
    """The content of `tables` as a file of this `kind`: a plan, or a trace of jobs.

    Raises `InputError`, one line per mistake, each beginning with `source` and, with `lines`, the line.
    """
    if not isinstance(tables, Mapping):
        raise InputError(f"{source}: must be a table of keys: got {shown(tables)}")
    try:
        return kind.model_validate(dict(tables), context={"directory": directory})
    except (ValidationError, UnicodeEncodeError) as error:
        raise refusal(error, kind, source, lines) from None


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan, for editors.

    >>> sorted(plan_schema()["required"])
    ['jobs']
    """
    return schema_of(Plan)


def _read(path: Path, contents: str) -> str:
    try:
        with path.open("rb") as file:
            # One byte more than the limit shows that a file is too large without reading all of it. A pipe
            # has no size to check first.
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{path}: is larger than the limit of {MAX_FILE_BYTES // 1_000_000} MB")
    try:
        # Some editors begin a UTF-8 file with a byte order mark, which this codec removes.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text: byte {error.start} is {content[error.start]:#04x}"
        ) from None
    if not text.strip():
        raise InputError(f"{path}: is empty; {contents}")
    return text


def _read_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}") from None


def read_json(text: str) -> object:
    """Reads `text` as strict JSON: no key twice in a table, only finite numbers.

    Raises `InputError`, and `RecursionError` if it is nested too deeply.
    """

    # By default, Python's reader accepts NaN and Infinity, and silently keeps the last of repeated keys.
    def constant(name: str) -> float:
        raise InputError(f"has the number {name}; only finite numbers are allowed")

    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if repeated:
            raise InputError(f"has the key {shown(repeated[0])} twice in one table")
        return dict(pairs)

    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno})"
        ) from None
