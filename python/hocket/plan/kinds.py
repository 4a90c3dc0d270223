"""Which of Hocket's files this is, so that one given to the wrong command is not taken for a bad file of
another kind.
"""

from collections.abc import Mapping
from typing import Literal

from hocket.errors import InputError

Kind = Literal["plan", "trace"]
"""What commands read: a plan, or a trace of jobs that come to a cluster."""

_TABLES: dict[Kind, frozenset[str]] = {
    "plan": frozenset({"link", "switch", "host", "compat", "run", "candidates", "changes"}),
    "trace": frozenset({"until", "cluster", "themis", "pollux", "cassini", "poisson", "dynamic", "import"}),
}
"""Keys that only one kind of file has."""

_OF_JOBS: dict[Kind, frozenset[str]] = {
    "plan": frozenset({"period", "up", "training"}),
    "trace": frozenset({"min_workers", "max_workers"}),
}
"""Keys that jobs have in only one kind of file."""

_CALLED: dict[Kind, str] = {"plan": "a plan", "trace": "a cluster trace"}
_TAKEN_BY: dict[Kind, str] = {
    "plan": "`hocket compat` and `hocket run` take it",
    "trace": "`hocket cluster` and `hocket trace` take it",
}


def check_kind(tables: object, expected: Kind, source: str) -> None:
    """Raises `InputError` if `tables` are those of another kind of file, with the commands that take it."""
    if not isinstance(tables, Mapping):
        return
    wanted = _CALLED[expected]
    if {"hocket_version", "status"} <= tables.keys():
        raise InputError(
            f"{source}: is the manifest of a run, not {wanted}: `hocket compare` and `hocket explain` take "
            "the directory that it is in"
        )
    if "traceEvents" in tables:
        raise InputError(f"{source}: is a profiler trace, not {wanted}: `hocket profile` takes it")
    other: Kind = "trace" if expected == "plan" else "plan"
    signs = _signs(tables, other)
    if signs and not _signs(tables, expected):
        found = " and ".join(signs[:2])
        raise InputError(f"{source}: is {_CALLED[other]} (it has {found}), not {wanted}: {_TAKEN_BY[other]}")


def _signs(tables: Mapping[str, object], kind: Kind) -> list[str]:
    """What only a file of this kind has, as it is written there."""
    jobs = tables.get("jobs")
    jobs = [job for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, list | tuple) else []
    of_file = [_written(key, value) for key, value in tables.items() if key in _TABLES[kind]]
    of_jobs = [key for job in jobs for key in job if key in _OF_JOBS[kind]]
    return [*of_file, *(f"{key} of a job" for key in dict.fromkeys(of_jobs))]


def _written(key: str, value: object) -> str:
    match value:
        case Mapping():
            return f"[{key}]"
        case list() | tuple():
            return f"[[{key}]]"
        case _:
            return key
