"""CASSINI: chooses among placements that a scheduler considers equivalent the one whose jobs interleave best,
and assigns slots (NSDI'24 §4.2).
"""

from hocket.schedulers.cassini.cassini import Cassini
from hocket.schedulers.cassini.choice import CandidateScore, Choice, Component, LinkScore, OnCircle, Slot
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.theorem import check_relative_shifts

__all__ = [
    "CandidateScore",
    "Cassini",
    "CassiniOptions",
    "Choice",
    "Component",
    "LinkScore",
    "OnCircle",
    "Slot",
    "check_relative_shifts",
]
