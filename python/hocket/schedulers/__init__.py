"""Policies that place jobs, one per module, behind one protocol."""

from hocket.schedulers.state import (
    Candidate,
    Cluster,
    Decision,
    Gpus,
    Job,
    JobState,
    Scheduler,
    Span,
    State,
)

__all__ = ["Candidate", "Cluster", "Decision", "Gpus", "Job", "JobState", "Scheduler", "Span", "State"]
