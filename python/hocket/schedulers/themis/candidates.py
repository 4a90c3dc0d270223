"""Placements as fair as Themis's own, for CASSINI to choose from (NSDI'24 §4.2, step 1).

Every job keeps its number of workers, and its span where ρ depends on it, so that no ρ is worse. Candidates
differ in the workers that losers give up, and in the winners that receive them. Jobs that stay do so in all
candidates.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

from hocket import _hocket
from hocket.schedulers.state import Cluster, Gpus, Span

Placement = Mapping[str, Gpus]


class EqualPlacements:
    """The placements that follow from `own` by exchanging the GPUs of an auction between jobs."""

    def __init__(
        self,
        cluster: Cluster,
        before: Placement,
        own: Placement,
        auctioned: Sequence[int],
        widest: Mapping[str, Span],
        exchange: Literal["restarting", "auctioned"] = "restarting",
    ) -> None:
        """`before` and `own`: GPUs by job; `auctioned`: GPUs on offer; `widest`: widest span of each job that
        moves.
        """
        self._cluster = cluster
        self._own = own
        given_up = (gpu for name, gpus in before.items() for gpu in gpus if gpu not in own[name])
        open_to_all = {*auctioned, *given_up}
        moving = {name: gpus for name, gpus in own.items() if gpus and gpus != before.get(name, ())}
        kept_by = before
        if exchange == "restarting":
            # These jobs restart in any case, so that exchanging all of their GPUs costs nothing further.
            open_to_all.update(*moving.values())
            kept_by = {}
        self._movers = {
            name: _mover(before.get(name, ()), kept_by.get(name, ()), gpus, open_to_all, widest[name])
            for name, gpus in moving.items()
        }
        self._spare = open_to_all.difference(*own.values())

    def sample(self, count: int, random: Random) -> list[Placement]:
        """Up to `count` placements, `own` first, no two of which differ only in the numbering of racks,
        servers in a rack, or GPUs in a server.
        """
        version, state, gauss = random.getstate()
        drawn, state = self._cluster.regions.exchanged(
            list(self._movers.values()),
            sorted(self._spare),
            [gpus for name, gpus in self._own.items() if name not in self._movers],
            count - 1,
            state,
        )
        random.setstate((version, tuple(state), gauss))
        return [
            self._own,
            *({**self._own, **dict(zip(self._movers, each, strict=True))} for each in drawn),
        ]


def _mover(running: Gpus, former: Gpus, gpus: Gpus, open_to_all: set[int], widest: Span) -> "_hocket._Mover":
    """A job that gets `gpus` and keeps its number of `former` ones."""
    kept = [gpu for gpu in gpus if gpu in former]
    fixed = [gpu for gpu in kept if gpu not in open_to_all]
    return {
        "own": gpus,
        "running": running,
        "former": former,
        "fixed": fixed,
        "stay": len(kept) - len(fixed),
        "fresh": len(gpus) - len(kept),
        "widest": widest,
    }
