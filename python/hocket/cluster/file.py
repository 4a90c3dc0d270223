"""A trace as it is written: its tables, and everything that they default to."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PrivateAttr, StrictInt, StrictStr, ValidationInfo, model_validator

from hocket.cluster.arrivals import MAX_JOBS, Dynamic, Iterations, Poisson
from hocket.cluster.checks import trace_mistakes
from hocket.cluster.gpus import cluster_of
from hocket.cluster.importers import Import
from hocket.cluster.settings import Settings
from hocket.cluster.submission import Submission
from hocket.plan.fabric import Fabric
from hocket.schedulers import Cluster, Gpus
from hocket.schedulers.cassini import Options as CassiniOptions
from hocket.schedulers.pollux import Options as PolluxOptions
from hocket.schedulers.themis import Options as ThemisOptions
from hocket.schema import Count, Name, Table, TableError, default
from hocket.units import LARGEST, DurationPs, PositiveDurationPs
from hocket.workloads import MOST_WORKERS, find_model

Placement = Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_WORKERS.value)]


class JobTable(Table):
    """One job of `[[jobs]]`."""

    name: Name
    model: StrictStr
    batch_size: Count
    workers: Count
    iterations: Iterations
    arrival_ps: DurationPs = default(
        0, "Hocket: all jobs present at the start (NSDI'24 snapshots)", "arrival"
    )
    strategy: StrictStr | None = None
    min_workers: Count = default(1, "Hocket: a scheduler may shrink a job rather than let it wait")
    max_workers: Count = Field(
        default_factory=lambda given: given["workers"],
        json_schema_extra={"source": "Hocket: a job gets no more than it asks for"},
    )
    placement: Placement | None = None

    def submission(self) -> Submission:
        """The job as it comes to the cluster."""
        return Submission(
            name=self.name,
            model=find_model(self.model),
            batch_size=self.batch_size,
            workers=self.workers,
            arrival_ps=self.arrival_ps,
            iterations=self.iterations,
            fewest=self.min_workers,
            most=self.max_workers,
            strategy=self.strategy,
        )


class TraceFile(Table):
    """Jobs that come to a cluster, and the cluster."""

    name: Name | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(1, "Hocket: any fixed seed")
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    fabric: Fabric
    cluster: Settings = Settings()
    themis: ThemisOptions = ThemisOptions()
    pollux: PolluxOptions = PolluxOptions()
    cassini: CassiniOptions = CassiniOptions()
    jobs: Annotated[tuple[JobTable, ...], Field(max_length=MAX_JOBS)] = ()
    poisson: Poisson | None = None
    dynamic: Dynamic | None = None
    imports: Annotated[tuple[Import, ...], Field(max_length=100)] = Field(default=(), alias="import")
    _directory: Path = PrivateAttr(default=Path())

    @property
    def directory(self) -> Path:
        """Where relative paths in the trace start: the directory of its file."""
        return self._directory

    @cached_property
    def gpus(self) -> Cluster:
        """The GPUs on its fabric."""
        return cluster_of(self.fabric.topology, self.cluster.gpus_per_host)

    def placement(self) -> dict[str, Gpus]:
        """Where jobs are at the start, by name."""
        numbers = {gpu: number for number, gpu in enumerate(self.gpus.gpus)}
        return {
            job.name: tuple(sorted(numbers[gpu] for gpu in job.placement))
            for job in self.jobs
            if job.placement
        }

    @model_validator(mode="after")
    def _is_consistent(self, info: ValidationInfo) -> Self:
        self._directory = Path((info.context or {}).get("directory", ""))
        mistakes = list(trace_mistakes(self))
        if mistakes:
            raise TableError(mistakes)
        return self
