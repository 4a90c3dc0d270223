"""The mixed-integer program that moves workers between a few racks, solved by HiGHS.

It decides the number of workers of each job in each rack. Its objective is the predicted loss of jobs on the
uplinks of these racks plus the price of migrations, both in GPU-seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hocket.schedulers.monkeytree.contention import Rack
from hocket.schedulers.monkeytree.ring_jobs import RingJob, Spread

if TYPE_CHECKING:
    from highspy import highs

# Among equally good plans, the one that moves fewer workers: in proportion to the largest loss.
_WORKER = 1e-6


@dataclass(frozen=True)
class Problem:
    """Jobs that may move within a few racks, and others that cross the uplinks of these racks."""

    racks: Mapping[int, Rack]
    """By number."""
    capacity: Mapping[int, int]
    """By rack: the GPUs that are free or belong to jobs of `movable`."""
    movable: Sequence[RingJob]
    """Jobs with all workers in `racks`."""
    passing: Sequence[RingJob]
    """Jobs that have workers in `racks` and outside, and stay where they are."""
    spreads: Mapping[str, Spread]
    """Where the workers of all these jobs are now."""
    outside: Mapping[str, float]
    """By job of `passing`: the fraction by which its communication takes longer on the uplinks of other
    racks."""
    moves: int
    """The most workers that migrate."""


@dataclass(frozen=True)
class Solution:
    """The best places found."""

    spreads: Mapping[str, Spread]
    """The workers of each movable job by rack."""
    proven: bool
    """Whether there are no better ones."""


def solve(problem: Problem, node_limit: int) -> Solution | None:
    """The best places of the jobs of `problem`; None if the search found none within its limit.

    The search is limited by nodes and not by time, so that a problem always has the same solution.
    """
    return _Program(problem).solve(node_limit)


def _quiet() -> "highs.Highs":
    """A solver without any output."""
    # Imported when it is used: few commands need a solver.
    import highspy

    class Quiet(highspy.Highs):
        def __init__(self) -> None:
            highspy.Highs.__init__(self)

        # HiGHS 1.16 prints its name as soon as its constructor enables callbacks.
        def enableCallbacks(self) -> Any:  # noqa: N802 (its name)
            self.silent()
            return highspy.Highs.enableCallbacks(self)

    return Quiet()


class _Program:
    """Variables by job and rack: whole numbers of workers, and whether all or some of a job are there."""

    def __init__(self, problem: Problem) -> None:
        import highspy

        self._optimal = highspy.HighsModelStatus.kOptimal
        self._feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        self._model = _quiet()
        self._problem = problem
        every = (*problem.movable, *problem.passing)
        # Tolerances of the solver are absolute, so the objective is in units of the largest stake.
        self._unit_gpu_s = max((job.stake_gpu_s for job in every), default=0.0) or 1.0
        self._most = {rack: each.lengthening(each.load(every)) for rack, each in problem.racks.items()}
        self._longer = {rack: self._model.addVariable(0, most) for rack, most in self._most.items()}
        self._workers: dict[str, dict[int, highs.highs_var]] = {}
        self._crossing: dict[str, dict[int, highs.highs_var]] = {}
        self._migrated: list[highs.highs_var] = []
        for job in problem.movable:
            self._place(job)
            if job.peak_bps and job.workers > 1:
                self._cross(job)
        for job in problem.passing:
            self._pass(job)
        for rack in problem.racks:
            self._limit(rack)
        self._model.addConstr(self._model.qsum(self._migrated) <= problem.moves)

    def solve(self, node_limit: int) -> Solution | None:
        for option, value in (
            ("threads", 1),
            ("random_seed", 0),
            ("mip_max_nodes", node_limit),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", _WORKER / 10),
        ):
            self._model.setOptionValue(option, value)
        self._model.run()
        if self._model.getInfo().primal_solution_status != self._feasible:
            return None
        spreads = {}
        for name, counts in self._workers.items():
            found = {rack: round(self._model.val(count)) for rack, count in counts.items()}
            spreads[name] = {rack: count for rack, count in found.items() if count}
        return Solution(spreads, self._model.getModelStatus() == self._optimal)

    def _place(self, job: RingJob) -> None:
        """The workers of a job, and those that move."""
        model, now = self._model, self._problem.spreads[job.name]
        self._workers[job.name] = counts = {
            rack: model.addIntegral(0, min(job.workers, capacity))
            for rack, capacity in self._problem.capacity.items()
        }
        model.addConstr(model.qsum(counts.values()) == job.workers)
        moves = model.addBinary(job.price_gpu_s / self._unit_gpu_s)
        for rack, count in counts.items():
            most = min(job.workers, self._problem.capacity[rack]) - now.get(rack, 0)
            arriving = model.addVariable(0, max(0, most), _WORKER)
            model.addConstr(arriving >= count - now.get(rack, 0))
            model.addConstr(arriving <= max(0, most) * moves)
            if job.running:
                self._migrated.append(arriving)

    def _cross(self, job: RingJob) -> None:
        """In which racks a job has some of its workers but not all, and what it loses on their uplinks."""
        model = self._model
        loss = model.addVariable(0, obj=job.stake_gpu_s / self._unit_gpu_s)
        self._crossing[job.name] = {rack: model.addBinary() for rack in self._problem.racks}
        whole = {
            rack: model.addBinary() for rack, most in self._problem.capacity.items() if most >= job.workers
        }
        in_one = model.qsum(whole.values())
        model.addConstr(in_one <= 1)
        for rack, crosses in self._crossing[job.name].items():
            count = self._workers[job.name][rack]
            # All of its workers where it is whole, and else less than all where it crosses.
            all_here = job.workers * whole[rack] if rack in whole else 0.0
            model.addConstr(count >= all_here)
            model.addConstr(count <= all_here + (job.workers - 1) * crosses)
            model.addConstr(crosses + in_one <= 1)
            model.addConstr(loss >= self._longer[rack] - self._most[rack] * (1 - crosses))
        # Implied for whole numbers, and tightens the relaxation.
        model.addConstr(model.qsum(self._crossing[job.name].values()) >= 2 * (1 - in_one))

    def _pass(self, job: RingJob) -> None:
        """What a job that stays loses on the uplinks of these racks."""
        here = self._problem.spreads[job.name].keys() & self._problem.racks.keys()
        loss = self._model.addVariable(
            self._problem.outside[job.name], obj=job.stake_gpu_s / self._unit_gpu_s
        )
        for rack in sorted(here):
            self._model.addConstr(loss >= self._longer[rack])

    def _limit(self, rack: int) -> None:
        """The GPUs of a rack, and how much longer communication takes on its uplinks."""
        model, uplinks, problem = self._model, self._problem.racks[rack], self._problem
        counts = [counts[rack] for counts in self._workers.values()]
        model.addConstr(model.qsum(counts) <= problem.capacity[rack])
        fixed = uplinks.load(job for job in problem.passing if rack in problem.spreads[job.name])
        moving = model.qsum(
            uplinks.load([job]) * self._crossing[job.name][rack]
            for job in problem.movable
            if job.name in self._crossing
        )
        model.addConstr(uplinks.cables * self._longer[rack] >= moving + (fixed - uplinks.free))
