"""Jobs that are drawn: by a Poisson process that keeps the cluster at a load, and sets that arrive at once
(NSDI'24 §5.1).

Each draw comes from a stream of the trace's seed and its own name, so that a higher load brings the same jobs
sooner.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from hocket.cluster.submission import Submission, sizes_of
from hocket.errors import InputError
from hocket.schema import Count, Name, Number, Table, default, one_or_several
from hocket.units import (
    LARGEST,
    DurationPs,
    PositiveDurationPs,
    format_duration,
    parse_duration,
)
from hocket.workloads import CATALOGUE, MOST_WORKERS, Model, find_model

MAX_JOBS = 100_000
"""The most jobs of a trace: fifty times those of a week on 1,024 GPUs."""

LATEST_PS = LARGEST // 2
"""The latest arrival, 53 days: as much time is left to run in before 63 bits are full."""

CLASSES = {
    "all": tuple(CATALOGUE.values()),
    "data-parallel": tuple(m for m in CATALOGUE.values() if m.parallelisation.value == "data parallel"),
    "model-parallel": tuple(m for m in CATALOGUE.values() if m.parallelisation.value == "model parallel"),
}
"""Models by the column "parallelization strategy" of NSDI'24 Table 3."""

_STEPS = 16
"""Batch sizes at which iteration times are averaged: they are near linear in the batch size."""

_MOST_ELASTIC = 12
_ELASTIC = "NSDI'24 §5.1: 1 to 12 workers at first, tuned as the experiment goes on"


def _rising(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise InputError(
            f"must be the smallest and the largest, in this order: got {value[0]} and {value[1]}"
        )
    return value


def models_in(names: Sequence[str]) -> tuple[Model, ...]:
    """The models that `names` stand for, each a model or one of `CLASSES`: each model once, in their order.

    Raises `InputError` for a name that is neither.

    >>> [model.name for model in models_in(["GPT-2", "model-parallel"])]
    ['GPT2', 'GPT1', 'GPT3', 'DLRM']
    """
    found: dict[str, Model] = {}
    for name in names:
        for model in CLASSES.get(name) or (find_model(name),):
            found.setdefault(model.name, model)
    return tuple(found.values())


def _known_models(names: tuple[str, ...]) -> tuple[str, ...]:
    models_in(names)
    return names


Models = Annotated[
    tuple[StrictStr, ...],
    Field(min_length=1, max_length=100),
    AfterValidator(_known_models),
    *one_or_several(),
]
WorkerRange = Annotated[tuple[Count, Count], AfterValidator(_rising)]
CountRange = Annotated[tuple[Count, Count], AfterValidator(_rising)]
DurationRange = Annotated[tuple[PositiveDurationPs, PositiveDurationPs], AfterValidator(_rising)]
BatchSizes = Literal["uniform", "reference"]


def batch_sizes_field() -> Any:
    """A key `batch_sizes`, with its default."""
    return default("uniform", "Hocket: uniform in the range of NSDI'24 Table 3, which names no distribution")


class Mix(Table):
    """What jobs are drawn from."""

    models: Models = default(("all",), "NSDI'24 §5.1: all models are equally likely")
    workers: WorkerRange = default((1, _MOST_ELASTIC), "NSDI'24 §5.1: from 1 to 12 GPUs at random")
    max_workers: Annotated[StrictInt, Field(ge=1, le=MOST_WORKERS.value)] = default(_MOST_ELASTIC, _ELASTIC)
    """What a job that asked for less may grow to, in the sizes that its strategy has."""
    iterations: CountRange = default((200, 1000), "NSDI'24 §5.1: from 200 to 1,000 iterations at random")
    run_time_ps: DurationRange | None = Field(default=None, alias="run_time")
    """Instead of `iterations`: how long a job takes alone, as submitted."""
    batch_sizes: BatchSizes = batch_sizes_field()


@dataclass(frozen=True)
class Population:
    """Jobs as `mix` has them on a cluster of so many GPUs; all draws are uniform."""

    mix: Mix
    gpus: int

    @cached_property
    def sizes(self) -> tuple[tuple[Model, tuple[int, ...]], ...]:
        """Models, each with the numbers of workers that are drawn for it; there may be none."""
        fewest, most = self.mix.workers
        return tuple(
            (model, sizes_of(model, None, fewest, min(most, self.gpus)))
            for model in models_in(self.mix.models)
        )

    def draw(self, random: Random, arrival_ps: int) -> Submission:
        """A job of any model."""
        model, sizes = random.choice(self.sizes)
        return self.drawn(random, model, random.choice(sizes), arrival_ps)

    def drawn(
        self, random: Random, model: Model, workers: int, arrival_ps: int, batch_size: int | None = None
    ) -> Submission:
        """A job of `model` on `workers`: its batch size, if none is given, and its work are drawn."""
        batch = drawn_batch_size(random, model, self.mix.batch_sizes) if batch_size is None else batch_size
        job = Submission(None, model, batch, workers, arrival_ps, 1, 1, max(self.mix.max_workers, workers))
        return replace(job, iterations=self._iterations(random, job.profile.period_ps))

    def _iterations(self, random: Random, period_ps: int) -> int:
        if self.mix.run_time_ps is None:
            return random.randint(*self.mix.iterations)
        return iterations_in(random.randint(*self.mix.run_time_ps), period_ps)

    @cached_property
    def mean_gpu_ps(self) -> Fraction:
        """The mean of workers × iterations × iteration time on an idle network, in GPUs × picoseconds."""
        each = [self._mean_of(model, sizes) for model, sizes in self.sizes]
        return sum(each, Fraction(0)) / len(each)

    def _mean_of(self, model: Model, sizes: Sequence[int]) -> Fraction:
        if self.mix.run_time_ps is not None:
            return Fraction(sum(sizes), len(sizes)) * Fraction(sum(self.mix.run_time_ps), 2)
        batches = _spread(model, self.mix.batch_sizes)
        total_ps = sum(
            workers * model.strategy_for(workers).profile(batch, workers).period_ps
            for workers in sizes
            for batch in batches
        )
        return Fraction(total_ps, len(sizes) * len(batches)) * Fraction(sum(self.mix.iterations), 2)


def drawn_batch_size(random: Random, model: Model, how: BatchSizes) -> int:
    """A batch size of `model`: any of Table 3's range, or the one that the catalogue shows."""
    return random.randint(*model.batch_sizes.value) if how == "uniform" else model.reference[0]


def iterations_in(run_time_ps: int, period_ps: int) -> int:
    """The number of iterations that is nearest to `run_time_ps`, at least one.

    >>> iterations_in(10, 3), iterations_in(1, 3)
    (3, 1)
    """
    return max(1, (2 * run_time_ps + period_ps) // (2 * period_ps))


def _spread(model: Model, how: BatchSizes) -> list[int]:
    """Batch sizes whose mean iteration time stands for that of all: the middles of equal parts."""
    if how == "reference":
        return [model.reference[0]]
    smallest, largest = model.batch_sizes.value
    return [smallest + (largest - smallest) * (2 * step + 1) // (2 * _STEPS) for step in range(_STEPS)]


class Poisson(Mix):
    """Jobs that arrive independently of each other, as often as `load` needs.

    `load` is the mean fraction of GPUs that serve jobs (NSDI'24 §5.1). With G GPUs the mean time between two
    arrivals is E[workers × iterations × iteration time] ÷ (load × G), where the expectation is over the jobs
    that are drawn, each alone on an idle network and on the workers that it was submitted with.
    """

    load: Annotated[Number, Field(gt=0, le=10)]
    duration_ps: PositiveDurationPs | None = Field(default=None, alias="duration")
    jobs: Annotated[StrictInt, Field(ge=1, le=MAX_JOBS)] | None = None

    def mean_gap_ps(self, gpus: int) -> float:
        """The mean time between two arrivals on a cluster of so many GPUs."""
        return float(Population(self, gpus).mean_gpu_ps / (Fraction(self.load) * gpus))

    def submissions(self, seed: int, gpus: int) -> Iterator[Submission]:
        """In order of arrival, until the duration is over or all jobs have come, whichever is first.

        Raises `InputError` if no job comes, or more than `MAX_JOBS`, or one after `LATEST_PS`.
        """
        population = Population(self, gpus)
        gaps, jobs = Random(f"{seed} poisson arrivals"), Random(f"{seed} poisson jobs")
        mean_ps = self.mean_gap_ps(gpus)
        end_ps = LATEST_PS if self.duration_ps is None else min(self.duration_ps, LATEST_PS)
        now_ps = 0
        for number in range(MAX_JOBS if self.jobs is None else self.jobs):
            # Of the uniform draw in [0, 1) the complement, whose logarithm is finite.
            now_ps += round(-math.log(1.0 - gaps.random()) * mean_ps)
            if now_ps >= end_ps:
                self._check_end(number, mean_ps, now_ps)
                return
            yield population.draw(jobs, now_ps)
        if self.jobs is None:
            raise InputError(f"gives more than {MAX_JOBS:,} jobs in {format_duration(end_ps)}")

    def _check_end(self, jobs: int, mean_ps: float, now_ps: int) -> None:
        if jobs == 0:
            raise InputError(
                "no job arrives: the first would at "
                f"{format_duration(now_ps)}, the mean time between two is {format_duration(round(mean_ps))}"
            )
        if self.duration_ps is None or self.duration_ps > LATEST_PS:
            raise InputError(
                f"job {jobs + 1} arrives after {format_duration(LATEST_PS)}, which is the latest time"
            )


class DynamicJob(Table):
    """One job of a set, or several alike; what is not given is drawn for each."""

    model: StrictStr
    name: Name | None = None
    count: Annotated[StrictInt, Field(ge=1, le=MAX_JOBS)] = default(1, "Hocket: one job")
    batch_size: Count | None = None
    workers: Count | None = None
    iterations: Count | None = None


class Dynamic(Mix):
    """Jobs that are present at the start, and a set that arrives together while they run (NSDI'24 §5.1)."""

    running: Annotated[tuple[DynamicJob, ...], Field(min_length=1, max_length=1_000)]
    arriving: Annotated[tuple[DynamicJob, ...], Field(min_length=1, max_length=1_000)]
    arrival_ps: DurationPs = default(
        parse_duration("2 min"), "Hocket: NSDI'24 §5.3 does not say when; by then the others run", "arrival"
    )

    def submissions(self, seed: int, gpus: int) -> Iterator[Submission]:
        """Those present at the start, then those that arrive, as they are written."""
        random = Random(f"{seed} dynamic")
        population = Population(self, gpus)
        for jobs, arrival_ps in ((self.running, 0), (self.arriving, self.arrival_ps)):
            for job in jobs:
                for _ in range(job.count):
                    yield self._submission(job, population, random, arrival_ps)

    def _submission(
        self, job: DynamicJob, population: Population, random: Random, arrival_ps: int
    ) -> Submission:
        model = find_model(job.model)
        sizes = sizes_of(model, None, self.workers[0], min(self.workers[1], population.gpus))
        workers = random.choice(sizes) if job.workers is None else job.workers
        drawn = population.drawn(random, model, workers, arrival_ps, job.batch_size)
        return replace(drawn, name=job.name, iterations=job.iterations or drawn.iterations)
