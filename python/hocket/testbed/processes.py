"""The processes of a run on a testbed: starts a worker for each rank in its host's namespace, reads its
output, and always ends it.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import hocket
import hocket_agent
from hocket.errors import InputError
from hocket.testbed.layout import Worker

_LAST_LINES = 6


class WorkersLostError(RuntimeError):
    """Workers ended too early; the message names one, its job and host, and why it ended."""


@dataclass
class Rank:
    """A worker's process."""

    job: str
    rank: int
    worker: Worker
    process: subprocess.Popen[bytes]
    errors: Path
    """Its standard error."""
    log: Path
    """A line for each iteration."""
    agent_log: Path
    done: int = 0
    """Iterations that it has finished."""
    ready: bool = False
    unread: bytes = field(default=b"")

    def send(self, line: str) -> None:
        """Sends a line to its standard input, unless it has ended."""
        assert self.process.stdin is not None, "its standard input is a pipe"
        # `listen_until` notices that the process has ended.
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def listen(self) -> bool:
        """Reads its output so far; returns whether more may follow."""
        assert self.process.stdout is not None, "its standard output is a pipe"
        output = os.read(self.process.stdout.fileno(), 65_536)
        *lines, self.unread = (self.unread + output).split(b"\n")
        for line in lines:
            word, *rest = line.split()
            if word == b"ready":
                self.ready = True
            elif word == b"done":
                self.done = int(rest[0]) + 1
        return output != b""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"job {self.job!r}: rank {self.rank} on host {self.worker.host!r}"

    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self.process.poll() is not None

    def why_ended(self) -> str:
        """How it ended, with the last lines of its standard error."""
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        lines = self.errors.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        errors = ": " + " | ".join(lines) if lines else ""
        return f"{self.title} {how}{errors}"


def find_python(given: str | None) -> str:
    """A Python that has PyTorch with Gloo: `given` if it is not None, else this interpreter or the system's.

    Raises `InputError` that names those tried if none has it.
    """
    tried = [given] if given is not None else list(dict.fromkeys((sys.executable, "/usr/bin/python3")))
    for python in tried:
        if torch_version(python) is not None:
            return python
    raise InputError(
        f"the testbed's workers need PyTorch with Gloo, but {' and '.join(tried)} "
        f"{'has' if len(tried) == 1 else 'have'} none: install it (Debian: python3-torch), or pass a Python "
        "that has it with --python"
    )


@cache
def torch_version(python: str) -> str | None:
    """The version of PyTorch in `python`, or None without PyTorch or Gloo."""
    script = "import torch, torch.distributed as d; d.ProcessGroupGloo; print(torch.__version__)"
    try:
        ran = subprocess.run((python, "-c", script), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    # A program other than Python may also exit with 0, but prints no version.
    return (ran.stdout.strip() or None) if ran.returncode == 0 else None


def package_alone(folder: Path) -> Path:
    """A directory in `folder` with only Hocket and the agent, for a Python without Hocket's dependencies."""
    alone = folder / "package"
    alone.mkdir()
    for module in (hocket, hocket_agent):
        (source,) = module.__path__
        (alone / module.__name__).symlink_to(source, target_is_directory=True)
    return alone


def start_rank(
    worker: Worker,
    task: Mapping[str, Any],
    python: str,
    package: Path,
    folder: Path,
    environment: Mapping[str, str],
) -> Rank:
    """Starts a worker with its task in its namespace; its files are in `folder`."""
    job, rank = task["job"], task["rank"]
    stem = worker.namespace
    errors, log = folder / f"{stem}.err", folder / f"{stem}.jsonl"
    agent_log = folder / f"{stem}.agent.jsonl"
    variables = {
        # A user's settings for agents elsewhere must not reach these.
        **{name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")},
        **environment,
        "PYTHONPATH": str(package),
        # The package is a link to the installed one, in which root's workers must leave no files.
        "PYTHONDONTWRITEBYTECODE": "1",
        # By default, Gloo looks up the machine's name, whose address is not in this namespace.
        "GLOO_SOCKET_IFNAME": worker.interface,
        "HOCKET_LOG": str(agent_log),
        "RANK": str(rank),
        "WORLD_SIZE": str(task["ranks"]),
        # Workers share the machine's processors with the network; PyTorch would use all of them.
        "OMP_NUM_THREADS": "1",
    }
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            # ip replaces itself by the worker, so signals and exit code are the worker's.
            ("ip", "netns", "exec", worker.namespace, python, "-m", "hocket.testbed.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=variables,
            # With -m, Python also searches the current directory for modules, so it must contain none.
            cwd=folder,
            # Ctrl-C must reach only the parent, which then tells the workers to stop.
            start_new_session=True,
        )
    started = Rank(job, rank, worker, process, errors, log, agent_log)
    started.send(json.dumps({**task, "log": str(log)}))
    return started


@contextmanager
def ended(ranks: list[Rank]) -> Iterator[None]:
    """Context manager that ends all processes of `ranks` on exit."""
    try:
        yield
    finally:
        # All are killed before any is waited for: a worker that loses its peer would report an error.
        for rank in ranks:
            rank.process.kill()
        for rank in ranks:
            rank.process.wait()
            for pipe in (rank.process.stdin, rank.process.stdout):
                assert pipe is not None, "they are pipes"
                # Closing flushes data for a process that has already ended.
                with suppress(BrokenPipeError):
                    pipe.close()


def listen_until(
    ranks: Sequence[Rank], is_over: Callable[[], bool], every_s: float, step: Callable[[], object]
) -> None:
    """Reads the output of `ranks` until `is_over`; calls `step` at least every `every_s`.

    Raises `WorkersLostError` if one ends with an error.
    """
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            assert rank.process.stdout is not None, "it was started with a pipe"
            selector.register(rank.process.stdout, selectors.EVENT_READ, rank)
        while not is_over():
            for key, _ in selector.select(every_s):
                # At its end, a pipe stays readable, and the loop would never wait again.
                if not key.data.listen():
                    selector.unregister(key.fileobj)
            lost = [rank for rank in ranks if rank.has_ended() and rank.process.returncode != 0]
            if lost:
                # A killed worker has a negative return code, and is why the others ended with an error.
                raise WorkersLostError(min(lost, key=lambda rank: rank.process.returncode).why_ended())
            step()
