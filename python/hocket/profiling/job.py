"""What a profile is, and how it is written as a job that `hocket compat` reads."""

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
# Six digits say more than a counter can; further ones would only look exact.
_RATE_DIGITS = 6


@dataclass(frozen=True)
class UpPhase:
    """From `start_s` after the start of the iteration, traffic at `rate_bps` for `duration_s`."""

    start_s: float
    duration_s: float
    rate_bps: float


@dataclass(frozen=True)
class CollectiveUse:
    """What an iteration asks for of one kind of communication.

    `count` operations, which move `message_bytes` together as nccl-tests counts them (nan where the profiler
    trace does not say) and last `time_s` one after the other.
    """

    kind: str
    count: float
    message_bytes: float
    time_s: float


@dataclass(frozen=True, eq=False)
class CounterEvidence:
    """What a counter showed: the readings as `time_s` (n + 1) and `rate_bps` (n), and all iterations on top
    of each other, `fold_s` (b, middles of bins) and `fold_rate_bps` (b).
    """

    time_s: FloatArray
    rate_bps: FloatArray
    fold_s: FloatArray
    fold_rate_bps: FloatArray


@dataclass(frozen=True, eq=False)
class TimelineEvidence:
    """What a profiler trace showed, in seconds: communication (n, 2) and computation (m, 2) as merged
    intervals, the annotated steps (k), and the operations of an iteration at their mean places in it (o, 2).
    """

    communication_s: FloatArray
    compute_s: FloatArray
    steps_s: FloatArray
    fold_s: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class JobProfile(Displayed):
    """One iteration of a job as its traffic or a profiler trace of it shows it, and the evidence for it.

    The iteration starts with the Up phase after the longest Down phase, so no phase goes past its end.
    `confidence`, in [0, 1], is the product of everything that speaks against the profile: see "Profiles from
    counters" and "Profiles from profiler traces" in docs/model.md. Below 0.5 the profile is a guess. `notes`
    are sentences on what it rests on.

    `iteration_start_s` (`iterations_seen`) are the starts of the iterations on the clock of `evidence`, and
    `jitter_s` the standard deviation of their lengths. Rates and bytes are nan where a profiler trace does
    not say how large messages are.

    What only a profiler trace shows, per iteration: `collectives`; `compute_s`, in which something was
    computed; `communication_s`, in which something was communicated; `exposed_s`, in which that happened
    while nothing was computed. None where it is not known.
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
            InputError: The job sends nothing, or the profiler trace does not say how large messages are
                and no rate was given for them.
        """
        if not self.phases:
            raise InputError(f"{self.name}: the job sends nothing over the network: it has no Up phase")
        if any(math.isnan(phase.rate_bps) for phase in self.phases):
            raise InputError(
                f"{self.name}: the profiler trace does not say the size of every message; "
                "give the rate at which the job sends (rate, --rate) to write it as a job"
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
        """Write the job to `path`: `dump_jobs` of it alone."""
        dump_jobs([self], path, link_capacity)

    def check_capacity(self, path: Path, link_capacity: str) -> None:
        """Raises `InputError` if a phase's rate is above `link_capacity`; `path` names the file in it."""
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
    """Write `jobs` to `path`, as TOML or JSON by its suffix.

    With `link_capacity`, such as "50 Gbps", the file is a plan of jobs that share that link, complete for
    `hocket compat`; without, it holds jobs to add to a file that has a `[link]`.

    Raises:
        InputError: The suffix is neither `.toml` nor `.json`, two jobs have one name, the capacity is no rate
            or below a phase's rate, or the file cannot be written.
    """
    path = check_jobs_file(path)
    twice = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if twice:
        raise InputError(f"{path}: {twice[0]!r} is the name of two jobs; names are unique")
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
    """`path`, if jobs can be written in the format of its suffix: to ask before the work is done.

    Raises `InputError` if not.
    """
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"{path}: suffix {path.suffix!r}; a job is written as .toml or .json")
    return path


def duration_text(duration_us: int) -> str:
    """Microseconds as milliseconds or seconds with a unit."""
    return format_duration(duration_us * _PS_PER_US) if duration_us > 0 else "0 ms"
