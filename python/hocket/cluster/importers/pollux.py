"""Workloads of Pollux (OSDI'21): CSV files with the application of each job and how it was submitted."""

from collections.abc import Iterator
from pathlib import Path

from hocket.cluster.importers.records import Record, rows

_COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file. It has no durations: a job ends when its application is trained.

    `batch_size` is that of all replicas together on other GPUs, and not used.
    """
    for row in rows(path, _COLUMNS):
        row.whole("batch_size")
        yield Record(
            name=row.text("name"),
            submitted_ps=row.seconds("time"),
            gpus=row.whole("num_replicas"),
            application=row.text("application"),
        )
