"""SenseTime's Helios (SC'21): `cluster_log.csv`, one row for each job of Slurm."""

from collections.abc import Iterator
from pathlib import Path

from hocket.cluster.importers.records import Record, rows

_COLUMNS = ("job_id", "gpu_num", "state", "submit_time", "duration")
_FAILED = ("FAILED", "NODE_FAIL")


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file; failed ones are refused, cancelled and timed-out ones are not: they used GPUs."""
    for row in rows(path, _COLUMNS):
        state = row.text("state")
        yield Record(
            name=row.text("job_id"),
            submitted_ps=row.time("submit_time"),
            gpus=row.whole("gpu_num"),
            run_time_ps=row.seconds("duration"),
            refused="failed" if state in _FAILED else None,
        )
