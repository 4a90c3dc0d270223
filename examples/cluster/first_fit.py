"""A scheduler of one's own: first come, first served, on the first GPUs that are free.

hocket cluster examples/cluster/poisson.toml --scheduler examples/cluster/first_fit.py:FirstFit+cassini
"""

from hocket.schedulers import Candidate, Decision, Gpus, State


class FirstFit:
    """Jobs get the workers that they were submitted with, wait in line for them, and never move."""

    def __init__(self, seed: int) -> None:
        """Nothing is random here, so that `seed` is not needed."""

    def schedule(self, state: State, candidates: int) -> Decision:
        """The first free GPUs; to CASSINI, the first from other racks on are as good."""
        gpus = len(state.cluster.gpus)
        racks = dict.fromkeys(state.cluster.rack(gpu) for gpu in range(gpus))
        starts = [next(gpu for gpu in range(gpus) if state.cluster.rack(gpu) == rack) for rack in racks]
        placements = [_placement(state, start) for start in starts[:candidates]]
        return Decision([Candidate(placement) for placement in placements])


def _placement(state: State, start: int) -> dict[str, Gpus]:
    """Where jobs run if new ones take free GPUs from `start` on, and around."""
    placement = {each.job.name: each.gpus for each in state.jobs}
    free = sorted(state.free, key=lambda gpu: (gpu < start, gpu))
    for each in state.jobs:
        if each.gpus:
            continue
        if each.job.requested > len(free):
            break
        placement[each.job.name] = tuple(free[: each.job.requested])
        free = free[each.job.requested :]
    return placement
