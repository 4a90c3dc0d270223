"""Draws jobs: Poisson arrivals at a given load, and sets of jobs that arrive together (NSDI'24 §5.1).

Each kind of draw has its own random stream, derived from the trace's seed and a name, so that a higher load
draws the same jobs and further ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from random import Random
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from hocket.cluster.submission import Submission, sizes_of
from hocket.errors import InputError, check_choice
from hocket.plan.schema import (
    Count,
    Name,
    Number,
    Table,
    default,
    one_or_several,
)
from hocket.units import (
    LARGEST,
    DurationPs,
    PositiveDurationPs,
    format_duration,
    parse_duration,
)
from hocket.workloads import CATALOGUE, Model, find_model
from hocket.workloads.strategies import MOST_WORKERS

MAX_JOBS = 100_000
"""The most jobs in a trace: fifty times those of a week on 1,024 GPUs."""

MAX_ITERATIONS = 10**12
"""The most iterations of a job: at a millisecond each they take thirty years."""

LATEST_PS = LARGEST // 2
"""The latest arrival, 53 days: half of the 63 bits for picoseconds remains as time to run."""

CLASSES = {
    "all": tuple(CATALOGUE.values()),
    "data-parallel": tuple(m for m in CATALOGUE.values() if m.parallelisation.value == "data parallel"),
    "model-parallel": tuple(m for m in CATALOGUE.values() if m.parallelisation.value == "model parallel"),
}
"""Models by the column "parallelization strategy" of NSDI'24 Table 3."""

_MAX_ELASTIC_WORKERS = 12
_ELASTIC = "NSDI'24 §5.1: 1 to 12 workers at first, tuned as the experiment progresses"


def _check_ascending(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise InputError(f"must be [smallest, largest], in this order: got {value[0]} and {value[1]}")
    return value


def models_in(names: Sequence[str], models: Mapping[str, Model] = CATALOGUE) -> tuple[Model, ...]:
    """The models that `names` refer to, each once and in order; a name is that of a model or of a class.

    Raises `InputError` for an unknown name.

    >>> [model.name for model in models_in(["GPT-2", "model-parallel"])]
    ['GPT2', 'GPT1', 'GPT3', 'DLRM']
    """
    found: dict[str, Model] = {}
    for name in names:
        of_class = CLASSES.get(name)
        for each in [find_model(name, models).name] if of_class is None else [each.name for each in of_class]:
            # A model that is named twice must not be drawn twice as often as the others.
            found.setdefault(each, models[each])
    return tuple(found.values())


Models = Annotated[
    tuple[StrictStr, ...],
    Field(min_length=1, max_length=100),
    *one_or_several(),
]
CountRange = Annotated[tuple[Count, Count], AfterValidator(_check_ascending)]
Iterations = Annotated[StrictInt, Field(ge=1, le=MAX_ITERATIONS)]
IterationRange = Annotated[tuple[Iterations, Iterations], AfterValidator(_check_ascending)]
DurationRange = Annotated[tuple[PositiveDurationPs, PositiveDurationPs], AfterValidator(_check_ascending)]
BatchSizes = Literal["uniform", "reference"]


def models_field() -> Any:
    """The key `models`, with its default."""
    return default(("all",), "NSDI'24 §5.1: all models are equally likely")


def batch_sizes_field() -> Any:
    """The key `batch_sizes`, with its default."""
    return default(
        "reference",
        "NSDI'24 Appendix B: batch sizes of prior work; those that the catalogue is calibrated at",
    )


class Mix(Table):
    """The ranges that jobs are drawn from; all draws are uniform."""

    workers: CountRange = default((1, _MAX_ELASTIC_WORKERS), "NSDI'24 §5.1: from 1 to 12 GPUs at random")
    """Smallest and largest number of workers; each in between that the model runs on is equally likely."""
    max_workers: Annotated[StrictInt, Field(ge=1, le=MOST_WORKERS.value)] = default(
        _MAX_ELASTIC_WORKERS, _ELASTIC
    )
    """The workers that a job submitted with fewer may grow to, within the sizes of its strategy."""
    iterations: IterationRange = default((200, 1000), "NSDI'24 §5.1: from 200 to 1,000 iterations at random")
    """Smallest and largest number of iterations, all equally likely."""
    run_time_ps: DurationRange | None = Field(default=None, alias="run_time")
    """Instead of `iterations`: the run time of a job alone, as submitted."""
    batch_sizes: BatchSizes = batch_sizes_field()
    """`"reference"`: the batch size that the catalogue is calibrated at. `"uniform"`: all in the range of
    NSDI'24 Table 3 are equally likely."""

    def sizes(self, model: Model, gpus: int) -> tuple[int, ...]:
        """The numbers of workers that may be drawn for `model` on a cluster of `gpus` GPUs, ascending."""
        fewest, most = self.workers
        return sizes_of(model, None, fewest, min(most, gpus))

    def draw(self, random: Random, model: Model, workers: int, batch_size: int | None = None) -> Submission:
        """A job of `model` on `workers` at time 0, with drawn work and, unless given, drawn batch size."""
        batch = drawn_batch_size(random, model, self.batch_sizes) if batch_size is None else batch_size
        # One iteration at first: how many fill `run_time` depends on the profile of the job.
        job = Submission(
            name=None,
            model=model,
            batch_size=batch,
            workers=workers,
            arrival_ps=0,
            iterations=1,
            min_workers=1,
            max_workers=max(self.max_workers, workers),
        )
        return replace(job, iterations=self._iterations(random, job.profile.period_ps))

    def _iterations(self, random: Random, period_ps: int) -> int:
        if self.run_time_ps is None:
            return random.randint(*self.iterations)
        return iterations_in(random.randint(*self.run_time_ps), period_ps)


def drawn_batch_size(random: Random, model: Model, how: BatchSizes) -> int:
    """A batch size of `model`: uniform in the range of NSDI'24 Table 3, or the reference of the catalogue.

    Raises `InputError` for an unknown `how`.
    """
    check_choice("batch_sizes", how, get_args(BatchSizes))
    return random.randint(*model.batch_sizes.value) if how == "uniform" else model.reference[0]


def iterations_in(run_time_ps: int, period_ps: int) -> int:
    """The number of iterations whose total time is nearest to `run_time_ps`, at least one.

    >>> iterations_in(10, 3), iterations_in(1, 3)
    (3, 1)
    """
    # In integers, because floating point is exact only up to 2^53 ps, two and a half hours.
    return max(1, (2 * run_time_ps + period_ps) // (2 * period_ps))


class Poisson(Mix):
    """Jobs that arrive independently of each other, at the rate that `load` requires.

    `load` is the mean fraction of GPUs that serve jobs (NSDI'24 §5.1). Jobs keep G GPUs at this load for a
    time D if the sum of their workers × iterations × iteration time, each alone on an idle network and as
    submitted, is load × G × D. Given a `duration`, jobs are drawn until their work comes nearest to that;
    given `jobs`, D follows from their work. Conditional on their number, the arrivals of a Poisson process
    are independent and uniform over D. Hocket: a rate derived from the mean over all models would leave the
    load to chance, as few jobs arrive and some do fifty times the work of others.
    """

    load: Annotated[Number, Field(gt=0, le=10)]
    """Mean fraction of GPUs that serve jobs."""
    models: Models = models_field()
    """Models, or `"all"`, `"data-parallel"`, `"model-parallel"` (NSDI'24 Table 3), all equally likely."""
    duration_ps: PositiveDurationPs | None = Field(default=None, alias="duration")
    """Time over which jobs arrive; either this or `jobs`."""
    jobs: Annotated[StrictInt, Field(ge=1, le=MAX_JOBS)] | None = None
    """Number of jobs; either this or `duration`."""

    def submissions(self, seed: int, gpus: int, models: Mapping[str, Model]) -> list[Submission]:
        """The jobs in order of arrival, for a cluster of `gpus` GPUs; they train some of `models`.

        Raises `InputError` if there are more than `MAX_JOBS`, or if they may arrive later than `LATEST_PS`.
        """
        jobs = self._jobs(Random(f"{seed} poisson jobs"), gpus, models)
        # A fraction, because GPU-picoseconds of long traces exceed what floating point represents exactly.
        served = Fraction(self.load) * gpus
        if self.duration_ps is None:
            drawn = list(islice(jobs, self.jobs))
            duration_ps = round(sum(job.gpu_ps for job in drawn) / served)
        else:
            duration_ps = self.duration_ps
            drawn = _jobs_worth(jobs, served * duration_ps)
        if duration_ps > LATEST_PS:
            raise InputError(
                f"jobs arrive over {format_duration(duration_ps)}, but the latest arrival allowed is at "
                f"{format_duration(LATEST_PS)}"
            )
        random = Random(f"{seed} poisson arrivals")
        times_ps = sorted(int(random.random() * duration_ps) for _ in drawn)
        return [replace(job, arrival_ps=time_ps) for job, time_ps in zip(drawn, times_ps, strict=True)]

    def _jobs(self, random: Random, gpus: int, models: Mapping[str, Model]) -> Iterator[Submission]:
        """An endless stream of jobs, all at time 0."""
        offered = [(model, self.sizes(model, gpus)) for model in models_in(self.models, models)]
        while True:
            model, sizes = random.choice(offered)
            yield self.draw(random, model, random.choice(sizes))


def _jobs_worth(jobs: Iterator[Submission], gpu_ps: Fraction) -> list[Submission]:
    """The first of `jobs`, at least one, such that their total work is nearest to `gpu_ps`.

    Raises `InputError` if there are more than `MAX_JOBS`.
    """
    drawn = [next(jobs)]
    total_ps = drawn[0].gpu_ps
    while total_ps < gpu_ps:
        if len(drawn) == MAX_JOBS:
            raise InputError(f"more than {MAX_JOBS:,} jobs are needed for this load")
        drawn.append(next(jobs))
        total_ps += drawn[-1].gpu_ps
    before_ps = total_ps - drawn[-1].gpu_ps
    return drawn[:-1] if len(drawn) > 1 and gpu_ps - before_ps < total_ps - gpu_ps else drawn


class DynamicJob(Table):
    """One job of a set, or several alike; keys that are not given are drawn for each."""

    model: StrictStr
    """A model of the catalogue, or a name of `[[models]]`."""
    name: Name | None = None
    """Name of the job; by default its model's."""
    count: Annotated[StrictInt, Field(ge=1, le=MAX_JOBS)] = default(1, "Hocket: one job")
    """Number of such jobs."""
    batch_size: Count | None = None
    """Batch size per GPU; by default drawn."""
    workers: Count | None = None
    """Number of workers; by default drawn."""
    iterations: Iterations | None = None
    """Number of iterations; by default drawn."""


class Dynamic(Mix):
    """Jobs that are present at the start, and a set that arrives together while they run (NSDI'24 §5.1)."""

    running: Annotated[tuple[DynamicJob, ...], Field(min_length=1, max_length=1_000)]
    """Jobs that are present at the start."""
    arriving: Annotated[tuple[DynamicJob, ...], Field(min_length=1, max_length=1_000)]
    """Jobs that arrive together."""
    arrival_ps: DurationPs = default(
        parse_duration("2 min"), "Hocket: NSDI'24 §5.3 gives no time; by then the other jobs run", "arrival"
    )
    """Time at which they arrive."""

    def submissions(self, seed: int, gpus: int, models: Mapping[str, Model]) -> Iterator[Submission]:
        """The jobs present at the start, then those that arrive, each in the order of the trace."""
        random = Random(f"{seed} dynamic")
        for jobs, arrival_ps in ((self.running, 0), (self.arriving, self.arrival_ps)):
            for job in jobs:
                for _ in range(job.count):
                    model = find_model(job.model, models)
                    yield self._submission(job, model, random, arrival_ps, gpus)

    def _submission(
        self, job: DynamicJob, model: Model, random: Random, arrival_ps: int, gpus: int
    ) -> Submission:
        workers = random.choice(self.sizes(model, gpus)) if job.workers is None else job.workers
        drawn = self.draw(random, model, workers, job.batch_size)
        iterations = job.iterations or drawn.iterations
        return replace(drawn, name=job.name, arrival_ps=arrival_ps, iterations=iterations)
