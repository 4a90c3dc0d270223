"""A worker process of a sweep, started as `python -m hocket.sweeps.worker DESCRIPTOR`.

It runs the tasks that arrive through the connection with that descriptor, one after the other.
"""

import os
import sys
import threading
from multiprocessing.connection import Connection

from hocket.sweeps.task import Task, perform


def main(descriptor: int) -> None:
    """Runs tasks until the connection closes, or until the process at its other end is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Connection(descriptor) as connection:
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            assert isinstance(task, Task), "only tasks come through the connection"
            connection.send(perform(task))


def _end_with_parent() -> None:
    """Ends this process, even during a run, when standard input closes: the parent process is gone."""
    # Nothing is ever written to this pipe, so reading returns when it closes. `sys.exit` would end only this
    # thread.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
