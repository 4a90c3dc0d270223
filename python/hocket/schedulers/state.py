"""The interface of schedulers: the state that they see, and the decisions that they return.

A scheduler is any class with a method `schedule`. It is called when a job arrives or leaves, and at times
that it requested. It returns complete placements that it considers equivalent, its own choice first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

from hocket import _hocket
from hocket.profiles import WorkloadProfile
from hocket.workloads import Model, find_model

Gpus = tuple[int, ...]
"""GPUs by number, ascending; empty for a waiting job."""


class Span(IntEnum):
    """The smallest unit that contains all workers of a job."""

    SERVER = 0
    RACK = 1
    RACKS = 2


@dataclass(frozen=True)
class Cluster:
    """GPUs, their servers and their racks, each numbered from 0."""

    gpus: tuple[str, ...]
    """The names of the GPUs."""
    hosts: tuple[str, ...]
    """By GPU: the host of the fabric whose NIC it sends through. GPUs may share a host."""
    server_of: tuple[int, ...]
    """By GPU: its server, ascending."""
    rack_of: tuple[int, ...]
    """By server: its rack. Servers of a rack are below one switch."""

    @cached_property
    def gpus_of(self) -> tuple[Gpus, ...]:
        """The GPUs of each server."""
        by_server: list[list[int]] = [[] for _ in self.rack_of]
        for gpu, server in enumerate(self.server_of):
            by_server[server].append(gpu)
        return tuple(tuple(gpus) for gpus in by_server)

    @cached_property
    def regions(self) -> _hocket.Regions:
        """Its servers, its racks and the whole, as auctions and compact places take them."""
        return _hocket.Regions(self.server_of, self.rack_of)

    def rack(self, gpu: int) -> int:
        """The rack of a GPU."""
        return self.rack_of[self.server_of[gpu]]

    def span(self, gpus: Sequence[int]) -> Span:
        """The span of `gpus`.

        >>> cluster = Cluster(("a", "b", "c"), ("a", "b", "c"), (0, 1, 2), (0, 0, 1))
        >>> cluster.span([0]).name, cluster.span([0, 1]).name, cluster.span([0, 2]).name
        ('SERVER', 'RACK', 'RACKS')
        """
        servers = set(map(self.server_of.__getitem__, gpus))
        if len(servers) <= 1:
            return Span.SERVER
        return Span.RACK if len(set(map(self.rack_of.__getitem__, servers))) == 1 else Span.RACKS


@dataclass(frozen=True)
class ClusterJob:
    """The properties of a job that do not change while it is in the cluster."""

    name: str
    model: str
    """The name of its model, in the catalogue or in the trace's own `[[models]]`."""
    batch_size: int
    """Per GPU, as submitted."""
    strategy: str | None
    arrival_ps: int
    requested: int
    """Workers that it was submitted with."""
    sizes: tuple[int, ...]
    """Numbers of workers that it can run on, ascending; the last is its maximum parallelism."""
    samples: int
    """Its work: an iteration on n workers with b samples each processes n × b samples."""
    trained: Model | None = field(default=None, repr=False, compare=False)
    """The model itself, for the cluster's NICs; by default the catalogue's, as measured."""

    @cached_property
    def definition(self) -> Model:
        """The model that it trains."""
        return self.trained or find_model(self.model)

    def profile(self, workers: int, batch_size: int | None = None) -> WorkloadProfile:
        """One iteration on an idle network, with the submitted batch size if none is given."""
        return self.definition.profile(batch_size or self.batch_size, workers, self.strategy)

    def iterations(self, samples: int, workers: int, batch_size: int | None = None) -> int:
        """The number of iterations for `samples`, rounded up: the last one may process fewer samples."""
        return -(-samples // (workers * (batch_size or self.batch_size)))


@dataclass(frozen=True)
class JobState:
    """A job that has arrived and is not done."""

    job: ClusterJob
    samples_done: int
    gpus: Gpus
    """The GPUs that it runs on, or is about to run on; empty while it waits."""
    batch_size: int
    """Per GPU, at present."""
    first_start_ps: int | None
    """When it first got GPUs; None if it never had any."""
    gpu_ps: int
    """GPU time so far, in GPU-picoseconds."""
    restarts: int
    """The number of times that it was moved, grown or shrunk."""

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
    """By GPU: when it was allocated to its job; 0 for a free GPU."""

    @property
    def free(self) -> Gpus:
        """GPUs that no job has."""
        taken = {gpu for state in self.jobs for gpu in state.gpus}
        return tuple(gpu for gpu in range(len(self.cluster.gpus)) if gpu not in taken)


@dataclass(frozen=True)
class Candidate:
    """One placement of all jobs."""

    placement: Mapping[str, Gpus]
    """The GPUs of each job; a job that is missing, or has no GPUs, waits."""
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """Batch sizes per GPU of jobs whose batch size changes."""


@dataclass(frozen=True)
class Decision:
    """The decision of a scheduler."""

    candidates: Sequence[Candidate]
    """At least one; the scheduler considers all of them equivalent, and its own choice comes first."""
    ask_again_ps: int | None = None
    """When to call the scheduler again if no job arrives or leaves before; None for no further call."""
    why: Mapping[str, Any] = field(default_factory=dict)
    """Notes on the reasons, for the table of decisions: any value that JSON can represent."""


class Scheduler(Protocol):
    """A policy. It may keep its own state between calls."""

    def schedule(self, state: State, candidates: int) -> Decision:
        """The placement of jobs from now on, as up to `candidates` equivalent candidates."""
