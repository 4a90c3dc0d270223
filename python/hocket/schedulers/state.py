"""What a scheduler sees and what it answers: a cluster, the jobs in it, and candidate placements.

A scheduler is any class with `schedule`. It is asked when a job arrives or leaves and when it asked to be; it
answers with complete placements that it holds equally good, its own choice first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

from hocket.profiles import WorkloadProfile
from hocket.workloads import Model, find_model

Gpus = tuple[int, ...]
"""GPUs by number, ascending; none for a job that waits."""


class Span(IntEnum):
    """How far apart the workers of a job are; of several distances the widest."""

    SERVER = 0
    RACK = 1
    RACKS = 2


@dataclass(frozen=True)
class Cluster:
    """GPUs, the servers that they are in, and the racks that those are in; all are numbered from 0."""

    gpus: tuple[str, ...]
    """The name of each."""
    hosts: tuple[str, ...]
    """By GPU: the host of the fabric whose NIC it sends through. GPUs may share one."""
    server_of: tuple[int, ...]
    """By GPU, ascending."""
    rack_of: tuple[int, ...]
    """By server: servers of a rack are below one switch."""

    @cached_property
    def gpus_of(self) -> tuple[Gpus, ...]:
        """By server."""
        found: list[list[int]] = [[] for _ in self.rack_of]
        for gpu, server in enumerate(self.server_of):
            found[server].append(gpu)
        return tuple(tuple(gpus) for gpus in found)

    def rack(self, gpu: int) -> int:
        """The rack that a GPU is in."""
        return self.rack_of[self.server_of[gpu]]

    def span(self, gpus: Sequence[int]) -> Span:
        """How far apart `gpus` are.

        >>> cluster = Cluster(("a", "b", "c"), ("a", "b", "c"), (0, 1, 2), (0, 0, 1))
        >>> cluster.span([0]).name, cluster.span([0, 1]).name, cluster.span([0, 2]).name
        ('SERVER', 'RACK', 'RACKS')
        """
        if len({self.server_of[gpu] for gpu in gpus}) <= 1:
            return Span.SERVER
        return Span.RACK if len({self.rack(gpu) for gpu in gpus}) == 1 else Span.RACKS


@dataclass(frozen=True)
class ClusterJob:
    """What does not change about a job while it is in the cluster."""

    name: str
    model: str
    """Of the catalogue, or of the trace's own `[[models]]`."""
    batch_size: int
    """Per GPU, as submitted."""
    strategy: str | None
    arrival_ps: int
    requested: int
    """Workers that it was submitted with."""
    sizes: tuple[int, ...]
    """Numbers of workers that it can run on, ascending; the last is its maximum parallelism."""
    samples: int
    """Its work: an iteration on n workers with b samples each does n × b."""
    trained: Model | None = field(default=None, repr=False, compare=False)
    """The model itself, with the cluster's NICs; of the catalogue as it was measured if not given."""

    @cached_property
    def definition(self) -> Model:
        """The model that it trains."""
        return self.trained or find_model(self.model)

    def profile(self, workers: int, batch_size: int | None = None) -> WorkloadProfile:
        """One iteration on an idle network."""
        key = (workers, batch_size or self.batch_size)
        if key not in self._profiles:
            self._profiles[key] = self.definition.profile(key[1], workers, self.strategy)
        return self._profiles[key]

    def iterations(self, samples: int, workers: int, batch_size: int | None = None) -> int:
        """How many iterations it takes to do `samples`, the last one perhaps not full."""
        return -(-samples // (workers * (batch_size or self.batch_size)))

    @cached_property
    def _profiles(self) -> dict[tuple[int, int], WorkloadProfile]:
        return {}


@dataclass(frozen=True)
class JobState:
    """A job that has arrived and is not done."""

    job: ClusterJob
    samples_done: int
    gpus: Gpus
    """Where it runs, or is about to; none while it waits."""
    batch_size: int
    """Per GPU, now."""
    first_start_ps: int | None
    """When it first got GPUs, if it did."""
    gpu_ps: int
    """GPUs × time that it has had so far, in picoseconds."""
    restarts: int
    """How often it was moved, grown or shrunk."""

    @property
    def samples_left(self) -> int:
        """Work still to do."""
        return self.job.samples - self.samples_done


@dataclass(frozen=True)
class State:
    """The cluster at a time."""

    now_ps: int
    cluster: Cluster
    jobs: tuple[JobState, ...]
    """In order of arrival."""
    given_ps: tuple[int, ...]
    """By GPU: when it was given to the job that has it; 0 for a free one."""

    @property
    def free(self) -> Gpus:
        """GPUs that no job has."""
        taken = {gpu for state in self.jobs for gpu in state.gpus}
        return tuple(gpu for gpu in range(len(self.cluster.gpus)) if gpu not in taken)


@dataclass(frozen=True)
class Candidate:
    """One placement of all jobs."""

    placement: Mapping[str, Gpus]
    """By job; one that is not in it, or has no GPUs, waits."""
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """Per GPU, of jobs whose batch size changes."""


@dataclass(frozen=True)
class Decision:
    """What a scheduler answers."""

    candidates: Sequence[Candidate]
    """At least one, all equally good to the scheduler; its own choice comes first."""
    ask_again_ps: int | None = None
    """When it wants to be asked next, should no job arrive or leave before."""
    why: Mapping[str, Any] = field(default_factory=dict)
    """What led to it, for the table of decisions: anything that JSON holds."""


class Scheduler(Protocol):
    """A policy. Whatever it keeps between calls is its own."""

    def schedule(self, state: State, candidates: int) -> Decision:
        """Where jobs should run from now on, in up to `candidates` equally good ways."""
