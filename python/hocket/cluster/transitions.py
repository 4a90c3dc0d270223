"""Moves jobs from one placement to the next: a job leaves its GPUs at the end of an iteration, and starts on
others once these are free and the start cost has passed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from hocket import _hocket
from hocket.engines.network import Crossings
from hocket.engines.specs import native_profile
from hocket.schedulers import Candidate, Cluster, ClusterJob, Gpus, JobState, State
from hocket.schedulers.cassini import Slot
from hocket.schedulers.crux import Traffic
from hocket.schedulers.job_routes import Routes


@dataclass(frozen=True)
class Costs:
    """The time that starting a job takes, and the variation of its compute times."""

    start_ps: int
    """From receiving its first GPUs to its first iteration."""
    restart_ps: int
    """From receiving other GPUs to the next iteration."""
    migration_ps: int
    """The same, for a job of which MonkeyTree moves workers while it runs."""
    jitter: float
    """Standard deviation of compute times, relative to their mean."""


@dataclass
class Stint:
    """A job's stay on the same GPUs with the same batch size."""

    job: ClusterJob
    gpus: Gpus
    batch_size: int
    crossings: Crossings
    """Its links; Crux may change them while it lasts."""
    given_ps: int
    """When the job received the GPUs."""
    start_ps: int
    """When its first iteration here starts."""
    first_iteration: int
    """The number of iterations that the job finished before."""
    iterations: int = 0
    """The number of iterations finished here; known when the stint has ended."""
    number: int | None = None
    """Its number in the engine; known when it has begun."""
    until_ps: int | None = None
    """When the job left the GPUs; None while it has them."""

    @property
    def samples(self) -> int:
        """Samples per iteration."""
        return len(self.gpus) * self.batch_size


@dataclass
class Member:
    """A job that has arrived, and its progress so far."""

    job: ClusterJob
    number: int
    """Its number in the engine."""
    batch_size: int
    gpus: Gpus = ()
    """Its GPUs by the latest decision; it may not run on them yet."""
    stint: Stint | None = None
    """Its current stint, which may still be that from before the latest decision."""
    stopping: bool = False
    """Whether the stint ends with the iteration under way."""
    first_start_ps: int | None = None
    end_ps: int | None = None
    samples_done: int = 0
    """Counts only stints that have ended, as do the next three fields."""
    iterations: int = 0
    gpu_ps: int = 0
    """GPUs × time that they were allocated to it."""
    allocated_ps: int = 0
    """Time with any GPUs."""
    stints: int = 0
    slot: Slot | None = None
    migrating: bool = False
    """Whether it is about to start on GPUs to which MonkeyTree moved it while it ran."""
    traffic: Traffic | None = None
    """Its paths and priority by Crux at `gpus`; None for those of ECMP, and the highest priority."""


@dataclass
class Transitions:
    """All jobs that have arrived, and for each GPU its current user and its owner by the latest decision."""

    engine: _hocket.ClusterRun
    cluster: Cluster
    costs: Costs
    routes: Routes
    share: "_hocket._Share"
    """How the flows of every job share a link."""
    adjust: bool
    """Whether a job that drifts from its slot is moved back into it."""
    dedicated: bool
    """Whether every job has GPUs and a network of its own."""
    models: Mapping[str, int]
    """The number of each model in the engine."""
    on_stint_end: Callable[[Stint], object]
    """Called with every stint that has ended."""
    active: dict[str, Member] = field(default_factory=dict)
    """Jobs that are not done, in order of arrival."""
    done: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.cluster.gpus)
        # By GPU: the job that owns it by the latest decision, since when, and the job that still uses it.
        self._owners: list[str | None] = [None] * count
        self._given_ps = [0] * count
        self._users: list[str | None] = [None] * count
        self._by_number: dict[int, Member] = {}

    def arrive(self, job: ClusterJob) -> None:
        """Admit a job, which waits for GPUs."""
        member = Member(job, self.engine.add(job.name), job.batch_size)
        self.active[job.name] = member
        self._by_number[member.number] = member

    def state(self) -> State:
        """The state of the cluster as a scheduler sees it."""
        now_ps = self.engine.now_ps
        states = tuple(self._state(member, now_ps) for member in self.active.values())
        return State(now_ps, self.cluster, states, tuple(self._given_ps))

    def iteration_start_ps(self, name: str) -> int | None:
        """When the current iteration of a job started; None if the job does not run, or is about to stop."""
        member = self.active[name]
        if member.stint is None or member.stopping:
            return None
        return self.engine.iteration_start_ps(member.number)

    def stints(self) -> list[Stint]:
        """All stints that have not ended."""
        return [member.stint for member in self.active.values() if member.stint is not None]

    def place(self, placement: Mapping[str, Gpus]) -> None:
        """Place waiting jobs on free GPUs; all others keep their placement."""
        decided = {name: member.gpus for name, member in self.active.items()}
        self.apply(Candidate({**decided, **placement}))

    def apply(self, candidate: Candidate, migrated: Set[str] = frozenset()) -> list[str]:
        """Make `candidate` the target placement; return the jobs that lose GPUs allocated to them before.

        Each job starts there with the first call of `begin` at which its GPUs are free. Jobs of `migrated`
        keep their numbers of workers: a GPU counts as allocated to them since they got the one that it
        replaces.
        """
        moved: list[str] = []
        for name, member in self.active.items():
            gpus = candidate.placement.get(name, ())
            batch_size = candidate.batch_sizes.get(name, member.batch_size)
            if (gpus, batch_size) == (member.gpus, member.batch_size):
                continue
            if member.gpus:
                moved.append(name)
            member.gpus, member.batch_size = gpus, batch_size
            # A job that has left its GPUs already must be restarted in any case.
            runs = member.migrating or (member.stint is not None and not member.stopping)
            member.migrating = name in migrated and runs
            # A stint that is already ending is not stopped again: a later decision only changes the target.
            if member.stint is not None and not member.stopping:
                member.stopping = True
                # Between iterations, the stint ends at once.
                if self.engine.stop(member.number):
                    self._leave(member)
        self._update_owners(migrated)
        return moved

    def align(self, slots: Mapping[str, Slot]) -> None:
        """Give jobs these slots and remove those of all others; a job not yet running starts in its slot."""
        for name, member in self.active.items():
            self._set_slot(member, slots.get(name))

    def reroute(self, traffic: Mapping[str, Traffic]) -> None:
        """Change paths and priorities: at once for jobs that run on these GPUs, or when they start there."""
        for name, member in self.active.items():
            member.traffic = decided = traffic.get(name)
            stint = member.stint
            if decided is None or stint is None or member.stopping or stint.gpus != decided.gpus:
                continue
            stint.crossings = decided.crossings
            self.engine.reroute(member.number, decided.priority, decided.crossings)

    def ended(self, endings: Iterable[tuple[int, str]]) -> list[str]:
        """Release the GPUs of jobs whose stints have ended; return the jobs that are done."""
        done = []
        for number, ending in endings:
            member = self._by_number[number]
            self._leave(member)
            if ending == "done":
                self._depart(member)
                done.append(member.job.name)
        return done

    def begin(self) -> None:
        """Start every job whose GPUs are free now."""
        # The latest decision gives each GPU to one job at most, so the order of starts does not matter.
        for member in self.active.values():
            if member.gpus and member.stint is None and self._are_free(member.gpus):
                self._start(member)

    def end(self) -> None:
        """End the stints of all running jobs, which keep the iterations that they finished."""
        for member in self.active.values():
            if member.stint is not None:
                self._leave(member)

    @property
    def members(self) -> Sequence[Member]:
        """All jobs that have arrived: those that are done, then the others."""
        return (*self.done, *self.active.values())

    def _state(self, member: Member, now_ps: int) -> JobState:
        stint = member.stint
        samples, gpu_ps = member.samples_done, member.gpu_ps
        if stint is not None:
            done = self.engine.iterations_done(member.number) - stint.first_iteration
            samples += done * stint.samples
            gpu_ps += (now_ps - stint.given_ps) * len(stint.gpus)
        # The first stint is a start and not a restart.
        return JobState(
            member.job,
            samples,
            member.gpus,
            member.batch_size,
            member.first_start_ps,
            gpu_ps,
            max(0, member.stints - 1),
        )

    def _update_owners(self, migrated: Set[str] = frozenset()) -> None:
        """Update the owner of each GPU by the latest decision, and when it became the owner."""
        owners: list[str | None] = [None] * len(self._owners)
        for name, member in self.active.items():
            for gpu in member.gpus:
                owners[gpu] = name
        changes = [
            (gpu, before, after)
            for gpu, (before, after) in enumerate(zip(self._owners, owners, strict=True))
            if before != after
        ]
        # By job: since when it had the GPUs that it migrates from.
        since_ps: dict[str, list[int]] = {name: [] for name in migrated}
        for gpu, before, _ in changes:
            if before in since_ps:
                since_ps[before].append(self._given_ps[gpu])
        for gpu, _, after in changes:
            now_ps = 0 if after is None else self.engine.now_ps
            self._given_ps[gpu] = since_ps[after].pop(0) if after in since_ps else now_ps
        self._owners = owners

    def _set_slot(self, member: Member, slot: Slot | None) -> None:
        if slot == member.slot:
            return
        member.slot = slot
        # The slot of a job that is about to start is set when it starts.
        if member.stint is None or member.stopping:
            return
        if slot is None:
            self.engine.release(member.number)
        else:
            self.engine.align(member.number, slot.origin_ps, slot.period_ps, self.adjust)

    def _are_free(self, gpus: Gpus) -> bool:
        return self.dedicated or all(self._users[gpu] is None for gpu in gpus)

    def _start(self, member: Member) -> None:
        """Start a stint on the GPUs allocated to the job, which must be free."""
        job, now_ps = member.job, self.engine.now_ps
        ready_ps = now_ps + self._cost_ps(member)
        start_ps = ready_ps if member.slot is None else member.slot.next_ps(ready_ps)
        # Without links, an iteration takes as long as on an idle network.
        crossings = [] if self.dedicated else self.routes.crossings(job.name, member.gpus)
        priority = 0
        if member.traffic is not None and member.traffic.gpus == member.gpus:
            crossings, priority = member.traffic.crossings, member.traffic.priority
        stint = Stint(job, member.gpus, member.batch_size, crossings, now_ps, start_ps, member.iterations)
        self._claim(stint)
        stint.number = self.engine.start(
            member.number,
            {
                "profile": native_profile(job.profile(len(stint.gpus), stint.batch_size)),
                "crossings": crossings,
                "inputs": [] if self.dedicated else self.routes.inputs(job.name, member.gpus),
                "at_ps": start_ps,
                "iterations": job.iterations(
                    job.samples - member.samples_done, len(stint.gpus), stint.batch_size
                ),
                "share": self.share,
                "priority": priority,
                "jitter": self.costs.jitter,
                "model": self.models[job.model],
                "samples": stint.samples,
            },
        )
        if member.slot is not None:
            self.engine.align(member.number, member.slot.origin_ps, member.slot.period_ps, self.adjust)
        member.stint, member.migrating = stint, False
        member.stints += 1
        if member.first_start_ps is None:
            member.first_start_ps = now_ps

    def _cost_ps(self, member: Member) -> int:
        """The time from receiving its GPUs to the next iteration of a job."""
        if member.migrating:
            return self.costs.migration_ps
        return self.costs.restart_ps if member.stints else self.costs.start_ps

    def _claim(self, stint: Stint) -> None:
        if self.dedicated:
            return
        for gpu in stint.gpus:
            assert self._users[gpu] is None, (
                f"job {stint.job.name!r} begins on GPU {self.cluster.gpus[gpu]}, which {self._users[gpu]!r} "
                "uses: a GPU has one job at a time"
            )
            self._users[gpu] = stint.job.name

    def _leave(self, member: Member) -> None:
        """End the stint of a job, which keeps the iterations that it finished."""
        stint = member.stint
        assert stint is not None, f"job {member.job.name!r} ended without having begun"
        stint.until_ps = self.engine.now_ps
        member.iterations = self.engine.iterations_done(member.number)
        stint.iterations = member.iterations - stint.first_iteration
        member.samples_done += stint.iterations * stint.samples
        member.allocated_ps += stint.until_ps - stint.given_ps
        member.gpu_ps += (stint.until_ps - stint.given_ps) * len(stint.gpus)
        member.stint, member.stopping = None, False
        if not self.dedicated:
            for gpu in stint.gpus:
                self._users[gpu] = None
        self.on_stint_end(stint)

    def _depart(self, member: Member) -> None:
        job = member.job
        # More than its work, if its last iteration needed only part of a batch.
        assert member.samples_done >= job.samples, (
            f"job {job.name!r} is done after {member.samples_done} of {job.samples} samples"
        )
        member.end_ps = self.engine.now_ps
        del self.active[job.name]
        self.done.append(member)
        self._update_owners()
