"""Allocations that are equivalent to Pollux: servers are permuted, and every job keeps its number of workers
and of servers.
"""

from collections.abc import Mapping
from random import Random

from hocket.schedulers.pollux.allocation import Row
from hocket.schedulers.state import Cluster

# Random relabelings tried for each requested candidate; small clusters have few different ones.
_TRIES = 10


class EqualAllocations:
    """Relabelings of an allocation in which jobs with unchanged rows stay, and the same jobs restart."""

    def __init__(self, cluster: Cluster, before: Mapping[str, Row], after: Mapping[str, Row]) -> None:
        """`before` and `after` have a row for every job, empty for a waiting job."""
        self._cluster = cluster
        self._before = before
        self._after = after
        servers = range(len(cluster.gpus_of))
        self._moving: list[dict[str, int]] = [{} for _ in servers]
        self._room = [len(gpus) for gpus in cluster.gpus_of]
        self._distributed_stays = [False for _ in servers]
        for job, row in after.items():
            for server, workers in row:
                if row == before[job]:
                    self._room[server] -= workers
                    self._distributed_stays[server] |= len(row) > 1
                else:
                    self._moving[server][job] = workers

    def sample(self, count: int, draw: Random) -> list[dict[str, Row]]:
        """Up to `count` allocations, `after` first; no two differ only in the names of racks or servers."""
        found = [dict(self._after)]
        seen = {self._shape(self._after)}
        if any(self._moving):
            for _ in range(_TRIES * (count - 1)):
                if len(found) == count:
                    break
                rows = self._rows(self._shuffled(draw))
                shape = self._shape(rows)
                if shape not in seen and self._restarts_as_before(rows):
                    seen.add(shape)
                    found.append(rows)
        return found

    def _shuffled(self, draw: Random) -> list[dict[str, int]]:
        """The moving workers by server, randomly swapped between servers with room for each other's."""
        # A Fisher-Yates shuffle that skips impossible swaps. It need not draw all relabelings equally often.
        moving = list(self._moving)
        for last in range(len(moving) - 1, 0, -1):
            drawn = draw.randrange(last + 1)
            if self._takes(last, moving[drawn]) and self._takes(drawn, moving[last]):
                moving[last], moving[drawn] = moving[drawn], moving[last]
        return moving

    def _takes(self, server: int, jobs: Mapping[str, int]) -> bool:
        if sum(jobs.values()) > self._room[server]:
            return False
        # At most one distributed job per server (OSDI'21 §4.2); the moving workers of a server already obey
        # this among themselves.
        return not self._distributed_stays[server] or all(len(self._after[job]) == 1 for job in jobs)

    def _rows(self, moving: list[dict[str, int]]) -> dict[str, Row]:
        cells: dict[str, list[tuple[int, int]]] = {}
        for server, jobs in enumerate(moving):
            for job, workers in jobs.items():
                cells.setdefault(job, []).append((server, workers))
        return {job: tuple(cells.get(job, ())) or row for job, row in self._after.items()}

    def _restarts_as_before(self, rows: Mapping[str, Row]) -> bool:
        """Whether no moving job returns to its current servers, where it would avoid the restart."""
        return all(self._after[job] == row or row != self._before[job] for job, row in rows.items())

    def _shape(self, rows: Mapping[str, Row]) -> tuple[object, ...]:
        """The allocation up to the names of racks, and of servers within a rack."""
        servers: list[list[tuple[str, int]]] = [[] for _ in self._cluster.gpus_of]
        for job, row in rows.items():
            for server, workers in row:
                servers[server].append((job, workers))
        racks: dict[int, list[tuple[int, tuple[tuple[str, int], ...]]]] = {}
        for server, jobs in enumerate(servers):
            # Servers of different sizes are not interchangeable.
            size = len(self._cluster.gpus_of[server])
            racks.setdefault(self._cluster.rack_of[server], []).append((size, tuple(jobs)))
        return tuple(sorted(tuple(sorted(rack)) for rack in racks.values()))
