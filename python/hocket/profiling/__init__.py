"""From what a job leaves behind to its profile: period, Up phases, confidence.

Series of byte counters are for `series`, profiler traces for `timelines`; `sources` tells which a file is.
"""

from hocket.profiling.job import JobProfile, UpPhase, dump_jobs
from hocket.profiling.series import profile_counters
from hocket.profiling.sources import profile

__all__ = ["JobProfile", "UpPhase", "dump_jobs", "profile", "profile_counters"]
