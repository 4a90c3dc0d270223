"""LIVE: real training jobs on real links, alone, sharing, shifted and unequal, beside both engines'
predictions.

It needs a testbed of network namespaces, whose measurements differ a little from run to run.
"""

from functools import partial

from hocket.testbed.lifecycle import missing
from hocket_reproduce.targets.live.pictures import figure
from hocket_reproduce.targets.live.plans import UP_MS
from hocket_reproduce.targets.live.rows import notes, rows
from hocket_reproduce.targets.live.runs import measure
from hocket_reproduce.targets.target import Progress, Reproduction

__all__ = ["missing", "reproduce"]


def reproduce(progress: Progress) -> Reproduction:
    """Both plans in every case, live and on both engines.

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
