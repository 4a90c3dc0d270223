"""LIVE's runs on a testbed and on both engines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import polars as pl

from hocket.compat import compatibility
from hocket.profiling import JobProfile, profile_counters
from hocket.results import Run
from hocket.tcp import control, requirements
from hocket.testbed.congestion import FAIR
from hocket.testbed.lifecycle import Testbed, testbed
from hocket_reproduce.targets.live.plans import (
    ALONE,
    CASES,
    ITERATIONS,
    JOBS,
    UNSHIFTED,
    WEIGHT,
    Case,
    in_case,
    live_plan,
    predicted,
)
from hocket_reproduce.targets.measure import by_job, iteration_times_s
from hocket_reproduce.targets.setting import Tables
from hocket_reproduce.targets.target import Progress

DIRECTORY = Path("hocket-runs/live")
"""Directory of all live runs: those that have ended survive an interruption."""

ENGINES = ("flow engine", "packet engine")
PLACES = ("live", *ENGINES)


@dataclass(frozen=True)
class CaseRuns:
    """One case with its runs, by one of `PLACES` each."""

    case: Case
    runs: Mapping[str, Run]

    def mean_ms(self, place: str, job: str | None = None, after: float = 0.0) -> float:
        """The mean iteration in ms, with waits, of `job` or of all; `after` is the share skipped."""
        run = self.runs[place]
        jobs = by_job(run, "iterations") if job is None else (job,)
        times_s = (iteration_times_s(run, each) for each in jobs)
        return 1e3 * mean(float(own_s[int(after * own_s.size) :].mean()) for own_s in times_s)


@dataclass(frozen=True)
class Measured:
    """All runs of one plan: of each job `alone`, with the profile from its NIC's counter, and of those of
    `CASES` that this machine can run, by name.
    """

    name: str
    score: float
    alone: Mapping[str, CaseRuns]
    profiles: Mapping[str, JobProfile]
    cases: Mapping[str, CaseRuns]


def measure(name: str, progress: Progress, iterations: int = ITERATIONS) -> Measured:
    """Runs a plan in every case, on a new testbed.

    Raises `InputError` where the machine has no testbed, `KeyboardInterrupt` on Ctrl-C.
    """
    plan = live_plan(name, iterations)
    with unfair_controls() as cases, testbed(plan, name=f"live-{name}") as bed:
        live = _Live(bed, name, progress)
        alone = {job: live.alone(plan, job) for job in JOBS}
        profiles = {job: profiled(outcome.runs["live"], job) for job, outcome in alone.items()}
        # The service gets what a user's would: profiles measured alone, not the plan's exact ones.
        registered = {**plan, "jobs": [profile.to_job() for profile in profiles.values()]}
        together = {case.name: live.together(plan, case, registered) for case in cases}
    return Measured(name, compatibility(plan).score, alone, profiles, together)


@contextmanager
def unfair_controls() -> Iterator[Sequence[Case]]:
    """Loads the congestion controls of `hocket tcp` and yields the cases that can run with them.

    These are all of `CASES`, or those with equal shares on a machine that cannot load the controls. Raises
    `InputError` if they are already loaded with other parameters.
    """
    if requirements.missing():
        yield [case for case in CASES if case.shares == UNSHIFTED.shares]
        return
    loaded = control.current()
    if loaded is not None and (loaded.base, loaded.factor) == (FAIR, WEIGHT):
        # Somebody else loaded them as they are needed here, so they stay loaded.
        yield CASES
        return
    control.load(FAIR, factor=WEIGHT)
    try:
        yield CASES
    finally:
        control.unload()


@dataclass(frozen=True)
class _Live:
    """Runs on one testbed. Predictions precede each live run, so that it cannot influence them."""

    bed: Testbed
    plan_name: str
    progress: Progress

    def alone(self, plan: Tables, job: str) -> CaseRuns:
        """Runs `job` without the other."""
        own = {**plan, "jobs": [each for each in plan["jobs"] if each["name"] == job]}
        return self._outcome(own, ALONE, f"{job} alone", {"plan": plan, "jobs": [job]})

    def together(self, plan: Tables, case: Case, measured: Tables) -> CaseRuns:
        """Runs both jobs in `case`; the profiles in `measured` are registered with the service."""
        shared = in_case(plan, case)
        options = {"plan": shared, "agents": case.agents, "registered": measured}
        return self._outcome(shared, case, case.name, options)

    def _outcome(self, plan: Tables, case: Case, title: str, options: Tables) -> CaseRuns:
        engines = dict(zip(ENGINES, predicted(plan, case), strict=True))

        def report(_: float, done: int, total: int | None) -> None:
            self.progress(f"{self.plan_name}, {title}: {done} of {total} iterations")

        kept = DIRECTORY / f"{self.plan_name}-{title.replace(' ', '-')}"
        run = self.bed.run(**options, directory=kept, progress=report)
        if run.interrupted:
            raise KeyboardInterrupt
        return CaseRuns(case, {"live": run, **engines})


def profiled(run: Run, job: str) -> JobProfile:
    """The profile of `job` from the counter of one of its interfaces."""
    readings = own_link(run, job).select(
        time_s=pl.col("end_s"), tx_bytes=pl.col("bytes").cum_sum().cast(pl.Int64)
    )
    return profile_counters(readings, name=job)


def own_link(run: Run, job: str) -> pl.DataFrame:
    """The rows of a live run's `utilisation` for the bytes that one worker of `job` sent."""
    # In a ring of two, both workers send alike; the least name is the same one in every run.
    own = run.tables["utilisation"].filter(pl.col("job") == job)
    return own.filter(pl.col("link") == own["link"].min())
