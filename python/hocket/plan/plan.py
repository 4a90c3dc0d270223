"""A plan as a whole: its tables, what follows from them, and everything made explicit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, StrictBool, StrictInt, ValidationInfo, model_validator

from hocket.hardware import Host, Switch
from hocket.plan.checks import plan_mistakes
from hocket.plan.fabric import Fabric
from hocket.plan.job import MAX_PLACES, Job
from hocket.plan.link import DEFAULT_PRECISION_DEG, Link
from hocket.plan.mistakes import spelt
from hocket.plan.run import Compat, Run
from hocket.schema import KeyPath, Name, Table, TableError, default
from hocket.units import (
    LARGEST,
    DurationPs,
    PositiveRateBps,
    format_duration,
    format_rate,
)
from hocket.workloads import WorkloadProfile

MAX_JOBS = 10_000
"""The most jobs of a plan: ten times the largest cluster that the solver is measured on."""

DEFAULT_TRAINING_ITERATIONS = 1
"""Of a job of operations, in a run that says neither how many nor until when: HOTI'22 Fig 10 shows one."""

DEFAULT_ITERATIONS = 1_000
"""Iterations of a run that says neither how many nor until when: HotNets'22 §2 and NSDI'24 §2.2 run 1,000."""

_MOST_CANDIDATES = 1_000


class Change(Table):
    """A link that fails, comes back, or carries less from a time on, in both directions."""

    at_ps: DurationPs = Field(alias="at")
    link: Name
    down: StrictBool | None = None
    rate_bps: PositiveRateBps | None = Field(default=None, alias="rate")


class Candidate(Table):
    """One placement of the jobs that a scheduler holds equally good as the others."""

    name: Name
    placement: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_PLACES)]]


class Plan(Table):
    """Jobs on a shared link or on a fabric, and what to do with them; valid by construction."""

    name: Name | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=LARGEST)] = default(1, "Hocket: any fixed seed")
    link: Link | None = None
    fabric: Fabric | None = None
    switch: Switch = Switch()
    host: Host = Host()
    compat: Compat = Compat()
    run: Run = Run()
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=MAX_JOBS)]
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=_MOST_CANDIDATES)] = ()
    changes: Annotated[tuple[Change, ...], Field(max_length=10_000)] = ()
    _directory: Path = PrivateAttr(default=Path())

    @property
    def directory(self) -> Path:
        """Where relative paths in the plan start: the directory of its file."""
        return self._directory

    def files(self) -> tuple[Path, ...]:
        """The files and directories that it names, from `directory` on."""
        named = [path for job in self.jobs if job.training is not None for path in job.training.paths()]
        if self.fabric is not None and self.fabric.lingjun is not None:
            named.insert(0, self.fabric.lingjun.file)
        return tuple(self._directory / path for path in named)

    def hosts_of(self, job: Job, placement: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
        """Where `job` runs on the fabric: where `placement` puts it, else its own, else on every GPU.

        A server stands for its GPUs.
        """
        assert self.fabric is not None, "only on a fabric have jobs hosts"
        places = (placement or {}).get(job.name) or job.placement
        return self.fabric.gpus() if places is None else self.fabric.hosts_at(places)

    @property
    def precision_deg(self) -> float:
        """The sectors' width on the unified circle: of `[compat]`, else of `[link]`, else 5°."""
        if self.compat.precision_deg is not None:
            return self.compat.precision_deg
        return self.link.precision_deg if self.link else DEFAULT_PRECISION_DEG

    def rates_bps(self) -> dict[str, int]:
        """The rate of each link by its name; the one link that all share is called `link`."""
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
    def iterations(self) -> int | None:
        """Where a run stops by iterations: as given, 1,000 if neither they nor a time are, else `None`."""
        if self.run.iterations is None and self.run.until_ps is None:
            return DEFAULT_ITERATIONS
        return self.run.iterations

    def iterations_of(self, job: Job) -> int | None:
        """After how many iterations `job` leaves, if it has a number of its own."""
        is_open = self.run.iterations is None and self.run.until_ps is None
        if job.iterations is None and job.training is not None and is_open:
            return DEFAULT_TRAINING_ITERATIONS
        return job.iterations

    def resolved(self) -> dict[str, Any]:
        """Everything explicit, ready for JSON: all defaults, and each job's profiles with their sources.

        Quantities are text with units. `defaults` lists every key that was not given, its value and its
        source.
        """
        written: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        written["compat"]["precision_deg"] = self.precision_deg
        for job, table in zip(self.jobs, written["jobs"], strict=True):
            if job.training is None:
                table["profiles"] = [_written_profile(each) for each in job.profiles()]
        written["defaults"] = list(defaults_in((), self))
        if self.run.iterations is None and self.iterations is not None:
            written["run"]["iterations"] = self.iterations
            source = "HotNets'22 §2 and NSDI'24 §2.2 run each job for 1,000 iterations"
            written["defaults"].append({"key": "run.iterations", "value": self.iterations, "source": source})
        return written

    @model_validator(mode="after")
    def _is_consistent(self, info: ValidationInfo) -> Self:
        self._directory = Path((info.context or {}).get("directory", ""))
        mistakes = list(plan_mistakes(self))
        if mistakes:
            raise TableError(mistakes)
        return self


def defaults_in(path: KeyPath, table: Table) -> Iterator[dict[str, Any]]:
    """Each key of `table`, at `path`, and of tables in it that was not given: its value and its source."""
    written = table.model_dump(mode="json", by_alias=True)
    for name, field in type(table).model_fields.items():
        key, value = field.alias or name, getattr(table, name)
        here = (*path, key)
        if isinstance(value, Table):
            yield from defaults_in(here, value)
        elif isinstance(value, tuple):
            for index, each in enumerate(value):
                if isinstance(each, Table):
                    yield from defaults_in((*here, index), each)
        extra = field.json_schema_extra
        if name not in table.model_fields_set and isinstance(extra, dict) and not isinstance(value, Table):
            yield {"key": spelt(here), "value": written[key], "source": extra["source"]}


def _written_profile(each: WorkloadProfile) -> dict[str, Any]:
    return {
        "period": format_duration(each.period_ps),
        "up": [
            {
                "start": format_duration(phase.start_ps),
                "duration": format_duration(phase.duration_ps),
                "rate": format_rate(phase.rate_bps),
            }
            for phase in each.phases
        ],
        "sources": list(each.sources),
        "notes": each.notes,
    }
