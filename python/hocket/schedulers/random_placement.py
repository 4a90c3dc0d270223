"""Random (NSDI'24 section 5.1): workers are placed on free GPUs at random."""

import random

from hocket.schedulers.state import Candidate, Decision, Gpus, State


class RandomPlacement:
    """Every job runs on the workers that it was submitted with, and keeps its GPUs until it is done.

    The paper does not say which jobs wait. Hocket: jobs are placed in order of arrival, and later ones may
    overtake one that does not fit, so that GPUs are used as fully as by other schedulers and only placements
    differ.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._calls = 0

    def schedule(self, state: State, candidates: int) -> Decision:
        """Waiting jobs on random free GPUs, drawn once for each candidate."""
        self._calls += 1
        stays = {each.job.name: each.gpus for each in state.jobs if each.gpus}
        starts: dict[str, int] = {}
        left = len(state.free)
        for each in state.jobs:
            if not each.gpus and each.job.requested <= left:
                starts[each.job.name] = each.job.requested
                left -= each.job.requested
        # Each call has a stream of its own, so that a run with CASSINI, which requests more candidates, does
        # not change the first draw of later calls.
        stream = random.Random(f"{self._seed} random {self._calls}")
        # If no job starts, all candidates would be the same placement.
        draws = [_drawn(stream, state.free, starts) for _ in range(candidates if starts else 1)]
        return Decision([Candidate({**stays, **placed}) for placed in draws])


def _drawn(stream: random.Random, free: Gpus, workers: dict[str, int]) -> dict[str, Gpus]:
    """Random GPUs of each job, out of the free ones."""
    drawn = iter(stream.sample(free, sum(workers.values())))
    return {name: tuple(sorted(next(drawn) for _ in range(count))) for name, count in workers.items()}
