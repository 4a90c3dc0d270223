"""The exception for what a user can get wrong (a plan, a file, an argument), and the one for a run that
proves itself wrong: exit codes 2 and 1 of the command line.

What only a bug can cause stays an assertion.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hocket_agent.errors import InputError

__all__ = ["InputError", "SelfCheckError", "extra", "located"]


class SelfCheckError(RuntimeError):
    """A run ended because one of its own checks did not hold: a packet lost although PFC is on, a deadlock,
    bytes gone astray.

    The message names link or flow, and the time; what the run recorded until then is kept.
    """


def check_choice(key: str, value: object, choices: Sequence[str]) -> None:
    """Refuses a `value` of `key` that is none of `choices`, in the words in which a plan's are refused.

    Raises `InputError`.

    >>> check_choice("engine", "pakcet", ("flow", "packet"))
    Traceback (most recent call last):
    hocket_agent.errors.InputError: engine: must be 'flow' or 'packet': got 'pakcet'
    """
    if value not in choices:
        *others, last = map(repr, choices)
        known = f"{', '.join(others)} or {last}" if others else last
        raise InputError(f"{key}: must be {known}: got {value!r}")


@contextmanager
def located(source: object) -> Iterator[None]:
    """Turns what is refused within it, by an engine or by us, into an `InputError` that begins with `source`
    if that is a file's path; a plan in memory needs no name.

    >>> with located("plan.toml"):
    ...     raise ValueError("jobs[0]: never finishes")
    Traceback (most recent call last):
    hocket_agent.errors.InputError: plan.toml: jobs[0]: never finishes
    """
    try:
        yield
    except ValueError as error:
        where = f"{source}: " if isinstance(source, str | Path) else ""
        raise InputError(f"{where}{error}") from None


@contextmanager
def extra(name: str, needed_by: str) -> Iterator[None]:
    """Imports within it need the extra `name` of this distribution: without it, an `InputError` says how to
    get it.

    >>> with extra("ray", needed_by="--ray"):
    ...     import not_there
    Traceback (most recent call last):
    hocket_agent.errors.InputError: --ray: not_there is missing; pip install "hocket[ray]" installs it
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # A module of our own that is missing is a defect.
        if error.name is None or error.name.partition(".")[0] in ("hocket", "hocket_agent"):
            raise
        raise InputError(
            f'{needed_by}: {error.name} is missing; pip install "hocket[{name}]" installs it'
        ) from None
