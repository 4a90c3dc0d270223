"""Pollux (OSDI'21) as NSDI'24 §5.1 runs it: GPUs are shared out by a genetic search for goodput, and
candidate placements are relabelings of servers that are worth the same to every job.
"""

from hocket.schedulers.pollux.options import PolluxOptions
from hocket.schedulers.pollux.policy import Pollux

__all__ = ["Pollux", "PolluxOptions"]
