"""A plan as a whole: its tables are consistent, and `resolved` makes every default explicit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypedDict, Unpack

import tomli_w
from pydantic import model_validator

from hocket.errors import InputError
from hocket.plan.checks import plan_mistakes
from hocket.plan.fabric import Fabric
from hocket.plan.hardware import Host, Switch
from hocket.plan.job import Job
from hocket.plan.link import Link
from hocket.plan.run import Compat, RunSettings
from hocket.plan.schema import Table, Unquoted, constructor, counted
from hocket.plan.table_errors import KeyPath, TableError, spelt
from hocket.plan.tables import Candidate, Change, PlanTables
from hocket.profiles import WorkloadProfile
from hocket.units import (
    format_duration,
    format_rate,
    shown,
)


# Protocols, because `hocket.compat`, which gives the answers, imports this package.
class ShiftedJob(Protocol):
    """A job of an answer: its time-shift, and the batch size chosen if there were several."""

    @property
    def name(self) -> str: ...
    @property
    def time_shift_ps(self) -> int: ...
    @property
    def batch_size(self) -> int | None: ...


class ScoredCandidate(Protocol):
    """A candidate placement of an answer."""

    @property
    def name(self) -> str: ...


class Answer(Protocol):
    """The answer of `hocket.compatibility` for a plan: its jobs, and the candidates, best first."""

    @property
    def jobs(self) -> Sequence[ShiftedJob]: ...
    @property
    def candidates(self) -> Sequence[ScoredCandidate]: ...


class PlanKeys(TypedDict, total=False):
    """The keys of a plan besides its jobs, and their types; `None` leaves a key out."""

    name: str | None
    seed: int | None
    link: Link | None
    fabric: Fabric | None
    switch: Switch | None
    host: Host | None
    compat: Compat | None
    run: RunSettings | None
    candidates: Sequence[Candidate] | None
    changes: Sequence[Change] | None


class Plan(PlanTables):
    """Jobs on a shared link or a fabric, and how to search and simulate; valid by construction."""

    @constructor
    def __init__(self, *, jobs: Sequence[Job], **keys: Unpack[PlanKeys]) -> None: ...

    def replace(self, *, jobs: Sequence[Job] | None = None, **changes: Unpack[PlanKeys]) -> "Plan":
        """A new plan with `changes`; a value of `None` leaves a key out. Relative paths keep their directory.

        Raises `InputError` as the constructor does: the whole plan is checked again.

        >>> from hocket.plan import Up
        >>> half = Job("a", period="180 ms", up=[Up("0 ms", "90 ms", "40 Gbps")])
        >>> plan = Plan(link=Link("50 Gbps"), jobs=[half, half.replace(name="b")])
        >>> plan.replace(seed=2)
        Plan(2 jobs on one link of 50 Gbps)
        >>> plan.replace(link=Link("30 Gbps"))
        Traceback (most recent call last):
        hocket_agent.errors.InputError: jobs[0].up[0].rate: 40 Gbps is above the link's capacity of 30 Gbps
        jobs[1].up[0].rate: 40 Gbps is above the link's capacity of 30 Gbps
        """
        # The constructor knows of no file, so it takes the current directory for relative paths.
        replaced = self._replaced({"jobs": self.jobs if jobs is None else jobs, **changes})
        replaced._directory = self._directory
        return replaced

    def shifted(self, answer: Answer) -> "Plan":
        """A new plan whose jobs have the time-shifts of `answer`, and its other choices.

        These are the batch size of a job with several, and with candidates the placement of the best one; the
        new plan then has no candidates. Jobs that are not in the answer stay the same.

        Raises `InputError` if `answer` is about other jobs or candidates than those of the plan.
        """
        chosen = self._chosen(answer)
        shifts = {each.name: each for each in answer.jobs}
        names = {job.name for job in self.jobs}
        for name in (name for name in shifts if name not in names):
            raise InputError(f"the answer is about a job {shown(name)}, and the plan has none of that name")
        jobs = []
        for job in self.jobs:
            if job.name in shifts:
                of_job = shifts[job.name]
                job = job.replace(time_shift=format_duration(of_job.time_shift_ps))
                if of_job.batch_size is not None:
                    job = job.replace(batch_size=of_job.batch_size)
            if chosen is not None and job.name in chosen.placement:
                job = job.replace(placement=chosen.placement[job.name])
            jobs.append(job)
        # With the placement of one candidate in the jobs, there is nothing left to choose from.
        return self.replace(jobs=jobs, candidates=None if chosen else self.candidates or None)

    def _chosen(self, answer: Answer) -> Candidate | None:
        if not self.candidates or not answer.candidates:
            return None
        best = answer.candidates[0].name
        for each in self.candidates:
            if each.name == best:
                return each
        raise InputError(f"the answer is about a candidate {shown(best)}, and the plan has none of that name")

    def to_toml(self) -> str:
        """The given keys as TOML, which `load_plan` reads as the same plan.

        >>> from hocket.plan import Clos, Training
        >>> training = Training(collective="all-reduce", bytes="64 MB")
        >>> job = Job("a", training=training, placement=["s0"])
        >>> print(Plan(fabric=Fabric(clos=Clos(racks=1)), jobs=[job]).to_toml(), end="")
        [fabric.clos]
        racks = 1
        <BLANKLINE>
        [[jobs]]
        name = "a"
        placement = [
            "s0",
        ]
        <BLANKLINE>
        [jobs.training]
        collective = "all-reduce"
        bytes = "64 MB"
        """
        return tomli_w.dumps(self.to_dict())

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        if self.fabric is None:
            where = f"one link of {format_rate(self.rates_bps()['link'])}"
        else:
            where = f"a fabric of {counted(len(self.fabric.gpus()), 'host')}"
        if self.name is not None:
            yield None, self.name
        yield None, Unquoted(f"{counted(len(self.jobs), 'job')} on {where}")

    def resolved(self, placement: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
        """The plan with all defaults and each job's profiles with their sources, ready for JSON.

        Profiles are those of jobs under `placement`, or else under their own. Quantities are text with units.
        `defaults` lists every key that was not given, its value and its source.
        """
        written: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        # `precision_deg` may be given in [link] instead of [compat].
        written["compat"]["precision_deg"] = self.precision_deg
        for job, table in zip(self.jobs, written["jobs"], strict=True):
            if job.training is None:
                table["profiles"] = [_written_profile(each) for each in self.profiles_of(job, placement)]
        written["defaults"] = list(defaults_in((), self))
        # This default depends on `until`, so it belongs to no field.
        if self.run.iterations is None and self.iterations is not None:
            written["run"]["iterations"] = self.iterations
            source = "HotNets'22 §2 and NSDI'24 §2.2 run each job for 1,000 iterations"
            written["defaults"].append({"key": "run.iterations", "value": self.iterations, "source": source})
        return written

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        mistakes = list(plan_mistakes(self))
        if mistakes:
            raise TableError(mistakes)
        return self


def defaults_in(path: KeyPath, table: Table) -> Iterator[dict[str, Any]]:
    """The value and source of each key not given in `table`, which is at `path`, or in the tables in it."""
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
        # The keys of a table that was not given are listed one by one, above.
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
