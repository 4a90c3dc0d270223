"""The GPUs of jobs of which workers move: those that stay keep theirs."""

from collections import Counter
from collections.abc import Mapping

from hocket.schedulers.monkeytree.ring_jobs import Spread
from hocket.schedulers.state import Cluster, Gpus


def moved(cluster: Cluster, placement: Mapping[str, Gpus], spreads: Mapping[str, Spread]) -> dict[str, Gpus]:
    """`placement` with as many workers of each job of `spreads` in each rack as it says.

    Workers leave the servers with the fewest workers of their job in the rack. Those that arrive get GPUs on
    servers of their job, and otherwise such that servers stay whole.
    """
    kept = {name: _staying(cluster, placement[name], spread) for name, spread in spreads.items()}
    after = {**placement, **kept}
    free = set(range(len(cluster.gpus))).difference(*after.values())
    for name, spread in spreads.items():
        there = Counter(cluster.rack(gpu) for gpu in kept[name])
        for rack, count in sorted(spread.items()):
            here = sorted(gpu for gpu in free if cluster.rack(gpu) == rack)
            (picked,) = cluster.regions.packed(here, [count - there[rack]], near=after[name])
            free.difference_update(picked)
            after[name] = tuple(sorted((*after[name], *picked)))
    return after


def _staying(cluster: Cluster, gpus: Gpus, spread: Spread) -> Gpus:
    """The GPUs that a job keeps: in each rack as many as it has there before and after."""
    on_server = Counter(cluster.server_of[gpu] for gpu in gpus)
    ordered = sorted(gpus, key=lambda gpu: (-on_server[cluster.server_of[gpu]], gpu))
    room = dict(spread)
    kept = []
    for gpu in ordered:
        rack = cluster.rack(gpu)
        if room.get(rack, 0) > 0:
            room[rack] -= 1
            kept.append(gpu)
    return tuple(sorted(kept))
