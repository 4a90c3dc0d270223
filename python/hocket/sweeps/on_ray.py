"""Does tasks on a cluster of Ray, on this machine or many; needs `hocket[ray]`."""

import itertools
import re
import socket
from collections.abc import Generator, Sequence
from typing import Any

from hocket.errors import InputError, extra
from hocket.sweeps.task import Failure, Outcome, Task, perform

_HOST_AND_PORT = re.compile(r"(?:ray://)?(?P<host>[^/]+):(?P<port>[0-9]{1,5})")
_ANSWER_WITHIN_S = 10
# Ray looks at all of them whenever one is done, and no cluster has more processors to keep busy.
_MOST_UNDER_WAY = 1_000

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, made for the sweep."""


def on_ray(tasks: Sequence[Task], address: str, workers: int | None) -> Generator[tuple[int, Outcome]]:
    """The position of each task with its outcome, as they come, from the cluster at `address`.

    `auto` is the cluster that this machine belongs to; `local` one of `workers` processors that is made here
    and ends with the iteration. At most `workers` tasks are under way if it is given.

    Every machine needs the same build of Hocket. A cluster that this process is already connected to is used
    as it is, whatever the address.

    Raises `InputError` if Ray is not installed or the cluster cannot be reached.
    """
    with extra("ray", needed_by="--ray"):
        import ray
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, workers)
    waiting = iter(enumerate(tasks))
    busy: dict[Any, int] = {}
    try:
        remote = ray.remote(perform)
        for number, task in waiting:
            busy[remote.remote(task)] = number
            if len(busy) == (workers or _MOST_UNDER_WAY):
                break
        while busy:
            done, _ = ray.wait(list(busy))
            for each in done:
                number, outcome = busy.pop(each), _outcome(ray, each)
                for following, task in itertools.islice(waiting, 1):
                    busy[remote.remote(task)] = following
                yield number, outcome
    finally:
        for each in busy:
            ray.cancel(each, force=True)
        if is_ours:
            ray.shutdown()


def _connect(ray: Any, address: str, workers: int | None) -> None:
    named = _HOST_AND_PORT.fullmatch(address)
    if named is not None:
        # Ray tries again for minutes where nobody answers.
        try:
            socket.create_connection((named["host"], int(named["port"])), _ANSWER_WITHIN_S).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(f"--ray: the cluster {address!r} cannot be reached: {error}") from None
    # A cluster has the processors that it has; only one that is made here can be told how many.
    made_here = {"num_cpus": workers, "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, logging_level="warning", **made_here)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"--ray: the cluster {address!r} cannot be reached: {reason}") from None


def _outcome(ray: Any, answered: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(answered)
    except ray.exceptions.RayError as error:
        # Above the last line is where it happened.
        return Failure(f"on Ray: {str(error).strip().splitlines()[-1]}")
    return outcome
