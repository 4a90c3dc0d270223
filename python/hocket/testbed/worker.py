"""A worker of a job on the testbed: PyTorch's DistributedDataParallel over Gloo, optionally with the agent.

It needs only Python, PyTorch and `hocket_agent`. It reads its task as a line of JSON from standard input,
then `start NANOSECONDS` and `stop ITERATION`; it writes `ready`, and `done ITERATION` after each iteration.
When standard input ends, so does the worker.

Without GPUs there is no computation, so the worker sleeps in Down phases. Communication is real: each Up
phase is a bucket of gradients that DDP all-reduces in the backward pass.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

# These open Gloo's connections, and let DDP order its buckets as in the first backward pass.
WARM_UP_ITERATIONS = 3
# Any rate that keeps the weights small; they are not used.
_LEARNING_RATE = 1e-9
# So small that each parameter gets its own bucket. PyTorch has a separate limit for the first bucket.
_BUCKET_BYTES = 1


class Parent(threading.Thread):
    """Reads the messages of the parent process while iterations run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.task: dict[str, Any] = json.loads(sys.stdin.readline())
        self.start_ns = 0
        self.last: int | None = None
        self.started = threading.Event()

    def run(self) -> None:
        for line in sys.stdin:
            word, number = line.split()
            if word == "start":
                self.start_ns = int(number)
                self.started.set()
            elif word == "stop":
                self.last = int(number)
        # The parent has ended; the main thread may be waiting for a peer and could not end by itself.
        os._exit(1)


class Phases:
    """The times of computation and communication in one iteration, in ns on the monotonic clock.

    `downs_s` are the computation times before each Up phase, and after the last one.
    """

    def __init__(self, downs_s: Sequence[float]) -> None:
        self.downs_s = downs_s
        self.pending: Any = None
        self.ahead_ns = 0
        self.begin(1.0)

    def begin(self, factor: float) -> None:
        """Starts a new iteration, in which computation takes `factor` times as long."""
        self.factor = factor
        # The optimizer may take longer than the Down phase after the last Up phase; the first Down phase of
        # the next iteration is then shorter by the difference.
        self.computing_since_ns = time.monotonic_ns() - self.ahead_ns
        self.ahead_ns = 0
        self.up_ns: list[list[int]] = []

    def compute(self, number: int) -> None:
        """Sleeps until the end of the `number`-th Down phase, which began as the last Up phase ended."""
        self.communicated()
        due_ns = self.computing_since_ns + round(self.downs_s[number] * self.factor * 1e9)
        now_ns = time.monotonic_ns()
        time.sleep(max(0.0, (due_ns - now_ns) / 1e9))
        if number < len(self.downs_s) - 1:
            self.up_ns.append([time.monotonic_ns()])
        else:
            self.ahead_ns = max(0, now_ns - due_ns)

    def communicated(self) -> None:
        """Waits for the all-reduce that is under way, if any."""
        if self.pending is not None:
            self.pending.wait()
            self.pending = None
            self.computing_since_ns = time.monotonic_ns()
            self.up_ns[-1].append(self.computing_since_ns)


def model(sizes: Sequence[int], phases: Phases) -> Any:
    """A module with a parameter for each Up phase; its backward pass computes and sends phase by phase."""
    import torch

    class Compute(torch.autograd.Function):  # type: ignore[misc]  # torch may be absent, and is Any
        """Identity whose backward pass first performs the computation before an Up phase."""

        @staticmethod
        def forward(context: Any, value: Any, number: int) -> Any:
            context.number = number
            return value.clone()

        @staticmethod
        def backward(context: Any, gradient: Any) -> tuple[Any, None]:
            phases.compute(context.number)
            return gradient, None

    class Sum(torch.nn.Module):  # type: ignore[misc]  # torch may be absent, and is Any
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(size)) for size in sizes])

        def forward(self) -> Any:
            value = torch.zeros(())
            # The parameter added last is the first to get its gradient.
            for number in reversed(range(len(self.parts))):
                value = Compute.apply(value + self.parts[number].sum(), number)
            return value

    return Sum()


def all_reduce(phases: Phases) -> Any:
    """A communication hook that averages over all workers, like DDP's default."""
    import torch
    import torch.distributed as dist

    # DDP checks the annotations.
    def hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer().div_(dist.get_world_size())
        phases.pending = dist.all_reduce(buffer, async_op=True)
        return phases.pending.get_future().then(lambda future: future.value()[0])

    return hook


class TrainingLoop:
    """The model, the optional agent, and the steps of an iteration."""

    def __init__(self, task: dict[str, Any]) -> None:
        import torch
        import torch.distributed as dist

        dist._DEFAULT_FIRST_BUCKET_BYTES = _BUCKET_BYTES
        self.phases = Phases(task["downs_s"])
        self.model = torch.nn.parallel.DistributedDataParallel(
            model(task["elements"], self.phases),
            bucket_cap_mb=_BUCKET_BYTES / 2**20,
            # Saves the copy of gradients into buckets, and with it processor time that the network needs.
            gradient_as_bucket_view=True,
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=_LEARNING_RATE)
        hook = all_reduce(self.phases)
        self.agent: Any = None
        if task["agent"]:
            from hocket_agent import Agent

            self.agent = Agent.from_environment()
            self.agent.attach(self.model, hook=hook)
        else:
            self.model.register_comm_hook(None, hook)

    def iterate(self, factor: float) -> None:
        """Runs one iteration, whose computation takes `factor` times as long as usual."""
        self.phases.begin(factor)
        self.model().backward()
        self.phases.communicated()
        self.optimizer.step()
        self.phases.compute(len(self.phases.downs_s) - 1)


def work(parent: Parent) -> None:
    """Warms up, waits for the start, iterates until the end, and writes a JSON line for each iteration."""
    import torch.distributed as dist

    task = parent.task
    job = TrainingLoop(task)
    for _ in range(WARM_UP_ITERATIONS):
        job.iterate(1.0)
    dist.barrier()
    say("ready")
    parent.started.wait()
    # The monotonic clock is the same for all processes of the machine, network namespaces included.
    time.sleep(max(0.0, (parent.start_ns - time.monotonic_ns()) / 1e9))
    iteration = 0
    with open(task["log"], "w") as log:
        while not is_over(parent, iteration):
            # Flushed, so that a worker that is killed leaves its finished iterations.
            print(json.dumps(timed(job, task, iteration)), file=log, flush=True)
            say(f"done {iteration}")
            iteration += 1
    if job.agent is not None:
        job.agent.close()
    # No worker may leave while another still reads from it.
    dist.barrier()
    dist.destroy_process_group()


def is_over(parent: Parent, iteration: int) -> bool:
    """Whether the job ends before `iteration`."""
    limit = parent.task["iterations"]
    return (limit is not None and iteration >= limit) or (parent.last is not None and iteration > parent.last)


def timed(job: TrainingLoop, task: dict[str, Any], iteration: int) -> dict[str, Any]:
    """Runs one iteration; returns when it was due, began and ended, on the monotonic clock in ns."""
    due_ns = time.monotonic_ns()
    with job.agent.iteration() if job.agent is not None else nullcontext():
        start_ns = time.monotonic_ns()
        job.iterate(computing(task, iteration))
        end_ns = time.monotonic_ns()
    times = {"due_ns": due_ns, "start_ns": start_ns, "end_ns": end_ns, "up_ns": job.phases.up_ns}
    return {"iteration": iteration, **times}


def computing(task: dict[str, Any], iteration: int) -> float:
    """The factor on computation times in an iteration, the same for all workers of a job."""
    stream = random.Random(f"{task['stream']} {iteration}")
    return max(0.0, 1.0 + float(task["jitter"]) * stream.gauss(0.0, 1.0))


def say(line: str) -> None:
    """Writes a line to the parent process."""
    print(line, flush=True)


def main() -> None:
    """Joins the other workers of the job, and runs its task."""
    import torch
    import torch.distributed as dist

    parent = Parent()
    parent.start()
    # Gloo has its own threads for reductions.
    torch.set_num_threads(1)
    task = parent.task
    dist.init_process_group("gloo", init_method=task["store"], rank=task["rank"], world_size=task["ranks"])
    work(parent)


if __name__ == "__main__":
    main()
