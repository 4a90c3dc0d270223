"""Fits the goodput of links for which jobs contend to HotNets'22 Table 1 and NSDI'24 Table 2.

Prints the fractions for two jobs and for three, and by how much the times of both tables are off without and
with them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import NamedTuple

from hocket_reproduce.targets import c17, h3
from hocket_reproduce.targets.measure import mean_over_starts
from hocket_reproduce.targets.setting import JITTER, Tables, each_with, link_plan, snapshot, workload

# Enough for means to settle within half a percent; the reproductions themselves run 1,000.
_ITERATIONS = 200

# The sums of errors change by less than a hundredth from one to the next.
_FRACTIONS = [hundredths / 100 for hundredths in range(50, 101)]


class Sharing(NamedTuple):
    """Jobs that share one link fairly, and what a paper measured."""

    title: str
    jobs: list[Tables]
    column: str
    """The column of the table `jobs` that the paper gives."""
    published_ms: Mapping[str, float]

    def errors(self, goodput: Sequence[float]) -> list[float]:
        """Logarithms of our times ÷ the paper's, by job; ours are means over relative starts."""
        jobs = each_with(self.jobs, jitter=JITTER)
        lossy = list(goodput) if goodput else None
        plan = partial(link_plan, self.title, iterations=_ITERATIONS, contended_goodput=lossy)
        ours_s = mean_over_starts(jobs, plan, self.column)
        return [math.log(1000 * ours_s[job] / ms) for job, ms in self.published_ms.items()]


def sharings() -> list[Sharing]:
    """The groups of Table 1 under fair sharing, and the snapshots of Table 2 under Themis."""
    groups = [
        Sharing(
            f"HotNets'22 group {number}",
            [workload(each.name, each.model, each.batch_size) for each in members],
            "mean_iteration_s",
            {each.name: each.fair_ms for each in members},
        )
        for number, (members, _) in enumerate(h3.GROUPS, 1)
    ]
    snapshots = [
        Sharing(
            f"NSDI'24 snapshot {number}",
            snapshot(number),
            "mean_communication_s",
            {job: published.themis_ms for job, published in rows.items()},
        )
        for number, rows in c17.PUBLISHED.items()
    ]
    return [*groups, *snapshots]


def total_error(those: Sequence[Sharing], goodput: Sequence[float]) -> float:
    """The sum of the absolute errors of all jobs.

    Squares would let snapshot 3 decide: its jobs overlap at a score of 0.9 and are hardly slowed, which no
    goodput explains.
    """
    return sum(abs(error) for each in those for error in each.errors(goodput))


def fitted(those: Sequence[Sharing], goodput: Callable[[float], Sequence[float]]) -> float:
    """The fraction with the smallest total error; `goodput` makes shares from it."""
    return min(_FRACTIONS, key=lambda fraction: total_error(those, goodput(fraction)))


def main() -> None:
    """Fits and prints."""
    everything = sharings()
    of_two = [each for each in everything if len(each.jobs) == 2]
    of_three = [each for each in everything if len(each.jobs) == 3]
    two = fitted(of_two, lambda fraction: [fraction])
    three = fitted(of_three, lambda fraction: [two, fraction])
    print(f"goodput of two jobs {two:.2f}, of three {three:.2f}")
    print("mean error                   lossless   fitted")
    for each in everything:
        _print_errors(each.title, [each], [two, three])
    _print_errors("all of two jobs", of_two, [two, three])
    _print_errors("all of three jobs", of_three, [two, three])


def _print_errors(title: str, those: Sequence[Sharing], goodput: Sequence[float]) -> None:
    lossless, lossy = (
        100 * math.expm1(mean(error for each in those for error in each.errors(shares)))
        for shares in ((), goodput)
    )
    print(f"{title:28} {lossless:+7.1f}% {lossy:+7.1f}%")


if __name__ == "__main__":
    main()
