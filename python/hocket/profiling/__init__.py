"""Profiles of jobs from NIC counters or profiler traces: period, Up phases and confidence.

`series` profiles byte counters, `timelines` profiler traces; `sources` recognises which of them a file is.
"""

from hocket.profiling.job import JobProfile, UpPhase, dump_jobs
from hocket.profiling.series import profile_counters
from hocket.profiling.sources import profile

__all__ = ["JobProfile", "UpPhase", "dump_jobs", "profile", "profile_counters"]
