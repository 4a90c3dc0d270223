"""`[[models]]`: a user's own models, from measured profiles or from a description of their training."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hocket.cluster.arrivals import CountRange
from hocket.compat.measured import measure
from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.fabrics import Topology
from hocket.plan import Job, Plan, parse_plan, read_tables
from hocket.plan.checks import phase_mistakes
from hocket.plan.job import MAX_PHASES, Up
from hocket.plan.schema import Count, FilePath, Name, Number, Table, default, size_within
from hocket.plan.table_errors import Mistake
from hocket.plan.training import Training, training_mistakes
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.units import (
    PositiveDurationPs,
    PositiveRateBps,
    format_bytes,
    format_duration,
    format_rate,
    shown,
)
from hocket.workloads import CATALOGUE, Measured, Measurement, Model, Sourced, plain_name
from hocket.workloads.strategies import MOST_WORKERS

MAX_MODELS = 1_000
_LARGEST_MEMORY = 10**15
_LARGEST_RATE_BPS = 10**15
_OF_ONE_JOB = "jobs[0].training: "
_A_PROFILE = "a file of `hocket profile --out` has [[jobs]]"

Memory = Annotated[int, *size_within(1, _LARGEST_MEMORY)]
Workers = Annotated[Count, Field(le=MOST_WORKERS.value)]


class ProfileTable(Table):
    """One iteration on `workers`: given here, or in a file that `hocket profile` wrote."""

    workers: Workers
    """Number of workers; schedulers choose among the numbers that have a profile."""
    batch_size: Count | None = None
    """Batch size per GPU; by default the model's. At one number of workers all profiles have the same
    number of Up phases."""
    period_ps: PositiveDurationPs | None = Field(default=None, alias="period")
    """Duration of an iteration on an idle network."""
    up: Annotated[tuple[Up, ...], Field(max_length=MAX_PHASES)] | None = None
    """Up phases of the iteration."""
    file: FilePath | None = None
    """Instead of `period` and `up`: a file that `hocket profile --out` wrote."""
    job: Name | None = None
    """Name of the job in the file, if the file has several."""

    def mistakes(self) -> Iterator[Mistake]:
        """Conflicts between its keys."""
        if self.file is not None:
            for key, given in (("period", self.period_ps), ("up", self.up)):
                if given is not None:
                    yield (key,), "is given as well as file: leave one of them out"
            return
        if self.job is not None:
            yield ("job",), "selects a job of a file, but file is missing"
        if self.period_ps is None or self.up is None:
            yield (), "needs period and up, or the file of `hocket profile --out`"
            return
        yield from phase_mistakes(self.up, self.period_ps, ())

    def profile(self, directory: Path) -> WorkloadProfile:
        """The profile, read from its file if it has one; relative paths start from `directory`.

        Raises `InputError` if the file cannot be read or has no such job.
        """
        if self.file is None:
            assert self.period_ps is not None, "a checked profile has a period or a file"
            assert self.up is not None, "a checked profile has Up phases or a file"
            phases = sorted(self.up, key=lambda phase: phase.start_ps)
            found = tuple(PhaseSpec(each.start_ps, each.duration_ps, each.rate_bps) for each in phases)
            return WorkloadProfile(self.period_ps, found, ("given: [[models]]",))
        job = self._job(directory / self.file)
        (profile,) = job.profiles()
        return replace(profile, sources=(f"given: {shown(job.name)} of {self.file}",))

    def _job(self, path: Path) -> Job:
        tables = read_tables(path, _A_PROFILE).tables
        entries = tables.get("jobs") if isinstance(tables, Mapping) else None
        if not isinstance(entries, list) or not entries:
            raise InputError(f"{path}: {_A_PROFILE}: got none")
        names = [each.get("name") if isinstance(each, Mapping) else None for each in entries]
        if self.job is None and len(entries) > 1:
            raise InputError(f"{path}: has {len(entries)} jobs; select one with job = NAME: {_listed(names)}")
        if self.job is not None and self.job not in names:
            raise InputError(f"{path}: has no job {shown(self.job)}; it has {_listed(names)}")
        place = 0 if self.job is None else names.index(self.job)
        # Parsed as part of a plan, so that the same checks apply, on a link that is fast enough for any job.
        plan = {"link": {"capacity": format_rate(_LARGEST_RATE_BPS)}, "jobs": [entries[place]]}
        job = parse_plan(plan, str(path)).jobs[0]
        if job.period_ps is None:
            raise InputError(f"{path}: job {shown(job.name)} has no period and up, which a profile needs")
        return job


def _listed(names: list[Any]) -> str:
    return ", ".join(shown(name) for name in names)


class ModelTable(Table):
    """A user's own model: profiles by number of workers, or a description of its training."""

    name: Name
    """Name of the model, different from those of the catalogue."""
    batch_size: Count
    """Batch size per GPU of profiles that specify none, of jobs that are drawn, and of `training`."""
    batch_sizes: CountRange | None = None
    """Smallest and largest batch size that a job may have; by default those of the profiles."""
    profiles: Annotated[tuple[ProfileTable, ...], Field(min_length=1, max_length=1_000)] | None = None
    """Measured iterations; either these or `training`."""
    training: Training | None = None
    """How the model is trained, as `[jobs.training]` of a plan, without its `batch_size`. Each iteration
    is run once on the flow engine, alone, with each worker behind a NIC of the cluster's rate."""
    workers: Annotated[tuple[Workers, ...], Field(min_length=1, max_length=MOST_WORKERS.value)] | None = None
    """With `training`: the numbers of workers that it is trained on."""
    nic_bps: PositiveRateBps | None = Field(default=None, alias="nic")
    """With `profiles`: rate of the NIC that they were measured with. Without it the measured rates stay,
    with a warning."""
    speed: Annotated[Number, Field(ge=0.001, le=1_000)] = default(
        1.0, "Hocket: the cluster's GPUs are those that were measured"
    )
    """With `profiles`: speed of the cluster's GPUs relative to those measured."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory that the model needs on a GPU, compared with `gpu_memory`."""

    def mistakes(self, directory: Path, gpu_memory_bytes: int | None) -> Iterator[Mistake]:
        """Conflicts between its keys, errors in its files, and memory above that of the cluster's GPUs."""
        # `find_model` ignores case, hyphens and blanks, so that "vgg-16" would be ambiguous.
        if plain_name(self.name) in map(plain_name, CATALOGUE):
            yield ("name",), f"{shown(self.name)} is a model of the catalogue; give yours another name"
        if (
            gpu_memory_bytes is not None
            and self.memory_bytes is not None
            and self.memory_bytes > gpu_memory_bytes
        ):
            limit = f"the {format_bytes(gpu_memory_bytes)} of a GPU (cluster.gpu_memory)"
            yield ("memory",), f"{format_bytes(self.memory_bytes)} is above {limit}"
        if (self.profiles is None) == (self.training is None):
            given = "neither" if self.profiles is None else "both"
            yield (), f"needs either profiles, by number of workers, or training, not both: got {given}"
        elif self.training is not None:
            yield from ((("training", *path), text) for path, text in self._training_mistakes(self.training))
        else:
            yield from self._profile_mistakes(directory)

    def _training_mistakes(self, training: Training) -> Iterator[Mistake]:
        if self.workers is None:
            yield (), "needs the key workers beside it: the numbers of GPUs that the model is trained on"
        if self.nic_bps is not None or self.speed != 1:
            yield (), "is computed for the cluster's own NICs and GPUs: leave out nic and speed"
        if training.batch_size is not None:
            yield ("batch_size",), "belongs to the model: give it as models.batch_size"
        if self.batch_sizes is not None and training.model is None:
            yield (), "has a fixed batch size unless it names a model of the catalogue: leave out batch_sizes"
        yield from training_mistakes(training)

    def _profile_mistakes(self, directory: Path) -> Iterator[Mistake]:
        assert self.profiles is not None, "it has profiles"
        if self.workers is not None:
            yield ("workers",), "belongs to training; each of the profiles has its own workers: leave it out"
        seen: dict[tuple[int, int], int] = {}
        phases: dict[int, tuple[int, int]] = {}
        for index, each in enumerate(self.profiles):
            found = list(each.mistakes())
            yield from ((("profiles", index, *path), text) for path, text in found)
            batch_size = each.batch_size or self.batch_size
            before = seen.setdefault((each.workers, batch_size), index)
            if before != index:
                what = f"{each.workers} workers at batch size {batch_size}"
                yield ("profiles", index), f"is for {what}, as is profiles[{before}]"
            if found:
                continue
            try:
                profile = each.profile(directory)
            except InputError as error:
                yield ("profiles", index, "file"), str(error)
                continue
            fastest_bps = max((phase.rate_bps for phase in profile.phases), default=0)
            if self.nic_bps is not None and fastest_bps > self.nic_bps:
                limit = f"the model's nic of {format_rate(self.nic_bps)}"
                yield ("profiles", index), f"{format_rate(fastest_bps)} is above {limit}"
            count = len(profile.phases)
            # Phases of different batch sizes are interpolated one by one, so there must be as many.
            first, expected = phases.setdefault(each.workers, (index, count))
            if count != expected:
                text = f"has {count} Up phases and profiles[{first}] has {expected}"
                yield ("profiles", index), f"{text}; profiles of equal workers need equal numbers of phases"
        limits, batch_sizes = self._limits(), sorted({size for _, size in seen})
        if limits[0] > batch_sizes[0] or limits[1] < batch_sizes[-1]:
            measured = f"{batch_sizes[0]} to {batch_sizes[-1]}"
            yield (
                ("batch_sizes",),
                f"{limits[0]} to {limits[1]} excludes some of the measured batch sizes, {measured}",
            )

    def _limits(self) -> tuple[int, int]:
        if self.batch_sizes is not None:
            return self.batch_sizes
        given = [self.batch_size, *(each.batch_size or self.batch_size for each in self.profiles or ())]
        return min(given), max(given)

    def model(self, directory: Path, nic_bps: int) -> Model:
        """The model in a cluster with NICs of rate `nic_bps`; relative paths start from `directory`.

        Raises `InputError` if a file cannot be read.
        """
        strategy = self._measured(directory) if self.training is None else self._trained(directory, nic_bps)
        megabytes = -(-(self.memory_bytes or 0) // 10**6)
        source = "[[models]]"
        return Model(
            name=self.name,
            memory_mb=Sourced((megabytes, megabytes), "given", source),
            batch_sizes=Sourced(self._limits(), "given", source),
            parallelisation=Sourced(strategy.name, "given", source),
            field_of_use=Sourced("unspecified", "given", source),
            strategies={strategy.name: strategy},
            reference=(self.batch_size, strategy.workers.value[0]),
            # A simulated profile is for the cluster's NICs already.
            measured_nic_bps=nic_bps if self.training is not None else self.nic_bps,
            nic_bps=nic_bps,
            # The decimal that was written, such as 1/10 for 0.1, which floating point only approximates.
            speed=Fraction(self.speed).limit_denominator(10**6),
        )

    def _measured(self, directory: Path) -> Measured:
        by_workers: dict[int, list[Measurement]] = {}
        for each in self.profiles or ():
            measurement = Measurement(each.batch_size or self.batch_size, each.profile(directory))
            by_workers.setdefault(each.workers, []).append(measurement)
        for measurements in by_workers.values():
            measurements.sort(key=lambda each: each.batch_size)
        return Measured(by_workers)

    def _trained(self, directory: Path, nic_bps: int) -> "Trained":
        assert self.training is not None, "it is trained"
        assert self.workers is not None, "a checked training has numbers of workers"
        workers = tuple(sorted(set(self.workers)))
        return Trained(self.name, self.training, workers, directory, nic_bps)

    def inlined(self, directory: Path) -> dict[str, Any]:
        """Its keys, with the files of its profiles replaced by their content."""
        written = self.to_dict()
        for table, each in zip(written.get("profiles", ()), self.profiles or (), strict=True):
            if each.file is None:
                continue
            profile = each.profile(directory)
            del table["file"]
            table.pop("job", None)
            table["period"] = format_duration(profile.period_ps)
            table["up"] = [
                {
                    "start": format_duration(phase.start_ps),
                    "duration": format_duration(phase.duration_ps),
                    "rate": format_rate(phase.rate_bps),
                }
                for phase in profile.phases
            ]
        return written


class Trained:
    """A strategy whose iterations are simulated on the flow engine, alone and with a NIC for each worker."""

    name = "training"

    def __init__(
        self,
        model: str,
        training: Training,
        workers: tuple[int, ...],
        directory: Path,
        nic_bps: int,
    ) -> None:
        self._model = model
        self._training = training
        self._directory = directory
        self._nic_bps = nic_bps
        self.workers = Sourced(workers, "given", "[[models]]")
        # A profile is a simulation, and schedulers need the same ones at every decision.
        self.profile = cache(self._profile)

    def _profile(self, batch_size: int, workers: int) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`.

        Raises `InputError` as `measure` does.
        """
        nic = format_rate(self._nic_bps)
        rack = {"racks": 1, "servers_per_rack": workers, "gpus_per_server": 1, "spines": 0, "nic": nic}
        training = self._training.to_dict()
        if self._training.model is not None:
            training["batch_size"] = batch_size
        tables = {"fabric": {"clos": rack}, "jobs": [{"name": self._model, "training": training}]}
        try:
            plan = parse_plan(tables, "", self._directory)
            network = build_network(plan)
            measured = measure(plan, 0, network, None)
        except InputError as error:
            # The user wrote the model, not this plan, so the error must name the model.
            lines = (line.split(_OF_ONE_JOB)[-1] for line in str(error).splitlines())
            text = "; ".join(line.removeprefix(f"job {shown(self._model)}: ") for line in lines)
            raise InputError(f"on {workers} workers at batch size {batch_size}: {text}") from None
        # The first worker stands for all, as the workers of a group send alike.
        first = _uplink(plan, network.display_names())
        sent = [link for link in measured.rates_bps if network.links[link][0] == first]
        if not sent:
            return measured.with_phases(())
        return measured.profile(sent[0], self._nic_bps)


def _uplink(plan: Plan, names: Mapping[str, str]) -> str:
    """The link from the first host of `plan` to its switch."""
    assert plan.fabric is not None, "a rack is a fabric"
    topology: Topology = plan.fabric.topology
    host = topology.gpus[0]
    return next(name for name in names.values() if name.startswith(f"{host}->"))
