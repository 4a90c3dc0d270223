"""A trace: a cluster and the jobs submitted to it. Files and tables are checked once; a `Trace` is valid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hocket.cluster.arrivals import MAX_JOBS
from hocket.cluster.file import TraceFile
from hocket.cluster.importers import Report, imported
from hocket.cluster.settings import Settings
from hocket.cluster.submission import Submission, check_names, named
from hocket.display import brief, counted, on_one_line
from hocket.engines.network import Network, network_of
from hocket.errors import InputError, located
from hocket.plan.file_kinds import check_kind
from hocket.plan.goodput import Goodput, goodput_of
from hocket.plan.json_schema import schema_of
from hocket.plan.lines import Lines
from hocket.plan.plan import defaults_in
from hocket.plan.reading import parse_as, read_tables
from hocket.schedulers import Cluster, ClusterJob, Gpus
from hocket.schedulers.cassini import CassiniOptions
from hocket.schedulers.mltcp import MltcpOptions
from hocket.schedulers.monkeytree import MonkeytreeOptions
from hocket.schedulers.pollux import PolluxOptions
from hocket.schedulers.themis import ThemisOptions
from hocket.sweeps.axes import parse_axis, with_setting
from hocket.units import format_rate, shown

_PS_PER_S = 10**12
_REQUIRED_TABLES = "a trace has at least a [fabric] and one of [[jobs]], [poisson], [dynamic] and [[import]]"


@dataclass(frozen=True, repr=False)
class Trace:
    """A cluster and its jobs; valid by construction, and the same for the same file and seed."""

    name: str
    file: TraceFile
    """The tables that it was made from, including the options of schedulers."""
    jobs: tuple[ClusterJob, ...]
    """In order of arrival."""
    placement: Mapping[str, Gpus]
    """The GPUs of jobs that are placed at the start, by name."""
    imports: tuple[Report, ...]
    """Counts of the jobs taken and skipped, for each imported trace."""

    def __repr__(self) -> str:
        jobs, gpus = counted(len(self.jobs), "job"), counted(len(self.cluster.gpus), "GPU")
        end = "until all are done" if self.until_s is None else f"until {self.until_s:,.6g} s"
        return on_one_line(f"Trace {brief(self.name)}: {jobs} on {gpus}, {end}, seed {self.seed}")

    @property
    def seed(self) -> int:
        """The seed that every random stream is derived from."""
        return self.file.seed

    @property
    def until_s(self) -> float | None:
        """When the run ends; `None` if it ends when all jobs are done."""
        return None if self.file.until_ps is None else self.file.until_ps / _PS_PER_S

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about its models that affect the results of a run."""
        nic = format_rate(self.file.nic_bps)
        return tuple(
            f"models: {shown(each.name)} keeps its measured rates on NICs of {nic}; to have them scaled, set "
            "its key nic to the rate of the NIC that it was measured with"
            for each in self.file.own_models
            if each.training is None and each.nic_bps is None
        )

    @property
    def settings(self) -> Settings:
        """`[cluster]`."""
        return self.file.cluster

    @property
    def cluster(self) -> Cluster:
        """Its GPUs."""
        return self.file.gpus

    @property
    def themis(self) -> ThemisOptions:
        """`[themis]`."""
        return self.file.themis

    @property
    def pollux(self) -> PolluxOptions:
        """`[pollux]`."""
        return self.file.pollux

    @property
    def cassini(self) -> CassiniOptions:
        """`[cassini]`."""
        return self.file.cassini

    @property
    def mltcp(self) -> MltcpOptions:
        """`[mltcp]`."""
        return self.file.mltcp

    @property
    def monkeytree(self) -> MonkeytreeOptions:
        """`[monkeytree]`."""
        return self.file.monkeytree

    @property
    def priority_queues(self) -> int:
        """The number of queues per link that priorities map to."""
        return self.file.fabric.priority_queues

    @property
    def goodput(self) -> Goodput:
        """The goodput of a link for which jobs contend, by their number."""
        return goodput_of(self.file.fabric.contended_goodput)

    @cached_property
    def network(self) -> Network:
        """The fabric as the engines read it."""
        return network_of(self.file.fabric.topology)

    def resolved(self) -> dict[str, Any]:
        """The complete trace ready for JSON, with all defaults, their sources, and counts of imported jobs.

        Quantities are text with units. `defaults` lists every key that was not given, with its value and
        source; `parse_trace` makes the same trace from `given`.
        """
        written: dict[str, Any] = self.file.model_dump(mode="json", by_alias=True, exclude_none=True)
        written["name"] = self.name
        written["given"] = {
            **self.file.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "name": self.name,
        }
        if self.file.own_models:
            directory = self.file.directory
            # Explaining and replaying a run read its manifest, when files of profiles may have changed.
            written["given"]["models"] = [each.inlined(directory) for each in self.file.own_models]
        written["defaults"] = list(defaults_in((), self.file))
        written["imported"] = [report.to_dict() for report in self.imports]
        return written


TraceLike = Trace | Mapping[str, object] | str | Path
"""A trace, its tables, or the file that it is in."""


def as_trace(trace: TraceLike) -> Trace:
    """The checked trace. Raises `InputError`, as `load_trace` and `parse_trace` do."""
    match trace:
        case Trace():
            return trace
        case str() | Path():
            return load_trace(trace)
        case _:
            return parse_trace(trace)


def load_trace(path: str | Path, settings: Sequence[str] = ()) -> Trace:
    """The trace in the file at `path`: JSON or TOML, as `hocket.plan.read_tables` reads it.

    Each of `settings` is KEY=VALUE, as for `hocket run --set`, and overrides the file.

    Raises `InputError`, one line per mistake, each naming file, line, key, value and limit.
    """
    file = read_tables(path, _REQUIRED_TABLES)
    tables = file.tables
    for text in settings:
        tables = _with(tables, text, file.source)
    # With overrides, an error may be in one of them, so the lines of the file would mislead.
    lines = None if settings else file.lines
    return parse_trace(tables, file.source, file.directory, lines)


def parse_trace(
    tables: object, source: str = "trace", directory: str | Path = "", lines: Lines | None = None
) -> Trace:
    """The trace in `tables`, as TOML or JSON readers return them.

    Errors name it as `source`, with the line of each key if `lines` is given. Relative paths start from
    `directory`, by default the current one.

    Raises `InputError`, one line per mistake.

    >>> trace = parse_trace({
    ...     "fabric": {"testbed": "cassini"},
    ...     "jobs": [{"model": "VGG16", "name": "a", "batch_size": 1400, "workers": 4, "iterations": 100}],
    ... })
    >>> trace.jobs[0].samples, len(trace.cluster.gpus)
    (560000, 24)
    """
    check_kind(tables, "trace", source)
    file = parse_as(TraceFile, tables, source, directory, lines)
    with located(source):
        submissions, reports = _submissions(file)
        jobs = named(submissions, len(file.gpus.gpus))
        _check_rates(jobs, file)
    return Trace(file.name or Path(source).stem, file, jobs, file.placement(), tuple(reports))


def trace_schema() -> dict[str, Any]:
    """The JSON Schema of a trace, for editors.

    >>> trace_schema()["required"]
    ['fabric']
    """
    return schema_of(TraceFile)


def _with(tables: object, text: str, source: str) -> object:
    axis = parse_axis(text)
    if len(axis.values) != 1:
        raise InputError(f"--set {axis.key}: a trace has one value of each key: got {len(axis.values)}")
    with located(f"{source}: {axis.key}"):
        return with_setting(tables, axis.key, axis.values[0])


def _submissions(file: TraceFile) -> tuple[list[Submission], list[Report]]:
    """All jobs from all sources, and a report on each imported trace.

    Raises `InputError` for imported traces that cannot be read, for duplicate names, and for too many jobs.
    """
    gpus = len(file.gpus.gpus)
    models = file.models
    found = [job.submission(models) for job in file.jobs]
    reports: list[Report] = []
    if file.poisson is not None:
        with located("poisson"):
            found += file.poisson.submissions(file.seed, gpus, models)
    if file.dynamic is not None:
        found += file.dynamic.submissions(file.seed, gpus, models)
    for index, table in enumerate(file.imports):
        with located(f"import[{index}]"):
            foreign = imported(table, file.directory, f"{file.seed} import {index}", gpus, models)
        found += foreign.submissions
        reports.append(foreign.report)
    if len(found) > MAX_JOBS:
        raise InputError(f"has {len(found):,} jobs, above the limit of {MAX_JOBS:,}")
    check_names(found)
    return found, reports


def _check_rates(jobs: Sequence[ClusterJob], file: TraceFile) -> None:
    """Raise `InputError` for the first job whose demand exceeds the rate of the slowest NIC."""
    nics = file.fabric.nic_rates_bps()
    slowest = min(nics, key=lambda host: nics[host])
    # Thousands of jobs train a few models, so each profile is examined once.
    highest_bps: dict[tuple[str, int, str | None, int], int] = {}
    for job in jobs:
        # Demand never falls with more workers, because each then sends a larger share of the buffer.
        key = (job.model, job.batch_size, job.strategy, job.sizes[-1])
        if key not in highest_bps:
            phases = job.profile(job.sizes[-1]).phases
            highest_bps[key] = max((phase.rate_bps for phase in phases), default=0)
        if highest_bps[key] > nics[slowest]:
            raise InputError(
                f"job {shown(job.name)}: its demand of {format_rate(highest_bps[key])} is above the "
                f"{format_rate(nics[slowest])} of the NIC of {shown(slowest)}"
            )
