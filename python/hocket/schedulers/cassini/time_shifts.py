"""Finds the best time-shifts of each component (NSDI'24 Algorithm 1 and Table 1). Components that do not
change from decision to decision are solved once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.specs import native_profile
from hocket.schedulers.cassini.components import Part
from hocket.schedulers.cassini.expected import expected_score
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.theorem import check_relative_shifts


@dataclass(frozen=True)
class Circle:
    """Time-shifts of the jobs of a part on their common circle; tuples are in the order of its members."""

    origin: str
    """Where the shifts come from: `loop-free`, `closed loops` or `joint`."""
    rounds: tuple[int, ...]
    """Iterations per turn of the circle."""
    perimeter_ps: int
    padded_perimeter_ps: int
    """The shortest perimeter at which no job would have to be faster than on an idle network."""
    shifts_ps: tuple[int, ...]
    """Delay of the next iteration, on the circle."""

    @property
    def periods_ps(self) -> tuple[int, ...]:
        """The periods on the circle."""
        return tuple(self.perimeter_ps // rounds for rounds in self.rounds)

    def turned(self, reference: int) -> "Circle":
        """The circle with all jobs rotated equally, so that the one at place `reference` is not delayed."""
        origin_ps = self.shifts_ps[reference]
        shifts = zip(self.shifts_ps, self.periods_ps, strict=True)
        shifts_ps = tuple((shift_ps - origin_ps) % period_ps for shift_ps, period_ps in shifts)
        return Circle(self.origin, self.rounds, self.perimeter_ps, self.padded_perimeter_ps, shifts_ps)


@dataclass(frozen=True)
class TimeShifts:
    """The time-shifts of a part, and its scores."""

    part: Part
    scores: Mapping[int, float]
    """By link, its score under the time-shifts of `circle`; equal to `expected` if there is no circle."""
    circle: Circle | None
    why_none: str | None
    """Why there is no circle; None if there is one."""
    discards: bool
    """Whether candidates with this part are discarded (Algorithm 2, line 15)."""
    capacities_bps: Sequence[int] = field(repr=False)
    """By link."""

    @property
    def score(self) -> float:
        """The mean over its links."""
        return sum(self.scores.values()) / len(self.scores)

    @cached_property
    def expected(self) -> Mapping[int, float]:
        """By link, its mean score over all time-shifts."""
        # Only of interest for the scheduler's own choice and the one that is taken.
        return _expected(self.part, self.capacities_bps)


@dataclass(frozen=True)
class Bounds:
    """What is known of a part before its loops are solved, which takes most of the time of a decision."""

    scores: Mapping[int, float]
    """By link, a score that no time-shifts exceed."""
    ranking: "_hocket.PreparedRanking"
    number: int
    """The number of the part in `ranking`."""
    tight: bool = False
    """Whether these are the lowest bounds that each link by itself allows, which take longer to find."""
    discards: bool = False


class TimeShiftSolver:
    """Solves parts, and remembers those of the latest call."""

    def __init__(self, options: CassiniOptions, network: Network, seed: int) -> None:
        self._options = options
        self._fabric = network.fabric
        self._capacities_bps = [rate_bps for _, rate_bps in network.links]
        self._seed = seed
        self._known: dict[object, TimeShifts | Bounds] = {}

    def prepare(self, parts: Sequence[Part]) -> list[TimeShifts | Bounds]:
        """The time-shifts of each of `parts`, or bounds if its links have to be solved together. Nothing is
        solved again that was in the latest call.

        Raises `KeyboardInterrupt` if Ctrl-C interrupts the search.
        """
        # Candidates that differ in a few jobs have most parts in common, so each is solved once.
        distinct = {part.key: part for part in parts}
        new = [part for key, part in distinct.items() if key not in self._known]
        found = dict(zip([part.key for part in new], self._prepared(new), strict=True))
        self._known = {key: found.get(key) or self._known[key] for key in distinct}
        return [self._known[part.key] for part in parts]

    def tighten(self, part: Part) -> TimeShifts | Bounds:
        """What is known of a part of the latest call of `prepare`, with tight bounds if it is not solved.

        Raises `KeyboardInterrupt` if Ctrl-C interrupts the search.
        """
        known = self._known[part.key]
        if isinstance(known, Bounds) and not known.tight:
            scores = dict(known.ranking.tight_bounds(known.number))
            known = self._known[part.key] = replace(known, scores=scores, tight=True)
        return known

    def solve(self, parts: Sequence[Part]) -> list[TimeShifts]:
        """The time-shifts of each of `parts`.

        Raises `KeyboardInterrupt` if Ctrl-C interrupts the search.
        """
        self.prepare(parts)
        return [self.solved(part) for part in parts]

    def solved(self, part: Part) -> TimeShifts:
        """The time-shifts of a part of the latest call of `prepare`.

        Raises `KeyboardInterrupt` if Ctrl-C interrupts the search.
        """
        known = self._known[part.key]
        if isinstance(known, Bounds):
            try:
                known = self._time_shifts(part, known.ranking.place(known.number))
            except ValueError as error:
                known = self._without_circle(part, str(error), discards=True)
            self._known[part.key] = known
        return known

    def _prepared(self, parts: Sequence[Part]) -> list[TimeShifts | Bounds]:
        """What one ranking finds in which each of `parts` is a candidate of its own."""
        reasons = [self._misfit(part) for part in parts]
        fitting = [part for part, reason in zip(parts, reasons, strict=True) if reason is None]
        solutions = iter(self._ranked(fitting))
        return [
            next(solutions) if reason is None else self._without_circle(part, reason, discards=False)
            for part, reason in zip(parts, reasons, strict=True)
        ]

    def _misfit(self, part: Part) -> str | None:
        """Why the periods of a part fit on no common circle; None if they do.

        Hocket: NSDI'24 does not treat such jobs. No time-shifts stay in force for them, so they get none, and
        their score is the mean over all time-shifts.
        """
        try:
            _hocket.commensurate(
                [member.profile.period_ps for member in part.members], self._options.tolerance
            )
        except ValueError as error:
            return str(error)
        return None

    def _ranked(self, parts: Sequence[Part]) -> list[TimeShifts | Bounds]:
        if not parts:
            return []
        jobs: list[_hocket._RankJob] = [
            {"name": member.name, "profile": native_profile(member.profile), "priority": 0}
            for part in parts
            for member in part.members
        ]
        candidates: list[_hocket._RankCandidate] = []
        first = 0
        for number, part in enumerate(parts):
            crossings: list[list[tuple[int, int]]] = [[] for _ in jobs]
            for link, crossing in part.links.items():
                for place, flows in crossing:
                    crossings[first + place].append((link, flows))
            # Moved jobs only order candidates, and the order of parts has no meaning.
            candidates.append({"name": str(number), "crossings": crossings, "moved_jobs": 0})
            first += len(part.members)
        ranking = _hocket.PreparedRanking(
            self._fabric,
            jobs,
            candidates,
            {
                "precision_deg": self._options.precision_deg,
                "strict": False,
                # A limit on steps gives the same result on every machine; a limit on time would not.
                "time_limit_s": math.inf,
                "step_limit": self._options.step_limit,
            },
            {
                "aggregate": "mean",
                "solve_loops": self._options.loops == "solve",
                "seed": self._seed,
                "tolerance": self._options.tolerance,
            },
        )
        found: list[TimeShifts | Bounds] = []
        for number, (part, row) in enumerate(zip(parts, ranking.preliminary(), strict=True)):
            if row["placement"] is not None:
                found.append(self._time_shifts(part, row["placement"]))
            elif row["bounds"] is not None:
                found.append(Bounds(dict(row["bounds"]), ranking, number))
            else:
                found.append(self._without_circle(part, row["discarded"], discards=True))
        return found

    def _without_circle(self, part: Part, reason: str | None, *, discards: bool) -> TimeShifts:
        expected = _expected(part, self._capacities_bps)
        return TimeShifts(part, expected, None, reason, discards, self._capacities_bps)

    def _time_shifts(self, part: Part, row: "_hocket._PlacementRow") -> TimeShifts:
        # A part is connected, so all its jobs are on one circle.
        ((numbers, fit),) = row["groups"]
        (component,) = row["components"]
        shifts_ps = [row["time_shifts_ps"][number] for number in numbers]
        circle = Circle(
            component["origin"],
            tuple(fit["rounds"]),
            fit["perimeter_ps"],
            # The padded periods of all jobs fit the same perimeter, so any job gives it.
            fit["padded_periods_ps"][0] * fit["rounds"][0],
            tuple(shift_ps or 0 for shift_ps in shifts_ps),
        )
        # Theorem 1 is about loop-free graphs; around a closed loop, shifts agree only within a tolerance.
        if circle.origin == "loop-free":
            self._check(part, circle, numbers[0], row["links"])
        scores = {link["link"]: link["score"] for link in row["links"]}
        return TimeShifts(part, scores, circle, None, False, self._capacities_bps)

    def _check(self, part: Part, circle: Circle, first: int, links: "Sequence[_hocket._LinkRow]") -> None:
        """Theorem 1, for a part whose jobs are ranked from number `first` on."""
        periods_ps = dict(zip(part.names, circle.periods_ps, strict=True))
        shifts_ps = dict(zip(part.names, circle.shifts_ps, strict=True))
        for link in links:
            names = [part.names[number - first] for number in link["jobs"]]
            found_ps = dict(zip(names, link["own_shifts_ps"], strict=True))
            check_relative_shifts(f"link {link['link']}", found_ps, shifts_ps, periods_ps)


def _expected(part: Part, capacities_bps: Sequence[int]) -> dict[int, float]:
    return {
        link: expected_score(
            capacities_bps[link], [(part.members[place].profile, flows) for place, flows in crossing]
        )
        for link, crossing in part.links.items()
    }


def reference(part: Part, priorities: Sequence[int], seed: int) -> int:
    """The place of the job that is not delayed: one of highest priority, drawn with `seed` from several."""
    highest = max(priorities)
    equals = [place for place, priority in enumerate(priorities) if priority == highest]
    return Random(f"{seed} reference of {part.names[0]}").choice(equals)
