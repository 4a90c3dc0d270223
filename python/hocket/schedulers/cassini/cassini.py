"""The CASSINI module: chooses a candidate and assigns slots (NSDI'24 §4.2, Algorithm 2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.compat.answer import written_score
from hocket.engines.network import Crossings, Network
from hocket.errors import InputError
from hocket.schedulers.cassini.choice import CandidateScore, Choice, Component, LinkScore, OnCircle, Slot
from hocket.schedulers.cassini.components import Layout, Member, Part, layout
from hocket.schedulers.cassini.options import CassiniOptions
from hocket.schedulers.cassini.slots import Prediction
from hocket.schedulers.cassini.subsets import subset_slots
from hocket.schedulers.cassini.time_shifts import Bounds, Circle, TimeShifts, TimeShiftSolver, reference
from hocket.schedulers.state import Candidate, Decision, Gpus, JobState, State


@dataclass(frozen=True)
class _RatedCandidate:
    """A candidate with what is known of its parts and its score."""

    layout: Layout
    solutions: Sequence[TimeShifts | Bounds]
    moved_jobs: int
    score: float | None
    """Only a bound while a solution is one. None if it is discarded."""

    @property
    def bounded(self) -> bool:
        return any(isinstance(solution, Bounds) for solution in self.solutions)

    @property
    def discarded(self) -> str | None:
        return next((each.why_none for each in self.time_shifts if each.discards), None)

    @property
    def time_shifts(self) -> list[TimeShifts]:
        """Those of its parts that are solved."""
        return [each for each in self.solutions if isinstance(each, TimeShifts)]


class Cassini:
    """Chooses among placements that a scheduler considers equivalent the one whose jobs interleave best.

    It remembers the slots in force: jobs that share links with the same jobs as before keep theirs.
    """

    def __init__(
        self,
        options: CassiniOptions,
        network: Network,
        crossings: Callable[[str, Gpus], Crossings],
        *,
        goodput: Sequence[float] = (),
        jitter: float,
        seed: int,
    ) -> None:
        """`crossings` gives the links of a job by its name and GPUs; `goodput` is the fraction of a link's
        capacity that two, three and more contending jobs get; `jitter` is the relative standard deviation of
        compute times.
        """
        self._options = options
        self._network = network
        self._crossings = crossings
        self._goodput = goodput
        self._jitter = jitter
        self._seed = seed
        self._capacities_bps = [rate_bps for _, rate_bps in network.links]
        self._solver = TimeShiftSolver(options, network, seed)
        self._members: dict[tuple[str, Gpus, int], Member] = {}
        self._in_force: dict[object, tuple[Component, Mapping[str, Slot]]] = {}

    def choose(self, state: State, decision: Decision, started_ps: Callable[[str], int | None]) -> Choice:
        """The best of the candidates of `decision`, and slots for jobs with a predicted speed-up.

        `started_ps` returns when the current iteration of a job began, or None if it is in none. Numbers of
        workers and batch sizes stay those of the scheduler. If all candidates are discarded, the scheduler's
        own choice is taken.

        Raises `InputError` for a candidate in which a job's workers or batch size differ from the first's.
        """
        _check_sizes(decision.candidates)
        rated = self._rated(state, decision.candidates)
        chosen = self._best(rated)
        slotted = self._assign_slots(state, rated[chosen], started_ps)
        before = {name for _, slots in self._in_force.values() for name in slots}
        self._in_force = slotted
        slots = {name: slot for _, given in slotted.values() for name, slot in given.items()}
        return Choice(
            candidate=chosen,
            candidates=tuple(
                CandidateScore(each.score, each.moved_jobs, each.discarded, each.bounded) for each in rated
            ),
            links=tuple(self._link_scores(rated[0], rated[chosen])),
            components=tuple(component for component, _ in slotted.values()),
            slots=slots,
            released=tuple(state.job.name for state in state.jobs if state.job.name in before - slots.keys()),
        )

    def _rated(self, state: State, candidates: Sequence[Candidate]) -> list[_RatedCandidate]:
        # Only members of the latest decision are remembered, as others are unlikely to come back.
        known, self._members = self._members, {}
        layouts = [
            layout(self._placed(state, candidate, known), self._capacities_bps) for candidate in candidates
        ]
        solutions = iter(self._solver.prepare([part for each in layouts for part in each.parts]))
        rated = []
        for candidate, each in zip(candidates, layouts, strict=True):
            of_parts = [next(solutions) for _ in each.parts]
            moved = sum(_moves(job, candidate) for job in state.jobs)
            rated.append(_RatedCandidate(each, of_parts, moved, self._score(each, of_parts)))
        return rated

    def _best(self, rated: list[_RatedCandidate]) -> int:
        """The number of the best candidate. Candidates are solved in place, but for those that cannot be the
        best.
        """
        # Its score is the one that others are compared with.
        rated[0] = self._with(rated[0], self._solver.solved)
        while True:
            best = min(range(len(rated)), key=lambda number: _order(rated[number], number))
            # A bound that is the best may not be reached; a score that is the best exceeds all bounds.
            if not rated[best].bounded:
                return best
            loose = any(isinstance(each, Bounds) and not each.tight for each in rated[best].solutions)
            rated[best] = self._with(rated[best], self._solver.tighten if loose else self._solver.solved)

    def _with(
        self, rated: _RatedCandidate, solution: Callable[[Part], TimeShifts | Bounds]
    ) -> _RatedCandidate:
        """A candidate with another `solution` of each part."""
        solutions = [solution(part) for part in rated.layout.parts]
        return replace(rated, solutions=solutions, score=self._score(rated.layout, solutions))

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
            member = self._members.get(key)
            if member is None:
                member = self._members[key] = known.get(key) or Member(
                    *key, each.job.profile(len(gpus), batch_size), self._crossings(name, gpus)
                )
            placed.append(member)
        return placed

    def _score(self, shared: Layout, solutions: Sequence[TimeShifts | Bounds]) -> float | None:
        """The aggregate score of all shared links; 1 if there are none, None for a discarded candidate."""
        if any(solution.discards for solution in solutions):
            return None
        scores = [score for solution in solutions for score in solution.scores.values()]
        if self._options.aggregate == "fabric":
            # Hocket: a mean over shared links alone would rise when more links with good scores are shared.
            return 1 - sum(1 - score for score in scores) / len(self._capacities_bps)
        # Roomy links score 1 under any shifts, but several jobs cross them: the paper's mean includes them.
        scores = sorted([*scores, *[1.0] * len(shared.roomy)])
        if not scores:
            return 1.0
        if self._options.aggregate == "mean":
            return sum(scores) / len(scores)
        if self._options.aggregate == "min":
            return scores[0]
        # The link at the worst twentieth, by nearest rank.
        return scores[-(-len(scores) // 20) - 1]

    def _assign_slots(
        self, state: State, rated: _RatedCandidate, started_ps: Callable[[str], int | None]
    ) -> dict[object, tuple[Component, Mapping[str, Slot]]]:
        """The component and slots of each part, by key; unchanged parts keep theirs."""
        has_slot = {name: slot for _, slots in self._in_force.values() for name, slot in slots.items()}
        found: dict[object, tuple[Component, Mapping[str, Slot]]] = {}
        for part, solution in zip(rated.layout.parts, rated.time_shifts, strict=True):
            if part.key in self._in_force:
                component, slots = self._in_force[part.key]
                found[part.key] = replace(component, kept=True), slots
            else:
                found[part.key] = self._new_slots(state, part, solution, has_slot, started_ps)
                if self._options.slots == "subset":
                    found[part.key] = self._best_of(found[part.key], state, part, has_slot, started_ps)
        return found

    def _best_of(
        self,
        of_all: tuple[Component, Mapping[str, Slot]],
        state: State,
        part: Part,
        has_slot: Mapping[str, Slot],
        started_ps: Callable[[str], int | None],
    ) -> tuple[Component, Mapping[str, Slot]]:
        """The component and slots `of_all` its jobs, or those of some of them if these gain more."""
        component, slots = of_all
        best = subset_slots(part, self._prediction(part), self._network, self._options, self._seed)
        if best is None or (slots and component.gain is not None and component.gain >= best.gain):
            return of_all
        some = part.only(best.places)
        first = reference(some, self._priorities(state, some, has_slot), self._seed)
        circle = best.circle.turned(first)
        name = some.names[first]
        origin_ps = _origin_ps(state.now_ps, started_ps(name), has_slot.get(name))
        component = replace(
            component,
            reference=name,
            origin=circle.origin,
            circle=_on_circle(some, circle),
            gain=best.gain,
            why_none=None,
            subset_scores=best.scores,
        )
        # Turned as the circle is, so that the reference is not delayed.
        delay_ps = best.slots[best.places[first]].origin_ps
        return component, {
            part.names[place]: Slot(origin_ps + (slot.origin_ps - delay_ps) % slot.period_ps, slot.period_ps)
            for place, slot in best.slots.items()
        }

    def _new_slots(
        self,
        state: State,
        part: Part,
        solution: TimeShifts,
        has_slot: Mapping[str, Slot],
        started_ps: Callable[[str], int | None],
    ) -> tuple[Component, Mapping[str, Slot]]:
        first = reference(part, self._priorities(state, part, has_slot), self._seed)
        component = _component(part, solution, first)
        if solution.circle is None:
            return component, {}
        if solution.score < self._options.shift_threshold:
            limit = self._options.shift_threshold
            # Time-shifts do not help there, but the other remedies of HotNets'22 §4 need no spare capacity.
            advice = "priorities or adaptive unfairness help these jobs more"
            why_none = f"a score of {written_score(solution.score)} is below {limit:g}: {advice}"
            return replace(component, why_none=why_none), {}
        spaced = self._prediction(part).spacing(solution.circle.turned(first))
        if spaced is None:
            return replace(component, why_none="late jobs delay each other further, so no slots last"), {}
        component = replace(component, gain=spaced.gain)
        if spaced.gain <= 1:
            return replace(component, why_none="slots have no predicted speed-up"), {}
        name = part.names[first]
        origin_ps = _origin_ps(state.now_ps, started_ps(name), has_slot.get(name))
        places = zip(part.names, spaced.offsets_ps, spaced.periods_ps, strict=True)
        return component, {
            name: Slot(origin_ps + offset_ps, period_ps) for name, offset_ps, period_ps in places
        }

    def _priorities(self, state: State, part: Part, has_slot: Mapping[str, Slot]) -> list[int]:
        """By job of `part`, how well it serves as the reference."""
        in_place = {each.job.name for each in state.jobs if _runs_as(each, part)}
        # Slots are laid out around the current iteration of the reference, so it should be a job that stays
        # in place and has an iteration under way, preferably in a slot.
        return [1 + (name in has_slot) if name in in_place else 0 for name in part.names]

    def _prediction(self, part: Part) -> Prediction:
        return Prediction(
            self._network.fabric,
            part,
            goodput=self._goodput,
            jitter=self._jitter,
            adjust=self._options.adjust,
            seed=self._seed,
        )

    def _link_scores(self, own: _RatedCandidate, chosen: _RatedCandidate) -> list[LinkScore]:
        """The links on which jobs contend under the scheduler's own choice, or under the chosen candidate
        with the slots in force.
        """
        before = {
            link: (_crossing(part, link), solution.expected[link])
            for part, solution in zip(own.layout.parts, own.time_shifts, strict=True)
            for link in part.links
        }
        after = {
            link: (_crossing(part, link), score)
            for part, solution in zip(chosen.layout.parts, chosen.time_shifts, strict=True)
            for link, score in _scores_in_force(solution, *self._in_force[part.key]).items()
        }
        found = []
        for link in sorted(before.keys() | after.keys()):
            flows_before, score_before = before.get(link) or _roomy(own.layout, link)
            flows, score = after.get(link) or _roomy(chosen.layout, link)
            found.append(
                LinkScore(
                    link=link,
                    name=self._network.links[link][0],
                    jobs_before=tuple(flows_before),
                    before=score_before,
                    jobs=tuple(flows),
                    flows=tuple(flows.values()),
                    after=score,
                )
            )
        return found


def _component(part: Part, solution: TimeShifts, first: int) -> Component:
    """The component of a part without slots, with the job at place `first` as its reference."""
    component = Component(
        jobs=part.names,
        links=tuple(part.links),
        reference=part.names[first],
        score=solution.score,
        origin=None,
        circle={},
        gain=None,
        why_none=solution.why_none,
        kept=False,
    )
    if solution.circle is None:
        return component
    circle = solution.circle.turned(first)
    return replace(component, origin=circle.origin, circle=_on_circle(part, circle))


def _on_circle(part: Part, circle: Circle) -> dict[str, OnCircle]:
    """The position of each job of `part`."""
    places = zip(part.names, circle.periods_ps, circle.shifts_ps, strict=True)
    return {name: OnCircle(period_ps, shift_ps) for name, period_ps, shift_ps in places}


def _scores_in_force(
    solution: TimeShifts, component: Component, slots: Mapping[str, Slot]
) -> Mapping[int, float]:
    """By link of a part, its score with the slots that its jobs have."""
    if not slots:
        return solution.expected
    if component.subset_scores is None:
        return solution.scores
    # A job without a slot is at any time as likely as at any other, whatever slots the others have.
    return {**solution.expected, **component.subset_scores}


def _order(rated: _RatedCandidate, number: int) -> tuple[bool, float, int, int]:
    """Sort key: highest score first, rounded to 1e-9; then fewer moved jobs; then the lower number.

    Candidates without a score come last, so that if all are discarded the scheduler's own, number 0, is
    first.
    """
    if rated.score is None:
        return True, 0.0, 0, number
    # Candidates that differ only in the names of servers have equal scores up to rounding: a tie.
    return False, -round(rated.score, 9), rated.moved_jobs, number


def _crossing(part: Part, link: int) -> dict[str, int]:
    """The number of flows of each job on a link."""
    return {part.members[place].name: flows for place, flows in part.links[link]}


def _roomy(shared: Layout, link: int) -> tuple[Mapping[str, int], float | None]:
    """Flows and score of a link with capacity for all its jobs; no score if fewer than two cross it."""
    crossing = shared.roomy.get(link, {})
    return crossing, 1.0 if crossing else None


def _origin_ps(now_ps: int, began_ps: int | None, slot: Slot | None) -> int:
    """An origin that does not delay the reference: the start of its current iteration; without one, the start
    of its next slot; without a slot, now.
    """
    if began_ps is not None:
        return began_ps
    return now_ps if slot is None else slot.next_ps(now_ps)


def _runs_as(state: JobState, part: Part) -> bool:
    """Whether a job of `part` already runs on the GPUs and with the batch size that it has there."""
    key = (state.job.name, state.gpus, state.batch_size)
    return any(member.key == key for member in part.members)


def _moves(state: JobState, candidate: Candidate) -> bool:
    return bool(state.gpus) and tuple(candidate.placement.get(state.job.name, ())) != state.gpus


def _check_sizes(candidates: Sequence[Candidate]) -> None:
    """Raise `InputError` unless candidates differ only in where jobs run; the scheduler decides all else."""
    own = candidates[0]
    own_sizes = _sizes(own)
    for number, candidate in enumerate(candidates[1:], 1):
        sizes = _sizes(candidate)
        if sizes != own_sizes:
            name = min(name for name, _ in sizes.items() ^ own_sizes.items())
            raise InputError(
                f"candidates[{number}]: job {name!r} has {sizes.get(name, 0)} workers, but "
                f"{own_sizes.get(name, 0)} in the first candidate; candidates may differ only in where jobs "
                "run"
            )
        if dict(candidate.batch_sizes) != dict(own.batch_sizes):
            raise InputError(
                f"candidates[{number}]: batch sizes {dict(candidate.batch_sizes)} differ from those of the "
                f"first candidate, {dict(own.batch_sizes)}"
            )


def _sizes(candidate: Candidate) -> dict[str, int]:
    """The workers of each job that runs."""
    return {name: len(gpus) for name, gpus in candidate.placement.items() if len(gpus)}
