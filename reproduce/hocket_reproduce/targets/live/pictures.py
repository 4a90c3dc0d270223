"""LIVE's figure: iteration times, and the rates of jobs on the link, live and as predicted."""

from collections.abc import Sequence

import polars as pl
from matplotlib.figure import Figure

from hocket.figures.timeline import TimelinePanel
from hocket.plan import parse_plan
from hocket.results import Run
from hocket.results.times import in_ps
from hocket_reproduce.figures.cdf import CdfPanel
from hocket_reproduce.figures.live import LivePanels, live_figure
from hocket_reproduce.targets.live.plans import (
    JOBS,
    SAMPLE_MS,
    SHIFTED,
    UNSHIFTED,
    live_plan,
)
from hocket_reproduce.targets.live.runs import PLACES, Measured, own_link
from hocket_reproduce.targets.measure import PS_PER_S, iteration_times_s

# Five iterations.
_STRETCH_S = 1.5
_SAMPLE_PS = SAMPLE_MS * 10**9


def figure(measured: Sequence[Measured]) -> Figure:
    """LIVE's figure, with a column for each of `PLACES`; see `live_figure`."""
    link = parse_plan(live_plan(measured[0].name)).link
    assert link is not None, "its jobs share one link"
    panels = [_panels(each) for each in measured]
    return live_figure(panels, link.capacity_bps, "Two real jobs on one link, and their predictions")


def _panels(measured: Measured) -> LivePanels:
    times = {
        place: CdfPanel(
            f"{measured.name}: {place}",
            {case: _times_ms(outcome.runs[place]) for case, outcome in measured.cases.items()},
        )
        for place in PLACES
    }
    stretches = [
        {
            place: _stretch(measured.cases[case].runs[place], f"{case}, {when}: {place}", is_last)
            for place in PLACES
        }
        for case, when, is_last in (
            (UNSHIFTED.name, "first", False),
            (UNSHIFTED.name, "last", True),
            (SHIFTED.name, "last", True),
        )
    ]
    return LivePanels(times, stretches)


def _times_ms(run: Run) -> list[float]:
    return [1e3 * time_s for job in JOBS for time_s in iteration_times_s(run, job).tolist()]


def _stretch(run: Run, title: str, is_last: bool) -> TimelinePanel:
    """The first stretch of `run`, or the last one before any of its jobs ends."""
    ends_s = run.tables["iterations"].group_by("job").agg(pl.col("end_s").max())["end_s"]
    begin_s = max(0.0, min(ends_s.to_list()) - _STRETCH_S) if is_last else 0.0
    return TimelinePanel(title, JOBS, sent_rates(run), begin_s, begin_s + _STRETCH_S)


def sent_rates(run: Run) -> pl.DataFrame:
    """Rates of jobs on the link of a run of any of `PLACES`, with the columns `job, start_s, rate_bps`."""
    match run.manifest["engine"]:
        case "flow":
            return run.tables["rates"]
        case "live":
            return pl.concat(own_link(run, job) for job in JOBS).select("job", "start_s", "rate_bps")
        case _:
            return _sampled_rates(run.tables["utilisation"].filter(pl.col("link") == "link"))


def _sampled_rates(samples: pl.DataFrame) -> pl.DataFrame:
    """Rates from samples of bytes."""
    # The table leaves out samples without bytes: they are filled in, or the last rate would seem to last.
    samples = samples.with_columns(at_ps=in_ps("at_s"))
    last_ps = int(samples["at_ps"].to_numpy().max())
    times_ps = pl.Series("at_ps", range(_SAMPLE_PS, last_ps + 1, _SAMPLE_PS), dtype=pl.Int64)
    every = pl.DataFrame({"job": list(JOBS)}).join(times_ps.to_frame(), how="cross")
    return every.join(samples, on=["job", "at_ps"], how="left", maintain_order="left").select(
        "job",
        start_s=(pl.col("at_ps") - _SAMPLE_PS) / PS_PER_S,
        rate_bps=pl.col("bytes").fill_null(0) * 8 * PS_PER_S / _SAMPLE_PS,
    )
