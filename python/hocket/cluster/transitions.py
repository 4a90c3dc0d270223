"""From one placement to the next: jobs leave their GPUs at the end of an iteration, and begin on others once
these are free and the price of starting is paid.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hocket import _hocket
from hocket.engines.network import Crossings
from hocket.engines.specs import plain
from hocket.schedulers import Candidate, Cluster, ClusterJob, Gpus, JobState, State
from hocket.schedulers.cassini import Slot
from hocket.schedulers.crossings import Routes


@dataclass(frozen=True)
class Costs:
    """What starting a job costs, and how much its iterations vary."""

    start_ps: int
    """From getting its first GPUs to its first iteration."""
    restart_ps: int
    """The same each time after that."""
    jitter: float
    """Standard deviation of compute times, relative to their mean."""


@dataclass
class Stint:
    """A job on the same GPUs with the same batch size."""

    job: ClusterJob
    gpus: Gpus
    batch_size: int
    crossings: Crossings
    given_ps: int
    """From then on it has the GPUs."""
    start_ps: int
    """Then its first iteration starts."""
    first_iteration: int
    """How many it did before."""
    iterations: int = 0
    """How many it did; known when it is over."""
    until_ps: int | None = None
    """When it left them."""

    @property
    def samples(self) -> int:
        """Of each iteration."""
        return len(self.gpus) * self.batch_size


@dataclass
class Member:
    """A job that has arrived, and what became of it so far."""

    job: ClusterJob
    number: int
    """In the engine."""
    batch_size: int
    gpus: Gpus = ()
    """Those that it is to have, by the latest decision."""
    stint: Stint | None = None
    """What it does now, perhaps still where it was before that decision."""
    stopping: bool = False
    """Whether it ends with the iteration under way."""
    first_start_ps: int | None = None
    end_ps: int | None = None
    samples_done: int = 0
    """In stints that are over, as are the next three."""
    iterations: int = 0
    gpu_ps: int = 0
    """GPUs × time that it had them."""
    held_ps: int = 0
    """Time that it had GPUs."""
    stints: int = 0
    slot: Slot | None = None


@dataclass
class Transitions:
    """All jobs that have arrived, who has which GPU, and who is to have it."""

    engine: _hocket.ClusterRun
    cluster: Cluster
    costs: Costs
    routes: Routes
    adjust: bool
    """Whether a job that drifts from its slot is brought back."""
    dedicated: bool
    """Whether every job has GPUs and a network of its own."""
    over: Callable[[Stint], object]
    """Told of every stint that is over."""
    active: dict[str, Member] = field(default_factory=dict)
    """Jobs that are not done, in order of arrival."""
    done: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.cluster.gpus)
        # Who is to have each GPU by the latest decision, since when, and who uses it now.
        self._owners: list[str | None] = [None] * count
        self._given_ps = [0] * count
        self._users: list[str | None] = [None] * count
        self._by_number: dict[int, Member] = {}

    def arrive(self, job: ClusterJob) -> None:
        """Takes in a job; it waits."""
        member = Member(job, self.engine.add(job.name), job.batch_size)
        self.active[job.name] = member
        self._by_number[member.number] = member

    def state(self) -> State:
        """What a scheduler sees."""
        now_ps = self.engine.now_ps
        states = tuple(self._state(member, now_ps) for member in self.active.values())
        return State(now_ps, self.cluster, states, tuple(self._given_ps))

    def iteration_start_ps(self, name: str) -> int | None:
        """When the iteration under way of a job started; None if it does not run, or was told to stop."""
        member = self.active[name]
        if member.stint is None or member.stopping:
            return None
        return self.engine.iteration_start_ps(member.number)

    def stints(self) -> list[Stint]:
        """Those that are not over."""
        return [member.stint for member in self.active.values() if member.stint is not None]

    def place(self, placement: Mapping[str, Gpus]) -> None:
        """Puts jobs that wait on free GPUs, besides what was decided."""
        decided = {name: member.gpus for name, member in self.active.items()}
        self.apply(Candidate({**decided, **placement}))

    def apply(self, candidate: Candidate) -> list[str]:
        """Makes `candidate` what is to be; returns the jobs that leave GPUs on which they were to run.

        It takes effect with `begin`, for each job when it can.
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
            if member.stint is not None and not member.stopping:
                member.stopping = True
                if self.engine.stop(member.number):
                    self._leave(member)
        self._hand_over()
        return moved

    def align(self, slots: Mapping[str, Slot]) -> None:
        """Gives jobs these slots, and all others none; one that does not run yet will start in its slot."""
        for name, member in self.active.items():
            self._set_slot(member, slots.get(name))

    def ended(self, endings: Iterable[tuple[int, str]]) -> list[str]:
        """Takes back the GPUs of jobs whose stints are over; returns those that are done."""
        done = []
        for number, ending in endings:
            member = self._by_number[number]
            self._leave(member)
            if ending == "done":
                self._depart(member)
                done.append(member.job.name)
        return done

    def begin(self) -> None:
        """Starts every job whose GPUs are free by now."""
        for member in self.active.values():
            if member.gpus and member.stint is None and self._are_free(member.gpus):
                self._start(member)

    def end(self) -> None:
        """Ends the stints of jobs that still run, with the iterations that they finished."""
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
        return JobState(
            member.job,
            samples,
            member.gpus,
            member.batch_size,
            member.first_start_ps,
            gpu_ps,
            max(0, member.stints - 1),
        )

    def _hand_over(self) -> None:
        """Notes since when each GPU is its job's, by the latest decision."""
        owners: list[str | None] = [None] * len(self._owners)
        for name, member in self.active.items():
            for gpu in member.gpus:
                owners[gpu] = name
        for gpu, (before, after) in enumerate(zip(self._owners, owners, strict=True)):
            if before != after:
                self._given_ps[gpu] = 0 if after is None else self.engine.now_ps
        self._owners = owners

    def _set_slot(self, member: Member, slot: Slot | None) -> None:
        if slot == member.slot:
            return
        member.slot = slot
        if member.stint is None or member.stopping:
            return
        if slot is None:
            self.engine.release(member.number)
        else:
            self.engine.align(member.number, slot.origin_ps, slot.period_ps, self.adjust)

    def _are_free(self, gpus: Gpus) -> bool:
        return self.dedicated or all(self._users[gpu] is None for gpu in gpus)

    def _start(self, member: Member) -> None:
        """Begins a stint on the GPUs that the job is to have, which are free."""
        job, now_ps = member.job, self.engine.now_ps
        ready_ps = now_ps + (self.costs.restart_ps if member.stints else self.costs.start_ps)
        start_ps = ready_ps if member.slot is None else member.slot.next_ps(ready_ps)
        crossings = [] if self.dedicated else self.routes.crossings(job.name, member.gpus)
        stint = Stint(job, member.gpus, member.batch_size, crossings, now_ps, start_ps, member.iterations)
        self._use(stint)
        self.engine.start(
            member.number,
            {
                "profile": plain(job.profile(len(stint.gpus), stint.batch_size)),
                "crossings": crossings,
                "inputs": [] if self.dedicated else self.routes.inputs(job.name, member.gpus),
                "at_ps": start_ps,
                "iterations": job.iterations(
                    job.samples - member.samples_done, len(stint.gpus), stint.batch_size
                ),
                "share": ("fair", 1.0),
                "priority": 0,
                "jitter": self.costs.jitter,
            },
        )
        if member.slot is not None:
            self.engine.align(member.number, member.slot.origin_ps, member.slot.period_ps, self.adjust)
        member.stint = stint
        member.stints += 1
        if member.first_start_ps is None:
            member.first_start_ps = now_ps

    def _use(self, stint: Stint) -> None:
        if self.dedicated:
            return
        for gpu in stint.gpus:
            assert self._users[gpu] is None, (
                f"job {stint.job.name!r} begins on GPU {self.cluster.gpus[gpu]}, which {self._users[gpu]!r} "
                "uses: a GPU has one job at a time"
            )
            self._users[gpu] = stint.job.name

    def _leave(self, member: Member) -> None:
        """Ends the stint of a job, which keeps the iterations that it finished."""
        stint = member.stint
        assert stint is not None, f"job {member.job.name!r} ended without having begun"
        stint.until_ps = self.engine.now_ps
        member.iterations = self.engine.iterations_done(member.number)
        stint.iterations = member.iterations - stint.first_iteration
        member.samples_done += stint.iterations * stint.samples
        member.held_ps += stint.until_ps - stint.given_ps
        member.gpu_ps += (stint.until_ps - stint.given_ps) * len(stint.gpus)
        member.stint, member.stopping = None, False
        if not self.dedicated:
            for gpu in stint.gpus:
                self._users[gpu] = None
        self.over(stint)

    def _depart(self, member: Member) -> None:
        job = member.job
        assert member.samples_done >= job.samples, (
            f"job {job.name!r} is done after {member.samples_done} of {job.samples} samples"
        )
        member.end_ps = self.engine.now_ps
        del self.active[job.name]
        self.done.append(member)
        self._hand_over()
