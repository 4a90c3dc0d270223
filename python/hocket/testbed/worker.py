"""A worker of a job on the testbed: PyTorch's DistributedDataParallel over Gloo, with the agent if asked.

Needs Python, PyTorch and `hocket_agent` alone. Reads its task as a line of JSON from standard input, then
`start NANOSECONDS` and `stop ITERATION`; writes `ready`, and `done ITERATION` after each. When standard input
ends, so does the worker.

A machine without GPUs has no computation to do: Down phases are slept. What is real is all that sends: each
Up phase is a bucket of gradients which DDP all-reduces in the backward pass.
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

# They open Gloo's connections, and DDP puts its buckets in the order of the first backward pass.
WARM_UP_ITERATIONS = 3
# Any that keeps the numbers small: what is learnt is of no interest.
_LEARNING_RATE = 1e-9
# A parameter that is alone in its bucket is all-reduced alone: PyTorch closes a bucket at this size, the
# first one at its own.
_BUCKET_BYTES = 1


class Parent(threading.Thread):
    """What the process that started this one says, read while iterations go on."""

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
        # Whoever started us is gone; a main thread that waits for a peer could not end by itself.
        os._exit(1)


class Phases:
    """When computation and communication of one iteration began and ended, all by the monotonic clock in ns.

    `downs_s` are the computation before each Up phase, and after the last.
    """

    def __init__(self, downs_s: Sequence[float]) -> None:
        self.downs_s = downs_s
        self.pending: Any = None
        self.ahead_ns = 0
        self.begin(1.0)

    def begin(self, factor: float) -> None:
        """A new iteration starts now, in which computation takes `factor` times as long."""
        self.factor = factor
        # The optimizer computes after the last Up phase, for which a Down phase there may be too short: the
        # first of the next iteration is shorter by that.
        self.computing_since_ns = time.monotonic_ns() - self.ahead_ns
        self.ahead_ns = 0
        self.up_ns: list[list[int]] = []

    def compute(self, number: int) -> None:
        """Computes as long as the `number`-th Down phase; what was done since the last Up phase counts."""
        self.communicated()
        due_ns = self.computing_since_ns + round(self.downs_s[number] * self.factor * 1e9)
        now_ns = time.monotonic_ns()
        time.sleep(max(0.0, (due_ns - now_ns) / 1e9))
        if number < len(self.downs_s) - 1:
            self.up_ns.append([time.monotonic_ns()])
        else:
            self.ahead_ns = max(0, now_ns - due_ns)

    def communicated(self) -> None:
        """Waits for the all-reduce that is under way, if one is."""
        if self.pending is not None:
            self.pending.wait()
            self.pending = None
            self.computing_since_ns = time.monotonic_ns()
            self.up_ns[-1].append(self.computing_since_ns)


def model(sizes: Sequence[int], phases: Phases) -> Any:
    """A module with a parameter for each Up phase, whose backward pass computes and sends phase by phase."""
    import torch

    class Compute(torch.autograd.Function):  # type: ignore[misc]  # torch may be absent, and is Any
        """Passes a value on, and its gradient after the computation that comes before an Up phase."""

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
            # The last to be added is the first to get its gradient.
            for number in reversed(range(len(self.parts))):
                value = Compute.apply(value + self.parts[number].sum(), number)
            return value

    return Sum()


def all_reduce(phases: Phases) -> Any:
    """A communication hook: the mean over all workers, as DDP's own."""
    import torch
    import torch.distributed as dist

    # DDP looks at the annotations.
    def hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer().div_(dist.get_world_size())
        phases.pending = dist.all_reduce(buffer, async_op=True)
        return phases.pending.get_future().then(lambda future: future.value()[0])

    return hook


class TrainingLoop:
    """The model, the agent if one is asked for, and what an iteration does with both."""

    def __init__(self, task: dict[str, Any]) -> None:
        import torch
        import torch.distributed as dist

        dist._DEFAULT_FIRST_BUCKET_BYTES = _BUCKET_BYTES
        self.phases = Phases(task["downs_s"])
        self.model = torch.nn.parallel.DistributedDataParallel(
            model(task["elements"], self.phases),
            bucket_cap_mb=_BUCKET_BYTES / 2**20,
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
        """One iteration, whose computation takes `factor` times as long as usual."""
        self.phases.begin(factor)
        self.model().backward()
        self.phases.communicated()
        self.optimizer.step()
        self.phases.compute(len(self.phases.downs_s) - 1)


def work(parent: Parent) -> None:
    """Warms up, waits for the start, iterates until the end, and writes a line of JSON for each iteration."""
    import torch.distributed as dist

    task = parent.task
    job = TrainingLoop(task)
    for _ in range(WARM_UP_ITERATIONS):
        job.iterate(1.0)
    dist.barrier()
    say("ready")
    parent.started.wait()
    time.sleep(max(0.0, (parent.start_ns - time.monotonic_ns()) / 1e9))
    iteration = 0
    with open(task["log"], "w") as log:
        while not is_over(parent, iteration):
            print(json.dumps(timed(job, task, iteration)), file=log, flush=True)
            say(f"done {iteration}")
            iteration += 1
    if job.agent is not None:
        job.agent.close()
    # No worker leaves while another still reads from it.
    dist.barrier()
    dist.destroy_process_group()


def is_over(parent: Parent, iteration: int) -> bool:
    """Whether `iteration` is one too many."""
    limit = parent.task["iterations"]
    return (limit is not None and iteration >= limit) or (parent.last is not None and iteration > parent.last)


def timed(job: TrainingLoop, task: dict[str, Any], iteration: int) -> dict[str, Any]:
    """One iteration, and when it could have begun, began and ended: by the monotonic clock, in ns."""
    due_ns = time.monotonic_ns()
    with job.agent.iteration() if job.agent is not None else nullcontext():
        start_ns = time.monotonic_ns()
        job.iterate(computing(task, iteration))
        end_ns = time.monotonic_ns()
    times = {"due_ns": due_ns, "start_ns": start_ns, "end_ns": end_ns, "up_ns": job.phases.up_ns}
    return {"iteration": iteration, **times}


def computing(task: dict[str, Any], iteration: int) -> float:
    """How many times as long as usual computation takes: the same for all workers of a job."""
    stream = random.Random(f"{task['stream']} {iteration}")
    return max(0.0, 1.0 + float(task["jitter"]) * stream.gauss(0.0, 1.0))


def say(line: str) -> None:
    """Tells whoever started this process."""
    print(line, flush=True)


def main() -> None:
    """Joins the other workers of the job, and works."""
    import torch
    import torch.distributed as dist

    parent = Parent()
    parent.start()
    # Gloo sums in threads of its own.
    torch.set_num_threads(1)
    task = parent.task
    dist.init_process_group("gloo", init_method=task["store"], rank=task["rank"], world_size=task["ranks"])
    work(parent)


if __name__ == "__main__":
    main()
