"""Runs tasks in worker processes on this machine, one task at a time in each.

Workers are started as programs of their own, not by `multiprocessing`: they need nothing of the caller's main
module, Ctrl-C does not reach them, and one that dies affects no other task.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Self

import hocket
from hocket.sweeps.task import Failure, Outcome, Task

# Workers already keep all processors busy; threads of libraries would only compete with them.
_ONE_THREAD = dict.fromkeys(
    ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)


def in_processes(tasks: Sequence[Task], workers: int) -> Generator[tuple[int, Outcome]]:
    """Yields the position and outcome of each task as it ends.

    A task whose process dies has failed; the others continue. The processes end with the iteration, however
    it ends.
    """
    waiting = iter(enumerate(tasks))
    busy: dict[Connection, tuple[_Worker, int]] = {}

    def start_next(worker: _Worker | None) -> None:
        number, task = next(waiting, (None, None))
        if number is None or task is None:
            if worker is not None:
                worker.end()
            return
        worker = worker or _Worker.start()
        busy[worker.connection] = (worker, number)
        worker.send(task)

    try:
        for _ in range(min(workers, len(tasks))):
            start_next(None)
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection), "workers answer through connections"
                worker, number = busy[connection]
                outcome = worker.outcome()
                del busy[connection]
                # Before the caller handles the outcome, so that the processor does not wait for it. A worker
                # that has died is replaced by a new process.
                start_next(worker if outcome is not None else None)
                yield number, outcome or Failure(worker.exit_reason())
    finally:
        for worker, _ in busy.values():
            worker.end()


class _Worker:
    """A worker process and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self.connection = connection
        self._process = process

    @classmethod
    def start(cls) -> Self:
        ours, theirs = Pipe()
        # Only the worker keeps this end open, so that the connection closes when it dies.
        with theirs:
            process = subprocess.Popen(
                # -P keeps Python from importing modules in the current directory by accident.
                [sys.executable, "-P", "-m", "hocket.sweeps.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                # The worker ends when this pipe closes, which happens even if this process is killed.
                stdin=subprocess.PIPE,
                # The terminal sends Ctrl-C to its whole process group; only this process is to handle it.
                process_group=0,
                env=os.environ | _ONE_THREAD | {"PYTHONPATH": _import_path()},
            )
        return cls(process, ours)

    def send(self, task: Task) -> None:
        # If the worker has died, reading its outcome detects that.
        with suppress(BrokenPipeError):
            self.connection.send(task)

    def outcome(self) -> Outcome | None:
        """The outcome of the task; `None` if the worker has died."""
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return None
        return outcome

    def exit_reason(self) -> str:
        """How the process ended, as a sentence."""
        code = self._end_of_process()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        # Linux sends SIGKILL when memory runs out.
        hint = "; is there enough memory?" if code == -signal.SIGKILL else ""
        return f"its process {how}{hint}"

    def end(self) -> None:
        self._process.kill()
        self._end_of_process()

    def _end_of_process(self) -> int:
        self.connection.close()
        code = self._process.wait()
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.close()
        return code


def _import_path() -> str:
    """A PYTHONPATH with which workers import this Hocket before any other."""
    ours = str(Path(hocket.__file__).parents[1])
    return os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
