"""The tables of a trace file, each validated by itself, with all defaults."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr, StrictInt, StrictStr

from hocket.cluster.arrivals import MAX_JOBS, Dynamic, Iterations, Poisson
from hocket.cluster.gpus import cluster_of
from hocket.cluster.importers import Import
from hocket.cluster.models import MAX_MODELS, ModelTable
from hocket.cluster.settings import Settings
from hocket.cluster.submission import Submission
from hocket.plan.fabric import Fabric
from hocket.plan.schema import (
    Count,
    Name,
    Table,
    default,
)
from hocket.schedulers import Cluster, Gpus
from hocket.schedulers.cassini import CassiniOptions
from hocket.schedulers.mltcp import MltcpOptions
from hocket.schedulers.monkeytree import MonkeytreeOptions
from hocket.schedulers.pollux import PolluxOptions
from hocket.schedulers.themis import ThemisOptions
from hocket.units import LARGEST, DurationPs, PositiveDurationPs
from hocket.workloads import CATALOGUE, Model, find_model
from hocket.workloads.strategies import MOST_WORKERS

Placement = Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_WORKERS.value)]


class JobTable(Table):
    """One job of `[[jobs]]`."""

    name: Name
    """Unique name of the job."""
    model: StrictStr
    """A model of the catalogue, or a name of `[[models]]`."""
    batch_size: Count
    """Batch size per GPU, within the range of the model."""
    workers: Count
    """GPUs that the job is submitted with."""
    iterations: Iterations
    """Its work, in iterations on `workers`; on another number of workers it processes as many samples."""
    arrival_ps: DurationPs = default(
        0, "Hocket: all jobs present at the start (NSDI'24 snapshots)", "arrival"
    )
    """Time at which the job is submitted."""
    strategy: StrictStr | None = None
    """Parallelisation strategy, kept at every size; by default the first that runs on `workers`."""
    min_workers: Count = default(1, "Hocket: a scheduler may shrink a job rather than let it wait")
    """Fewest workers that it may be shrunk to, among the sizes of its strategy."""
    max_workers: Count = Field(
        default_factory=lambda given: given["workers"],
        json_schema_extra={"source": "Hocket: a job gets no more than it requests"},
    )
    """Most workers that it may be grown to."""
    placement: Placement | None = None
    """GPUs that it has at the start, one for each worker; needs arrival 0. By default the scheduler places
    it."""

    def submission(self, models: Mapping[str, Model]) -> Submission:
        """The job as submitted to the cluster; its model is one of `models`."""
        return Submission(
            name=self.name,
            model=find_model(self.model, models),
            batch_size=self.batch_size,
            workers=self.workers,
            arrival_ps=self.arrival_ps,
            iterations=self.iterations,
            min_workers=self.min_workers,
            max_workers=self.max_workers,
            strategy=self.strategy,
        )


class TraceTables(Table):
    """A cluster and the jobs that are submitted to it; `TraceFile` checks them against each other."""

    name: Name | None = None
    """Name for headings; by default the file's name."""
    seed: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(1, "Hocket: any fixed seed")
    """Every random stream derives from it."""
    until_ps: PositiveDurationPs | None = Field(default=None, alias="until")
    """Time at which the run ends; by default when all jobs are done."""
    fabric: Fabric
    """The network, as in a plan. Every host can reach every other."""
    cluster: Settings = Settings()
    """What a run assumes about servers and jobs."""
    themis: ThemisOptions = ThemisOptions()
    """Options of Themis."""
    pollux: PolluxOptions = PolluxOptions()
    """Options of Pollux."""
    cassini: CassiniOptions = CassiniOptions()
    """Options of CASSINI."""
    mltcp: MltcpOptions = MltcpOptions()
    """Options of MLTCP."""
    monkeytree: MonkeytreeOptions = MonkeytreeOptions()
    """Options of MonkeyTree."""
    own_models: Annotated[tuple[ModelTable, ...], Field(max_length=MAX_MODELS)] = Field(
        default=(), alias="models"
    )
    """Models beside those of the catalogue."""
    jobs: Annotated[tuple[JobTable, ...], Field(max_length=MAX_JOBS)] = ()
    """Jobs one by one."""
    poisson: Poisson | None = None
    """Jobs that arrive independently of each other."""
    dynamic: Dynamic | None = None
    """Jobs that arrive together while others run."""
    imports: Annotated[tuple[Import, ...], Field(max_length=100)] = Field(default=(), alias="import")
    """Jobs from published traces."""
    _directory: Path = PrivateAttr(default=Path())

    @property
    def directory(self) -> Path:
        """Where relative paths in the trace start: the directory of its file."""
        return self._directory

    @cached_property
    def gpus(self) -> Cluster:
        """The GPUs on its fabric."""
        return cluster_of(self.fabric.topology, self.cluster.gpus_per_host)

    @cached_property
    def nic_bps(self) -> int:
        """The rate of the slowest NIC; models are scaled to it, wherever their jobs are placed."""
        return min(self.fabric.nic_rates_bps().values())

    @cached_property
    def models(self) -> Mapping[str, Model]:
        """The models that jobs may train, by name: the catalogue's and the trace's own.

        Raises `InputError` if a file of the trace's own models cannot be read.
        """
        catalogue = {name: model.behind(self.nic_bps) for name, model in CATALOGUE.items()}
        own = (table.model(self._directory, self.nic_bps) for table in self.own_models)
        return {**catalogue, **{model.name: model for model in own}}

    def placement(self) -> dict[str, Gpus]:
        """The initial placement of jobs, by name."""
        numbers = {gpu: number for number, gpu in enumerate(self.gpus.gpus)}
        return {
            job.name: tuple(sorted(numbers[gpu] for gpu in job.placement))
            for job in self.jobs
            if job.placement
        }
