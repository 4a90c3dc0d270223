"""CASSINI's choice: one of the candidates, slots for its jobs, and the reasons for both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slot:
    """Start times of a job's iterations: `origin_ps`, and every `period_ps` before and after."""

    origin_ps: int
    period_ps: int

    def next_ps(self, at_ps: int) -> int:
        """The first start at or after `at_ps`.

        >>> Slot(origin_ps=40, period_ps=100).next_ps(41)
        140
        """
        return at_ps + (self.origin_ps - at_ps) % self.period_ps


@dataclass(frozen=True)
class CandidateScore:
    """The score of a candidate."""

    score: float | None
    """Under the best time-shifts found; None if the candidate was discarded."""
    moved_jobs: int
    """The number of running jobs that it moves, grows or shrinks."""
    discarded: str | None
    """Why it was discarded; None if it was not."""
    bounded: bool = False
    """Whether `score` is only a bound, as it shows that another candidate is better."""


@dataclass(frozen=True)
class LinkScore:
    """A link that several jobs cross under the scheduler's own choice, under the one chosen, or both.

    A score is that of NSDI'24 Equation 2: 1 less the mean excess of demand over capacity.
    """

    link: int
    name: str
    jobs_before: tuple[str, ...]
    """Under the scheduler's own choice."""
    before: float | None
    """Its expected score there without time-shifts: the mean over all time-shifts. None if not shared."""
    jobs: tuple[str, ...]
    """Under the choice of CASSINI."""
    flows: tuple[int, ...]
    """The number of flows of each of `jobs`."""
    after: float | None
    """Its score there under the time-shifts of the slots; without slots, the mean over all time-shifts."""


@dataclass(frozen=True)
class OnCircle:
    """A job on the unified circle of its component."""

    period_ps: int
    shift_ps: int
    """Less than the period."""


@dataclass(frozen=True)
class Component:
    """Jobs that share links with each other, directly or through others, under the chosen candidate."""

    jobs: tuple[str, ...]
    links: tuple[int, ...]
    """The links that several of them cross, ascending."""
    reference: str
    """The job that is not delayed."""
    score: float
    """The mean score of its links under the best time-shifts found; without any, over all time-shifts."""
    origin: str | None
    """How the time-shifts were found: `loop-free`, `closed loops`, or `joint` for all links at once."""
    circle: Mapping[str, OnCircle]
    """The position of each job under the best time-shifts found; empty without any."""
    gain: float | None
    """Predicted iteration time at random starts ÷ in slots, mean over jobs; None if not predicted."""
    why_none: str | None
    """Why its jobs have no slots; None if they have."""
    kept: bool
    """Whether it is unchanged since the previous decision and keeps its slots."""
    subset_scores: Mapping[int, float] | None = None
    """If only some of its jobs have slots: by link that no other jobs cross, its score in these slots."""


@dataclass(frozen=True)
class Choice:
    """The chosen candidate of a decision, with its slots and scores."""

    candidate: int
    candidates: tuple[CandidateScore, ...]
    """In the order of the decision; the scheduler's own choice is the first."""
    links: tuple[LinkScore, ...]
    """Ascending."""
    components: tuple[Component, ...]
    """By their first job."""
    slots: Mapping[str, Slot]
    """By job, all slots in force from now on, including unchanged ones."""
    released: tuple[str, ...]
    """Jobs that had slots and lose them."""

    @property
    def why(self) -> dict[str, Any]:
        """The whole choice ready for JSON, for the table of decisions."""
        return {
            "chosen": self.candidate,
            "candidates": [
                {
                    "score": each.score,
                    "moved_jobs": each.moved_jobs,
                    "discarded": each.discarded,
                    "bounded": each.bounded,
                }
                for each in self.candidates
            ],
            "links": [
                {
                    "link": each.name,
                    "jobs_before": list(each.jobs_before),
                    "before": each.before,
                    "jobs": list(each.jobs),
                    "flows": list(each.flows),
                    "after": each.after,
                }
                for each in self.links
            ],
            "components": [
                {
                    "jobs": list(each.jobs),
                    "reference": each.reference,
                    "score": each.score,
                    "origin": each.origin,
                    "circle": {
                        name: {"period_ps": place.period_ps, "shift_ps": place.shift_ps}
                        for name, place in each.circle.items()
                    },
                    "gain": each.gain,
                    "why_none": each.why_none,
                    "kept": each.kept,
                }
                for each in self.components
            ],
            "slots": {
                name: {"origin_ps": slot.origin_ps, "period_ps": slot.period_ps}
                for name, slot in self.slots.items()
            },
            "released": list(self.released),
        }
