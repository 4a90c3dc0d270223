"""MonkeyTree (arXiv 2602.08296): moves workers of running jobs so that jobs contend less for the uplinks of
racks, where that is worth more than the migrations cost.

It reads the placement of a decision and returns one with the same numbers of workers. The paper minimises the
workers that move, subject to a bound on the jobs that cross the uplinks of a rack. Hocket weighs instead:
workers move if the GPU time that jobs are predicted to lose until they are done falls by more than the
migrations cost. It moves workers among a few racks at a time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.schedulers.monkeytree.contention import Rack, losses
from hocket.schedulers.monkeytree.options import MonkeytreeOptions
from hocket.schedulers.monkeytree.places import moved
from hocket.schedulers.monkeytree.program import Problem, solve
from hocket.schedulers.monkeytree.ring_jobs import RingJob, Spread, ring_jobs, spread_of
from hocket.schedulers.monkeytree.steps import Move, Step
from hocket.schedulers.monkeytree.uplinks import Uplinks
from hocket.schedulers.state import Candidate, Cluster, State

__all__ = ["Migrations", "MonkeyTree", "MonkeytreeOptions"]

# A step must be worth more than the solver's tolerance.
_LEAST_GAIN_GPU_S = 1e-3


@dataclass(frozen=True)
class Migrations:
    """The moves of a round."""

    candidate: Candidate
    """The placement with these moves."""
    migrated: frozenset[str]
    """Running jobs of which workers move."""
    why: Mapping[str, Any]
    """Notes for the table of decisions."""


class MonkeyTree:
    """Decides on migrations, in rounds, at most once an epoch."""

    def __init__(
        self,
        options: MonkeytreeOptions,
        cluster: Cluster,
        uplinks: Sequence[Uplinks],
        *,
        balanced: bool,
    ) -> None:
        """`balanced` if paths are chosen so that they spread the load of uplinks, and not by ECMP."""
        self._options = options
        self._cluster = cluster
        self._racks = [Rack.of(each, balanced=balanced) for each in uplinks]
        self._gpus_in = Counter(cluster.rack(gpu) for gpu in range(len(cluster.gpus)))
        self._earliest_ps = 0
        self._wanted = False
        # Problems of the latest round without a better solution; as jobs go on, migrations gain less.
        self._hopeless: set[object] = set()

    @property
    def next_ps(self) -> int | None:
        """When the next round is due, if not before; None if a decision must come first."""
        return self._earliest_ps if self._wanted else None

    def plan(self, state: State, candidate: Candidate) -> Migrations | None:
        """Moves of workers from the placement of `candidate`; None if the epoch has not ended.

        `state` is the cluster before the decision: a job that has other GPUs there is not running yet, and
        moves at no price.
        """
        self._wanted = state.now_ps < self._earliest_ps
        if self._wanted:
            return None
        self._earliest_ps = state.now_ps + self._options.epoch_ps
        jobs = {job.name: job for job in ring_jobs(state, candidate, self._options.migration_ps)}
        placement = {name: tuple(candidate.placement[name]) for name in jobs}
        cluster = self._cluster
        before = {name: spread_of(cluster, gpus) for name, gpus in placement.items()}
        steps, left = self._steps(jobs, before)
        if not steps:
            return None
        # Further moves may be worth their price, and jobs may end before the scheduler decides again.
        self._wanted = left == 0
        after = {move.job: move.after for step in steps for move in step.moves}
        after = {name: spread for name, spread in after.items() if spread != before[name]}
        return Migrations(
            replace(candidate, placement={**candidate.placement, **moved(cluster, placement, after)}),
            frozenset(name for name in after if jobs[name].running),
            {"migrated workers": self._options.moves - left, "steps": [step.notes for step in steps]},
        )

    def _steps(self, running: Mapping[str, RingJob], before: Mapping[str, Spread]) -> tuple[list[Step], int]:
        """The steps that are worth their price, and the migrations left."""
        jobs, spreads = dict(running), dict(before)
        steps: list[Step] = []
        left = self._options.moves
        considered: set[str] = set()
        hopeless: set[object] = set()
        while left > 0:
            lost = losses(jobs.values(), spreads, self._racks)
            others = [name for name in lost if lost[name] > 0 and name not in considered]
            if not others:
                break
            # The first of equals is the one that arrived first.
            first = max(others, key=lost.__getitem__)
            considered.add(first)
            problem = self._problem(jobs, spreads, first, left)
            key = _key(problem)
            step = None
            if key not in self._hopeless and _may_pay(problem, lost):
                step = self._step(problem, jobs, spreads, sum(lost.values()))
            if step is None:
                hopeless.add(key)
                continue
            steps.append(step)
            for move in step.moves:
                spreads[move.job] = move.after
                left -= move.workers if jobs[move.job].running else 0
                # It is stopped once, however many steps move it.
                jobs[move.job] = replace(jobs[move.job], price_gpu_s=0.0)
        self._hopeless = hopeless
        return steps, left

    def _problem(
        self, jobs: Mapping[str, RingJob], spreads: Mapping[str, Spread], first: str, moves: int
    ) -> Problem:
        """The program for the racks of job `first` and those with the most room."""
        taken = sum((Counter(spread) for spread in spreads.values()), Counter[int]())
        room = sorted(self._gpus_in, key=lambda rack: (taken[rack] - self._gpus_in[rack], rack))
        chosen = list(dict.fromkeys((*sorted(spreads[first]), *room)))
        chosen = sorted(chosen[: max(self._options.racks, len(spreads[first]))])
        here = [job for job in jobs.values() if spreads[job.name].keys() & set(chosen)]
        movable = [job for job in here if spreads[job.name].keys() <= set(chosen)]
        passing = [job for job in here if not spreads[job.name].keys() <= set(chosen)]
        capacity = {rack: self._gpus_in[rack] - taken[rack] for rack in chosen}
        for job in movable:
            for rack, count in spreads[job.name].items():
                capacity[rack] += count
        return Problem(
            racks={rack: self._racks[rack] for rack in chosen},
            capacity=capacity,
            movable=movable,
            passing=[job for job in passing if job.peak_bps],
            spreads={job.name: spreads[job.name] for job in here},
            outside=self._outside(jobs, spreads, passing, chosen),
            moves=moves,
        )

    def _outside(
        self,
        jobs: Mapping[str, RingJob],
        spreads: Mapping[str, Spread],
        passing: Sequence[RingJob],
        chosen: Sequence[int],
    ) -> dict[str, float]:
        """`Problem.outside` for these racks."""
        found = {}
        for job in passing:
            elsewhere = spreads[job.name].keys() - set(chosen)
            found[job.name] = max(self._lengthening(jobs, spreads, rack) for rack in elsewhere)
        return found

    def _lengthening(self, jobs: Mapping[str, RingJob], spreads: Mapping[str, Spread], rack: int) -> float:
        crossing = (job for job in jobs.values() if len(spreads[job.name]) > 1 and rack in spreads[job.name])
        return self._racks[rack].lengthening(self._racks[rack].load(crossing))

    def _step(
        self,
        problem: Problem,
        jobs: Mapping[str, RingJob],
        spreads: Mapping[str, Spread],
        lost_gpu_s: float,
    ) -> Step | None:
        """The solution of a program, if it is worth its price."""
        solution = solve(problem, self._options.node_limit)
        if solution is None:
            return None
        moves = tuple(
            Move.of(jobs[name], spreads[name], after)
            for name, after in solution.spreads.items()
            if after != spreads[name]
        )
        # Computed again, as the solver's own value has tolerances.
        after_gpu_s = sum(losses(jobs.values(), {**spreads, **solution.spreads}, self._racks).values())
        step = Step(moves, lost_gpu_s - after_gpu_s, solution.proven)
        return step if step.saved_gpu_s > step.price_gpu_s + _LEAST_GAIN_GPU_S else None


def _may_pay(problem: Problem, lost_gpu_s: Mapping[str, float]) -> bool:
    """Whether the jobs of a problem lose more than the cheapest migration costs: most need no program."""
    lost = sum(lost_gpu_s.get(job.name, 0.0) for job in (*problem.movable, *problem.passing))
    return lost > min((job.price_gpu_s for job in problem.movable), default=lost)


def _key(problem: Problem) -> object:
    """What a problem without a better solution is recognised by."""
    return (
        tuple(problem.capacity.items()),
        tuple((job.name, job.running, tuple(problem.spreads[job.name].items())) for job in problem.movable),
        tuple((job.name, tuple(problem.spreads[job.name].items())) for job in problem.passing),
        problem.moves,
    )
