"""The length of slots, and the speed-up that they bring: both are predicted on the flow engine.

Slots as long as an iteration on an idle network are not stable where jobs still contend a little: each
iteration then ends too late for the next slot, and a late job can only be delayed further. So slots are as
long as the slowest job needs, and a little longer because compute times vary; early jobs wait.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from hocket import _hocket
from hocket.compat.verdict import Speedup
from hocket.engines.specs import native_profile
from hocket.schedulers.cassini.choice import Slot
from hocket.schedulers.cassini.components import Part
from hocket.schedulers.cassini.time_shifts import Circle

_STARTS = 8
"""Number of random relative starts of jobs without slots. Hocket: as for the reproduction of snapshots."""
_LAPS = (3, 12)
"""The fewest and the most iterations of the longest job for each start; in between, as many as fit into
`_ITERATIONS` iterations of the shortest job."""
_ITERATIONS = 500
_ATTEMPTS = 4
"""How often slots are lengthened before a component goes without. Each attempt takes the length that the one
before needed; longer slots leave less contention."""
_SLACKS = (0.5, 1.0, 2.0)
"""Slack in a slot for variable compute times, in multiples of their standard deviation. Hocket: the best one
depends on how much a late iteration delays others, so all are tried."""


@dataclass(frozen=True)
class IterationTime:
    """Duration of an iteration of a job, including the wait for its slot."""

    mean_ps: float
    p99_ps: float


def faster(free: IterationTime, slotted: IterationTime) -> Speedup:
    """The speed-up of a job's iterations in slots over those without.

    >>> str(faster(IterationTime(220.0, 240.0), IterationTime(200.0, 200.0)))
    'speed-up 1.10 on average, 1.20 at p99'
    """
    return Speedup(free.mean_ps / slotted.mean_ps, free.p99_ps / slotted.p99_ps)


@dataclass(frozen=True)
class Spacing:
    """Slots of the jobs of a part, in the order of its members."""

    periods_ps: tuple[int, ...]
    offsets_ps: tuple[int, ...]
    """Offset from the origin, less than the period."""
    free: tuple[IterationTime, ...]
    """Without slots, at random starts."""
    slotted: tuple[IterationTime, ...]
    """In slots."""

    @property
    def gain(self) -> float:
        """Iteration time without slots ÷ in slots, mean over jobs."""
        return self.speedup.mean

    @property
    def speedup(self) -> Speedup:
        """Iteration time without slots ÷ in slots, mean and p99, each averaged over jobs."""
        by_job = [faster(free, slotted) for free, slotted in zip(self.free, self.slotted, strict=True)]
        return Speedup(
            float(np.mean([each.mean for each in by_job])), float(np.mean([each.p99 for each in by_job]))
        )


@dataclass(frozen=True)
class Slots:
    """Offsets and lengths of the slots of a part's jobs."""

    offsets_ps: Sequence[int]
    periods_ps: Sequence[int]

    @property
    def by_place(self) -> dict[int, Slot]:
        """The slot of each job, by its place in the part."""
        slots = zip(self.offsets_ps, self.periods_ps, strict=True)
        return {place: Slot(offset_ps, period_ps) for place, (offset_ps, period_ps) in enumerate(slots)}

    def timed(self, free: Sequence[IterationTime], slotted: Sequence[IterationTime]) -> Spacing:
        return Spacing(tuple(self.periods_ps), tuple(self.offsets_ps), tuple(free), tuple(slotted))


class Prediction:
    """Predicts iteration times by running the jobs of one part on the flow engine."""

    def __init__(
        self,
        fabric: _hocket.Fabric,
        part: Part,
        *,
        goodput: Sequence[float] = (),
        jitter: float,
        adjust: bool,
        seed: int,
    ) -> None:
        """`goodput`, `jitter` and `adjust` as in the run that is predicted."""
        self._fabric = fabric
        self._part = part
        self._goodput = goodput
        self._jitter = jitter
        self._adjust = adjust
        self._seed = seed
        self._periods_ps = [member.profile.period_ps for member in part.members]
        self._known_free: dict[int, list[IterationTime]] = {}

    def spacing(self, circle: Circle) -> Spacing | None:
        """Stable slots for the time-shifts of `circle` with the highest gain; None if no slots are stable.

        The gain may be below 1: then the jobs are faster without slots.
        """
        perimeter_ps = self._lasting_perimeter_ps(circle)
        if perimeter_ps is None:
            return None
        free = self._free()
        tightest = laid_out(circle, perimeter_ps)
        # Jitter only reduces the gain, so this is an upper bound.
        shortest = [IterationTime(period_ps, period_ps) for period_ps in tightest.periods_ps]
        best = tightest.timed(free, shortest)
        if best.gain <= 1 or self._jitter == 0:
            return best
        options = []
        for slack in _SLACKS:
            slots = laid_out(circle, in_steps(circle, perimeter_ps * (1 + slack * self._jitter)))
            # As many iterations as all runs without slots together, so that both means are equally precise.
            until_ps = _STARTS * self._laps() * max(slots.periods_ps)
            rows = self._run(slots.by_place, slots.offsets_ps, until_ps, self._jitter)
            options.append(slots.timed(free, self._iteration_times([rows], until_ps)))
        return max(options, key=lambda option: option.gain)

    def _lasting_perimeter_ps(self, circle: Circle) -> int | None:
        """The shortest perimeter found at which all iterations end within their slots, if any is found."""
        perimeter_ps = circle.padded_perimeter_ps
        for _ in range(_ATTEMPTS):
            needed_ps = self._needed_perimeter_ps(circle, perimeter_ps)
            if needed_ps > perimeter_ps:
                perimeter_ps = needed_ps
                continue
            # The last attempt may be longer than its jobs needed.
            shorter_ps = max(needed_ps, circle.padded_perimeter_ps)
            lasts = self._needed_perimeter_ps(circle, shorter_ps) <= shorter_ps
            return shorter_ps if lasts else perimeter_ps
        return None

    def _needed_perimeter_ps(self, circle: Circle, perimeter_ps: int) -> int:
        """The perimeter at which slots are as long as the iterations in slots of `perimeter_ps`, without
        jitter.

        It is rounded up by `in_steps`.
        """
        slots = laid_out(circle, perimeter_ps)
        # The first turn begins on an idle network; iterations begun in the second end within the third.
        rows = self._run(slots.by_place, slots.offsets_ps, 3 * perimeter_ps, jitter=0.0)
        each_ps = -(-rows.duration_ps // rows.count)
        return in_steps(circle, int((each_ps * np.array(circle.rounds)[rows.job]).max(initial=0)))

    def gain(self, slots: Mapping[int, Slot], draw: int = 0) -> float:
        """Iteration time without slots ÷ with `slots`, mean over all jobs of the part.

        `slots` are by place in the part, and times relative to an origin; jobs without a slot run as they
        like, from a random start. Each `draw` has random starts and compute times of its own.
        """
        starts_ps = self._starts(draw)[0]
        for place, slot in slots.items():
            starts_ps[place] = slot.origin_ps
        longest_ps = max([*self._periods_ps, *(slot.period_ps for slot in slots.values())])
        until_ps = _STARTS * self._laps() * longest_ps
        slotted = self._run(slots, starts_ps, until_ps, self._jitter, draw)
        free = [free.mean_ps for free in self._free(draw)]
        return float(np.mean([each / slotted.mean_ps(place, until_ps) for place, each in enumerate(free)]))

    def _free(self, draw: int = 0) -> list[IterationTime]:
        """By place, iteration times without slots, over random relative starts."""
        until_ps = self._laps() * max(self._periods_ps)
        if draw not in self._known_free:
            runs = [self._run({}, each, until_ps, self._jitter, draw) for each in self._starts(draw)]
            self._known_free[draw] = self._iteration_times(runs, until_ps)
        return self._known_free[draw]

    def _starts(self, draw: int) -> list[list[int]]:
        """Random relative starts, each by place."""
        # Named after the jobs, so that they do not depend on other parts or on earlier decisions.
        draws = Random(" ".join([str(self._seed + draw), "starts of", *self._part.names]))
        return [[draws.randrange(period_ps) for period_ps in self._periods_ps] for _ in range(_STARTS)]

    def _laps(self) -> int:
        fewest, most = _LAPS
        return max(fewest, min(most, _ITERATIONS * min(self._periods_ps) // max(self._periods_ps)))

    def _iteration_times(self, runs: Sequence["_Rows"], until_ps: int) -> list[IterationTime]:
        """By place, the mean over runs of the mean iteration, and the 99th percentile over all iterations."""
        return [
            IterationTime(
                mean_ps=float(np.mean([rows.mean_ps(place, until_ps) for rows in runs])),
                p99_ps=_p99_ps(np.concatenate([rows.each_ps(place, until_ps) for rows in runs])),
            )
            for place in range(len(self._periods_ps))
        ]

    def _run(
        self,
        slots: Mapping[int, Slot],
        starts_ps: Sequence[int],
        until_ps: int,
        jitter: float,
        draw: int = 0,
    ) -> "_Rows":
        """The iterations that end by `until_ps` after the first start; `slots` are by place."""
        run = _hocket.ClusterRun(
            self._fabric,
            {
                "seed": self._seed + draw,
                "priority_queues": 1,
                "goodput": self._goodput,
                "merge": 0.0,
                "marks": None,
            },
        )
        for place, member in enumerate(self._part.members):
            job = run.add(member.name)
            run.start(
                job,
                {
                    "profile": native_profile(member.profile),
                    "crossings": member.crossings,
                    # Only the model of ECN marks needs them.
                    "inputs": [],
                    "at_ps": starts_ps[place],
                    # More than can fit, whatever jitter is drawn.
                    "iterations": 2 + 2 * until_ps // member.profile.period_ps,
                    "share": ("fair", 1.0),
                    "priority": 0,
                    "jitter": jitter,
                },
            )
            if place in slots:
                run.align(job, slots[place].origin_ps, slots[place].period_ps, self._adjust)
        run.advance(until_ps)
        return _Rows.of(run.take_tables()["iterations"])


@dataclass(frozen=True)
class _Rows:
    """Rows of equal iterations: job, number, total duration and total wait."""

    job: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    duration_ps: npt.NDArray[np.int64]
    delayed_ps: npt.NDArray[np.int64]

    @staticmethod
    def of(columns: "dict[str, _hocket._Column]") -> "_Rows":
        names = ("job", "count", "duration_ps", "delayed_ps")
        given = (columns[name] for name in names)
        return _Rows(*(np.frombuffer(each["buffer"], each["dtype"]).astype(np.int64) for each in given))

    def mean_ps(self, job: int, until_ps: int) -> float:
        """The mean iteration of a job including the wait before it; `until_ps` if it finished none."""
        of_job = self.job == job
        count = int(self.count[of_job].sum())
        total_ps = (self.duration_ps + self.delayed_ps)[of_job].sum()
        return float(total_ps / count) if count else float(until_ps)

    def each_ps(self, job: int, until_ps: int) -> npt.NDArray[np.float64]:
        """Each iteration of a job including the wait before it; a single `until_ps` if it finished none."""
        of_job = self.job == job
        count = self.count[of_job]
        if not count.sum():
            return np.array([until_ps], dtype=np.float64)
        return np.repeat((self.duration_ps + self.delayed_ps)[of_job] / count, count)


def _p99_ps(each_ps: npt.NDArray[np.float64]) -> float:
    return float(np.quantile(each_ps, 0.99, method="nearest"))


def in_steps(circle: Circle, perimeter_ps: float) -> int:
    """The smallest perimeter from `perimeter_ps` on that all jobs divide into whole picoseconds."""
    # Lengths of slots are whole picoseconds; with rounded ones, jobs would drift out of step turn by turn.
    step = math.lcm(*circle.rounds)
    return -(-math.ceil(perimeter_ps) // step) * step


def laid_out(circle: Circle, perimeter_ps: int) -> Slots:
    """Slots on a perimeter of another length, with the jobs at the angles of `circle`."""
    return Slots(
        offsets_ps=[shift_ps * perimeter_ps // circle.perimeter_ps for shift_ps in circle.shifts_ps],
        periods_ps=[perimeter_ps // rounds for rounds in circle.rounds],
    )
