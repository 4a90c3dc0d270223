"""Periods of synthetic training jobs of many shapes: correct or of low confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.profiling.timelines.iterations import timeline_iterations
from hocket.profiling.timelines.timeline import Operation, Timeline

MS = 1e-3


@dataclass
class Recorder:
    """A GPU with separate streams for computation and communication, and a profiler that records it.

    Computation waits for a collective only if the job says so. Each takes the given time, give or take
    `jitter`.
    """

    rng: np.random.Generator
    jitter: float
    now_s: float = 0.0
    free_s: dict[str, float] = field(default_factory=dict)
    starts_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    computes_s: list[tuple[float, float]] = field(default_factory=list)

    def takes(self, length_s: float) -> float:
        """`length_s` with its jitter."""
        return length_s * max(0.05, 1.0 + self.jitter * float(self.rng.standard_normal()))

    def compute(self, length_s: float, kernels: int = 3) -> None:
        """Runs `kernels` kernels, one after the other, for `length_s` in total."""
        for _ in range(kernels):
            end_s = self.now_s + self.takes(length_s / kernels)
            self.computes_s.append((self.now_s, end_s))
            self.now_s = end_s

    def communicate(self, operation: Operation, length_s: float, *, wait: bool = False) -> None:
        """Starts a collective as soon as its lane is free."""
        start_s = max(self.now_s + 1e-6, self.free_s.get(operation.lane, 0.0))
        end_s = start_s + self.takes(length_s)
        self.starts_s.append(start_s)
        self.ends_s.append(end_s)
        self.operations.append(operation)
        self.free_s[operation.lane] = end_s
        if wait:
            self.now_s = end_s

    def wait(self) -> None:
        """Waits until all collectives have ended."""
        self.now_s = max([self.now_s, *self.free_s.values()])


Iteration = Callable[[Recorder], None]


def collective(kind: str, size: int = 1, lane: str = "dp") -> Operation:
    return Operation(kind, size, 8, (), "", lane)


def ddp(buckets: int, alike: bool) -> Iteration:
    """Forward pass, backward pass with an all-reduce per bucket, optimiser."""

    def run(gpu: Recorder) -> None:
        gpu.compute(3 * MS * buckets, 10)
        for bucket in range(buckets):
            gpu.compute(6 * MS, 5)
            gpu.communicate(collective("all-reduce", 1 if alike else bucket + 1), 4 * MS)
        gpu.wait()
        gpu.compute(2 * MS + 1 * MS * buckets, 8)

    return run


def accumulated_ddp(micro_batches: int) -> Iteration:
    """DDP that communicates only in the last of its micro-batches."""

    def run(gpu: Recorder) -> None:
        for _ in range(micro_batches - 1):
            gpu.compute(30 * MS, 20)
        ddp(4, True)(gpu)

    return run


def fsdp(layers: int, micro_batches: int, norm: bool) -> Iteration:
    """Equal all-gathers before each layer, then all-gathers and reduce-scatters, then the optimiser."""

    def run(gpu: Recorder) -> None:
        for _ in range(micro_batches):
            for _ in range(layers):
                gpu.communicate(collective("all-gather", 8), 2 * MS, wait=True)
                gpu.compute(3 * MS)
            for _ in range(layers):
                gpu.communicate(collective("all-gather", 8), 2 * MS, wait=True)
                gpu.compute(6 * MS, 6)
                gpu.communicate(collective("reduce-scatter", 8), 2 * MS)
        gpu.wait()
        if norm:
            gpu.communicate(collective("all-reduce", 0), 0.1 * MS, wait=True)
        gpu.compute(0.2 * 15 * MS * layers * micro_batches, 30)

    return run


def tensor_parallel(layers: int) -> Iteration:
    """Two all-reduces per layer, forward and backward, all alike: only the optimiser separates iterations."""

    def run(gpu: Recorder) -> None:
        for length_s in (2 * MS, 4 * MS):
            for _ in range(2 * layers):
                gpu.compute(length_s)
                gpu.communicate(collective("all-reduce", 5, "tp"), 1 * MS, wait=True)
        gpu.compute(1.5 * MS * layers + 3 * MS, 30)

    return run


def pipeline(micro_batches: int) -> Iteration:
    """A middle stage: a receive and a send per micro-batch, forward and backward, then an all-reduce."""

    def run(gpu: Recorder) -> None:
        for length_s in (3 * MS, 6 * MS):
            for _ in range(micro_batches):
                gpu.communicate(collective("recv", 3, "pp"), 0.5 * MS, wait=True)
                gpu.compute(length_s)
                gpu.communicate(collective("send", 3, "pp"), 0.5 * MS)
        gpu.communicate(collective("all-reduce", 7), 12 * MS, wait=True)
        gpu.compute(4 * MS, 10)

    return run


def experts(layers: int) -> Iteration:
    """All-to-alls whose size the router decides anew each time, and an all-reduce."""

    def run(gpu: Recorder) -> None:
        for _ in range(4 * layers):
            gpu.compute(3 * MS)
            gpu.communicate(collective("all-to-all", int(gpu.rng.integers(1, 10**6))), 2 * MS, wait=True)
        gpu.compute(3 * MS)
        gpu.communicate(collective("all-reduce", 9), 8 * MS)
        gpu.wait()
        gpu.compute(3 * MS, 12)

    return run


def overlapped(layers: int) -> Iteration:
    """Tensor-parallel all-reduces on one stream while gradients are reduced on another."""

    def run(gpu: Recorder) -> None:
        for _ in range(layers):
            gpu.compute(2 * MS)
            gpu.communicate(collective("all-reduce", 5, "tp"), 1 * MS, wait=True)
        for layer in range(layers):
            gpu.compute(4 * MS)
            gpu.communicate(collective("all-reduce", 5, "tp"), 1 * MS, wait=True)
            gpu.communicate(collective("reduce-scatter", layer + 1, "dp"), 4.3 * MS)
        gpu.wait()
        gpu.compute(5 * MS, 20)

    return run


def checkpoint(gpu: Recorder) -> None:
    """A barrier, then no computation while the model is written."""
    gpu.communicate(collective("barrier", 0), 0.05 * MS, wait=True)
    gpu.now_s += 120 * MS


def silent_checkpoint(gpu: Recorder) -> None:
    gpu.now_s += 70 * MS


def logging(gpu: Recorder) -> None:
    """The loss is averaged for printing: one number, reduced by a kernel with a single block."""
    gpu.communicate(Operation("all-reduce", 4, 8, (), "1 block", "dp"), 0.05 * MS, wait=True)


def evaluation(gpu: Recorder) -> None:
    """Forward passes on a validation set, then an all-reduce of one number."""
    gpu.compute(400 * MS, 60)
    gpu.communicate(collective("all-reduce", 2, "dp"), 0.05 * MS, wait=True)


def warm_up(gpu: Recorder) -> None:
    """Parameters are broadcast, buckets are laid out, kernels are chosen."""
    for size in (100, 200, 300):
        gpu.communicate(collective("broadcast", size), 5 * MS, wait=True)
    gpu.compute(50 * MS, 20)


@dataclass(frozen=True)
class Job:
    """A job as it is recorded: every `every` iterations the `occasion` happens, and `once` in the middle."""

    iteration: Iteration
    iterations: int
    jitter: float = 0.01
    every: int = 0
    occasion: Iteration = logging
    once: Iteration | None = None
    first: Iteration | None = None
    cut_start: float = 0.0
    cut_end: float = 0.0
    computes: bool = True
    sizes: bool = True
    annotated: bool = False
    seed: int = 1

    def record(self) -> tuple[Timeline, float]:
        """The recorded timeline, and the mean length of iterations without occasions."""
        gpu = Recorder(np.random.default_rng(self.seed), self.jitter)
        if self.first is not None:
            self.first(gpu)
        lengths_s, begins_s = [], []
        for number in range(self.iterations):
            begins_s.append(gpu.now_s)
            self.iteration(gpu)
            lengths_s.append(gpu.now_s - begins_s[-1])
            if self.every and number % self.every == self.every - 1:
                self.occasion(gpu)
            if self.once is not None and number == self.iterations // 2:
                self.once(gpu)
        from_s = self.cut_start * lengths_s[0]
        until_s = gpu.now_s - self.cut_end * lengths_s[-1]
        last = len(gpu.starts_s) - 1
        kept = [index for index, start_s in enumerate(gpu.starts_s) if from_s <= start_s < until_s] or [last]
        computes_s = np.array([row for row in gpu.computes_s if from_s <= row[0] < until_s]).reshape(-1, 2)
        timeline = Timeline.of(
            "a job",
            [gpu.starts_s[index] for index in kept],
            [gpu.ends_s[index] for index in kept],
            [seen(gpu.operations[index], self.sizes) for index in kept],
            computes_s=computes_s if self.computes else np.empty((0, 2)),
            # The CPU runs ahead of the GPU.
            steps_s=np.array(begins_s) - 0.01 if self.annotated else np.empty(0),
        )
        return timeline, float(np.mean(lengths_s))


def seen(operation: Operation, sizes: bool) -> Operation:
    """The operation as profilers record it: older ones without sizes."""
    return operation if sizes else operation._replace(size_bytes=None)


ITERATIONS: dict[str, st.SearchStrategy[Iteration]] = {
    "ddp": st.builds(ddp, st.integers(1, 8), st.booleans()),
    "accumulated ddp": st.builds(accumulated_ddp, st.integers(2, 8)),
    "fsdp": st.builds(fsdp, st.integers(2, 10), st.sampled_from([1, 2, 4, 8]), st.booleans()),
    "tensor parallel": st.builds(tensor_parallel, st.integers(2, 12)),
    "pipeline": st.builds(pipeline, st.integers(2, 8)),
    "experts": st.builds(experts, st.integers(1, 6)),
    "overlapped": st.builds(overlapped, st.integers(2, 8)),
}

OCCASIONS = (logging, checkpoint, silent_checkpoint)


@st.composite
def jobs(draw: st.DrawFn, iteration: st.SearchStrategy[Iteration]) -> Job:
    iterations = draw(st.sampled_from([1, 2, 3, 4, 6, 10, 25]))
    # A part of a single iteration may contain nothing but micro-batches, which then look like iterations.
    cut = iterations > 1
    return Job(
        draw(iteration),
        iterations,
        jitter=draw(st.sampled_from([0.0, 0.01, 0.05, 0.15])),
        every=draw(st.sampled_from([0, 0, 2, 3, 5, 10])),
        occasion=draw(st.sampled_from(OCCASIONS)),
        once=draw(st.sampled_from([None, None, evaluation, checkpoint])),
        first=draw(st.sampled_from([None, warm_up])),
        cut_start=draw(st.sampled_from([0.0, 0.3, 0.7])) * cut,
        cut_end=draw(st.sampled_from([0.0, 0.4])) * cut,
        # So do those of a whole iteration, unless the computation after them is recorded.
        computes=draw(st.booleans()) or iterations == 1,
        sizes=draw(st.booleans()),
        annotated=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def is_right(found_s: float, period_s: float, job: Job, timeline: Timeline) -> bool:
    """Whether `found_s` is the mean length of iterations, or that of annotated steps, which include pauses.

    The tolerance grows with jitter: the mean of a few iterations depends on which of them are complete.
    """
    right_s = [period_s, *([float(np.diff(timeline.steps_s).mean())] if timeline.steps_s.size > 1 else [])]
    share = max(0.02, job.jitter / job.iterations**0.5)
    return any(abs(found_s - each_s) <= share * each_s for each_s in right_s)


@pytest.mark.parametrize("kind", ITERATIONS)
def test_no_period_is_wrong_with_confidence(kind: str) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(jobs(ITERATIONS[kind]))
    def holds(job: Job) -> None:
        timeline, period_s = job.record()
        found = timeline_iterations(timeline)
        assert 0.0 <= found.confidence <= 1.0
        if found.confidence >= 0.5:
            assert is_right(found.period_s, period_s, job, timeline), (found.confidence, found.notes)

    holds()


@st.composite
def clean_jobs(draw: st.DrawFn, iteration: st.SearchStrategy[Iteration]) -> Job:
    """Jobs that only iterate, recorded for at least ten iterations."""
    return Job(
        draw(iteration),
        draw(st.sampled_from([10, 25])),
        jitter=draw(st.sampled_from([0.0, 0.01, 0.05])),
        cut_start=draw(st.sampled_from([0.0, 0.3])),
        cut_end=draw(st.sampled_from([0.0, 0.4])),
        sizes=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


# With one all-reduce in each iteration, layers cannot be distinguished from iterations.
DISTINGUISHABLE = {**ITERATIONS, "ddp": st.builds(ddp, st.integers(2, 8), st.booleans())}


@pytest.mark.parametrize("kind", DISTINGUISHABLE)
def test_an_ordinary_job_is_found_with_confidence(kind: str) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(clean_jobs(DISTINGUISHABLE[kind]))
    def holds(job: Job) -> None:
        timeline, period_s = job.record()
        found = timeline_iterations(timeline)
        assert found.confidence >= 0.5, found.notes
        assert is_right(found.period_s, period_s, job, timeline)

    holds()


def test_one_operation_an_iteration_is_a_guess_until_steps_are_annotated() -> None:
    bare, period_s = Job(ddp(1, True), 20).record()
    annotated, _ = Job(ddp(1, True), 20, annotated=True).record()
    assert timeline_iterations(bare).period_s == pytest.approx(period_s, rel=0.01)
    assert timeline_iterations(bare).confidence < 0.5 < timeline_iterations(annotated).confidence


def test_annotated_steps_that_contradict_the_period_lower_the_confidence() -> None:
    timeline, _ = Job(fsdp(4, 1, True), 20).record()
    halved = replace(timeline, steps_s=np.arange(0.0, timeline.length_s, 0.04))
    assert timeline_iterations(timeline).confidence > 0.8
    assert timeline_iterations(halved).confidence < 0.5


def test_a_single_step_is_one_iteration_of_no_confidence() -> None:
    timeline, _ = Job(ddp(4, False), 1).record()
    found = timeline_iterations(timeline)
    assert found.confidence == 0.0
    assert found.begin_s.size == 1
    assert "nothing repeats: the profiler trace is taken for a single iteration" in found.notes


def test_times_distinguish_iterations_from_layers_that_are_all_alike() -> None:
    timeline, period_s = Job(tensor_parallel(12), 12, jitter=0.02, sizes=False).record()
    found = timeline_iterations(timeline)
    assert len(timeline.operations) == 1
    assert found.period_s == pytest.approx(period_s, rel=0.01)
    assert found.confidence >= 0.5


def test_micro_batches_are_parts_of_an_iteration_if_the_job_computes_between_iterations() -> None:
    timeline, period_s = Job(fsdp(4, 4, False), 10).record()
    found = timeline_iterations(timeline)
    assert found.period_s == pytest.approx(period_s, rel=0.01)
    assert found.confidence >= 0.5
    # Without recorded computation, it may be a job that pauses every four iterations.
    unseen, _ = Job(fsdp(4, 4, False), 10, computes=False).record()
    assert timeline_iterations(unseen).confidence < 0.5


def test_the_same_trace_gives_the_same_iterations() -> None:
    timeline, _ = Job(overlapped(5), 9, jitter=0.05).record()
    first, second = timeline_iterations(timeline), timeline_iterations(timeline)
    assert first.begin_s.tobytes() == second.begin_s.tobytes()
    assert first.doubts == second.doubts
