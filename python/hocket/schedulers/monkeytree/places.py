"""The GPUs of jobs of which workers move: those that stay keep theirs."""

from collections import Counter
from collections.abc import Mapping

from hocket.schedulers.monkeytree.ring_jobs import Spread
from hocket.schedulers.state import Cluster, Gpus
from hocket.schedulers.themis.regions import Offer, Regions


def moved(regions: Regions, placement: Mapping[str, Gpus], spreads: Mapping[str, Spread]) -> dict[str, Gpus]:
    """`placement` with as many workers of each job of `spreads` in each rack as it says.

    Workers leave the servers with the fewest workers of their job in the rack. Those that arrive get GPUs as
    `Offer.pick` prefers them: near their job, and otherwise such that servers stay whole.
    """
    cluster = regions.cluster
    kept = {name: _staying(cluster, placement[name], spread) for name, spread in spreads.items()}
    after = {**placement, **kept}
    taken = {gpu for gpus in after.values() for gpu in gpus}
    offer = Offer(regions, (gpu for gpu in range(len(cluster.gpus)) if gpu not in taken))
    for name, spread in spreads.items():
        there = Counter(cluster.rack(gpu) for gpu in kept[name])
        for rack, count in sorted(spread.items()):
            picked = offer.pick(count - there[rack], regions.servers + rack, after[name])
            offer.remove(picked)
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
