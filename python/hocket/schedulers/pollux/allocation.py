"""Allocations of Pollux, which are numbers of workers by server, and the GPUs that they give to jobs."""

from collections.abc import Mapping, Sequence

from hocket.schedulers.state import Cluster, Gpus

Row = tuple[tuple[int, int], ...]
"""The workers of a job as (server, workers), by server."""


def row_of(cluster: Cluster, gpus: Sequence[int]) -> Row:
    """The workers of a job on `gpus`.

    >>> row_of(Cluster(("a", "b", "c"), ("a", "a", "c"), (0, 0, 1), (0, 0)), (0, 1, 2))
    ((0, 2), (1, 1))
    """
    workers: dict[int, int] = {}
    for gpu in gpus:
        server = cluster.server_of[gpu]
        workers[server] = workers.get(server, 0) + 1
    return tuple(sorted(workers.items()))


def gpus_by_job(cluster: Cluster, before: Mapping[str, Gpus], rows: Mapping[str, Row]) -> dict[str, Gpus]:
    """The GPUs of each job. A job with an unchanged row keeps its GPUs; the others keep as many as they can,
    then take the lowest free ones.

    `rows` must fit on the servers, and `before` must contain each of their jobs.
    """
    given = {job: gpus for job, gpus in before.items() if job in rows and rows[job] == row_of(cluster, gpus)}
    taken = {gpu for gpus in given.values() for gpu in gpus}
    # All jobs keep GPUs before any job takes more, so that none takes a GPU that another could keep.
    changed = {job: row for job, row in rows.items() if job not in given}
    kept = {job: _kept(cluster, before[job], row) for job, row in changed.items()}
    taken |= {gpu for gpus in kept.values() for gpu in gpus}
    for job, row in changed.items():
        more = [gpu for server, workers in row for gpu in _more(cluster, server, workers, kept[job], taken)]
        taken |= set(more)
        given[job] = tuple(sorted([*kept[job], *more]))
    return {job: given[job] for job in rows}


def _kept(cluster: Cluster, gpus: Gpus, row: Row) -> list[int]:
    held: list[int] = []
    for server, workers in row:
        held += [gpu for gpu in gpus if cluster.server_of[gpu] == server][:workers]
    return held


def _more(cluster: Cluster, server: int, workers: int, kept: Sequence[int], taken: set[int]) -> list[int]:
    missing = workers - sum(cluster.server_of[gpu] == server for gpu in kept)
    return [gpu for gpu in cluster.gpus_of[server] if gpu not in taken][:missing]
