"""From the profiler traces that jobs leave to their profiles: a format becomes a `Timeline`, the timeline a
profile.

Iterations are found in the sequence of communication operations first and in their times second; annotated
steps check what was found.
"""

from hocket.profiling.timelines.assemble import profile_timeline
from hocket.profiling.timelines.kineto import read_kineto
from hocket.profiling.timelines.nsight import read_nsight
from hocket.profiling.timelines.timeline import Operation, Timeline
from hocket.profiling.timelines.wire import wire_bytes

__all__ = ["Operation", "Timeline", "profile_timeline", "read_kineto", "read_nsight", "wire_bytes"]
