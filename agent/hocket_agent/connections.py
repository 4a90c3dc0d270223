"""Sets the congestion control of the TCP connections in the job's process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hocket_agent.sockets import is_connection, use

_DESCRIPTORS = Path("/proc/self/fd")


class Connections:
    """Sets the congestion control of each new connection of this process to `algorithm`.

    Gloo, NCCL's sockets and MPI open connections below Python, so they are found among the file descriptors.
    """

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self._configured: set[str] = set()

    def configure(self) -> int:
        """Configures new connections, and returns how many there were.

        Raises `InputError` if the algorithm is not available or not allowed; the next call tries again.
        """
        sockets = dict(_sockets())
        # A name contains the inode of the socket, which the kernel may reuse once the socket is closed.
        self._configured.intersection_update(sockets)
        count = 0
        for name, descriptor in sockets.items():
            if name not in self._configured and is_connection(descriptor):
                use(descriptor, self.algorithm)
                self._configured.add(name)
                count += 1
        return count


def _sockets() -> Iterator[tuple[str, int]]:
    """Name, such as `socket:[4711]`, and file descriptor of each socket of this process."""
    for entry in _DESCRIPTORS.iterdir():
        try:
            name = os.readlink(entry)
        except OSError:
            # It was closed after the directory was listed.
            continue
        if name.startswith("socket:"):
            yield name, int(entry.name)
