"""Creates and removes testbeds, and runs a plan's jobs on them."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from hocket.engines.run import Progress
from hocket.engines.specs import placement_of
from hocket.errors import InputError, check_choice
from hocket.plan import Plan, PlanLike, as_plan
from hocket.profiles import PS_PER_S
from hocket.results import Run
from hocket.testbed import machine, state, steps
from hocket.testbed.congestion import FAIR, check_controls, control_of
from hocket.testbed.layout import Layout, PlacedJob, lay_out, slug
from hocket.testbed.processes import find_python
from hocket.testbed.service import check_service
from hocket.testbed.session import Agents, Session
from hocket.units import format_duration


def testbed_name(plan: PlanLike) -> str:
    """The name of a plan's testbed: from the plan's file, or else the plan's own name.

    >>> testbed_name("examples/two_jobs.toml")
    'two-jobs'
    """
    if isinstance(plan, str | Path):
        return slug(Path(plan).stem)
    return slug(as_plan(plan).name or "plan")


@dataclass(frozen=True)
class Testbed:
    """A testbed with the hosts and links of `plan`, on which its jobs run, one run at a time."""

    # Keeps pytest from collecting it as a test.
    __test__ = False

    plan: Plan
    layout: Layout
    candidate: str | None = None
    """The candidate of the plan that places its jobs."""

    @property
    def name(self) -> str:
        """The name, which is part of the names of its namespaces."""
        return self.layout.name

    def run(
        self,
        *,
        plan: PlanLike | None = None,
        jobs: Sequence[str] | None = None,
        agents: Agents = "none",
        registered: PlanLike | None = None,
        iterations: int | None = None,
        seconds: float | None = None,
        fair: str = FAIR,
        python: str | None = None,
        directory: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """Runs the jobs named `jobs` (default: all) of `plan`, which must have the same hosts and links
        (default: the testbed's own plan).

        `iterations` and `seconds` override when the plan's run ends. With `agents` that shift, the profiles
        and links in `registered` (default: the plan's own) are registered with the service. `fair` is the
        congestion control of jobs that share fairly. `python` is an interpreter with PyTorch (default: found
        automatically). `progress` is called with seconds, iterations done, and iterations in total if known.

        The tables are those of `hocket run`, plus `utilisation`; they are written to `directory` if given.
        After Ctrl-C the run has the finished iterations and is marked as interrupted; after the loss of a
        worker, as failed.

        Raises `InputError` before anything starts, if the testbed, this machine or its PyTorch does not
        support the run.
        """
        check_choice("agents", agents, get_args(Agents))
        if agents != "none":
            check_service(needed_by=f"--agents {agents}")
        whole = self.plan if plan is None else self._fitting(plan)
        chosen = _until(_with_jobs(whole, jobs), iterations, seconds)
        names = {job.name for job in chosen.jobs}
        # All jobs are laid out, since a worker's addresses depend on the jobs before it.
        placed = tuple(each for each in lay_out(whole, self.name).jobs if each.name in names)
        session = Session(
            layout=self.layout,
            plan=chosen,
            placed=placed,
            agents=agents,
            registered=_of_same_jobs(chosen, registered),
            controls={job.name: control_of(job.share, fair) for job in chosen.jobs},
            python=find_python(python),
            progress=progress,
        )
        check_controls(chosen.jobs, fair)
        self._check_up()
        machine.check_machine()
        with state.held(self.name):
            for each in placed:
                _use_control(each, session.controls[each.name])
            return session.run(directory)

    def _fitting(self, plan: PlanLike) -> Plan:
        """`plan` with the placement of this testbed; raises `InputError` for other hosts, links or rates."""
        placed = _as_placed(as_plan(plan), self.candidate)
        if fingerprint(lay_out(placed, self.name)) != fingerprint(self.layout):
            raise self._differs()
        return placed

    def _differs(self) -> InputError:
        return InputError(f"testbed {self.name!r} has other hosts, links or rates than the plan to run on it")

    def _check_up(self) -> None:
        record = state.find(self.name)
        if record is None or not record.made:
            raise InputError(f"testbed {self.name!r} is not up; `hocket testbed up` creates it")
        if record.layout != fingerprint(self.layout):
            raise self._differs()


@contextmanager
def testbed(
    plan: PlanLike,
    *,
    name: str | None = None,  # noqa: PT028 – a context manager, not a test
    candidate: str | None = None,  # noqa: PT028
) -> Iterator[Testbed]:
    """Context manager that creates the testbed of `plan` and always removes it at the end.

    Raises `InputError` like `bring_up`.
    """
    bed = bring_up(plan, name=name, candidate=candidate)
    try:
        yield bed
    finally:
        take_down(bed.name)


def plan_testbed(plan: PlanLike, *, name: str | None = None, candidate: str | None = None) -> Testbed:
    """The testbed for `plan`, whether it is up or not.

    Raises `InputError` for an invalid plan, or one that a testbed does not support; see `lay_out`.
    """
    placed = _as_placed(as_plan(plan), candidate)
    return Testbed(placed, lay_out(placed, testbed_name(plan) if name is None else slug(name)), candidate)


def _as_placed(plan: Plan, candidate: str | None) -> Plan:
    """`plan` with its jobs placed by the candidate."""
    placement = placement_of(plan, candidate)
    if placement is None:
        return plan
    jobs = [job.replace(placement=placement.get(job.name, job.placement)) for job in plan.jobs]
    return plan.replace(jobs=jobs, candidates=None)


def bring_up(
    plan: PlanLike,
    *,
    name: str | None = None,
    candidate: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Testbed:
    """Creates the testbed of `plan`; `progress` is called with the finished and the total number of commands.

    After any error, nothing of the testbed remains. Raises `InputError` if it exists already, or if a testbed
    or this machine does not support the plan.
    """
    bed = plan_testbed(plan, name=name, candidate=candidate)
    layout = bed.layout
    machine.check_machine()
    with state.held(bed.name):
        if state.find(bed.name) is not None:
            raise InputError(
                f"testbed {bed.name!r} already exists; `hocket testbed down {bed.name}` removes it"
            )
        taken = machine.namespaces().intersection(layout.all_namespaces())
        if taken:
            raise InputError(
                f"namespace {min(taken)!r} exists and does not belong to this testbed: "
                f"give the testbed another name, or remove the namespace with `ip netns delete {min(taken)}`"
            )
        record = state.State(bed.name, False, layout.all_namespaces(), fingerprint(layout))
        state.keep(record)
        try:
            machine.run_commands(list(steps.up(layout)), progress)
        # Ctrl-C must not leave half a testbed either.
        except BaseException:
            _remove(record)
            raise
        state.keep(replace(record, made=True))
    return bed


def take_down(name: str) -> bool:
    """Kills all processes of testbed `name` and removes it, complete or not; returns whether it existed.

    Raises `InputError` if a run is under way, or if a part of it cannot be removed.
    """
    machine.check_machine()
    if state.find(name) is None:
        return False
    with state.held(name):
        # Another process may have removed it before this one held it.
        record = state.find(name)
        if record is not None:
            _remove(record)
    return record is not None


def _remove(record: state.State) -> None:
    """Removes the recorded namespaces that exist, and the processes in them."""
    existing = machine.namespaces()
    left = [namespace for namespace in record.namespaces if namespace in existing]
    for namespace in left:
        # A namespace without a name lives on as long as a process is in it: network_namespaces(7).
        machine.end_processes_in(namespace)
    machine.run_commands(list(steps.down(left)))
    # Last, so that a removal that failed can be repeated.
    state.forget(record.name)


def fingerprint(layout: Layout) -> str:
    """A hash that is equal for layouts created by the same commands."""
    commands = "\n".join(" ".join(command) for command in steps.up(layout))
    return hashlib.sha256(commands.encode()).hexdigest()


def missing() -> list[str]:
    """One sentence for each requirement of a testbed that this machine lacks; empty if none."""
    found = []
    for check in (machine.check_machine, lambda: find_python(None)):
        try:
            check()
        except InputError as error:
            found.append(str(error))
    return found


def _with_jobs(plan: Plan, names: Sequence[str] | None) -> Plan:
    """`plan` with only the jobs in `names`; with all of them if `names` is None."""
    if names is None:
        return plan
    known = [job.name for job in plan.jobs]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"the plan has no job {unknown[0]!r}; it has {', '.join(map(repr, known))}")
    if not names:
        raise InputError("a run needs at least one job: got none")
    return plan.replace(jobs=[job for job in plan.jobs if job.name in names])


def _until(plan: Plan, iterations: int | None, seconds: float | None) -> Plan:
    """`plan` with the end of its run overridden."""
    for name, value in (("iterations", iterations), ("seconds", seconds)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name}: must be above 0: got {value:g}")
    if iterations is None and seconds is None:
        return plan
    until = None if seconds is None else format_duration(round(seconds * PS_PER_S))
    return plan.replace(run=plan.run.replace(iterations=iterations, until=until))


def _of_same_jobs(plan: Plan, registered: PlanLike | None) -> Plan:
    """The plan whose profiles are registered for the jobs of `plan`."""
    if registered is None:
        return plan
    source = as_plan(registered)
    wanted = {job.name for job in plan.jobs}
    lacking = wanted - {job.name for job in source.jobs}
    if lacking:
        raise InputError(f"registered: has no job {min(lacking)!r}, which is to be run")
    return source.replace(jobs=[job for job in source.jobs if job.name in wanted])


def _use_control(placed: PlacedJob, control: str) -> None:
    for worker in placed.workers:
        # ip-sysctl: the control of new connections, so Gloo's need no socket option.
        setting = f"net.ipv4.tcp_congestion_control={control}"
        machine.run_commands([("ip", "netns", "exec", worker.namespace, "sysctl", "-qw", setting)])
