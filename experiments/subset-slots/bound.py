"""The least slowdown that any slots, shifts or shares allow, over components of the traces of C13 to C16.

Needs SciPy: `pip install scipy`.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from components import Way, frozen, slowdowns
from gains import TRACES
from scipy.optimize import linprog
from scipy.sparse import coo_array

from hocket.schedulers.cassini.components import Part
from hocket_reproduce.targets.cluster import LOSSY, SEEDS, overlaid

_S = 10**12
_FOR_PS = 40 * _S
_DRAWS = (7_001, 7_002, 7_003)
# 1 ÷ speed is convex, so tangents are below it: the bound stays a bound, and is off by less than 0.1%.
_TANGENTS = (0.25, 0.35, 0.45, *np.linspace(0.5, 1.0, 26).tolist())
# Sets of jobs that send at once, per link: 2 to this power. Other links are left out, which lowers the bound.
_MOST_JOBS = 6


@dataclass
class _Program:
    """A linear program; rows are coefficients by column, and a right-hand side."""

    columns: int
    most: list[tuple[Mapping[int, float], float]] = field(default_factory=list)
    equal: list[tuple[Mapping[int, float], float]] = field(default_factory=list)

    def least(self, cost: Sequence[int], bounds: Mapping[int, tuple[float, float | None]]) -> float:
        """The least sum of the columns `cost`; those not in `bounds` are 0 or more."""

        def matrix(rows: Sequence[tuple[Mapping[int, float], float]]) -> coo_array:
            entries = [
                (row, column, value) for row, (line, _) in enumerate(rows) for column, value in line.items()
            ]
            at_row, at_column, values = zip(*entries, strict=True)
            return coo_array((values, (at_row, at_column)), shape=(len(rows), self.columns))

        result = linprog(
            [float(column in cost) for column in range(self.columns)],
            A_ub=matrix(self.most),
            b_ub=[right for _, right in self.most],
            A_eq=matrix(self.equal),
            b_eq=[right for _, right in self.equal],
            bounds=[bounds.get(column, (0, None)) for column in range(self.columns)],
        )
        return float(result.fun)


def least_slowdown(part: Part, capacities_bps: Sequence[int], goodput: Sequence[float]) -> float:
    """A lower bound of the mean slowdown over jobs, whatever their periods are and whenever they start.

    A job that is slowed down by s computes for a fraction d / s of the time, where d is that of an iteration
    on an idle network, and sends nothing meanwhile. So on each link, sets of jobs send at once for fractions
    of the time, in which no job exceeds its rate, nor all together the link's; jobs send all their bytes.
    """
    jobs = len(part.members)
    profiles = [member.profile for member in part.members]
    down = [1 - each.up_ps / each.period_ps for each in profiles]
    peaks_bps = [member.peak_bps for member in part.members]
    means_bps = [
        sum(phase.rate_bps * phase.duration_ps for phase in each.phases) / each.period_ps for each in profiles
    ]
    # Columns: the speed of each job, its slowdown, and for each link the sets and what jobs send in each.
    program = _Program(2 * jobs)
    for job in range(jobs):
        for at in _TANGENTS:
            program.most.append(({job: -1 / at**2, jobs + job: -1}, -2 / at))
    for link, crossing in part.links.items():
        if len(crossing) > _MOST_JOBS:
            continue
        capacity = capacities_bps[link]
        sets = range(2 ** len(crossing))
        first = program.columns
        program.columns += len(sets) * (1 + len(crossing))

        def sent(each: int, place: int, first: int = first, sets: range = sets) -> int:
            return first + len(sets) * (1 + place) + each

        program.equal.append(({first + each: 1.0 for each in sets}, 1.0))
        for place, (job, flows) in enumerate(crossing):
            sending = {first + each: 1.0 for each in sets if each >> place & 1}
            program.most.append(({**sending, job: down[job]}, 1.0))
            all_sent = {sent(each, place): 1.0 for each in sets}
            program.equal.append(({**all_sent, job: -means_bps[job] * flows / capacity}, 0.0))
            for each in sets:
                rate = peaks_bps[job] * flows / capacity if each >> place & 1 else 0.0
                program.most.append(({sent(each, place): 1.0, first + each: -rate}, 0.0))
        for each in sets:
            among = [place for place in range(len(crossing)) if each >> place & 1]
            demand_bps = sum(peaks_bps[crossing[place][0]] * crossing[place][1] for place in among)
            fraction = 1.0
            if goodput and len(among) > 1 and demand_bps > capacity:
                fraction = goodput[min(len(among) - 2, len(goodput) - 1)]
            row = {sent(each, place): 1.0 for place in range(len(crossing))}
            program.most.append(({**row, first + each: -fraction}, 0.0))
    bounds: dict[int, tuple[float, float | None]] = dict.fromkeys(range(jobs), (0.2, 1.0))
    bounds |= dict.fromkeys(range(jobs, 2 * jobs), (1.0, None))
    return max(1.0, program.least(range(jobs, 2 * jobs), bounds) / jobs)


def main() -> None:
    """Prints the slowdown without slots beside the bound, for each trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lossy", action="store_true", help="links lose goodput as the papers' testbed does")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th component")
    arguments = parser.parse_args()
    for name, tables in TRACES.items():
        totals: dict[str, float] = defaultdict(float)
        for seed in SEEDS:
            trace, components = frozen(overlaid(tables, LOSSY) if arguments.lossy else tables, seed)
            capacities_bps = [rate_bps for _, rate_bps in trace.network.links]
            for component in components[:: arguments.every]:
                weight = component.in_force_ps * len(component.part.members)
                runs = [slowdowns(trace, component.part, Way(), _FOR_PS, draw) for draw in _DRAWS]
                totals["weight"] += weight
                totals["free"] += weight * float(np.mean(runs))
                totals["least"] += weight * least_slowdown(component.part, capacities_bps, trace.goodput)
        free, least = totals["free"] / totals["weight"], totals["least"] / totals["weight"]
        print(
            f"{name}: slowdown {free:.3f} without slots, at least {least:.3f}: {free / least:.3f}× to gain",
            flush=True,
        )


if __name__ == "__main__":
    main()
