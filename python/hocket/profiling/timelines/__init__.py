"""Profiles of jobs from profiler traces: each format is read into a `Timeline`, and the timeline is profiled.

Iterations are found first in the sequence of communication operations, then in their times. Annotated steps
only confirm or contradict the result.
"""

from hocket.profiling.timelines.assemble import profile_timeline
from hocket.profiling.timelines.kineto import read_kineto
from hocket.profiling.timelines.nsight import read_nsight
from hocket.profiling.timelines.timeline import Operation, Timeline
from hocket.profiling.timelines.wire import wire_bytes

__all__ = ["Operation", "Timeline", "profile_timeline", "read_kineto", "read_nsight", "wire_bytes"]
