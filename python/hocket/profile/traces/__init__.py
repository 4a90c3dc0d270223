"""From the traces that jobs leave to their profiles: a format becomes a `Timeline`, the timeline a profile.

Iterations are found in the sequence of communication operations first and in their times second; annotated
steps check what was found.
"""

from hocket.profile.traces.assemble import profile_timeline
from hocket.profile.traces.kineto import read_kineto
from hocket.profile.traces.nsight import read_nsight
from hocket.profile.traces.timeline import Operation, Timeline
from hocket.profile.traces.wire import wire_bytes

__all__ = ["Operation", "Timeline", "profile_timeline", "read_kineto", "read_nsight", "wire_bytes"]
