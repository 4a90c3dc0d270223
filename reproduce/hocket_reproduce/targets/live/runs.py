"""The runs of LIVE, on a testbed and on both engines."""

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
"""Where every live run is kept, so that one that is interrupted takes none with it."""

ENGINES = ("flow engine", "packet engine")
PLACES = ("live", *ENGINES)


@dataclass(frozen=True)
class CaseRuns:
    """One case, and its runs by place, of `PLACES`."""

    case: Case
    runs: Mapping[str, Run]

    def mean_ms(self, place: str, job: str | None = None, after: float = 0.0) -> float:
        """Of an iteration of `job`, or over all jobs, waits included, after a share of the iterations."""
        run = self.runs[place]
        jobs = by_job(run, "iterations") if job is None else (job,)
        times_s = (iteration_times_s(run, each) for each in jobs)
        return 1e3 * mean(float(own_s[int(after * own_s.size) :].mean()) for own_s in times_s)


@dataclass(frozen=True)
class Measured:
    """All of one plan: each job `alone`, what its NIC's counter then said of it, and by name those of `CASES`
    that could run.
    """

    name: str
    score: float
    alone: Mapping[str, CaseRuns]
    profiles: Mapping[str, JobProfile]
    cases: Mapping[str, CaseRuns]


def measure(name: str, progress: Progress, iterations: int = ITERATIONS) -> Measured:
    """Runs a plan in every case, on a testbed of its own.

    Raises `InputError` where the machine has no testbed, `KeyboardInterrupt` on Ctrl-C.
    """
    plan = live_plan(name, iterations)
    with unfair_controls() as cases, testbed(plan, name=f"live-{name}") as bed:
        live = _Live(bed, name, progress)
        alone = {job: live.alone(plan, job) for job in JOBS}
        profiles = {job: profiled(outcome.runs["live"], job) for job, outcome in alone.items()}
        seen = {**plan, "jobs": [profile.to_job() for profile in profiles.values()]}
        together = {case.name: live.together(plan, case, seen) for case in cases}
    return Measured(name, compatibility(plan).score, alone, profiles, together)


@contextmanager
def unfair_controls() -> Iterator[Sequence[Case]]:
    """The cases that can run within it: all of `CASES`, or those without unequal shares on a machine that
    cannot load the congestion controls of `hocket tcp`.

    Raises `InputError` if they are loaded otherwise already: that is somebody else's choice.
    """
    if requirements.missing():
        yield [case for case in CASES if case.shares == UNSHIFTED.shares]
        return
    loaded = control.current()
    if loaded is not None and (loaded.base, loaded.factor) == (FAIR, WEIGHT):
        yield CASES
        return
    control.load(FAIR, factor=WEIGHT)
    try:
        yield CASES
    finally:
        control.unload()


@dataclass(frozen=True)
class _Live:
    """Runs on one testbed. Predictions come first: what happens live cannot change them."""

    bed: Testbed
    plan_name: str
    progress: Progress

    def alone(self, plan: Tables, job: str) -> CaseRuns:
        """`job` without the other."""
        own = {**plan, "jobs": [each for each in plan["jobs"] if each["name"] == job]}
        return self._outcome(own, ALONE, f"{job} alone", {"plan": plan, "jobs": [job]})

    def together(self, plan: Tables, case: Case, seen: Tables) -> CaseRuns:
        """Both jobs in `case`; the service knows them as they were `seen`."""
        shared = in_case(plan, case)
        asked = {"plan": shared, "agents": case.agents, "registered": seen}
        return self._outcome(shared, case, case.name, asked)

    def _outcome(self, plan: Tables, case: Case, title: str, asked: Tables) -> CaseRuns:
        engines = dict(zip(ENGINES, predicted(plan, case), strict=True))

        def told(_: float, done: int, total: int | None) -> None:
            self.progress(f"{self.plan_name}, {title}: {done} of {total} iterations")

        kept = DIRECTORY / f"{self.plan_name}-{title.replace(' ', '-')}"
        run = self.bed.run(**asked, directory=kept, progress=told)
        if run.interrupted:
            raise KeyboardInterrupt
        return CaseRuns(case, {"live": run, **engines})


def profiled(run: Run, job: str) -> JobProfile:
    """What the counter of an interface of `job` says of it."""
    readings = own_link(run, job).select(
        time_s=pl.col("end_s"), tx_bytes=pl.col("bytes").cum_sum().cast(pl.Int64)
    )
    return profile_counters(readings, name=job)


def own_link(run: Run, job: str) -> pl.DataFrame:
    """Of a live run, the rows of `utilisation` that say what one worker of `job` sent."""
    own = run.tables["utilisation"].filter(pl.col("job") == job)
    return own.filter(pl.col("link") == own["link"].min())
