"""Jobs as the planner sees them: what they send, and what is at stake for them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hocket.profiles import PS_PER_S, WorkloadProfile
from hocket.schedulers.state import Candidate, Cluster, Gpus, State

Spread = Mapping[int, int]
"""The number of workers of a job by rack, without racks in which it has none."""


def spread_of(cluster: Cluster, gpus: Gpus) -> Spread:
    """The number of `gpus` by rack."""
    return Counter(cluster.rack(gpu) for gpu in gpus)


@dataclass(frozen=True)
class RingJob:
    """A job as the planner sees it."""

    name: str
    workers: int
    peak_bps: int
    """The highest rate of its flow; 0 if it sends nothing."""
    stake_gpu_s: float
    """The GPU time that it would lose, until it is done, if its communication took twice as long whenever
    others may send as well."""
    price_gpu_s: float
    """The GPU time that migrating any of its workers costs; 0 for a job that is not running yet."""
    running: bool
    """Whether a moved worker is a migration, which counts towards the limit."""


def ring_jobs(state: State, candidate: Candidate, migration_ps: int) -> Iterator[RingJob]:
    """The jobs that `candidate` places, in order of arrival; `state` is the cluster before that."""
    placed = [(each, tuple(gpus)) for each in state.jobs if (gpus := candidate.placement.get(each.job.name))]
    sizes = {each.job.name: candidate.batch_sizes.get(each.job.name, each.batch_size) for each, _ in placed}
    profiles = {each.job.name: each.job.profile(len(gpus), sizes[each.job.name]) for each, gpus in placed}
    duties = {name: _duty(profile) for name, profile in profiles.items()}
    sending = [duty for duty in duties.values() if duty]
    # The chance that another job sends at the same time.
    others = sum(sending) / len(sending) if sending else 0.0
    for each, gpus in placed:
        name = each.job.name
        iterations = each.job.iterations(each.samples_left, len(gpus), sizes[name])
        left_gpu_s = len(gpus) * iterations * profiles[name].period_ps / PS_PER_S
        running = gpus == each.gpus
        yield RingJob(
            name=name,
            workers=len(gpus),
            peak_bps=max((phase.rate_bps for phase in profiles[name].phases), default=0),
            stake_gpu_s=left_gpu_s * duties[name] * others,
            price_gpu_s=len(gpus) * migration_ps / PS_PER_S if running else 0.0,
            running=running,
        )


def _duty(profile: WorkloadProfile) -> float:
    """The share of an iteration during which a job sends."""
    return sum(phase.duration_ps for phase in profile.phases) / profile.period_ps
