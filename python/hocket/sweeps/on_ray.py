"""Runs tasks on a Ray cluster, of this machine or of many; needs `hocket[ray]`."""

import itertools
import re
import socket
from collections.abc import Generator, Sequence
from typing import Any

from hocket.errors import InputError, extra
from hocket.sweeps.task import Failure, Outcome, Task, perform

_HOST_AND_PORT = re.compile(r"(?:ray://)?(?P<host>[^/]+):(?P<port>[0-9]{1,5})")
_ANSWER_WITHIN_S = 10
# `ray.wait` examines all pending tasks whenever one is done, and few clusters have more processors than this.
_MAX_PENDING = 1_000

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, started for the sweep."""


def on_ray(tasks: Sequence[Task], address: str, workers: int | None) -> Generator[tuple[int, Outcome]]:
    """Yields the position and outcome of each task as it ends, from the cluster at `address`.

    `auto` is the cluster that this machine belongs to; `local` one of `workers` processors that is started
    here and ends with the iteration. At most `workers` tasks are pending at a time, if it is given.

    Every machine needs the same build of Hocket. If this process is already connected to a cluster, that one
    is used, whatever the address.

    Raises `InputError` if Ray is not installed or the cluster cannot be reached.
    """
    with extra("ray", needed_by="--ray"):
        import ray
    # A connection that the caller has opened is used and left open.
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, workers)
    waiting = iter(enumerate(tasks))
    busy: dict[Any, int] = {}
    try:
        remote = ray.remote(perform)
        for number, task in waiting:
            busy[remote.remote(task)] = number
            if len(busy) == (workers or _MAX_PENDING):
                break
        while busy:
            done, _ = ray.wait(list(busy))
            for each in done:
                number, outcome = busy.pop(each), _outcome(ray, each)
                # A new task for each that has ended keeps the number of pending ones.
                for following, task in itertools.islice(waiting, 1):
                    busy[remote.remote(task)] = following
                yield number, outcome
    finally:
        # Without `force`, Ray interrupts a task as Ctrl-C does, and the engine would first finish its tables.
        for each in busy:
            ray.cancel(each, force=True)
        if is_ours:
            ray.shutdown()


def _connect(ray: Any, address: str, workers: int | None) -> None:
    named = _HOST_AND_PORT.fullmatch(address)
    if named is not None:
        # Ray itself would retry for minutes if nothing answers at this address.
        try:
            socket.create_connection((named["host"], int(named["port"])), _ANSWER_WITHIN_S).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(f"--ray: the cluster {address!r} cannot be reached: {error}") from None
    # The number of processors can be set only for a cluster that is started here.
    settings = {"num_cpus": workers, "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, logging_level="warning", **settings)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"--ray: the cluster {address!r} cannot be reached: {reason}") from None


def _outcome(ray: Any, answered: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(answered)
    except ray.exceptions.RayError as error:
        # The lines above the last one are a traceback.
        return Failure(f"on Ray: {str(error).strip().splitlines()[-1]}")
    return outcome
