"""Simulates a few iterations of a plan again and samples the link that most jobs share, for figures."""

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
"""Samples over the iterations shown: more than a figure can resolve."""


@dataclass(frozen=True)
class LinkUse:
    """The traffic of each job over one link, from `begin_s` to `end_s` of a run."""

    link: str
    capacity_bps: int
    shared_links: int
    """Number of links that carry several jobs in that time."""
    jobs: tuple[str, ...]
    """All jobs of the plan, in its order."""
    rates: pl.DataFrame
    """`job, start_s, rate_bps`: the sum over a job's flows, which lasts until the job's next row."""
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class RunWindow:
    """The run of a plan from `begin_s` to `end_s`; `candidate` and `engine` as in `simulate`."""

    plan: Plan
    begin_s: float
    end_s: float
    candidate: str | None = None
    engine: Engine | None = None


def link_use(
    plan: Plan, run: Run, *, candidate: str | None = None, engine: Engine | None = None
) -> dict[str, LinkUse]:
    """The use of a link by each job during four iterations of `plan`; `uses_of` chooses the link.

    `run` is the complete run of `plan`, from which the length of iterations and the end of the run are taken.
    If any job has a time-shift, `sharing` is the plan without time-shifts and `shifted` the plan itself;
    otherwise the result has `sharing` alone. The four iterations are those that `four_iterations` selects.

    Raises `InputError` if no job sends anything in that time.
    """
    starts = run.tables["iterations"].group_by("job").agg(pl.col("start_s").min())
    begin_s, end_s = four_iterations(
        run.tables["jobs"]["mean_iteration_s"], starts["start_s"], float(run.manifest["simulated_s"])
    )
    shifted = any(job.time_shift_ps for job in plan.jobs)
    plain = plan.replace(jobs=[job.replace(time_shift=None) for job in plan.jobs]) if shifted else plan
    plans = {"sharing": plain, "shifted": plan} if shifted else {"sharing": plain}
    uses = uses_of({name: RunWindow(each, begin_s, end_s, candidate, engine) for name, each in plans.items()})
    if not uses:
        raise InputError(f"figure: no job sends anything from {begin_s:g} s to {end_s:g} s of the run")
    return uses


def four_iterations(iterations_s: pl.Series, starts_s: pl.Series, ended_s: float) -> tuple[float, float]:
    """The begin and the end of the four iterations to show, in seconds.

    `iterations_s` is the mean iteration time of each job, `starts_s` its first start; the longest iteration
    counts. The four begin when the second job has started and, if the run is long enough, one iteration
    later, so that time-shifts have taken effect.

    Raises `InputError` if no job has finished an iteration.
    """
    longest_s = iterations_s.drop_nulls().max()
    if not isinstance(longest_s, float):
        raise InputError("figure: no job of the run has finished an iteration")
    ordered_s = starts_s.sort()
    together_s = float(ordered_s[min(1, ordered_s.len() - 1)])
    if together_s + (1 + _ITERATIONS) * longest_s <= ended_s:
        together_s += longest_s
    return together_s, min(together_s + _ITERATIONS * longest_s, ended_s)


def uses_of(windows: Mapping[str, RunWindow]) -> dict[str, LinkUse]:
    """The use of a link by each job in each of `windows`, all of which are simulated with sampling.

    The link is the one that most jobs share and, of several, the most loaded one. It is the same for all
    windows if some link carries traffic in all of them; otherwise each window has its own. Windows
    without any traffic are left out.
    """
    rates_bps = {name: dict(build_network(each.plan).links) for name, each in windows.items()}
    samples = {}
    for name, each in windows.items():
        # On packets, a plan with a [link] has links that it does not name, which carry acknowledgements only.
        rows = _sampled(each).filter(pl.col("link").is_in(list(rates_bps[name])))
        if rows.height:
            samples[name] = rows
    if not samples:
        return {}
    carried = pl.concat([_carried(name, rows, rates_bps[name]) for name, rows in samples.items()])
    # One link for all windows where possible: pictures of different links could not be compared.
    everywhere = (
        carried.group_by("link")
        .agg(pl.col("window").n_unique(), pl.col("jobs").max(), pl.col("load").sum())
        .filter(pl.col("window") == len(samples))
    )
    uses = {}
    for name, rows in samples.items():
        each, own = windows[name], carried.filter(window=name)
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
    """For each link of the window `name`, the number of jobs on it and how long it was busy."""
    rate_bps = pl.col("link").replace_strict(rates_bps, return_dtype=pl.Float64)
    return samples.group_by("link").agg(
        window=pl.lit(name),
        jobs=pl.col("job").n_unique(),
        load=(8 * pl.col("bytes") / rate_bps).sum(),
    )


def _busiest(links: pl.DataFrame) -> str:
    """The link that most jobs share; of several, the most loaded one."""
    # The name decides last, because grouped rows are in no fixed order.
    return str(links.sort(["jobs", "load", "link"], descending=[True, True, False])["link"][0])


def _step_ps(each: RunWindow) -> int:
    return max(1, round((each.end_s - each.begin_s) / _SAMPLES * PS_PER_S))


def _sampled(each: RunWindow) -> pl.DataFrame:
    """The table `utilisation` of a run that ends with the window."""
    # Tables other than the samples are not recorded: no figure shows them.
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
    """Rates from the begin of each sample; samples of no bytes, absent from `samples`, become rate 0."""
    # A sample is numbered and dated by its end.
    ends_s = pl.DataFrame({"sample": range(1, round(end_s / step_s) + 2)})
    every = pl.DataFrame({"job": list(jobs)}).join(ends_s, how="cross")
    taken = samples.select("job", "bytes", sample=(pl.col("at_s") / step_s).round().cast(pl.Int64))
    return every.join(taken, on=["job", "sample"], how="left", maintain_order="left").select(
        "job",
        start_s=(pl.col("sample") - 1) * step_s,
        rate_bps=pl.col("bytes").fill_null(0) * 8 / step_s,
    )
