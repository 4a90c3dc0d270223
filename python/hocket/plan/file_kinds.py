"""Recognises Hocket's kinds of files, so that the error for a file given to the wrong command names its kind
instead of reporting its keys as unknown.
"""

from collections.abc import Mapping
from typing import Literal

from hocket.errors import InputError

Kind = Literal["plan", "trace"]
"""The files that commands read: a plan, or a trace of jobs that arrive at a cluster."""

_TABLES: dict[Kind, frozenset[str]] = {
    "plan": frozenset({"link", "switch", "host", "compat", "run", "candidates", "changes"}),
    "trace": frozenset({"until", "cluster", "themis", "pollux", "cassini", "poisson", "dynamic", "import"}),
}
"""Keys that only one kind of file has."""

_KEYS_OF_JOBS: dict[Kind, frozenset[str]] = {
    "plan": frozenset({"period", "up", "training"}),
    "trace": frozenset({"min_workers", "max_workers"}),
}
"""Keys that jobs have in only one kind of file."""

_NAMES: dict[Kind, str] = {"plan": "a plan", "trace": "a cluster trace"}
_COMMANDS: dict[Kind, str] = {
    "plan": "`hocket compat` and `hocket run` take it",
    "trace": "`hocket cluster` and `hocket trace` take it",
}


def check_kind(tables: object, expected: Kind, source: str) -> None:
    """Raises `InputError` if `tables` are those of another kind of file; the message names its commands."""
    if not isinstance(tables, Mapping):
        return
    wanted = _NAMES[expected]
    # Every manifest has both keys, and neither is a key of a plan or a trace.
    if {"hocket_version", "status"} <= tables.keys():
        raise InputError(
            f"{source}: is the manifest of a run, not {wanted}: `hocket compare` and `hocket explain` take "
            "the directory that it is in"
        )
    if "traceEvents" in tables:
        raise InputError(f"{source}: is a profiler trace, not {wanted}: `hocket profile` takes it")
    other: Kind = "trace" if expected == "plan" else "plan"
    signs = _signs(tables, other)
    # A file with keys of both kinds is checked as the expected kind, which reports the others one by one.
    if signs and not _signs(tables, expected):
        found = " and ".join(signs[:2])
        raise InputError(f"{source}: is {_NAMES[other]} (it has {found}), not {wanted}: {_COMMANDS[other]}")


def _signs(tables: Mapping[str, object], kind: Kind) -> list[str]:
    """The keys in `tables` that only this kind of file has, spelt as in the file."""
    jobs = tables.get("jobs")
    jobs = [job for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, list | tuple) else []
    of_file = [_written(key, value) for key, value in tables.items() if key in _TABLES[kind]]
    of_jobs = [key for job in jobs for key in job if key in _KEYS_OF_JOBS[kind]]
    return [*of_file, *(f"{key} of a job" for key in dict.fromkeys(of_jobs))]


def _written(key: str, value: object) -> str:
    match value:
        case Mapping():
            return f"[{key}]"
        case list() | tuple():
            return f"[[{key}]]"
        case _:
            return key
