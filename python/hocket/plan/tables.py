"""The tables of a plan together, each valid by itself, and the values that follow from several of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, StrictBool, StrictInt

from hocket.plan.fabric import Fabric
from hocket.plan.goodput import Goodput, goodput_of
from hocket.plan.hardware import Host, Switch
from hocket.plan.job import MAX_PLACES, Job
from hocket.plan.link import Link
from hocket.plan.run import Compat, RunSettings
from hocket.plan.schema import Name, Table, constructor, default, directory_of
from hocket.profiles import WorkloadProfile
from hocket.units import (
    LARGEST,
    DurationLike,
    DurationPs,
    PositiveRateBps,
    RateLike,
)
from hocket.workloads import LINE_RATE_BPS

MAX_JOBS = 10_000
"""The most jobs of a plan: ten times the largest cluster that the solver is measured on."""

DEFAULT_TRAINING_ITERATIONS = 1
"""Iterations of a job with [jobs.training] in a run that limits neither iterations nor time: HOTI'22 Fig 10
shows one."""

DEFAULT_ITERATIONS = 1_000
"""Iterations of a run that limits neither iterations nor time: HotNets'22 §2 and NSDI'24 §2.2 run 1,000."""

_MOST_CANDIDATES = 1_000


class Change(Table):
    """From a time on, a link fails, comes back, or has a lower rate, in both directions."""

    at_ps: DurationPs = Field(alias="at")
    """Time from the start of the run."""
    link: Name
    """Name of a link of the fabric; `"link"` for the one of `[link]`."""
    down: StrictBool | None = None
    """True: the link fails, and flows take other paths or wait. False: it comes back."""
    rate_bps: PositiveRateBps | None = Field(default=None, alias="rate")
    """Instead of `down`: rate of the link from then on, at most its rate in the fabric."""

    @constructor
    def __init__(
        self,
        *,
        at: DurationLike,
        link: str,
        down: bool | None = None,
        rate: RateLike | None = None,
    ) -> None: ...


class Candidate(Table):
    """One of the placements that a scheduler considers equivalent."""

    name: Name
    """Unique name of the candidate."""
    placement: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_PLACES)]]
    """Hosts by job name. A job that is not listed stays at its own `placement`; a workload without `workers`
    has one on each of its hosts here."""

    @constructor
    def __init__(self, name: str, placement: Mapping[str, Sequence[str]]) -> None: ...


class PlanTables(Table):
    """The tables of a plan; `Plan` checks them against each other."""

    name: Name | None = None
    """Name for headings; by default the file's name."""
    seed: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(1, "Hocket: any fixed seed")
    """Every random stream derives from it."""
    link: Link | None = None
    """One link that all jobs share; either this or a fabric."""
    fabric: Fabric | None = None
    """The network that jobs are placed on; either this or a link."""
    switch: Switch = Switch()
    """How switches work on the packet engine."""
    host: Host = Host()
    """How hosts work on the packet engine."""
    compat: Compat = Compat()
    """How `hocket compat` searches."""
    run: RunSettings = RunSettings()
    """How `hocket run` simulates, for how long, and what it records."""
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=MAX_JOBS)]
    """Jobs with unique names."""
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=_MOST_CANDIDATES)] = ()
    """Placements to rank. Needs a `[fabric]`."""
    changes: Annotated[tuple[Change, ...], Field(max_length=10_000)] = ()
    """Links that fail, come back or slow down, on the packet engine."""
    _directory: Path = PrivateAttr(default=Path())

    def model_post_init(self, context: Any, /) -> None:
        self._directory = directory_of(context)

    @property
    def directory(self) -> Path:
        """The directory that relative paths in the plan start from: that of its file."""
        return self._directory

    def files(self) -> tuple[Path, ...]:
        """The files and directories that it names, as paths that include `directory`."""
        named = [path for job in self.jobs if job.training is not None for path in job.training.paths()]
        of_fabric = () if self.fabric is None else self.fabric.files()
        return (*of_fabric, *(self._directory / path for path in named))

    def hosts_of(self, job: Job, placement: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
        """The hosts of `job` on the fabric: those of `placement`, else its own, else all GPUs.

        A server stands for its GPUs.
        """
        assert self.fabric is not None, "jobs have hosts only on a fabric"
        places = (placement or {}).get(job.name) or job.placement
        return self.fabric.gpus() if places is None else self.fabric.hosts_at(places)

    def profiles_of(
        self, job: Job, placement: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[WorkloadProfile, ...]:
        """The profiles of `job` on an idle network under `placement`, or else under its own placement.

        The NIC of a workload of the catalogue has the rate of the one link, or of the slowest NIC of its
        hosts. A job without either placement has that of the first candidate that places it.

        Raises `InputError` as `Job.profiles` does.
        """
        places = (placement or {}).get(job.name) or job.placement or self._first_places(job)
        # Without a fabric, the capacity of the one link stands for the rate of the NICs.
        if self.link is not None:
            return job.profiles(nic_bps=self.link.capacity_bps)
        if job.workload is None or places is None:
            return job.profiles()
        return job.profiles(len(places), self.slowest_nic_bps(self.hosts_of(job, {job.name: places})))

    def slowest_nic_bps(self, hosts: Sequence[str]) -> int:
        """The rate of the slowest NIC of `hosts` on the fabric; that of the catalogue if they have none."""
        assert self.fabric is not None, "jobs have hosts only on a fabric"
        nics = self.fabric.nic_rates_bps()
        return min((nics[host] for host in hosts if host in nics), default=LINE_RATE_BPS.value)

    def _first_places(self, job: Job) -> tuple[str, ...] | None:
        return next(
            (each.placement[job.name] for each in self.candidates if job.name in each.placement), None
        )

    @property
    def precision_deg(self) -> float:
        """The largest step between rotations to try, from `[compat]`, else from `[link]`; 0 tries all."""
        if self.compat.precision_deg is not None:
            return self.compat.precision_deg
        return self.link.precision_deg if self.link else 0.0

    def rates_bps(self) -> dict[str, int]:
        """The rate of each link by its name; the one shared link is called `link`."""
        if self.fabric is None:
            return {"link": self.link.capacity_bps} if self.link else {}
        return {cable.label: cable.rate_bps for cable in self.fabric.topology.cables}

    @property
    def priority_queues(self) -> int:
        """The number of queues per link that priorities map to."""
        shared = self.link or self.fabric
        assert shared is not None, "a checked plan has a link or a fabric"
        return shared.priority_queues

    @property
    def goodput(self) -> Goodput:
        """The goodput of a link for which jobs contend, by their number."""
        shared = self.link or self.fabric
        assert shared is not None, "a checked plan has a link or a fabric"
        return goodput_of(shared.contended_goodput)

    @property
    def iterations(self) -> int | None:
        """The iterations after which a run ends: as given; 1,000 if no limit is given; `None` if only a time
        is.
        """
        if self.run.iterations is None and self.run.until_ps is None:
            return DEFAULT_ITERATIONS
        return self.run.iterations

    def iterations_of(self, job: Job) -> int | None:
        """The number of iterations after which `job` leaves; `None` if that of the run applies."""
        is_open = self.run.iterations is None and self.run.until_ps is None
        if job.iterations is None and job.training is not None and is_open:
            return DEFAULT_TRAINING_ITERATIONS
        return job.iterations
