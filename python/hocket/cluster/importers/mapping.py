"""`[[import]]`: selects jobs of another cluster's trace, and assigns models of the catalogue to them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from hocket.cluster.arrivals import (
    LATEST_PS,
    MAX_ITERATIONS,
    MAX_JOBS,
    BatchSizes,
    Models,
    batch_sizes_field,
    drawn_batch_size,
    iterations_in,
    models_field,
    models_in,
)
from hocket.cluster.importers import gavel, helios, pai, philly, pollux
from hocket.cluster.importers.applications import MODEL_OF, gpu_time_ps
from hocket.cluster.importers.records import Record
from hocket.cluster.submission import Submission, sizes_of
from hocket.errors import InputError
from hocket.plan.schema import (
    FilePath,
    Number,
    Table,
    default,
)
from hocket.units import DurationPs, PositiveDurationPs, format_duration, shown
from hocket.workloads import CATALOGUE, Model, find_model
from hocket.workloads.strategies import MOST_WORKERS

# As for the names of `[[jobs]]`.
_LONGEST_NAME = 100

Format = Literal["philly", "helios", "pai", "pollux", "gavel"]

_READERS: Mapping[Format, Callable[[Path], Iterator[Record]]] = {
    "philly": philly.read,
    "helios": helios.read,
    "pai": pai.read,
    "pollux": pollux.read,
    "gavel": gavel.read,
}


class Import(Table):
    """Jobs of another cluster's trace, in order of submission."""

    file: FilePath
    """The file of the trace."""
    format: Format
    """The system whose format the file has."""
    from_ps: DurationPs = default(0, "Hocket: from the first job of the file", "from")
    """Jobs submitted at least this long after the first one of the file; they arrive from time 0 on."""
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    """Jobs submitted less than this long after the first one of the file."""
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_JOBS)] = default(
        MAX_JOBS, "Hocket: the most that a trace may have"
    )
    """The most jobs that are taken: the first ones that can run."""
    time_scale: Annotated[Number, Field(gt=0, le=1_000)] = default(1.0, "Hocket: the times of the file")
    """Factor applied to the times between arrivals and to run times, so that the load does not change."""
    models: Models = models_field()
    """The models of jobs whose application the trace does not name."""
    batch_sizes: BatchSizes = batch_sizes_field()
    """`"reference"` or `"uniform"`, as for jobs that are drawn."""

    def selects(self, since_ps: int) -> bool:
        """Whether it takes a job that was submitted `since_ps` after the first one of the file."""
        return self.from_ps <= since_ps and (self.until_ps is None or since_ps < self.until_ps)


@dataclass(frozen=True)
class Report:
    """The numbers of jobs taken from a file and skipped."""

    file: str
    format: str
    jobs: int
    """The number of jobs in the file."""
    outside: int
    """Not submitted within `from` and `until`, or beyond the limit."""
    taken: int
    skipped: Mapping[str, int]
    """Jobs that cannot run, by reason, in the order in which the reasons first occurred."""

    def __str__(self) -> str:
        """The report in one line.

        >>> str(Report("log.csv", "helios", jobs=9, outside=3, taken=4, skipped={"failed": 2}))
        'log.csv: 4 of 9 jobs taken; 2 × failed; 3 × outside the selected time or above the limit'
        """
        return "; ".join([f"{self.file}: {self.taken:,} of {self.jobs:,} jobs taken", *self._not_taken()])

    def why_none(self) -> str:
        """Why no job was taken."""
        return "; ".join(self._not_taken()) or "it is empty"

    def _not_taken(self) -> list[str]:
        reasons = [f"{count:,} × {reason}" for reason, count in self.skipped.items()]
        beyond = [f"{self.outside:,} × outside the selected time or above the limit"]
        return reasons + (beyond if self.outside else [])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Imported:
    """The jobs taken from another cluster's trace, and a report on all of them."""

    submissions: tuple[Submission, ...]
    report: Report


def imported(
    table: Import, directory: Path, stream: str, gpus: int, models: Mapping[str, Model] = CATALOGUE
) -> Imported:
    """The jobs that `table` selects; the path of its file is relative to `directory`.

    Properties missing from the file are drawn from the random stream called `stream`; `gpus` is the size of
    the cluster, and jobs train some of `models`.

    Raises `InputError` for a file that cannot be read, and if no job can be taken.
    """
    path = directory / table.file
    records = list(_READERS[table.format](path))
    mapping = _Mapping(table, path, gpus, Random(stream), models)
    # Without a submission time, a job is neither inside nor outside the selected times.
    skipped = Counter(record.refused or "has no times" for record in records if record.submitted_ps is None)
    taken: list[Submission] = []
    outside = 0
    for record, since_ps in _in_order(records):
        if not table.selects(since_ps) or len(taken) == table.limit:
            outside += 1
            continue
        found = mapping.submission(record, since_ps)
        if isinstance(found, str):
            skipped[found] += 1
        else:
            taken.append(found)
    _check_names(path, [each.name or "" for each in taken])
    report = Report(table.file, table.format, len(records), outside, len(taken), dict(skipped))
    if not taken:
        raise InputError(f"{path}: has no job that can be run: {report.why_none()}")
    return Imported(tuple(taken), report)


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Raise `InputError` for a name with unprintable characters or of a wrong length, and for duplicates."""
    for name in names:
        if not (name.isprintable() and 1 <= len(name) <= _LONGEST_NAME):
            raise InputError(
                f"{path}: a job is named by 1 to {_LONGEST_NAME} printable characters: got {shown(name)}"
            )
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{path}: names the job {shown(name)} twice")


def _in_order(records: Sequence[Record]) -> Iterator[tuple[Record, int]]:
    """The records with a submission time, in its order, each with the picoseconds since the first."""
    known = [(record.submitted_ps, record) for record in records if record.submitted_ps is not None]
    # By time alone, so that jobs submitted at the same time keep the order of the file.
    known.sort(key=lambda item: item[0])
    for submitted_ps, record in known:
        yield record, submitted_ps - known[0][0]


class _Mapping:
    """Maps records to submissions to a cluster of `gpus` GPUs."""

    def __init__(
        self, table: Import, path: Path, gpus: int, random: Random, models: Mapping[str, Model]
    ) -> None:
        self._table = table
        self._path = path
        self._gpus = gpus
        self._random = random
        self._models_by_name = models
        self._models = models_in(table.models, models)
        self._scale = Fraction(table.time_scale)

    def submission(self, record: Record, since_ps: int) -> Submission | str:
        """The job of `record`, submitted `since_ps` after the first, or the reason why it cannot run."""
        arrival_ps = round((since_ps - self._table.from_ps) * self._scale)
        reason = record.refused or self._misfit(record, arrival_ps)
        if reason is not None:
            return reason
        offered = self._offered(record)
        if not offered:
            return f"requests a number of GPUs that {self._trained(record)} does not run on"
        model = self._random.choice(offered)
        batch_size = drawn_batch_size(self._random, model, self._table.batch_sizes)
        period_ps = model.profile(batch_size, record.gpus).period_ps
        iterations = self._iterations(record, period_ps)
        if iterations == 0:
            return "did not run"
        if iterations > MAX_ITERATIONS:
            return f"has more than {MAX_ITERATIONS:,} iterations"
        return Submission(
            name=record.name,
            model=model,
            batch_size=batch_size,
            workers=record.gpus,
            arrival_ps=arrival_ps,
            iterations=iterations,
            # Hocket: these clusters gave jobs the GPUs requested, and the traces name no larger number.
            min_workers=1,
            max_workers=record.gpus,
        )

    def _misfit(self, record: Record, arrival_ps: int) -> str | None:
        if arrival_ps > LATEST_PS:
            return f"arrives later than {format_duration(LATEST_PS)}"
        if record.gpus == 0:
            return "requests no GPU"
        if record.gpus > self._gpus:
            return f"requests more GPUs than the {self._gpus} of the cluster"
        if record.gpus > MOST_WORKERS.value:
            return f"requests more GPUs than the {MOST_WORKERS.value} that models of the catalogue run on"
        return None

    def _offered(self, record: Record) -> Sequence[Model]:
        """The models that the job may train, among those that run on its number of GPUs."""
        models = self._models
        if record.application is not None:
            if record.application not in MODEL_OF:
                raise InputError(
                    f"{self._path}: job {shown(record.name)}: {shown(record.application)} is not a known "
                    f"application; known: {', '.join(MODEL_OF)}"
                )
            models = (find_model(MODEL_OF[record.application], self._models_by_name),)
        return [model for model in models if sizes_of(model, None, record.gpus, record.gpus)]

    def _trained(self, record: Record) -> str:
        if record.application is not None:
            return MODEL_OF[record.application]
        return "any of the models"

    def _iterations(self, record: Record, period_ps: int) -> int:
        """The work of a job in iterations on its requested GPUs; 0 for none."""
        # `time_scale` scales the number of iterations, as the model determines how long one takes.
        if record.iterations is not None:
            return max(1, round(record.iterations * self._scale)) if record.iterations else 0
        run_time_ps = record.run_time_ps
        if run_time_ps is None:
            gpu_ps = gpu_time_ps(record.application or "", self._random)
            run_time_ps = 0 if gpu_ps is None else gpu_ps // record.gpus
        return iterations_in(round(run_time_ps * self._scale), period_ps) if run_time_ps else 0
