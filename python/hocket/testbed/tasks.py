"""The tasks of a job's workers: a profile of Up phases as computation times and gradients to reduce."""

from dataclasses import dataclass
from typing import Any

from hocket.plan import Job
from hocket.profiles import PS_PER_S, WorkloadProfile
from hocket.testbed.layout import PlacedJob

PAYLOAD_BYTES = 1448
"""Payload of a full TCP segment: 1,500 minus 20 for IPv4, 20 for TCP and 12 for timestamps (RFC 7323)."""

FRAME_BYTES = 1514
"""Size of a full segment for tbf: with the Ethernet header, without preamble and check sequence."""

HEADER_BYTES = FRAME_BYTES - PAYLOAD_BYTES

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Task:
    """One iteration of a job, the same for each of its workers."""

    downs_s: tuple[float, ...]
    """Computation times before each Up phase, and after the last one."""
    elements: tuple[int, ...]
    """Number of 4-byte gradients that each Up phase all-reduces."""
    jitter: float
    """Relative standard deviation of computation times."""
    stream: str
    """Seeds the random numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The task as the worker reads it."""
        return {
            "downs_s": self.downs_s,
            "elements": self.elements,
            "jitter": self.jitter,
            "stream": self.stream,
        }


def task_of(placed: PlacedJob, job: Job, seed: int) -> Task:
    """The task of the workers of `job`: times before jitter, which each worker draws from the stream."""
    return Task(
        downs_s=downs_s(placed.profile),
        elements=tuple(
            elements(phase_bytes(phase.rate_bps, phase.duration_ps), len(placed.workers))
            for phase in placed.profile.phases
        ),
        jitter=job.jitter,
        # Without the rank: as in the engines, jitter delays the whole job, not one worker.
        stream=f"{seed} {job.name}",
    )


def downs_s(profile: WorkloadProfile) -> tuple[float, ...]:
    """Durations of the Down phases of a period in seconds: before each Up phase, and after the last one.

    >>> from hocket.profiles import PhaseSpec
    >>> up = (PhaseSpec(30 * 10**9, 50 * 10**9, 10**9),)
    >>> downs_s(WorkloadProfile(period_ps=100 * 10**9, phases=up, sources=(), notes=""))
    (0.03, 0.02)
    """
    starts_ps = [*(phase.start_ps for phase in profile.phases), profile.period_ps]
    ends_ps = [0, *(phase.start_ps + phase.duration_ps for phase in profile.phases)]
    return tuple((start - end) / PS_PER_S for start, end in zip(starts_ps, ends_ps, strict=True))


def phase_bytes(rate_bps: int, duration_ps: int) -> int:
    """Bytes of a phase on the wire, from each worker to the next."""
    return rate_bps * duration_ps // (8 * PS_PER_S)


def elements(wire_bytes: int, workers: int) -> int:
    """The number of 4-byte gradients whose all-reduce sends `wire_bytes` from each of `workers`, headers
    included.

    A ring sends 2(n−1)/n of the size (Patarasuk and Yuan 2009); Gloo's all-reduce is one.

    >>> elements(1_514_000, 2)
    362000
    """
    payload_bytes = wire_bytes * PAYLOAD_BYTES / FRAME_BYTES
    # The ring cuts the gradients into at least one part for each worker.
    return max(workers, round(payload_bytes * workers / (2 * (workers - 1)) / _FLOAT_BYTES))
