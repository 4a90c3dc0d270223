"""The exception for what a user can get wrong (a plan, a file, an argument), and the one for a run that
proves itself wrong: exit codes 2 and 1 of the command line.

What only a bug can cause stays an assertion.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class InputError(ValueError):
    """Input that cannot be used; the message names the file, the key, the value and the limit.

    A message may have several lines, one per mistake.

    >>> str(InputError("plan.toml: seed: -1 is below 0"))
    'plan.toml: seed: -1 is below 0'
    """


class SelfCheckError(RuntimeError):
    """A run ended because one of its own checks did not hold: a packet lost although PFC is on, a deadlock,
    bytes gone astray.

    The message names link or flow, and the time; what the run recorded until then is kept.
    """


@contextmanager
def located(source: object) -> Iterator[None]:
    """Turns what is refused within it, by an engine or by us, into an `InputError` that begins with `source`
    if that is a file's path; a plan in memory needs no name.

    >>> with located("plan.toml"):
    ...     raise ValueError("jobs[0]: never finishes")
    Traceback (most recent call last):
    hocket.errors.InputError: plan.toml: jobs[0]: never finishes
    """
    try:
        yield
    except ValueError as error:
        where = f"{source}: " if isinstance(source, str | Path) else ""
        raise InputError(f"{where}{error}") from None
