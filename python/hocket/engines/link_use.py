"""Some iterations of a plan again, with the traffic on the link that most jobs share: for pictures."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from hocket.engines.network import build_network
from hocket.engines.run import simulate
from hocket.errors import InputError
from hocket.plan import Engine, Plan, RunSettings
from hocket.profiles import PS_PER_S
from hocket.results import Run

_ITERATIONS = 4
_SAMPLES = 600
"""Of the iterations that are shown: finer than a picture."""


@dataclass(frozen=True)
class LinkUse:
    """What jobs send over a link from `begin_s` to `end_s` of a run."""

    link: str
    capacity_bps: int
    shared_links: int
    """How many links carry several jobs in it."""
    jobs: tuple[str, ...]
    """All of the plan, in its order."""
    rates: pl.DataFrame
    """`job, start_s, rate_bps` of all flows of a job; each until the job's next row."""
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Stretch:
    """A plan from `begin_s` to `end_s` of its run, with a candidate and on an engine as in `simulate`."""

    plan: Plan
    begin_s: float
    end_s: float
    candidate: str | None = None
    engine: Engine | None = None


def link_use(
    plan: Plan, run: Run, *, candidate: str | None = None, engine: Engine | None = None
) -> dict[str, LinkUse]:
    """The use of a link by each job in four iterations of `plan`, as `uses_of` finds it.

    `run` is the whole run of `plan`: it says how long iterations take and when the run ends. Where jobs have
    time-shifts, `sharing` is the plan without them and `shifted` the plan itself; otherwise there is
    `sharing` alone. The iterations begin once two jobs are there, after a first one, in which shifts begin.

    Raises `InputError` if no job sends anything by then.
    """
    starts = run.tables["iterations"].group_by("job").agg(pl.col("start_s").min())
    begin_s, end_s = stretch(
        run.tables["jobs"]["mean_iteration_s"], starts["start_s"], float(run.manifest["simulated_s"])
    )
    shifted = any(job.time_shift_ps for job in plan.jobs)
    plain = plan.replace(jobs=[job.replace(time_shift=None) for job in plan.jobs]) if shifted else plan
    plans = {"sharing": plain, "shifted": plan} if shifted else {"sharing": plain}
    uses = uses_of({name: Stretch(each, begin_s, end_s, candidate, engine) for name, each in plans.items()})
    if not uses:
        raise InputError(f"a figure: no job sends anything from {begin_s:g} s to {end_s:g} s of the run")
    return uses


def stretch(iterations_s: pl.Series, starts_s: pl.Series, ended_s: float) -> tuple[float, float]:
    """From when to when four iterations are, by the mean length of those of each job and its first start:
    once two jobs are there and, if the run is that long, after a first one.

    Raises `InputError` if no job has finished an iteration.
    """
    longest_s = iterations_s.drop_nulls().max()
    if not isinstance(longest_s, float):
        raise InputError("a figure: no job of the run has finished an iteration")
    ordered_s = starts_s.sort()
    together_s = float(ordered_s[min(1, ordered_s.len() - 1)])
    if together_s + (1 + _ITERATIONS) * longest_s <= ended_s:
        together_s += longest_s
    return together_s, min(together_s + _ITERATIONS * longest_s, ended_s)


def uses_of(stretches: Mapping[str, Stretch]) -> dict[str, LinkUse]:
    """The use of a link by each job in each of `stretches`, which are simulated with samples; those in which
    no job sends anything are left out.

    It is the link that most jobs share and, of several, that is loaded most: of those that carry something in
    all stretches or, if there is none, in each.
    """
    rates_bps = {name: dict(build_network(each.plan).links) for name, each in stretches.items()}
    samples = {}
    for name, each in stretches.items():
        # Without those that carry acknowledgements alone, which a plan with a [link] does not name.
        rows = _sampled(each).filter(pl.col("link").is_in(list(rates_bps[name])))
        if rows.height:
            samples[name] = rows
    if not samples:
        return {}
    carried = pl.concat([_carried(name, rows, rates_bps[name]) for name, rows in samples.items()])
    everywhere = (
        carried.group_by("link")
        .agg(pl.col("stretch").n_unique(), pl.col("jobs").max(), pl.col("load").sum())
        .filter(pl.col("stretch") == len(samples))
    )
    uses = {}
    for name, rows in samples.items():
        each, own = stretches[name], carried.filter(stretch=name)
        link = _busiest(everywhere if everywhere.height else own)
        jobs = tuple(job.name for job in each.plan.jobs)
        uses[name] = LinkUse(
            link=link,
            capacity_bps=rates_bps[name][link],
            shared_links=own.filter(pl.col("jobs") > 1).height,
            jobs=jobs,
            rates=_rates(rows.filter(pl.col("link") == link), jobs, each.end_s, _step_ps(each) / PS_PER_S),
            begin_s=each.begin_s,
            end_s=each.end_s,
        )
    return uses


def _carried(name: str, samples: pl.DataFrame, rates_bps: Mapping[str, int]) -> pl.DataFrame:
    """The links of the stretch `name`: how many jobs each has carried, and for how long it was busy."""
    rate_bps = pl.col("link").replace_strict(rates_bps, return_dtype=pl.Float64)
    return samples.group_by("link").agg(
        stretch=pl.lit(name),
        jobs=pl.col("job").n_unique(),
        load=(8 * pl.col("bytes") / rate_bps).sum(),
    )


def _busiest(links: pl.DataFrame) -> str:
    """The link that most jobs share and, of several, that is loaded most."""
    return str(links.sort(["jobs", "load", "link"], descending=[True, True, False])["link"][0])


def _step_ps(each: Stretch) -> int:
    return max(1, round((each.end_s - each.begin_s) / _SAMPLES * PS_PER_S))


def _sampled(each: Stretch) -> pl.DataFrame:
    """The table `utilisation` of a run until the end of a stretch."""
    settings = RunSettings(
        engine=each.plan.run.engine,
        iterations=each.plan.run.iterations,
        until=f"{round(each.end_s * PS_PER_S)} ps",
        sample_every=f"{_step_ps(each)} ps",
        record_operations=0,
        record_flows=False,
    )
    plan = each.plan.replace(run=settings)
    run = simulate(plan, candidate=each.candidate, engine=each.engine)
    if run.interrupted:
        raise KeyboardInterrupt
    return run.tables["utilisation"]


def _rates(samples: pl.DataFrame, jobs: tuple[str, ...], end_s: float, step_s: float) -> pl.DataFrame:
    """Samples of bytes, of which those without any are left out, as rates from their begin on."""
    ends_s = pl.DataFrame({"sample": range(1, round(end_s / step_s) + 2)})
    every = pl.DataFrame({"job": list(jobs)}).join(ends_s, how="cross")
    taken = samples.select("job", "bytes", sample=(pl.col("at_s") / step_s).round().cast(pl.Int64))
    return every.join(taken, on=["job", "sample"], how="left", maintain_order="left").select(
        "job",
        start_s=(pl.col("sample") - 1) * step_s,
        rate_bps=pl.col("bytes").fill_null(0) * 8 / step_s,
    )
