"""Explains the decision in force at a time of a cluster run: the choice and its reasons, and the contention
between jobs, by link, while it is in force.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from hocket.cluster.recording import every_of
from hocket.cluster.trace import parse_trace
from hocket.errors import InputError
from hocket.profiles import WorkloadProfile
from hocket.results import Run


@dataclass(frozen=True)
class SharedLink:
    """A link that several jobs cross."""

    link: str
    jobs: tuple[str, ...]
    before: float | None
    """Its score under the scheduler's own choice without time-shifts; None where nothing was scored or the
    link had only one job."""
    after: float | None
    """Its score under the chosen candidate, with its time-shifts."""


@dataclass(frozen=True)
class SharingJobs:
    """Jobs that share links with each other, directly or through others, and the outcome of CASSINI."""

    jobs: tuple[str, ...]
    score: float
    """The mean over their links under the best shifts found."""
    gain: float | None
    """Predicted speed-up: iteration time at random starts ÷ in slots; None where nothing was predicted."""
    why_no_slots: str | None
    """Why they have no slots; None if they have."""


@dataclass(frozen=True)
class RunningJob:
    """A job while the decision is in force."""

    job: str
    gpus: tuple[str, ...]
    iterations: float
    """The number of iterations, including fractions at both ends; estimated if the run recorded a sample."""
    iteration_s: float | None
    """Mean duration; None without iterations."""
    ideal_s: float | None
    """The same on an idle network."""
    slot_s: float | None
    """The length of its slot, if it has one."""


@dataclass(frozen=True)
class Delay:
    """The delay of a job by another one on a link."""

    link: str
    job: str
    other: str
    per_iteration_s: float


@dataclass(frozen=True)
class Explanation:
    """A decision, and the iterations while it was in force."""

    decision: int
    at_s: float
    until_s: float
    """Time of the next decision, or of the end of the run."""
    reason: str
    candidates: int
    chosen: int
    own_score: float | None
    score: float | None
    discarded: tuple[tuple[int, str], ...]
    """Candidates without a score, by number, and why."""
    moved: tuple[str, ...]
    waiting: tuple[str, ...]
    links: tuple[SharedLink, ...]
    sharing: tuple[SharingJobs, ...]
    """Empty without CASSINI."""
    jobs: tuple[RunningJob, ...]
    delays: tuple[Delay, ...]
    """Delays between jobs while it was in force, largest first."""
    said: Mapping[str, Any]
    """The scheduler's own notes on the decision, and under `crux` and `monkeytree` those of these two."""


def decisions_of(run: Run) -> pl.DataFrame:
    """The table of decisions. Raises `InputError` if `run` is not a cluster run."""
    if "decisions" not in run.tables:
        raise InputError("explain: the run has no table 'decisions'; it is not one of `hocket cluster`")
    return run.tables["decisions"]


def explain(run: Run, at_s: float) -> Explanation:
    """The last decision at or before `at_s` seconds of simulated time.

    Raises `InputError` if `run` is not a cluster run, recorded no rows of iterations, ended before `at_s`,
    or had no decision by then.
    """
    decisions = decisions_of(run)
    ended_s = run.manifest["simulated_s"]
    if at_s > ended_s:
        raise InputError(f"explain: the run ended at {ended_s:g} s: got {at_s:g} s")
    every = every_of(run)
    # Of several decisions at one time, only the last is in force.
    number = bisect_right(decisions["at_s"].to_list(), at_s) - 1
    if number < 0:
        raise InputError(
            f"explain: there was no decision by {at_s:g} s; without --at, all decisions are listed"
        )
    row = decisions.row(number, named=True)
    until_s = decisions["at_s"][number + 1] if number + 1 < decisions.height else ended_s
    why = json.loads(row["why"])
    cassini = why["cassini"] or {"candidates": [], "components": [], "slots": {}}
    stints = _in_force(run.tables["placements"], row["at_s"], until_s)
    running = tuple(_running(run, every, stints, (row["at_s"], until_s), cassini["slots"]))
    return Explanation(
        decision=number,
        at_s=row["at_s"],
        until_s=until_s,
        reason=row["reason"],
        candidates=row["candidates"],
        chosen=row["chosen"],
        own_score=row["own_score"],
        score=row["score"],
        discarded=tuple(
            (place, each["discarded"])
            for place, each in enumerate(cassini["candidates"])
            if each["discarded"] is not None
        ),
        moved=tuple(row["moved"]),
        waiting=tuple(_waiting(run, running, row["at_s"])),
        links=tuple(_links(run, stints, number)),
        sharing=tuple(
            SharingJobs(tuple(each["jobs"]), each["score"], each["gain"], each["why_none"])
            for each in cassini["components"]
        ),
        jobs=running,
        delays=tuple(_delays(run, running, number)),
        said={**why["scheduler"], **{who: why[who] for who in ("crux", "monkeytree") if why[who]}},
    )


@dataclass(frozen=True)
class SharedCircles:
    """The data for the circles of shared links under a decision."""

    cassini: Mapping[str, Any]
    """CASSINI's notes on the decision."""
    profiles: Mapping[str, WorkloadProfile]
    """By job: one iteration while the decision was in force."""
    rates_bps: Mapping[str, int]
    """Capacity by link."""


def circles_of(run: Run, explanation: Explanation) -> SharedCircles:
    """The circles of links under a decision. Raises `InputError` for a run without CASSINI."""
    cassini = json.loads(decisions_of(run)["why"][explanation.decision])["cassini"]
    if cassini is None:
        raise InputError(
            "figure: the run is without CASSINI, which finds the circles of links; use a run with +cassini"
        )
    rates_bps = run.tables["links"].select("link", "rate_bps").unique()
    return SharedCircles(cassini, dict(_profiles(run, explanation)), dict(rates_bps.rows()))


def _profiles(run: Run, explanation: Explanation) -> Iterator[tuple[str, WorkloadProfile]]:
    """The profile of each job while the decision is in force."""
    stints = _in_force(run.tables["placements"], explanation.at_s, explanation.until_s)
    jobs = run.tables["jobs"].select("job", "model", "strategy")
    # The tables name the model of a job, but do not contain its profile.
    models = parse_trace(run.manifest["plan"]["given"], source="the trace in its manifest").file.models
    for row in stints.join(jobs, on="job", maintain_order="left").to_dicts():
        model = models[row["model"]]
        yield row["job"], model.profile(row["batch_size"], row["workers"], row["strategy"])


def _in_force(placements: pl.DataFrame, at_s: float, until_s: float) -> pl.DataFrame:
    """The last stint of each job that had GPUs between two times, in order of jobs."""
    overlaps = (pl.col("given_s") < until_s) & (pl.col("until_s") > at_s)
    found = placements.filter(overlaps).sort("given_s", maintain_order=True)
    return found.unique("job", keep="last", maintain_order=True).sort("job")


def _running(
    run: Run,
    every: int,
    stints: pl.DataFrame,
    window_s: tuple[float, float],
    slots: Mapping[str, Mapping[str, int]],
) -> Iterator[RunningJob]:
    """The jobs in `stints`, with their iterations in a window; each recorded iteration stands for `every`."""
    at_s, until_s = window_s
    begun = pl.max_horizontal("start_s", pl.lit(at_s))
    ended = pl.min_horizontal("end_s", pl.lit(until_s))
    part = pl.col("count") * (ended - begun) / (pl.col("end_s") - pl.col("start_s"))
    done = (
        run.tables["iterations"]
        .filter((pl.col("end_s") > at_s) & (pl.col("start_s") < until_s))
        .group_by("job")
        .agg(
            iterations_within=every * part.sum(),
            iteration_s=(pl.col("iteration_s") * part).sum() / part.sum(),
            ideal_s=(pl.col("ideal_s") * part).sum() / part.sum(),
        )
    )
    for row in stints.join(done, on="job", how="left", maintain_order="left").to_dicts():
        name = row["job"]
        yield RunningJob(
            job=name,
            gpus=tuple(row["gpus"]),
            iterations=row["iterations_within"] or 0.0,
            iteration_s=row["iteration_s"],
            ideal_s=row["ideal_s"],
            slot_s=slots[name]["period_ps"] / 1e12 if name in slots else None,
        )


def _delays(run: Run, running: Iterable[RunningJob], decision: int) -> Iterator[Delay]:
    iterations = {each.job: each.iterations for each in running}
    lost = run.tables["delays"].filter(pl.col("decision") == decision)
    found = [
        Delay(row["link"], row["job"], row["other"], row["delay_s"] / iterations[row["job"]])
        for row in lost.to_dicts()
        # A job that finished no iteration meanwhile has no delay per iteration.
        if iterations.get(row["job"])
    ]
    yield from sorted(found, key=lambda each: (-each.per_iteration_s, each.link, each.job, each.other))


def _waiting(run: Run, running: Iterable[RunningJob], at_s: float) -> Iterator[str]:
    """Jobs that have arrived, are not done and have no GPUs."""
    with_gpus = {each.job for each in running}
    for row in run.tables["jobs"].select("job", "arrival_s", "end_s").to_dicts():
        gone = row["end_s"] is not None and row["end_s"] <= at_s
        if row["arrival_s"] <= at_s and not gone and row["job"] not in with_gpus:
            yield row["job"]


def _links(run: Run, stints: pl.DataFrame, decision: int) -> Iterator[SharedLink]:
    """Links shared while a decision is in force, and links that would have been shared without CASSINI."""
    crossing: dict[str, list[str]] = {}
    for row in stints.to_dicts():
        for link in row["links"]:
            crossing.setdefault(link, []).append(row["job"])
    scores = run.tables["link_scores"].filter(pl.col("decision") == decision)
    scored = {row["link"]: row for row in scores.to_dicts()}
    shared = [link for link, jobs in crossing.items() if len(jobs) > 1]
    for link in dict.fromkeys([*scored, *sorted(shared)]):
        score = scored.get(link, {"before": None, "after": None})
        yield SharedLink(link, tuple(crossing.get(link, ())), score["before"], score["after"])
