"""The processes of a run on a testbed: a worker for each rank in its host's namespace, what they say, and
their end, whatever happens.
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
    """Workers ended before they were told to; the message names one, its job and host, and why it ended."""


@dataclass
class Rank:
    """A worker's process."""

    job: str
    rank: int
    worker: Worker
    process: subprocess.Popen[bytes]
    errors: Path
    """What it writes to standard error."""
    log: Path
    """A line for each iteration."""
    agent_log: Path
    done: int = 0
    """Iterations that it has finished."""
    ready: bool = False
    unread: bytes = field(default=b"")

    def tell(self, line: str) -> None:
        """Says a line to it, unless it has ended."""
        assert self.process.stdin is not None, "its standard input is a pipe"
        # That it has ended is noticed where processes are waited for.
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def listen(self) -> bool:
        """Takes what it has said so far; whether it may say more."""
        assert self.process.stdout is not None, "its standard output is a pipe"
        said = os.read(self.process.stdout.fileno(), 65_536)
        *lines, self.unread = (self.unread + said).split(b"\n")
        for line in lines:
            word, *rest = line.split()
            if word == b"ready":
                self.ready = True
            elif word == b"done":
                self.done = int(rest[0]) + 1
        return said != b""

    @property
    def title(self) -> str:
        """As messages name it."""
        return f"job {self.job!r}: rank {self.rank} on host {self.worker.host!r}"

    def has_ended(self) -> bool:
        """Whether its process is over."""
        return self.process.poll() is not None

    def why_ended(self) -> str:
        """How it ended, and the last of what it said about it."""
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        lines = self.errors.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        said = ": " + " | ".join(lines) if lines else ""
        return f"{self.title} {how}{said}"


def find_python(asked: str | None) -> str:
    """A Python that has PyTorch with Gloo: `asked`, or this one, or the system's.

    Raises `InputError` that names those tried if none has.
    """
    tried = [asked] if asked is not None else list(dict.fromkeys((sys.executable, "/usr/bin/python3")))
    for python in tried:
        if torch_version(python) is not None:
            return python
    raise InputError(
        f"the testbed's workers need PyTorch with Gloo, and {' and '.join(tried)} "
        f"{'has' if len(tried) == 1 else 'have'} none: install it (Debian's python3-torch is enough) or name "
        "a Python that has it with --python"
    )


@cache
def torch_version(python: str) -> str | None:
    """The version of PyTorch that `python` has, or None without one that has Gloo."""
    asked = "import torch, torch.distributed as d; d.ProcessGroupGloo; print(torch.__version__)"
    try:
        ran = subprocess.run((python, "-c", asked), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    # A program that is no Python may end well, too, but prints no version.
    return (ran.stdout.strip() or None) if ran.returncode == 0 else None


def package_alone(folder: Path) -> Path:
    """A directory, made in `folder`, with Hocket, the agent and nothing else: for a Python that has none of
    Hocket's dependencies.
    """
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
    """Starts a worker in its namespace, with its task; its files are in `folder`."""
    job, rank = task["job"], task["rank"]
    stem = worker.namespace
    errors, log = folder / f"{stem}.err", folder / f"{stem}.jsonl"
    agent_log = folder / f"{stem}.agent.jsonl"
    variables = {
        # What a user has set for agents elsewhere is not for these.
        **{name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")},
        **environment,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GLOO_SOCKET_IFNAME": worker.interface,
        "HOCKET_LOG": str(agent_log),
        "RANK": str(rank),
        "WORLD_SIZE": str(task["ranks"]),
        "OMP_NUM_THREADS": "1",
    }
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            ("ip", "netns", "exec", worker.namespace, python, "-m", "hocket.testbed.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=variables,
            # Python looks for modules where it is started, too.
            cwd=folder,
            # Ctrl-C is for the process that keeps the tables, which then tells the workers to stop.
            start_new_session=True,
        )
    started = Rank(job, rank, worker, process, errors, log, agent_log)
    started.tell(json.dumps({**task, "log": str(log)}))
    return started


@contextmanager
def ended(ranks: list[Rank]) -> Iterator[None]:
    """At its end no process of `ranks` is left."""
    try:
        yield
    finally:
        # All before any is waited for: a worker without its peer would complain.
        for rank in ranks:
            rank.process.kill()
        for rank in ranks:
            rank.process.wait()
            for pipe in (rank.process.stdin, rank.process.stdout):
                assert pipe is not None, "they are pipes"
                # What was not yet written to a process that has ended.
                with suppress(BrokenPipeError):
                    pipe.close()


def listen_until(
    ranks: Sequence[Rank], is_over: Callable[[], bool], every_s: float, tell: Callable[[], object]
) -> None:
    """Takes what `ranks` say until `is_over`; `tell` is called at least every `every_s`.

    Raises `WorkersLostError` if one ends with an error.
    """
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            assert rank.process.stdout is not None, "it was started with a pipe"
            selector.register(rank.process.stdout, selectors.EVENT_READ, rank)
        while not is_over():
            for key, _ in selector.select(every_s):
                if not key.data.listen():
                    selector.unregister(key.fileobj)
            lost = [rank for rank in ranks if rank.has_ended() and rank.process.returncode != 0]
            if lost:
                # One that was killed is why the others, which miss it, ended with an error.
                raise WorkersLostError(min(lost, key=lambda rank: rank.process.returncode).why_ended())
            tell()
