"""The compression of priorities to the queues that links have (Crux, SIGCOMM'24 §4.3).

In the contention DAG, an edge leads from each job to every job behind it with which it shares a link, and
weighs as much as the GPU intensity of the first. Jobs in one queue share links as equals, so their edges are
lost: the queues are to cut the DAG into groups with as much weight as possible between them, and no edge may
lead to an earlier queue. The paper samples topological orders of the DAG, each of which a dynamic program
cuts optimally into consecutive groups, and takes the best.

Hocket: jobs that no contention connects are compressed separately, as priorities mean nothing between them;
the order by priority is among the samples; and ten more are drawn.
"""

from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

_SAMPLES = 10

Pair = tuple[int, int]


def compress(intensities: Sequence[float], pairs: Iterable[Pair], queues: int, draws: Random) -> list[int]:
    """The queue of each of the jobs that are in order of priority, 0 being served first.

    `pairs` are the places of all two jobs that contend, ascending. Jobs that contend with no other are in
    queue 0.

    >>> compress([4.0, 2.0, 1.0], [(0, 1), (1, 2)], 2, Random(1))
    [0, 1, 1]
    """
    behind: dict[int, list[int]] = {}
    for first, second in pairs:
        behind.setdefault(first, []).append(second)
    found = [0] * len(intensities)
    for group in _connected(behind):
        if len(group) <= queues:
            orders = [group]
        else:
            orders = [group, *(_sampled(group, behind, draws) for _ in range(_SAMPLES))]
        cuts = [_cut(_weights(order, behind, intensities), queues) for order in orders]
        best = min(range(len(orders)), key=lambda number: cuts[number][0])
        for place, queue in zip(orders[best], cuts[best][1], strict=True):
            found[place] = queue
    return found


def _connected(behind: dict[int, list[int]]) -> list[list[int]]:
    """The groups of jobs that contention connects, each ascending."""
    next_to: dict[int, set[int]] = {}
    for first, others in behind.items():
        for second in others:
            next_to.setdefault(first, set()).add(second)
            next_to.setdefault(second, set()).add(first)
    groups, seen = [], set[int]()
    for start in sorted(next_to):
        if start in seen:
            continue
        group, frontier = {start}, [start]
        while frontier:
            new = next_to[frontier.pop()] - group
            group |= new
            frontier += new
        seen |= group
        groups.append(sorted(group))
    return groups


def _sampled(group: Sequence[int], behind: dict[int, list[int]], draws: Random) -> list[int]:
    """A random topological order of a group."""
    ahead = dict.fromkeys(group, 0)
    for first in group:
        for second in behind.get(first, ()):
            ahead[second] += 1
    ready = [place for place in group if ahead[place] == 0]
    order = []
    while ready:
        place = ready.pop(draws.randrange(len(ready)))
        order.append(place)
        for second in behind.get(place, ()):
            ahead[second] -= 1
            if ahead[second] == 0:
                ready.append(second)
    return order


def _weights(
    order: Sequence[int], behind: dict[int, list[int]], intensities: Sequence[float]
) -> npt.NDArray[np.float64]:
    """The weights of all edges, by places in `order`."""
    at = {place: number for number, place in enumerate(order)}
    weights = np.zeros((len(order), len(order)))
    for first in order:
        for second in behind.get(first, ()):
            weights[at[first], at[second]] = intensities[first]
    return weights


def _cut(weights: npt.NDArray[np.float64], queues: int) -> tuple[float, list[int]]:
    """The weight that is lost in groups, at least, and the queue of each place.

    The best cut of the first places into k groups consists of the best one of fewer places into k − 1, and
    the rest. Takes O(queues × places²).
    """
    count = len(weights)
    # By first and last place: the weight lost if these and all between them are one group.
    lost = weights[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)
    ascending = np.arange(1, count)[:, None] <= np.arange(count)[None, :]
    best, firsts = lost[0], []
    for _ in range(min(queues, count) - 1):
        options = np.where(ascending, best[:-1, None] + lost[1:], np.inf)
        # Without a further group, which is as good where nothing more can be cut.
        options = np.vstack([best, options])
        firsts.append(options.argmin(axis=0))
        best = options.min(axis=0)
    found = [0] * count
    last = count - 1
    for further in reversed(firsts):
        first = int(further[last])
        if first > 0:
            # All places from here on are one queue further than those before.
            found[first:] = [queue + 1 for queue in found[first:]]
            last = first - 1
    return float(best[-1]), found
