"""Some iterations of a plan again, with the traffic on the link that most jobs share: for pictures."""

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
    """How many links carry several jobs, this one included."""
    jobs: tuple[str, ...]
    """All of the plan, in its order."""
    rates: pl.DataFrame
    """`job, start_s, rate_bps` of all flows of a job; each until the job's next row."""
    begin_s: float
    end_s: float


def link_use(
    plan: Plan, run: Run, *, candidate: str | None = None, engine: Engine | None = None
) -> dict[str, LinkUse]:
    """The use of a link by each job in four iterations of `plan`: of the link that most jobs share and, of
    several, that is loaded most.

    `run` is the whole run of `plan`: it says how long iterations take and when the run ends. The iterations
    are simulated again with samples. Where jobs have time-shifts, `sharing` is the plan without them and
    `shifted` the plan itself, on the same link; otherwise there is `sharing` alone. They begin once two jobs
    are there, after a first iteration, in which shifts begin.

    Raises `InputError` if no job sends anything by then.
    """
    begin_s, end_s = _stretch(run)
    shifted = any(job.time_shift_ps for job in plan.jobs)
    plain = plan.replace(jobs=[job.replace(time_shift=None) for job in plan.jobs]) if shifted else plan
    plans = {"sharing": plain, "shifted": plan} if shifted else {"sharing": plain}
    samples = {name: _sampled(each, candidate, engine, begin_s, end_s) for name, each in plans.items()}
    # Without those that carry acknowledgements alone, which a plan with a [link] does not name.
    rates_bps = dict(build_network(plan).links)
    rate_bps = pl.col("link").replace_strict(rates_bps, return_dtype=pl.Float64)
    carried = (
        pl.concat(samples.values())
        .filter(pl.col("link").is_in(list(rates_bps)))
        .group_by("link")
        .agg(pl.col("job").n_unique(), pl.col("bytes").sum())
        .with_columns(load=pl.col("bytes") / rate_bps)
        .sort(["job", "load", "link"], descending=[True, True, False])
    )
    if carried.is_empty():
        raise InputError(f"a figure: no job sends anything from {begin_s:g} s to {end_s:g} s of the run")
    link = carried["link"][0]
    jobs = tuple(job.name for job in plan.jobs)
    return {
        name: LinkUse(
            link=link,
            capacity_bps=rates_bps[link],
            shared_links=carried.filter(pl.col("job") > 1).height,
            jobs=jobs,
            rates=_rates(rows.filter(pl.col("link") == link), jobs, end_s, (end_s - begin_s) / _SAMPLES),
            begin_s=begin_s,
            end_s=end_s,
        )
        for name, rows in samples.items()
    }


def _stretch(run: Run) -> tuple[float, float]:
    """From when to when `link_use` simulates."""
    longest_s = run.tables["jobs"]["mean_iteration_s"].drop_nulls().max()
    if not isinstance(longest_s, float):
        raise InputError("a figure: no job of the run has finished an iteration")
    starts_s = run.tables["iterations"].group_by("job").agg(pl.col("start_s").min())["start_s"].sort()
    together_s = float(starts_s[min(1, starts_s.len() - 1)])
    ended_s = float(run.manifest["simulated_s"])
    if together_s + (1 + _ITERATIONS) * longest_s <= ended_s:
        together_s += longest_s
    return together_s, min(together_s + _ITERATIONS * longest_s, ended_s)


def _sampled(
    plan: Plan, candidate: str | None, engine: Engine | None, begin_s: float, end_s: float
) -> pl.DataFrame:
    """The run's table `utilisation` until `end_s`."""
    step_ps = max(1, round((end_s - begin_s) / _SAMPLES * PS_PER_S))
    settings = RunSettings(
        engine=plan.run.engine,
        iterations=plan.run.iterations,
        until=f"{round(end_s * PS_PER_S)} ps",
        sample_every=f"{step_ps} ps",
        record_operations=0,
        record_flows=False,
    )
    run = simulate(plan.replace(run=settings), candidate=candidate, engine=engine)
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
