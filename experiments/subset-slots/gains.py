"""Compares ways in which jobs may share links, over all components of the traces of C13 to C16.

Prints for each trace and way the gain over jobs without slots, with its 95% interval over seeds.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from components import Frozen, Way, frozen, slowdowns

from hocket.cluster.trace import Trace
from hocket.schedulers.cassini import CassiniOptions, Slot
from hocket.schedulers.cassini.slots import Prediction
from hocket.schedulers.cassini.subsets import subset_slots
from hocket.schedulers.cassini.time_shifts import TimeShiftSolver
from hocket_reproduce.targets import c13, c15
from hocket_reproduce.targets.cluster import LOSSY, SEEDS, estimate, overlaid
from hocket_reproduce.targets.setting import JITTER, Tables

TRACES: Mapping[str, Tables] = {
    "C13": c13.MIXED,
    "C14": c13.MODEL_PARALLEL,
    "C15": c15.MIXED,
    "C16": c15.MODEL_PARALLEL,
}
_MLTCP = Way(share=("mltcp", 0.25, 1.75))
"""The parameters of HotNets'24."""
_ADAPTIVE = Way(share=("adaptive", 1.0))
"""HotNets'22 §4(i)."""

_S = 10**12
# Components last 70 s in the mean. A prediction has fewer iterations than what it predicts, and other draws.
_LONGEST_PS = 120 * _S
_PREDICTED_LAPS = 30
_PREDICTED_PS = (10 * _S, 60 * _S)
_MEASURED = (7_001, 7_002, 7_003)
_PREDICTED = (101, 102, 103, 104)
_LEAST_GAIN = 1.01
_RANDOM_SHIFTS = 16


def _mean(trace: Trace, part: Frozen, way: Way, for_ps: int, draws: Sequence[int]) -> float:
    """The mean slowdown over jobs and draws."""
    return sum(float(slowdowns(trace, part.part, way, for_ps, draw).mean()) for draw in draws) / len(draws)


class _Component:
    """The slowdown of one component in each way."""

    def __init__(self, trace: Trace, component: Frozen) -> None:
        self._trace = trace
        self._component = component
        self._longest_ps = max(member.profile.period_ps for member in component.part.members)
        laps_ps = _PREDICTED_LAPS * self._longest_ps
        self._predicted_ps = min(max(laps_ps, _PREDICTED_PS[0]), _PREDICTED_PS[1])
        self._for_ps = min(max(component.in_force_ps, 20 * self._longest_ps), _LONGEST_PS)
        self._network = trace.network

    def slowdowns(self) -> Iterator[tuple[str, float, bool]]:
        """Each way with its slowdown, and whether the prediction chose it."""
        alone = self._measured(Way())
        yield "no slots", alone, False
        for name, way in (
            ("slots for all jobs", self._for_all()),
            ("slots for a subset", self._for_subset()),
            ("shifted once, no slots", self._shifted(again_ps=_LONGEST_PS)),
            ("shifted every 30 laps, no slots", self._shifted(again_ps=30 * self._longest_ps)),
            ("MLTCP where predicted to gain", self._if_better([_MLTCP])),
            ("adaptive shares where predicted to gain", self._if_better([_ADAPTIVE])),
        ):
            yield name, alone if way is None else self._measured(way), way is not None
        yield "MLTCP for all", self._measured(_MLTCP), True
        yield "adaptive shares for all", self._measured(_ADAPTIVE), True

    def _measured(self, way: Way) -> float:
        return _mean(self._trace, self._component, way, self._for_ps, _MEASURED)

    def _prediction(self) -> Prediction:
        seed = self._component.seed
        return Prediction(
            self._network.fabric,
            self._component.part,
            goodput=self._trace.goodput,
            jitter=JITTER,
            adjust=True,
            seed=seed,
        )

    def _for_all(self) -> Way | None:
        options = CassiniOptions()
        solver = TimeShiftSolver(options, self._network, self._component.seed)
        (found,) = solver.solve([self._component.part])
        if found.circle is None or found.score < options.shift_threshold:
            return None
        spacing = self._prediction().spacing(found.circle.turned(0))
        if spacing is None or spacing.gain <= 1:
            return None
        return Way(
            slots={
                place: Slot(offset_ps, period_ps)
                for place, (offset_ps, period_ps) in enumerate(
                    zip(spacing.offsets_ps, spacing.periods_ps, strict=True)
                )
            }
        )

    def _for_subset(self) -> Way | None:
        options = CassiniOptions(slots="subset")
        seed = self._component.seed
        best = subset_slots(self._component.part, self._prediction(), self._network, options, seed)
        return None if best is None else Way(slots=best.slots)

    def _shifted(self, again_ps: int) -> Way | None:
        draws = Random(self._component.seed)
        periods_ps = [member.profile.period_ps for member in self._component.part.members]
        ways = [
            Way({place: Slot(draws.randrange(each), each) for place, each in enumerate(periods_ps)}, again_ps)
            for _ in range(_RANDOM_SHIFTS)
        ]
        return self._if_better(ways)

    def _if_better(self, ways: Sequence[Way]) -> Way | None:
        """The way with the lowest predicted slowdown; None if it gains less than a percent."""

        def predicted(way: Way, draws: Sequence[int]) -> float:
            return _mean(self._trace, self._component, way, self._predicted_ps, draws)

        best = min(ways, key=lambda way: predicted(way, _PREDICTED[:2]))
        gain = predicted(Way(), _PREDICTED) / predicted(best, _PREDICTED)
        return best if gain > _LEAST_GAIN else None


def measure(name: str, tables: Tables, every: int) -> None:
    """Prints the ways for each `every`-th component of one trace."""
    totals: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    chosen: dict[str, int] = defaultdict(int)
    count = 0
    for seed in SEEDS:
        trace, components = frozen(tables, seed)
        components = components[::every]
        count += len(components)
        for component in components:
            job_seconds = component.in_force_ps / _S * len(component.part.members)
            totals["time"][seed] += job_seconds
            for way, slowdown, used in _Component(trace, component).slowdowns():
                totals[way][seed] += job_seconds * slowdown
                chosen[way] += used
    time = totals.pop("time")
    print(f"\n{name}: {count} components")
    print(f"{'':40} slowdown  gain over no slots          used")
    for way, by_seed in totals.items():
        slowdown = sum(by_seed.values()) / sum(time.values())
        gains = estimate([totals["no slots"][seed] / by_seed[seed] for seed in SEEDS if time[seed]])
        print(f"{way:40} {slowdown:8.3f}  {gains.factor:26}  {chosen[way]:4}", flush=True)


def main() -> None:
    """Measures the traces named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="*", choices=[*TRACES, []], help="by default all")
    parser.add_argument("--lossy", action="store_true", help="links lose goodput as the papers' testbed does")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th component")
    arguments = parser.parse_args()
    for name in arguments.traces or TRACES:
        tables = overlaid(TRACES[name], LOSSY) if arguments.lossy else TRACES[name]
        title = f"{name}, links that lose goodput" if arguments.lossy else name
        measure(title, tables, arguments.every)


if __name__ == "__main__":
    main()
