"""LIVE: real training jobs on real links, alone, sharing, shifted and unequal, beside what both engines said
of the same plans before.

It takes a testbed of network namespaces, and what is measured there differs a little from run to run.
"""

from functools import partial

from hocket.reproduce.live.pictures import figure
from hocket.reproduce.live.plans import UP_MS
from hocket.reproduce.live.rows import notes, rows
from hocket.reproduce.live.runs import measure
from hocket.reproduce.target import Progress, Reproduction
from hocket.testbed.bed import missing

__all__ = ["missing", "reproduce"]


def reproduce(progress: Progress) -> Reproduction:
    """Both plans in every case.

    Raises `InputError` where the machine has no testbed. On Ctrl-C, the runs that have ended are kept.
    """
    measured = [measure(name, progress) for name in UP_MS]
    return Reproduction(
        "LIVE",
        "Real jobs on real links, beside both engines",
        tuple(row for each in measured for row in rows(each)),
        partial(figure, measured),
        notes(measured),
        ("flow engine", "live"),
    )
