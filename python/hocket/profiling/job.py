"""The profile of a job, and its form as a job of a plan that `hocket compat` reads."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from hocket.display import Displayed, brief, counted, on_one_line
from hocket.errors import InputError
from hocket.profiling.counters import FloatArray
from hocket.units import format_duration, format_rate, parse_rate

_PS_PER_US = 10**6
# A counter is less accurate than six digits; more of them would only look exact.
_RATE_DIGITS = 6


@dataclass(frozen=True)
class UpPhase:
    """Traffic at `rate_bps` for `duration_s`, from `start_s` after the start of the iteration."""

    start_s: float
    duration_s: float
    rate_bps: float


@dataclass(frozen=True)
class CollectiveUse:
    """The operations of one kind in an iteration.

    There are `count` operations with `message_bytes` in total, as nccl-tests counts them (nan if the profiler
    trace does not give every size). `time_s` is the sum of their durations.
    """

    kind: str
    count: float
    message_bytes: float
    time_s: float


@dataclass(frozen=True, eq=False)
class CounterEvidence:
    """The evidence from a counter: the readings as `time_s` (n + 1) and `rate_bps` (n), and the fold of all
    iterations as `fold_s` (b, middles of bins) and `fold_rate_bps` (b).
    """

    time_s: FloatArray
    rate_bps: FloatArray
    fold_s: FloatArray
    fold_rate_bps: FloatArray


@dataclass(frozen=True, eq=False)
class TimelineEvidence:
    """The evidence from a profiler trace, in seconds: communication (n, 2) and computation (m, 2) as merged
    intervals, starts of annotated steps (k), and the operations of an iteration at their usual times (o, 2).
    """

    communication_s: FloatArray
    compute_s: FloatArray
    steps_s: FloatArray
    fold_s: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class JobProfile(Displayed):
    """One iteration of a job, as found in its traffic or its profiler trace, and the evidence for it.

    The iteration starts with the Up phase after the longest Down phase, so no phase extends past its end.
    `confidence`, in [0, 1], is the product of the factors in "Profiles from counters" and "Profiles from
    profiler traces" of docs/model.md. Below 0.5 the profile is a guess. `notes` are sentences on the grounds
    for the profile and the doubts about it.

    `iteration_start_s` (`iterations_seen`) are the starts of the iterations on the clock of `evidence`, and
    `jitter_s` is the standard deviation of their lengths. Rates and bytes are nan if a profiler trace does
    not give the size of every message.

    Only a profiler trace shows these, per iteration: `collectives`, time spent computing (`compute_s`) and
    communicating (`communication_s`), and exposed communication (`exposed_s`). None if unknown.
    """

    name: str
    period_s: float
    phases: tuple[UpPhase, ...]
    bytes_per_iteration: float
    confidence: float
    iterations_seen: int
    jitter_s: float
    iteration_start_s: FloatArray
    evidence: CounterEvidence | TimelineEvidence
    notes: tuple[str, ...] = ()
    collectives: tuple[CollectiveUse, ...] = ()
    compute_s: float | None = None
    communication_s: float | None = None
    exposed_s: float | None = None

    def __repr__(self) -> str:
        phases, seen = counted(len(self.phases), "Up phase"), counted(self.iterations_seen, "iteration")
        period, confidence = f"period {self.period_s * 1e3:,.6g} ms", f"confidence {self.confidence:.2f}"
        return on_one_line(f"JobProfile of {brief(self.name)}: {period}, {phases}, {confidence}, {seen} seen")

    def to_job(self) -> dict[str, Any]:
        """The job as an entry of `[[jobs]]`: times rounded to microseconds, rates to six digits.

        Raises:
            InputError: The job sends nothing, or the profiler trace lacks sizes of messages and no rate was
                given for them.
        """
        if not self.phases:
            raise InputError(f"{self.name}: the job sends nothing over the network: it has no Up phase")
        if any(math.isnan(phase.rate_bps) for phase in self.phases):
            raise InputError(
                f"{self.name}: the profiler trace does not give the size of every message; to write the job, "
                "give the rate at which it sends (rate, --rate)"
            )
        period_us = round(self.period_s * 1e6)
        up = []
        for phase in self.phases:
            start_us = round(phase.start_s * 1e6)
            # Rounding the end, not the duration, keeps phases apart and inside the period.
            end_us = min(round((phase.start_s + phase.duration_s) * 1e6), period_us)
            up.append(
                {
                    "start": duration_text(start_us),
                    "duration": duration_text(end_us - start_us),
                    "rate": format_rate(int(float(f"{phase.rate_bps:.{_RATE_DIGITS}g}"))),
                }
            )
        return {"name": self.name, "period": duration_text(period_us), "up": up}

    def dump(self, path: str | Path, link_capacity: str | None = None) -> None:
        """Writes the job to `path`, like `dump_jobs` with this job alone."""
        dump_jobs([self], path, link_capacity)

    def check_capacity(self, path: Path, link_capacity: str) -> None:
        """Raises `InputError`, naming the file `path`, if a phase's rate is above `link_capacity`."""
        try:
            capacity_bps = parse_rate(link_capacity)
        except InputError as error:
            raise InputError(f"{path}: link capacity: {error}") from None
        for number, phase in enumerate(self.phases, start=1):
            if phase.rate_bps > capacity_bps:
                raise InputError(
                    f"{path}: job {self.name!r}, phase {number}: a rate of {phase.rate_bps * 1e-9:.6g} Gbps "
                    f"is above the link's capacity of {link_capacity}"
                )


def dump_jobs(jobs: Sequence[JobProfile], path: str | Path, link_capacity: str | None = None) -> None:
    """Writes `jobs` to `path`, as TOML or JSON according to its suffix.

    With `link_capacity`, such as "50 Gbps", the file is a complete plan for `hocket compat`, whose jobs share
    that link; without it, the file contains jobs to add to a plan with a `[link]`.

    Raises:
        InputError: The suffix is neither `.toml` nor `.json`, two jobs have the same name, the capacity is
            not a rate or is below the rate of a phase, or the file cannot be written.
    """
    path = check_jobs_file(path)
    twice = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if twice:
        raise InputError(f"{path}: two jobs are named {twice[0]!r}; names must be unique")
    document: dict[str, Any] = {"jobs": [job.to_job() for job in jobs]}
    if link_capacity is not None:
        for job in jobs:
            job.check_capacity(path, link_capacity)
        document = {"link": {"capacity": link_capacity}, **document}
    text = json.dumps(document, indent=2) + "\n" if path.suffix == ".json" else tomli_w.dumps(document)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_jobs_file(path: str | Path) -> Path:
    """Returns `path` if its suffix is a format of jobs, so that a mistake is found before the work is done.

    Raises `InputError` for any other suffix.
    """
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"{path}: suffix {path.suffix!r}; jobs are written as .toml or .json")
    return path


def duration_text(duration_us: int) -> str:
    """A duration in microseconds as text with a unit."""
    return format_duration(duration_us * _PS_PER_US) if duration_us > 0 else "0 ms"
