"""Alibaba's PAI (cluster-trace-gpu-v2020): `pai_task_table.csv`, one row for each role in a job, published
without a header.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hocket.cluster.importers.records import Record, Row, rows

_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_PERCENT = 100


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file, in the order in which their names first occur.

    A job has the GPUs of all its tasks together: instances × `plan_gpu`, which is in percent, each instance's
    share rounded up. It runs from the start of its first task to the end of its last. Jobs with a task that
    did not terminate normally are refused.
    """
    tasks: dict[str, list[Row]] = {}
    for row in rows(path, _COLUMNS, header=None):
        tasks.setdefault(row.text("job_name"), []).append(row)
    for name, of_job in tasks.items():
        yield _record(name, of_job)


def _record(name: str, tasks: Sequence[Row]) -> Record:
    started_ps = [task.seconds("start_time") for task in tasks if task.text("start_time")]
    if not started_ps:
        return Record(name, None, refused="did not start")
    statuses = {task.text("status") for task in tasks}
    if statuses != {"Terminated"}:
        return Record(name, min(started_ps), refused="failed" if "Failed" in statuses else "did not end")
    ended_ps = max(task.seconds("end_time") for task in tasks)
    return Record(
        name=name,
        submitted_ps=min(started_ps),
        gpus=sum(_gpus(task) for task in tasks),
        run_time_ps=max(ended_ps - min(started_ps), 0),
    )


def _gpus(task: Row) -> int:
    if not task.text("plan_gpu"):
        # The task uses CPUs only, such as a parameter server.
        return 0
    # Instances of PAI may share a GPU, but here a GPU has one job at a time.
    return task.whole("inst_num") * -(-task.number("plan_gpu") // _PERCENT)
