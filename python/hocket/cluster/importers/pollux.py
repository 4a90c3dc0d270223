"""Workloads of Pollux (OSDI'21): CSV files with the application and the submission of each job."""

from collections.abc import Iterator
from pathlib import Path

from hocket.cluster.importers.records import Record, rows

_COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file, without durations: in Pollux, a job ends when its application is trained.

    `batch_size` is checked but not used: it is the total over all replicas, on other GPUs.
    """
    for row in rows(path, _COLUMNS):
        row.whole("batch_size")
        yield Record(
            name=row.text("name"),
            submitted_ps=row.seconds("time"),
            gpus=row.whole("num_replicas"),
            application=row.text("application"),
        )
