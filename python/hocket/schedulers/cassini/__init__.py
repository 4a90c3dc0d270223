"""CASSINI: of the placements that a scheduler holds equally good, the one whose jobs take turns best
(NSDI'24 §4.2).
"""

from hocket.schedulers.cassini.cassini import Cassini
from hocket.schedulers.cassini.chosen import CandidateScore, Chosen, Component, LinkScore, OnCircle, Slot
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.theorem import check_relative_shifts

__all__ = [
    "CandidateScore",
    "Cassini",
    "CassiniOptions",
    "Chosen",
    "Component",
    "LinkScore",
    "OnCircle",
    "Slot",
    "check_relative_shifts",
]
