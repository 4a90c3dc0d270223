"""Pollux (OSDI'21) as in NSDI'24 §5.1: a genetic search for goodput allocates GPUs, and candidate placements
are relabelings of servers with the same goodput for every job.
"""

from hocket.schedulers.pollux.options import PolluxOptions
from hocket.schedulers.pollux.policy import Pollux

__all__ = ["Pollux", "PolluxOptions"]
