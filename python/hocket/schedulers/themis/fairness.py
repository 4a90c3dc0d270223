"""Finish-time fairness ρ (Themis, NSDI'20): the finish time of a job in the shared cluster, relative to that
on its own share of it. Slowdowns by locality are here too; GPUs are allocated by the auction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from hocket.schedulers.state import ClusterJob, JobState, Span, State
from hocket.schedulers.themis.options import ThemisOptions

_RESNETS = (1.0, 0.98, 0.96)

PUBLISHED_SLOWDOWN: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "VGG11": (1.0, 0.75, 0.56),
        "VGG16": (1.0, 0.72, 0.52),
        "VGG19": (1.0, 0.70, 0.50),
        "ResNet50": _RESNETS,
        # Hocket: not published; WideResNet101 is ResNet101 with wider blocks.
        "WideResNet101": _RESNETS,
    }
)
"""S by `Span` (NSDI'20), as far as published: throughput relative to as many GPUs in one server."""


WITHOUT_GPUS = 1_000
"""Factor on ρ for a job without GPUs: its T_sh is unbounded, but valuations 1 ÷ ρ need a number. Hocket:
large enough that an auction serves as many jobs as it can before it gives any of them more, as is the
convention of Nash welfare for valuations of zero (Caragiannis et al., EC'16)."""


def speedup(job: ClusterJob, workers: int, span: Span, slowdown: Literal["published", "profile"]) -> float:
    """G × S(G): the speed-up of `job` on `workers` GPUs at `span` over serial execution.

    For a job that cannot run on one GPU, serial means its smallest number of workers. With `profile`, and for
    models without a published slowdown, the speed-up is the ratio of samples per second in the job's own
    profiles on an idle network; these are the same at every span, as no link of a fabric has less capacity
    than a single job demands.
    """
    if workers == 1:
        return 1.0
    published = PUBLISHED_SLOWDOWN.get(job.definition.name) if slowdown == "published" else None
    if published is not None:
        return workers * published[span]
    return workers * job.profile(job.sizes[0]).period_ps / job.profile(workers).period_ps


class Speedups:
    """The speed-ups of a job, which never change, each computed once."""

    def __init__(self, job: ClusterJob, slowdown: Literal["published", "profile"]) -> None:
        """`slowdown` as in `speedup`."""
        self._job = job
        self._slowdown = slowdown
        self._known: dict[tuple[int, Span], float] = {}
        self._table = np.empty((0, len(Span)))

    def at(self, workers: int, span: Span) -> float:
        """`speedup` on `workers` at `span`."""
        key = workers, span
        if key not in self._known:
            self._known[key] = speedup(self._job, workers, span, self._slowdown)
        return self._known[key]

    def table(self, sizes: int) -> npt.NDArray[np.float64]:
        """For the first `sizes` of the job's sizes: by size, then by span."""
        if len(self._table) < sizes:
            self._table = np.array(
                [[self.at(size, span) for span in Span] for size in self._job.sizes[:sizes]]
            )
        return self._table[:sizes]


class Competition:
    """N_avg of every job: the average number of jobs in the cluster since it arrived."""

    def __init__(self) -> None:
        self._now_ps = 0
        self._present = 0
        self._job_ps = 0
        self._joined: dict[str, tuple[int, int]] = {}

    def observe(self, state: State) -> None:
        """Record the jobs present from now on. Must be called at every change, in order of time."""
        self._job_ps += self._present * (state.now_ps - self._now_ps)
        self._now_ps, self._present = state.now_ps, len(state.jobs)
        now = (self._now_ps, self._job_ps)
        self._joined = {each.job.name: self._joined.get(each.job.name, now) for each in state.jobs}

    def average(self, name: str) -> float:
        """N_avg of a present job; for one that has just arrived, the current number of jobs."""
        joined_ps, job_ps = self._joined[name]
        if joined_ps == self._now_ps:
            return float(self._present)
        return (self._job_ps - job_ps) / (self._now_ps - joined_ps)


@dataclass(frozen=True)
class FinishTime:
    """Estimates ρ of a job at a given time for any GPUs that it might get."""

    state: JobState
    now_ps: int
    cluster_gpus: int
    competing: float
    """N_avg, or 1 if T_id does not count it."""
    options: ThemisOptions
    speedups: Speedups

    def rho(self, workers: int, span: Span, in_place: bool = False) -> float:
        """ρ = T_sh ÷ T_id on `workers` GPUs at `span`; `in_place` means that the job need not restart.

        T_sh = now − arrival + serial time of the remaining work ÷ (G × S(G)) + restart cost. Without GPUs, ρ
        is `WITHOUT_GPUS` times that on the fewest GPUs that the job runs on, at the widest span.
        """
        if workers == 0:
            return WITHOUT_GPUS * self.rho(self.state.job.sizes[0], Span.RACKS)
        return (
            self._overhead_ps(in_place) + self._left_ps / self.speedups.at(workers, span)
        ) / self._ideal_ps

    def rhos(self, sizes: int) -> npt.NDArray[np.float64]:
        """`rho` for the first `sizes` of the job's sizes, on other GPUs than now: by size, then by span."""
        speedups = self.speedups.table(sizes)
        return (self._overhead_ps(in_place=False) + self._left_ps / speedups) / self._ideal_ps

    def widest(self, workers: int, span: Span) -> Span:
        """The widest span at which ρ is as good on `workers` GPUs as at `span`."""
        rho = self.rho(workers, span)
        return max(each for each in Span if self.rho(workers, each) <= rho)

    def _overhead_ps(self, in_place: bool) -> int:
        # Hocket: without this cost, jobs that last minutes would restart for every GPU that becomes free.
        restarts = self.state.first_start_ps is not None and not in_place
        elapsed_ps = self.now_ps - self.state.job.arrival_ps
        return elapsed_ps + (self.options.restart_cost_ps if restarts else 0)

    @cached_property
    def _ideal_ps(self) -> float:
        parallelism = min(self.cluster_gpus, self.state.job.sizes[-1])
        return self._serial_ps(self.state.job.samples) / parallelism * self.competing

    @cached_property
    def _left_ps(self) -> float:
        return self._serial_ps(self.state.samples_left)

    def _serial_ps(self, samples: int) -> float:
        # Not divided by the fewest workers: G × S(G) contains the number of workers.
        job = self.state.job
        return samples * job.profile(job.sizes[0]).period_ps / job.batch_size
