"""The exceptions for invalid input (a plan, a file, an argument) and for a failed self-check. The command
line exits with 2 for the former and with 1 for the latter.

An error that only a bug can cause is an assertion instead.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hocket_agent.errors import InputError

__all__ = ["InputError", "SelfCheckError", "extra", "located"]


class SelfCheckError(RuntimeError):
    """A run ended because one of its self-checks failed: a packet was lost although PFC is on, a deadlock
    occurred, or bytes went missing.

    The message names the link or flow and the time; what the run recorded until then is kept.
    """


def check_choice(key: str, value: object, choices: Sequence[str]) -> None:
    """Raises `InputError` if `value` is none of `choices`, with the message that a plan's `key` gets.

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
    """Turns a `ValueError` raised within it, by Rust or by Python, into an `InputError`. If `source` is the
    path of a file, the message begins with it.

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
    """Turns a failed import within it into an `InputError` with the command that installs the extra `name` of
    this distribution.

    >>> with extra("ray", needed_by="--ray"):
    ...     import not_there
    Traceback (most recent call last):
    hocket_agent.errors.InputError: --ray: not_there is missing; pip install "hocket[ray]" installs it
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # No extra installs a module of ours: if one is missing, that is a defect.
        if error.name is None or error.name.partition(".")[0] in ("hocket", "hocket_agent"):
            raise
        raise InputError(
            f'{needed_by}: {error.name} is missing; pip install "hocket[{name}]" installs it'
        ) from None
