"""Finish-time fairness ρ (Themis, NSDI'20): how much later a job ends than in a cluster of its own share.

The slowdown by locality is here too; which GPUs a job gets is the auction's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from hocket.schedulers.state import ClusterJob, JobState, Span, State
from hocket.schedulers.themis.options import ThemisOptions

_RESNETS = (1.0, 0.98, 0.96)

PUBLISHED_SLOWDOWN: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "VGG11": (1.0, 0.75, 0.56),
        "VGG16": (1.0, 0.72, 0.52),
        "VGG19": (1.0, 0.70, 0.50),
        "ResNet50": _RESNETS,
        # Hocket: not published itself; it is ResNet101 with wider blocks.
        "WideResNet101": _RESNETS,
    }
)
"""S by `Span` (NSDI'20): throughput relative to as many GPUs in one server. Others are not published."""


WITHOUT_GPUS = 1_000
"""Without GPUs T_sh has no bound, and valuations 1 ÷ ρ need a number. Hocket: one so large that an auction
serves as many jobs as it can before it gives any of them more, the convention of Nash welfare for valuations
of zero (Caragiannis et al., EC'16)."""


def speedup(job: ClusterJob, workers: int, span: Span, slowdown: Literal["published", "profile"]) -> float:
    """G × S(G): how much faster `job` is on `workers` GPUs at `span` than serially.

    A job whose `sizes` do not begin with one GPU counts as serial on its smallest number of workers. With
    `profile`, and for models without a published slowdown, it is the ratio of samples per second in the job's
    own profiles on an idle network; these are the same at every span, as no link of a fabric is slower than
    what one job alone asks for.
    """
    if workers == 1:
        return 1.0
    published = PUBLISHED_SLOWDOWN.get(job.definition.name) if slowdown == "published" else None
    if published is not None:
        return workers * published[span]
    return workers * job.profile(job.sizes[0]).period_ps / job.profile(workers).period_ps


class Competition:
    """N_avg of every job: how many jobs were in the cluster on average since it arrived."""

    def __init__(self) -> None:
        self._now_ps = 0
        self._present = 0
        self._job_ps = 0
        self._joined: dict[str, tuple[int, int]] = {}

    def observe(self, state: State) -> None:
        """Notes which jobs are there from now on. To be called whenever that changes, in order of time."""
        self._job_ps += self._present * (state.now_ps - self._now_ps)
        self._now_ps, self._present = state.now_ps, len(state.jobs)
        now = (self._now_ps, self._job_ps)
        self._joined = {each.job.name: self._joined.get(each.job.name, now) for each in state.jobs}

    def average(self, name: str) -> float:
        """N_avg of a job that is there; for one that just arrived, how many there are now."""
        joined_ps, job_ps = self._joined[name]
        if joined_ps == self._now_ps:
            return float(self._present)
        return (self._job_ps - job_ps) / (self._now_ps - joined_ps)


@dataclass(frozen=True)
class FinishTime:
    """One job at one time, ready to say ρ for any GPUs that it might get."""

    state: JobState
    now_ps: int
    cluster_gpus: int
    competing: float
    """N_avg, or 1 for T_id without it."""
    options: ThemisOptions

    def rho(self, workers: int, span: Span, in_place: bool = False) -> float:
        """ρ = T_sh ÷ T_id on `workers` GPUs at `span`; `in_place` where the job need not restart for them.

        T_sh = now − arrival + serial time of the work left ÷ (G × S(G)), and the restart. Without GPUs, it is
        `WITHOUT_GPUS` times what it is on the fewest that the job runs on, at the widest span.
        """
        if workers == 0:
            return WITHOUT_GPUS * self.rho(self.state.job.sizes[0], Span.RACKS)
        restarts = self.state.first_start_ps is not None and not in_place
        overhead_ps = self._elapsed_ps + (self.options.restart_cost_ps if restarts else 0)
        speed = speedup(self.state.job, workers, span, self.options.slowdown)
        return (overhead_ps + self._left_ps / speed) / self._ideal_ps

    def widest(self, workers: int, span: Span) -> Span:
        """The widest span at which ρ is as good on `workers` GPUs as at `span`."""
        rho = self.rho(workers, span)
        return max(each for each in Span if self.rho(workers, each) <= rho)

    @property
    def _elapsed_ps(self) -> int:
        return self.now_ps - self.state.job.arrival_ps

    @cached_property
    def _ideal_ps(self) -> float:
        parallelism = min(self.cluster_gpus, self.state.job.sizes[-1])
        return self._serial_ps(self.state.job.samples) / parallelism * self.competing

    @cached_property
    def _left_ps(self) -> float:
        return self._serial_ps(self.state.samples_left)

    def _serial_ps(self, samples: int) -> float:
        job = self.state.job
        return samples * job.profile(job.sizes[0]).period_ps / job.batch_size
