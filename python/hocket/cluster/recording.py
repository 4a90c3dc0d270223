"""Which iterations of a cluster run get a row, by `record` of `[cluster]` or by the size of the trace."""

from dataclasses import dataclass
from typing import Any

from hocket.cluster.settings import DEFAULT_MOST_ROWS, RecordKind
from hocket.cluster.trace import Trace
from hocket.errors import InputError
from hocket.results import Run
from hocket.schedulers import ClusterJob
from hocket.units import format_bytes

# Numbers have eight bytes, and texts in memory refer to 16.
_BYTES_PER_ROW = 120


@dataclass(frozen=True)
class Recording:
    """Which iterations of a run get a row."""

    kind: RecordKind
    every: int
    """With "sampled", the number of iterations that each row stands for; otherwise 1."""
    expected: int
    """The number of iterations that jobs do, each on the workers that it was submitted with."""
    why: str
    """Why this kind."""

    def described(self) -> dict[str, Any]:
        """For the manifest."""
        return {"iterations": self.kind, "every": self.every, "expected": self.expected, "why": self.why}


def recording_of(trace: Trace) -> Recording:
    """What a run of `trace` records.

    >>> from hocket.cluster.trace import parse_trace
    >>> job = {"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 6_000_000}
    >>> trace = parse_trace({"fabric": {"testbed": "cassini"}, "jobs": [job]})
    >>> recording_of(trace).kind, recording_of(trace).every
    ('sampled', 6)
    """
    settings = trace.settings
    expected = sum(_expected(job, trace.file.until_ps) for job in trace.jobs)
    limit = f"{DEFAULT_MOST_ROWS:,}"
    if settings.record is not None:
        kind, why = settings.record, "given"
    elif expected <= DEFAULT_MOST_ROWS:
        kind, why = "all", f"{expected:,} iterations are expected, at most {limit}"
    # Equal iterations always share a row, and without jitter most of them are equal.
    elif settings.merge > 0 or settings.jitter == 0:
        kind, why = "all", "similar iterations share a row"
    else:
        kind, why = "sampled", f"{expected:,} iterations are expected, more than {limit}"
    every = max(1, -(-expected // settings.sampled_rows)) if kind == "sampled" else 1
    return Recording(kind, every, expected, why)


def check_memory(trace: Trace, recording: Recording) -> None:
    """Raise `InputError` if rows that are kept in memory are expected to exceed `table_memory`."""
    settings = trace.settings
    if recording.kind != "all" or settings.merge > 0 or settings.jitter == 0:
        return
    needed = recording.expected * _BYTES_PER_ROW
    if needed > settings.table_memory_bytes:
        raise InputError(
            f"cluster.table_memory: rows of about {recording.expected:,} iterations take "
            f"{needed / 1e6:,.0f} MB in memory, above the limit of "
            f"{format_bytes(settings.table_memory_bytes)}: give the run a directory, or record "
            'fewer iterations (record = "sampled")'
        )


def check_kept(kept_bytes: int, limit_bytes: int) -> None:
    """Raise `InputError` if a run keeps more rows in memory than `table_memory`."""
    if kept_bytes > limit_bytes:
        raise InputError(
            f"cluster.table_memory: the tables have outgrown the limit of {format_bytes(limit_bytes)} for a "
            "run in memory: give it a directory, or raise the limit"
        )


def every_of(run: Run) -> int:
    """The number of iterations that each of a cluster run's rows of iterations stands for.

    Raises `InputError` if the run has no such rows.
    """
    # The manifest of an earlier version does not state it: all iterations have rows.
    record = run.manifest.get("record", {"iterations": "all", "every": 1})
    if record["iterations"] == "summary":
        raise InputError(
            'the run recorded only summaries, no rows of iterations: run it again with record = "all" or '
            '"sampled" in [cluster]'
        )
    return int(record["every"])


def _expected(job: ClusterJob, until_ps: int | None) -> int:
    """The iterations of a job that runs from its arrival on."""
    iterations = job.iterations(job.samples, job.requested)
    if until_ps is None:
        return iterations
    # Before the profile, which takes a while for thousands of jobs.
    if until_ps <= job.arrival_ps:
        return 0
    return min(iterations, (until_ps - job.arrival_ps) // job.profile(job.requested).period_ps)
