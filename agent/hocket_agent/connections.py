"""The TCP connections of the job's process, and the congestion control that they are to have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hocket_agent.sockets import is_connection, use

_DESCRIPTORS = Path("/proc/self/fd")


class Connections:
    """Gives each connection of this process, as it appears, the congestion control `algorithm`.

    Gloo, NCCL's sockets and MPI open theirs below Python: here they are found among the file descriptors.
    """

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self._governed: set[str] = set()

    def govern(self) -> int:
        """Looks for new connections; how many were found.

        `InputError` if the algorithm is not there or not allowed; they are tried again the next time.
        """
        there = dict(_sockets())
        self._governed.intersection_update(there)
        count = 0
        for name, descriptor in there.items():
            if name not in self._governed and is_connection(descriptor):
                use(descriptor, self.algorithm)
                self._governed.add(name)
                count += 1
        return count


def _sockets() -> Iterator[tuple[str, int]]:
    """Names, such as `socket:[4711]`, and descriptors of the sockets of this process."""
    for entry in _DESCRIPTORS.iterdir():
        try:
            name = os.readlink(entry)
        except OSError:
            # Closed since it was listed.
            continue
        if name.startswith("socket:"):
            yield name, int(entry.name)
