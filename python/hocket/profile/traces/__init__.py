"""From the traces that jobs leave to their profiles: a format becomes a `Timeline`, the timeline a profile.

Iterations are found in the sequence of communication operations first and in their times second; annotated
steps check what was found.
"""

from hocket.profile.traces.timeline import Operation, Timeline

__all__ = ["Operation", "Timeline"]
