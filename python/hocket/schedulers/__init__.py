"""Policies that place jobs, one per module, behind one protocol."""

from hocket.schedulers.state import (
    Candidate,
    Cluster,
    ClusterJob,
    Decision,
    Gpus,
    JobState,
    Scheduler,
    Span,
    State,
)

__all__ = ["Candidate", "Cluster", "ClusterJob", "Decision", "Gpus", "JobState", "Scheduler", "Span", "State"]
