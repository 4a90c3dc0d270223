"""The CASSINI module: picks a candidate and hands out slots (NSDI'24 §4.2, Algorithm 2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.compat.answer import written_score
from hocket.engines.network import Crossings, Network
from hocket.errors import InputError
from hocket.schedulers.cassini.answers import Answer, Answers, Circle, reference
from hocket.schedulers.cassini.chosen import CandidateScore, Chosen, Component, LinkScore, OnCircle, Slot
from hocket.schedulers.cassini.components import Layout, Member, Part, layout
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.slots import Prediction, Spacing
from hocket.schedulers.state import Candidate, Decision, Gpus, JobState, State


@dataclass(frozen=True)
class _Judged:
    """A candidate with what was found for its parts."""

    layout: Layout
    answers: Sequence[Answer]
    moved_jobs: int
    score: float | None
    """None if it is discarded."""

    @property
    def discarded(self) -> str | None:
        return next((answer.why_none for answer in self.answers if answer.discards), None)


class Cassini:
    """Of the placements that a scheduler holds equally good, the one whose jobs take turns best.

    It remembers the slots that it gave: jobs that share links with the same jobs as before keep theirs.
    """

    def __init__(
        self,
        options: CassiniOptions,
        network: Network,
        crossings: Callable[[str, Gpus], Crossings],
        *,
        jitter: float,
        seed: int,
    ) -> None:
        """`crossings` gives the links of a job by its name and GPUs; `jitter` is the relative standard
        deviation of compute times.
        """
        self._options = options
        self._network = network
        self._crossings = crossings
        self._jitter = jitter
        self._seed = seed
        self._capacities_bps = [rate_bps for _, rate_bps in network.links]
        self._answers = Answers(options, network, seed)
        self._members: dict[tuple[str, Gpus, int], Member] = {}
        self._in_force: dict[object, tuple[Component, Mapping[str, Slot]]] = {}

    def choose(self, state: State, decision: Decision, started_ps: Callable[[str], int | None]) -> Chosen:
        """The best of the candidates of `decision`, and slots for jobs that gain by them.

        `started_ps` tells when the iteration under way of a job began, or None for one that is in none. Sizes
        and batch sizes stay those of the scheduler. If all candidates are discarded, its own choice is taken.

        Raises `InputError` for a candidate in which a job has another size or batch size than in the first.
        """
        _check_sizes(decision.candidates)
        judged = self._judged(state, decision.candidates)
        chosen = min(range(len(judged)), key=lambda number: _order(judged[number], number))
        slotted = self._slotted(state, judged[chosen], started_ps)
        before = {name for _, slots in self._in_force.values() for name in slots}
        self._in_force = slotted
        slots = {name: slot for _, given in slotted.values() for name, slot in given.items()}
        return Chosen(
            candidate=chosen,
            candidates=tuple(CandidateScore(each.score, each.moved_jobs, each.discarded) for each in judged),
            links=tuple(self._link_scores(judged[0], judged[chosen], slots)),
            components=tuple(component for component, _ in slotted.values()),
            slots=slots,
            released=tuple(state.job.name for state in state.jobs if state.job.name in before - slots.keys()),
        )

    def _judged(self, state: State, candidates: Sequence[Candidate]) -> list[_Judged]:
        known, self._members = self._members, {}
        layouts = [
            layout(self._placed(state, candidate, known), self._capacities_bps) for candidate in candidates
        ]
        answers = iter(self._answers.of([part for each in layouts for part in each.parts]))
        judged = []
        for candidate, each in zip(candidates, layouts, strict=True):
            of_parts = [next(answers) for _ in each.parts]
            moved = sum(_is_moved(job, candidate) for job in state.jobs)
            judged.append(_Judged(each, of_parts, moved, self._score(each, of_parts)))
        return judged

    def _placed(
        self, state: State, candidate: Candidate, known: Mapping[tuple[str, Gpus, int], Member]
    ) -> list[Member]:
        """The jobs that run under a candidate, in order of their arrival."""
        placed = []
        for each in state.jobs:
            name, gpus = each.job.name, tuple(candidate.placement.get(each.job.name, ()))
            if not gpus:
                continue
            batch_size = candidate.batch_sizes.get(name, each.batch_size)
            key = (name, gpus, batch_size)
            if key not in self._members:
                self._members[key] = known.get(key) or Member(
                    *key, each.job.profile(len(gpus), batch_size), self._crossings(name, gpus)
                )
            placed.append(self._members[key])
        return placed

    def _score(self, of: Layout, answers: Sequence[Answer]) -> float | None:
        """The aggregate over all links that several jobs cross; 1 if there are none."""
        if any(answer.discards for answer in answers):
            return None
        scores = [score for answer in answers for score in answer.scores.values()]
        if self._options.aggregate == "fabric":
            # Hocket: a mean over shared links alone may rise because more links are shared.
            return 1 - sum(1 - score for score in scores) / len(self._capacities_bps)
        scores = sorted([*scores, *[1.0] * len(of.roomy)])
        if not scores:
            return 1.0
        if self._options.aggregate == "mean":
            return sum(scores) / len(scores)
        if self._options.aggregate == "min":
            return scores[0]
        # The link at the worst twentieth, by nearest rank.
        return scores[-(-len(scores) // 20) - 1]

    def _slotted(
        self, state: State, judged: _Judged, started_ps: Callable[[str], int | None]
    ) -> dict[object, tuple[Component, Mapping[str, Slot]]]:
        """By key of the part, its component and slots; parts that stayed as they were keep theirs."""
        has_slot = {name: slot for _, slots in self._in_force.values() for name, slot in slots.items()}
        found: dict[object, tuple[Component, Mapping[str, Slot]]] = {}
        for part, answer in zip(judged.layout.parts, judged.answers, strict=True):
            if part.key in self._in_force:
                component, slots = self._in_force[part.key]
                found[part.key] = replace(component, kept=True), slots
            else:
                found[part.key] = self._new_slots(state, part, answer, has_slot, started_ps)
        return found

    def _new_slots(
        self,
        state: State,
        part: Part,
        answer: Answer,
        has_slot: Mapping[str, Slot],
        started_ps: Callable[[str], int | None],
    ) -> tuple[Component, Mapping[str, Slot]]:
        in_place = {each.job.name for each in state.jobs if _runs_as(each, part)}
        priorities = [1 + (name in has_slot) if name in in_place else 0 for name in part.names]
        first = reference(part, priorities, self._seed)
        component = _component(part, answer, first)
        if answer.circle is None:
            return component, {}
        if answer.score < self._options.shift_threshold:
            limit = self._options.shift_threshold
            # Shifts win nothing there, but other remedies of HotNets'22 §4 need no room on the link.
            advice = "priorities or adaptive unfairness do more for these jobs"
            why_none = f"a score of {written_score(answer.score)} is below {limit:g}: {advice}"
            return replace(component, why_none=why_none), {}
        spaced = self._spaced(part, answer.circle.turned(first))
        if spaced is None:
            return replace(component, why_none="jobs that are late make each other later: no slots last"), {}
        component = replace(component, gain=spaced.gain)
        if spaced.gain <= 1:
            return replace(component, why_none="slots are predicted to win nothing"), {}
        name = part.names[first]
        origin_ps = _origin_ps(state.now_ps, started_ps(name), has_slot.get(name))
        places = zip(part.names, spaced.offsets_ps, spaced.periods_ps, strict=True)
        return component, {
            name: Slot(origin_ps + offset_ps, period_ps) for name, offset_ps, period_ps in places
        }

    def _spaced(self, part: Part, circle: Circle) -> Spacing | None:
        prediction = Prediction(
            self._network.fabric, part, jitter=self._jitter, adjust=self._options.adjust, seed=self._seed
        )
        return prediction.spacing(circle)

    def _link_scores(self, own: _Judged, chosen: _Judged, slots: Mapping[str, Slot]) -> list[LinkScore]:
        """Links on which jobs contend under the own choice of the scheduler or under the one chosen."""
        before = {
            link: (_crossing(part, link), answer.expected[link])
            for part, answer in zip(own.layout.parts, own.answers, strict=True)
            for link in part.links
        }
        after = {
            link: (
                _crossing(part, link),
                (answer.scores if part.names[0] in slots else answer.expected)[link],
            )
            for part, answer in zip(chosen.layout.parts, chosen.answers, strict=True)
            for link in part.links
        }
        found = []
        for link in sorted(before.keys() | after.keys()):
            were, score_before = before.get(link) or _roomy(own.layout, link)
            are, score = after.get(link) or _roomy(chosen.layout, link)
            found.append(
                LinkScore(
                    link=link,
                    name=self._network.links[link][0],
                    jobs_before=tuple(were),
                    before=score_before,
                    jobs=tuple(are),
                    flows=tuple(are.values()),
                    after=score,
                )
            )
        return found


def _component(part: Part, answer: Answer, first: int) -> Component:
    """A part before anyone has slots, with the job at place `first` as its reference."""
    component = Component(
        jobs=part.names,
        links=tuple(part.links),
        reference=part.names[first],
        score=answer.score,
        origin=None,
        circle={},
        gain=None,
        why_none=answer.why_none,
        kept=False,
    )
    if answer.circle is None:
        return component
    circle = answer.circle.turned(first)
    places = zip(part.names, circle.periods_ps, circle.shifts_ps, strict=True)
    return replace(
        component,
        origin=circle.origin,
        circle={name: OnCircle(period_ps, shift_ps) for name, period_ps, shift_ps in places},
    )


def _order(judged: _Judged, number: int) -> tuple[bool, float, int, int]:
    """Highest score first, to a billionth; of equals the one that moves fewer running jobs, then the first.

    Without any score the first, which is the scheduler's own.
    """
    if judged.score is None:
        return True, 0.0, 0, number
    return False, -round(judged.score, 9), judged.moved_jobs, number


def _crossing(part: Part, link: int) -> dict[str, int]:
    """The flows of each job on a link."""
    return {part.members[place].name: flows for place, flows in part.links[link]}


def _roomy(of: Layout, link: int) -> tuple[Mapping[str, int], float | None]:
    """Flows and score of a link that carries all its jobs at once; no score if fewer than two cross it."""
    crossing = of.roomy.get(link, {})
    return crossing, 1.0 if crossing else None


def _origin_ps(now_ps: int, began_ps: int | None, slot: Slot | None) -> int:
    """Where the reference goes on undelayed: from its iteration under way, else from its next slot."""
    if began_ps is not None:
        return began_ps
    return now_ps if slot is None else slot.next_ps(now_ps)


def _runs_as(state: JobState, part: Part) -> bool:
    """Whether a job of `part` runs already where it is to run."""
    key = (state.job.name, state.gpus, state.batch_size)
    return any(member.key == key for member in part.members)


def _is_moved(state: JobState, candidate: Candidate) -> bool:
    return bool(state.gpus) and tuple(candidate.placement.get(state.job.name, ())) != state.gpus


def _check_sizes(candidates: Sequence[Candidate]) -> None:
    """That candidates differ in where jobs run and nothing else, so that all else is the scheduler's."""
    own = candidates[0]
    for number, candidate in enumerate(candidates):
        for name in sorted(own.placement.keys() | candidate.placement.keys()):
            sizes = [len(each.placement.get(name, ())) for each in (own, candidate)]
            if sizes[0] != sizes[1]:
                raise InputError(
                    f"candidates[{number}]: job {name!r} has {sizes[1]} workers, and {sizes[0]} in the first "
                    "candidate; candidates are equally good only where sizes agree"
                )
        if dict(candidate.batch_sizes) != dict(own.batch_sizes):
            raise InputError(
                f"candidates[{number}]: batch sizes {dict(candidate.batch_sizes)} are not those of the first "
                f"candidate, {dict(own.batch_sizes)}"
            )
