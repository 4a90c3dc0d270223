"""The correction of GPU intensity for the length of iterations and for overlap (Crux, SIGCOMM'24 §4.2).

Two jobs of one intensity need not lose as much GPU time behind each other: a short iteration waits more
often, and communication that finds gaps in that of the other job loses nothing. The paper corrects an
intensity I by a factor k, which compares the job with a reference job, and ranks by k × I.

Hocket: the factor follows from playing both orders of the two jobs on one link, on the flow engine. It is the
ratio of the GPU time that each loses behind the other, in relation to the ratio of their intensities, so that
k × I ranks by what a priority is worth. The reference job is the one with the most traffic.
"""

from collections.abc import Sequence

from hocket import _hocket
from hocket.engines.specs import native_profile
from hocket.profiles import PS_PER_S
from hocket.schedulers.crux.intensity import Communication

_ITERATIONS = 20
"""The fewest iterations of each of two jobs."""
_PATIENCE = 20
"""A job that takes this many times as long as on an idle network counts as standing still."""
_MOST = 16.0
"""A factor is within 1/16 and 16: a job that loses nothing at all would otherwise rank below any other."""

_Key = tuple[object, ...]


class Corrections:
    """Correction factors. Losses are kept, as most jobs of a cluster train a few models."""

    def __init__(self) -> None:
        self._losses: dict[_Key, float] = {}

    def of(self, jobs: Sequence[Communication]) -> dict[str, float]:
        """The factor of each job; 1 for the reference job, and for jobs that fit beside it."""
        if not jobs:
            return {}
        reference = max(jobs, key=lambda each: each.flows * each.profile.size_bytes)
        return {each.name: self._factor(each, reference) for each in jobs}

    def _factor(self, job: Communication, reference: Communication) -> float:
        if job is reference:
            return 1.0
        own, others = self._loss(job, reference), self._loss(reference, job)
        if own == others == 0:
            return 1.0
        if others == 0:
            return _MOST
        factor = (own / others) / (job.intensity / reference.intensity)
        return min(_MOST, max(1 / _MOST, factor))

    def _loss(self, job: Communication, first: Communication) -> float:
        """GPU-seconds per second that `job` loses behind `first`, on a link like the slower bottleneck."""
        key = (*_key(job), *_key(first))
        if key not in self._losses:
            alone_s = _iteration_s(job, None)
            behind_s = _iteration_s(job, first)
            self._losses[key] = job.gpu_s * (1 / alone_s - 1 / behind_s)
        return self._losses[key]


def _key(job: Communication) -> _Key:
    return len(job.gpus), job.profile.period_ps, job.profile.phases, job.flows, job.rate_bps


def _iteration_s(job: Communication, first: Communication | None) -> float:
    """The mean iteration of `job` on a link that serves `first` before it; infinite if it stands still."""
    rate_bps = min(job.rate_bps, first.rate_bps) if first else job.rate_bps
    run = _hocket.ClusterRun(
        _hocket.Fabric.one_link(rate_bps),
        {"seed": 1, "priority_queues": 2, "goodput": [], "merge": 0.0, "marks": None},
    )
    longest_ps = max(each.profile.period_ps for each in (first, job) if each)
    iterations = -(-_ITERATIONS * longest_ps // job.profile.period_ps)
    until_ps = _PATIENCE * iterations * job.profile.period_ps
    for priority, each in enumerate([each for each in (first, job) if each]):
        most = 2 + until_ps // each.profile.period_ps
        run.start(
            run.add(each.name),
            {
                "profile": native_profile(each.profile),
                "crossings": [(0, each.flows)],
                "inputs": [],
                "at_ps": 0,
                # The first job lasts as long as the other one.
                "iterations": iterations if each is job else most,
                "share": ("fair", 1.0),
                "priority": priority,
                "jitter": 0.0,
            },
        )
    return run.now_ps / PS_PER_S / iterations if run.advance(until_ps) else float("inf")
