"""The output of `hocket profile`: a job's profile as text and as JSON."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from hocket.console import out, print_table
from hocket.profiling.job import JobProfile


def as_json(job: JobProfile) -> dict[str, Any]:
    """A profile as a JSON object, with null for unknown values.

    `job` is null if the job sends nothing or its rates are unknown: it then cannot be written to a plan.
    """
    can_be_planned = bool(job.phases) and not any(math.isnan(phase.rate_bps) for phase in job.phases)
    return {
        "job": job.to_job() if can_be_planned else None,
        "confidence": job.confidence,
        "period_s": job.period_s,
        "bytes_per_iteration": none_if_nan(job.bytes_per_iteration),
        "iterations_seen": job.iterations_seen,
        "jitter_s": job.jitter_s,
        "collectives": [
            {name: none_if_nan(value) for name, value in asdict(use).items()} for use in job.collectives
        ],
        "compute_s": job.compute_s,
        "communication_s": job.communication_s,
        "exposed_s": job.exposed_s,
        "notes": list(job.notes),
    }


def none_if_nan(value: Any) -> Any:
    """`value`, or None if it is nan, which JSON does not have."""
    return None if isinstance(value, float) and math.isnan(value) else value


def print_profile(job: JobProfile) -> None:
    """Prints the period, confidence and phases and, for a profiler trace, collectives and their overlap."""
    out.print(
        f"[bold]{escape(job.name)}[/bold]: "
        f"period {job.period_s * 1e3:.2f} ms, confidence {job.confidence:.2f}"
    )
    out.print(
        f"{number(job.bytes_per_iteration / 1e6, ',.2f')} MB per iteration, {job.iterations_seen} iterations "
        f"seen, jitter {job.jitter_s * 1e3:.2f} ms"
    )
    for line in times(job):
        out.print(line)
    phases = (
        (
            f"{phase.start_s * 1e3:.2f}",
            f"{phase.duration_s * 1e3:.2f}",
            number(phase.rate_bps / 1e9, ".3f"),
        )
        for phase in job.phases
    )
    if job.phases:
        print_table(("Up from (ms)", "for (ms)", "at (Gbps)"), phases, left=0)
    else:
        out.print("sends nothing over the network: it has no Up phase")
    if job.collectives:
        uses = (
            (use.kind, f"{use.count:.4g}", number(use.message_bytes / 1e6, ",.2f"), f"{use.time_s * 1e3:.2f}")
            for use in job.collectives
        )
        print_table(("collective", "per iteration", "MB", "ms"), uses)
    for note in job.notes:
        out.print(f"note: {escape(note)}")


def times(job: JobProfile) -> Iterator[str]:
    """One line each for the computation and the communication of an iteration, where they are known."""
    if job.compute_s is not None:
        yield f"computes for {job.compute_s * 1e3:.2f} ms per iteration"
    if job.communication_s is not None:
        exposed = "" if job.exposed_s is None else f", of which {job.exposed_s * 1e3:.2f} ms are exposed"
        yield f"communicates for {job.communication_s * 1e3:.2f} ms per iteration{exposed}"


def number(value: float, spec: str) -> str:
    """`value` in the format `spec`, or a dash if it is nan."""
    return "–" if math.isnan(value) else format(value, spec)
