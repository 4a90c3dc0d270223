"""Request and response models, version 1 of the API. Quantities are text with units, as in plans; times are
integers in nanoseconds, wall-clock times since 1970 (UTC).
"""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, WithJsonSchema, model_validator

from hocket.compat.verdict import Speedup, Verdict
from hocket.plan.checks import phase_mistakes
from hocket.plan.job import MAX_PHASES, MAX_PLACES, Up
from hocket.plan.schema import Name, Table
from hocket.plan.table_errors import Mistake, TableError
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.units import LARGEST, PositiveDurationPs, PositiveRateBps, format_duration, format_rate, shown

MAX_JOBS = 10_000
"""Registered at the same time: the same limit as in a plan (`hocket.plan.plan.MAX_JOBS`)."""

MAX_LINKS = 1_000
"""Per job. Hocket: a ring of a thousand workers crosses fewer links outside its servers."""

MAX_RANKS = 65_536
"""Per job. Hocket: more than the GPUs of any published training job."""

MAX_BODY_BYTES = 2_000_000
"""Limit of a request: a registration with the most workers, links and phases is smaller."""

JOB_NAME_PATTERN = r"^[^/.\x00-\x1f\x7f-\x9f][^/\x00-\x1f\x7f-\x9f]{0,99}$"
"""A job's name is part of a URL path: no slash, no leading dot, as in `..`, and no control characters."""

_Count = Annotated[StrictInt, Field(ge=0, le=LARGEST)]
# One line without control characters, since agents' reasons are printed in terminals.
_Sentence = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
_Verdict = Annotated[Verdict, WithJsonSchema({"type": "string", "enum": [str(each) for each in Verdict]})]
_Signed = Annotated[StrictInt, Field(ge=-LARGEST, le=LARGEST)]

_EXAMPLE_PROFILE = {
    "period": "180 ms",
    "up": [{"start": "110 ms", "duration": "70 ms", "rate": "40 Gbps"}],
}
_EXAMPLE_SLOT = {
    "version": 7,
    "origin_ns": 1_766_000_000_000_000_000,
    "period_ns": 181_000_000,
    "iteration": 1300,
    "tolerance_ns": 9_000_000,
}


class RegisteredProfile(Table):
    """An iteration without contention: its period and Up phases, as in a plan."""

    period_ps: PositiveDurationPs = Field(alias="period")
    up: Annotated[tuple[Up, ...], Field(min_length=1, max_length=MAX_PHASES)]

    @model_validator(mode="after")
    def _phases_fit(self) -> Self:
        mistakes = list(phase_mistakes(self.up, self.period_ps, ()))
        if mistakes:
            raise TableError(mistakes)
        return self


class SharedLink(Table):
    """A link that a job's flows cross. Links with the same name are the same link."""

    name: Name
    capacity_bps: PositiveRateBps = Field(alias="capacity")
    flows: Annotated[StrictInt, Field(ge=1, le=MAX_PLACES)] = Field(
        default=1, description="Number of the job's flows on it, each of the profile's rate."
    )


class Registration(Table):
    """A job's profile, workers and links."""

    profile: RegisteredProfile = Field(examples=[_EXAMPLE_PROFILE])
    workers: Annotated[tuple[Name, ...], Field(max_length=MAX_PLACES)] = Field(examples=[["host0", "host1"]])
    links: Annotated[tuple[SharedLink, ...], Field(max_length=MAX_LINKS)] = Field(
        examples=[[{"name": "rack1 up", "capacity": "50 Gbps"}]]
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        mistakes = [*self._twice(), *self._above_capacity()]
        if mistakes:
            raise TableError(mistakes)
        return self

    def _twice(self) -> Iterator[Mistake]:
        for key, names in (("workers", self.workers), ("links", tuple(link.name for link in self.links))):
            seen = set()
            for place, name in enumerate(names):
                if name in seen:
                    yield (key, place), f"{shown(name)} is named twice"
                seen.add(name)

    def _above_capacity(self) -> Iterator[Mistake]:
        narrowest = min(self.links, key=lambda link: link.capacity_bps, default=None)
        for place, phase in enumerate(self.profile.up):
            if narrowest is not None and phase.rate_bps > narrowest.capacity_bps:
                limit = f"the capacity of link {shown(narrowest.name)}, {format_rate(narrowest.capacity_bps)}"
                yield ("profile", "up", place, "rate"), f"{format_rate(phase.rate_bps)} is above {limit}"

    def workload(self) -> WorkloadProfile:
        """The profile for the solver, with phases in order of start."""
        phases = sorted(self.profile.up, key=lambda phase: phase.start_ps)
        return WorkloadProfile(
            period_ps=self.profile.period_ps,
            phases=tuple(PhaseSpec(phase.start_ps, phase.duration_ps, phase.rate_bps) for phase in phases),
            sources=("registration",),
            notes=f"a period of {format_duration(self.profile.period_ps)}, as registered",
        )


class Report(Table):
    """A rank's iterations since its last report."""

    rank: Annotated[StrictInt, Field(ge=0, lt=MAX_RANKS)]
    ranks: Annotated[StrictInt, Field(ge=1, le=MAX_RANKS)]
    sent_ns: _Count = Field(description="When the report was sent, on the rank's clock.")
    iteration: _Count = Field(description="Iterations finished since the job started.")
    count: _Count = Field(description="Iterations finished since the last report.")
    total_ns: _Count = Field(description="Their total duration; 0 if there are none.")
    min_ns: _Count = Field(description="Duration of the fastest of them; 0 if there are none.")
    max_ns: _Count = Field(description="Duration of the slowest of them; 0 if there are none.")
    communication_ns: _Count | None = Field(
        default=None, description="Their total time in communication, if measured."
    )
    deviation_ns: _Signed | None = Field(default=None, description="Last start of communication minus slot.")
    adjustments: _Count = Field(default=0, description="Adjustments since the job started.")
    clock_offset_ns: _Signed | None = Field(
        default=None, description="The service's clock minus the rank's clock."
    )
    clock_uncertainty_ns: _Count | None = Field(
        default=None, description="Largest possible error of the offset."
    )
    dry_run: StrictBool = Field(default=False, description="Whether the rank only measures.")
    applied: _Count | None = Field(default=None, description="Version of the slot that the rank follows.")
    reason: _Sentence = Field(
        default="", description="Why the rank follows no slot; empty if it follows one.", examples=["dry run"]
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise TableError(mistakes)
        return self

    def _mistakes(self) -> Iterator[Mistake]:
        if self.rank >= self.ranks:
            yield ("rank",), f"must be below ranks, {self.ranks}: got {self.rank}"
        if self.count > self.iteration:
            yield ("count",), f"{self.count} is more than all iterations, {self.iteration}"
        if not self.min_ns * self.count <= self.total_ns <= self.max_ns * self.count:
            bounds = f"{self.count} iterations of {self.min_ns} ns to {self.max_ns} ns"
            yield ("total_ns",), f"{self.total_ns} contradicts {bounds}"


class Slot(BaseModel):
    """When a job's communication may start: at `origin_ns`, and every `period_ns` after it.

    The slot is for the start of the Up phase after the longest silence of the profile; the first of equals.
    """

    model_config = ConfigDict(frozen=True)

    version: int = Field(description="Higher for each new slot of the job.")
    origin_ns: int = Field(description="On the service's clock.")
    period_ns: int = Field(ge=1)
    iteration: int = Field(
        description="The first iteration that follows the slot, at all ranks, counted from 0."
    )
    tolerance_ns: int = Field(
        description="Past this deviation a job goes back to its slot: 5% of the ideal iteration."
    )


class Answer(BaseModel):
    """The answer to a report."""

    received_ns: int = Field(description="When the report arrived, on the service's clock.")
    sent_ns: int = Field(description="When this answer was sent, on the service's clock.")
    slot: Slot | None = Field(description="Null if the job is not to be delayed.", examples=[_EXAMPLE_SLOT])
    ideal_ns: int = Field(description="The period of the registered profile.")
    reason: str = Field(description="Why there is a slot or none, in one sentence.")


class Times(BaseModel):
    """Durations of a job's iterations, delays included."""

    mean_ns: int
    p99_ns: int


class SpeedupView(BaseModel):
    """Speed-up of iterations in slots over those without."""

    mean: float
    p99: float
    verdict: _Verdict = Field(description="The conclusion from both: one of four words.")

    @staticmethod
    def of(speedup: Speedup) -> "SpeedupView":
        """The API's form of a speed-up."""
        return SpeedupView(mean=speedup.mean, p99=speedup.p99, verdict=speedup.verdict)


class PredictedTimes(BaseModel):
    """Iterations that the flow engine predicts among the jobs that contend with this one."""

    without_slot: Times = Field(description="With iterations that start at random times.")
    in_slot: Times
    speedup: SpeedupView


class MeasuredTimes(Times):
    """Measured durations, and of how many iterations."""

    iterations: int


class Measured(BaseModel):
    """Recent iterations of rank 0, since the job contends with the jobs that it contends with now.

    The 99th percentile is an estimate: a report has only its shortest and longest iteration, and the others
    count as their mean.
    """

    without_slot: MeasuredTimes | None
    in_slot: MeasuredTimes | None
    speedup: SpeedupView | None = Field(description="Null until there are 20 iterations in slots.")
    against: Literal["measured", "predicted"] | None = Field(
        description="Which iterations without slots the speed-up is relative to: the measured ones, or if "
        "there are fewer than 20 of them, the predicted ones."
    )


class JobView(BaseModel):
    """A job's state."""

    job: str
    profile: RegisteredProfile
    workers: tuple[str, ...]
    links: tuple[SharedLink, ...]
    registered_ns: int
    ranks: int | None = Field(description="Number of ranks according to its reports; null before the first.")
    heard: int = Field(description="Number of ranks that have reported.")
    last_report_ns: int | None
    iteration: int | None = Field(description="The most iterations that a rank has finished.")
    ideal_ns: int = Field(description="The iteration without contention, as registered.")
    predicted: PredictedTimes | None = Field(description="Null if not simulated.")
    measured: Measured
    deviation_ns: int | None = Field(description="The deviation of the rank farthest from its slot.")
    adjustments: int
    dry_run: bool = Field(description="Whether a rank only measures.")
    applied: int | None = Field(description="Version of the slot that all ranks follow, else null.")
    slot: Slot | None
    not_followed: str | None = Field(
        description="Why ranks do not follow the slot, in one sentence; null if all do or there is no slot."
    )
    reason: str = Field(description="Why there is a slot or none, in one sentence.")


class Jobs(BaseModel):
    """All jobs, by name."""

    jobs: list[JobView]


class Clock(BaseModel):
    """Readings of the service's clock, in nanoseconds since 1970 (UTC)."""

    received_ns: int
    sent_ns: int


class Health(BaseModel):
    """The service works."""

    status: str = Field(examples=["ok"])
    version: str = Field(description="The version of Hocket.")


class Refusal(BaseModel):
    """Why a request was rejected; it has changed nothing."""

    error: str = Field(description="What is wrong, the value and the limit; one line per error.")
