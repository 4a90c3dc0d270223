"""Slots for some of the jobs of a component, whose iterations are padded until their periods fit.

All jobs of a component rarely fit on a circle of few rounds, but two or three of them may. The others run as
they like; the prediction includes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hocket.engines.network import Network
from hocket.schedulers.cassini.choice import Slot
from hocket.schedulers.cassini.components import Part
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.padded_circles import PaddedCircle, padded_circles
from hocket.schedulers.cassini.slots import Prediction, in_steps, laid_out
from hocket.schedulers.cassini.time_shifts import Circle, TimeShiftSolver

_SIZES = (2, 3)
"""Numbers of jobs that get slots beside others that get none."""
_SUBSETS = 64
"""The most subsets of a component that are considered, in order of arrival: all up to seven jobs."""
_CIRCLES = 6
"""The circles of each subset whose time-shifts are found: those with the least padding."""
_RUNS = 8
"""The circles that are run on the flow engine: those that promise most."""
_FIRST_LENGTH = 1.005
_OTHER_LENGTHS = (1.0, 1.01, 1.02, 1.05)
"""Lengths of slots, relative to padded periods: a late job catches up in the slack."""
_HOPEFUL = 0.98
"""The least gain in slots of the first length with which others are tried."""
_KEPT = 2
"""The circles of highest gain in the first length that others are tried for, and the runs among all that are
repeated with other random times: the luckiest of many runs promises too much."""
LEAST_GAIN = 1.01
"""Predictions of less are as likely to be chance. Hocket: the spread between draws is about a percent."""


@dataclass(frozen=True)
class SubsetSlots:
    """Slots for some jobs of a part."""

    places: tuple[int, ...]
    """Of the jobs with slots, ascending."""
    circle: Circle
    """Their padded circle; tuples are in the order of `places`."""
    slots: Mapping[int, Slot]
    """By place; origins are relative to that of the part."""
    scores: Mapping[int, float]
    """By link that no other jobs cross, its score in these slots."""
    gain: float
    """Iteration time without slots ÷ with these, mean over all jobs of the part."""


@dataclass(frozen=True)
class _Promising:
    """A circle of some jobs."""

    places: tuple[int, ...]
    circle: Circle
    scores: Mapping[int, float]
    promise: float
    """By how much its score exceeds that of random shifts, less its padding, times the number of its jobs."""


@dataclass(frozen=True)
class _Tried:
    """Slots on a circle, and their gain in one run."""

    promising: _Promising
    slots: Mapping[int, Slot]
    """By place."""
    gain: float

    @staticmethod
    def of(promising: _Promising, length: float, prediction: Prediction) -> "_Tried":
        circle = promising.circle
        in_order = laid_out(circle, in_steps(circle, circle.perimeter_ps * length)).by_place
        slots = {place: in_order[index] for index, place in enumerate(promising.places)}
        return _Tried(promising, slots, prediction.gain(slots))


def subset_slots(
    part: Part, prediction: Prediction, network: Network, options: CassiniOptions, seed: int
) -> SubsetSlots | None:
    """The slots for two, three or all jobs of `part` with the highest predicted gain; None if none gain.

    The work is bounded by numbers of subsets, circles and runs, so the answer does not depend on the time
    that they take.
    """
    circles = [
        circle
        for places in _subsets(len(part.members))
        for circle in _circles(part, places, network, options, seed)
    ]
    # Sorting is stable: of equal promises and gains, the one of earlier jobs comes first.
    circles.sort(key=lambda each: -each.promise)
    tried = [_Tried.of(each, _FIRST_LENGTH, prediction) for each in circles[:_RUNS]]
    tried.sort(key=lambda each: -each.gain)
    hopeful = [each.promising for each in tried[:_KEPT] if each.gain >= _HOPEFUL]
    tried += [_Tried.of(each, length, prediction) for each in hopeful for length in _OTHER_LENGTHS]
    tried.sort(key=lambda each: -each.gain)
    best: SubsetSlots | None = None
    for each in tried[:_KEPT]:
        if each.gain <= LEAST_GAIN:
            break
        gain = min(each.gain, prediction.gain(each.slots, draw=1))
        if gain > (LEAST_GAIN if best is None else best.gain):
            of = each.promising
            best = SubsetSlots(of.places, of.circle, each.slots, of.scores, gain)
    return best


def _subsets(jobs: int) -> list[tuple[int, ...]]:
    """Places of jobs that may get slots together: all of them, then pairs, then triples."""
    smaller = [places for size in _SIZES if size < jobs for places in combinations(range(jobs), size)]
    return [tuple(range(jobs)), *smaller][:_SUBSETS]


def _circles(
    part: Part, places: Sequence[int], network: Network, options: CassiniOptions, seed: int
) -> Iterator[_Promising]:
    """The circles of the jobs at `places` that have time-shifts and a score above the threshold."""
    chosen = part.only(places)
    if not chosen.connected:
        return
    crossed_by_others = {
        link for link, crossing in part.links.items() if any(place not in places for place, _ in crossing)
    }
    periods_ps = [member.profile.period_ps for member in chosen.members]
    for padded in padded_circles(periods_ps, options.padding)[:_CIRCLES]:
        # Parts of the same jobs with other padding have equal keys, by which a solver remembers them.
        solver = TimeShiftSolver(options, network, seed)
        (found,) = solver.solve([_padded(chosen, padded)])
        if found.circle is None or found.score < options.shift_threshold:
            continue
        by_chance = sum(found.expected.values()) / len(found.expected)
        yield _Promising(
            places=tuple(places),
            circle=found.circle.turned(0),
            scores={link: score for link, score in found.scores.items() if link not in crossed_by_others},
            promise=len(places) * (found.score - by_chance - padded.padding),
        )


def _padded(part: Part, circle: PaddedCircle) -> Part:
    """`part` with its jobs waiting at the end of each iteration until the period on `circle` is over."""
    members = zip(part.members, circle.periods_ps, strict=True)
    return replace(
        part,
        members=tuple(
            replace(member, profile=replace(member.profile, period_ps=period_ps))
            for member, period_ps in members
        ),
    )
