"""The best time-shifts of components, each on its own (NSDI'24 Algorithm 1 and Table 1). Components that stay
as they are from decision to decision are solved once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.specs import plain
from hocket.schedulers.cassini.components import Part
from hocket.schedulers.cassini.expected import expected_score
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.theorem import check_relative_shifts


@dataclass(frozen=True)
class Circle:
    """Shifts of the jobs of a part on their common circle; lists are by place in its members."""

    origin: str
    """Where the shifts come from: `loop-free`, `closed loops` or `joint`."""
    rounds: tuple[int, ...]
    """Iterations per turn."""
    perimeter_ps: int
    padded_perimeter_ps: int
    """The shortest turn in which no job is faster than on an idle network."""
    shifts_ps: tuple[int, ...]
    """Delay of the next iteration, on the circle."""

    @property
    def periods_ps(self) -> tuple[int, ...]:
        """On the circle."""
        return tuple(self.perimeter_ps // rounds for rounds in self.rounds)

    def turned(self, reference: int) -> "Circle":
        """The same with all jobs turned alike, so that the one at place `reference` is not delayed."""
        origin_ps = self.shifts_ps[reference]
        shifts = zip(self.shifts_ps, self.periods_ps, strict=True)
        shifts_ps = tuple((shift_ps - origin_ps) % period_ps for shift_ps, period_ps in shifts)
        return Circle(self.origin, self.rounds, self.perimeter_ps, self.padded_perimeter_ps, shifts_ps)


@dataclass(frozen=True)
class Answer:
    """What is known of a part."""

    expected: Mapping[int, float]
    """By link, its mean score over all shifts."""
    scores: Mapping[int, float]
    """By link, its score under the shifts of `circle`; as expected where there are none."""
    circle: Circle | None
    why_none: str | None
    """Why there is no circle, if so."""
    discards: bool
    """Whether that costs a candidate its place (Algorithm 2, line 15)."""

    @property
    def score(self) -> float:
        """The mean over its links."""
        return sum(self.scores.values()) / len(self.scores)


class Answers:
    """Answers by part, kept while the part is in some candidate."""

    def __init__(self, options: CassiniOptions, network: Network, seed: int) -> None:
        self._options = options
        self._fabric = network.fabric
        self._capacities_bps = [rate_bps for _, rate_bps in network.links]
        self._seed = seed
        self._known: dict[object, Answer] = {}

    def of(self, parts: Sequence[Part]) -> list[Answer]:
        """For each of `parts`. Those that were not in the last call's are solved, and all others forgotten.

        Raises `KeyboardInterrupt` if Ctrl-C came meanwhile.
        """
        asked = {part.key: part for part in parts}
        new = [part for key, part in asked.items() if key not in self._known]
        found = dict(zip([part.key for part in new], self._solved(new), strict=True))
        self._known = {key: found.get(key) or self._known[key] for key in asked}
        return [self._known[part.key] for part in parts]

    def _solved(self, parts: Sequence[Part]) -> list[Answer]:
        """Answers for `parts`, solved side by side: to the ranking each is a candidate of its own."""
        reasons = [self._misfit(part) for part in parts]
        fitting = [part for part, reason in zip(parts, reasons, strict=True) if reason is None]
        answers = iter(self._ranked(fitting))
        return [
            next(answers) if reason is None else self._without_circle(part, reason, discards=False)
            for part, reason in zip(parts, reasons, strict=True)
        ]

    def _misfit(self, part: Part) -> str | None:
        """Why the periods of a part fit on no circle.

        Hocket: NSDI'24 does not say what becomes of such jobs. Nothing that is found for them lasts, so they
        are left alone and score what chance makes of them.
        """
        try:
            _hocket.commensurate(
                [member.profile.period_ps for member in part.members], self._options.tolerance
            )
        except ValueError as error:
            return str(error)
        return None

    def _ranked(self, parts: Sequence[Part]) -> list[Answer]:
        if not parts:
            return []
        jobs: list[_hocket._RankJob] = [
            {"name": member.name, "profile": plain(member.profile), "priority": 0}
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
            candidates.append({"name": str(number), "crossings": crossings, "moved_jobs": 0})
            first += len(part.members)
        ranked = _hocket.rank(
            self._fabric,
            jobs,
            candidates,
            {
                "precision_deg": self._options.precision_deg,
                "strict": False,
                # Steps end a search at the same answer on every machine, which time would not.
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
        if ranked["interrupted"]:
            raise KeyboardInterrupt
        rows = {row["candidate"]: row for row in ranked["placements"]}
        reasons = dict(ranked["discarded"])
        return [
            self._answer(part, rows[number])
            if number in rows
            else self._without_circle(part, reasons[number], discards=True)
            for number, part in enumerate(parts)
        ]

    def _without_circle(self, part: Part, reason: str, *, discards: bool) -> Answer:
        expected = self._expected(part)
        return Answer(expected, expected, None, reason, discards)

    def _answer(self, part: Part, row: "_hocket._PlacementRow") -> Answer:
        ((numbers, fit),) = row["groups"]
        (component,) = row["components"]
        shifts_ps = [row["time_shifts_ps"][number] for number in numbers]
        circle = Circle(
            component["origin"],
            tuple(fit["rounds"]),
            fit["perimeter_ps"],
            fit["padded_periods_ps"][0] * fit["rounds"][0],
            tuple(shift_ps or 0 for shift_ps in shifts_ps),
        )
        if circle.origin == "loop-free":
            self._check(part, circle, numbers[0], row["links"])
        scores = {link["link"]: link["score"] for link in row["links"]}
        return Answer(self._expected(part), scores, circle, None, discards=False)

    def _check(self, part: Part, circle: Circle, first: int, links: "Sequence[_hocket._LinkRow]") -> None:
        """Theorem 1, for a part whose jobs are ranked from number `first` on."""
        periods_ps = dict(zip(part.names, circle.periods_ps, strict=True))
        shifts_ps = dict(zip(part.names, circle.shifts_ps, strict=True))
        for link in links:
            names = [part.names[number - first] for number in link["jobs"]]
            found_ps = dict(zip(names, link["own_shifts_ps"], strict=True))
            check_relative_shifts(f"link {link['link']}", found_ps, shifts_ps, periods_ps)

    def _expected(self, part: Part) -> dict[int, float]:
        return {
            link: expected_score(
                self._capacities_bps[link],
                [(part.members[place].profile, flows) for place, flows in crossing],
            )
            for link, crossing in part.links.items()
        }


def reference(part: Part, priorities: Sequence[int], seed: int) -> int:
    """The place of the job that is not delayed: of highest priority, of several the one that `seed` picks."""
    highest = max(priorities)
    equals = [place for place, priority in enumerate(priorities) if priority == highest]
    return Random(f"{seed} reference of {part.names[0]}").choice(equals)
