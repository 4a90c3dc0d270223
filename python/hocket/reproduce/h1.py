"""H1 and H2: two VGG19 jobs under fair and unfair sharing, and how unfairness slides them apart.

HotNets'22 Fig 1 and 2. The paper gives no batch size; the job here is put together from what it prints.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hocket.figures.cdf import CdfPanel, cdf_figure
from hocket.figures.timeline import panel_of, timeline_figure
from hocket.reproduce.measure import (
    communication_start_s,
    contended_rates_gbps,
    end_s,
    iteration_times_s,
    overlaps,
)
from hocket.reproduce.setting import JITTER, Tables, in_time, link_plan, workload
from hocket.reproduce.target import Progress, Reproduction, Row
from hocket.results import Run
from hocket.runner import simulate

# 30 + 15 Gbps of Fig 1c: what the link carries of its 50 Gbps.
CAPACITY_BPS = 45 * 10**9
# J1's 30 Gbps against J2's 15.
WEIGHT = 2.0
# 0.38 − 0.28 s and 0.42 − 0.32 s: from the end of an iteration to the next communication in Fig 2b.
DOWN_S = 0.1
# VGG19 has 549 MB (NSDI'24 Table 3); a ring all-reduce between two workers sends each byte once.
SIZE_BYTES = 549 * 10**6
UP_S = SIZE_BYTES * 8 / CAPACITY_BPS
SEPARATED = 0.05
# Fig 2 shows about four iterations.
_SHOWN_S = 1.3
_NOTES = (
    "The job: 100 ms Down (from the end of an iteration to the next communication in Fig 2b), then 549 MB "
    "(NSDI'24 Table 3) at up to 45 Gbps, the 30 + 15 Gbps of Fig 1c: a period of 197.6 ms.",
    "The flow engine takes the unfairness as a weight of 2 for J1, the ratio that the paper observed; why "
    "timers of 100 and 125 µs give that ratio is for a packet engine to show.",
)


def fig_2_job(name: str, **policy: object) -> Tables:
    """The VGG19 job that Fig 1 and 2 describe, with further keys of a plan's `[[jobs]]`."""
    up = {"start": in_time(DOWN_S), "duration": in_time(UP_S), "rate": f"{CAPACITY_BPS} bps"}
    return {"name": name, "period": in_time(DOWN_S + UP_S), "up": [up], **policy}


def runs(jitter: float) -> dict[str, Run]:
    """Both scenarios of Fig 1, 1,000 iterations each."""
    unfair = [fig_2_job("J1", jitter=jitter, share={"weighted": WEIGHT}), fig_2_job("J2", jitter=jitter)]
    return {
        "fair": simulate(_plan([fig_2_job("J1", jitter=jitter), fig_2_job("J2", jitter=jitter)])),
        "unfair": simulate(_plan(unfair)),
    }


def reproduce_h1(progress: Progress) -> Reproduction:
    """Rates in the first iteration and the speed-up of the median iteration."""
    progress("two VGG19 jobs, fair and unfair")
    scenarios = runs(JITTER)
    rates = {name: contended_rates_gbps(run) for name, run in scenarios.items()}
    speed_ups = _speed_ups(scenarios)
    progress("the same with the catalogue's VGG19")
    catalogue = _speed_ups(_catalogue_runs())
    why_faster = (
        "our Up phase is all network, so half the rate doubles it; the paper's also holds backpropagation "
        "(§2), which no rate shortens (see the catalogue's job)"
    )
    rows = [
        Row("J1 in iteration 1, fair", 21.0, rates["fair"]["J1"], "Gbps", "half of the 45 Gbps of Fig 1c"),
        Row("J2 in iteration 1, fair", 21.0, rates["fair"]["J2"], "Gbps"),
        Row("J1 in iteration 1, unfair", 30.0, rates["unfair"]["J1"], "Gbps", "an input: weight 2"),
        Row("J2 in iteration 1, unfair", 15.0, rates["unfair"]["J2"], "Gbps"),
        *(Row(f"{job} median speed-up", 1.23, speed_ups[job], "×", why_faster) for job in ("J1", "J2")),
        *(
            Row(f"{job} median speed-up, catalogue's VGG19 (1400)", 1.23, catalogue[job], "×", "at 45 Gbps")
            for job in ("J1", "J2")
        ),
    ]
    return Reproduction(
        "H1",
        "Fair against unfair sharing of two VGG19 jobs (HotNets'22 Fig 1)",
        tuple(rows),
        partial(_cdf, scenarios),
        (*_NOTES, f"1,000 iterations per job with {JITTER:.0%} jitter."),
    )


def reproduce_h2(progress: Progress) -> Reproduction:
    """How the communication phases slide apart, iteration by iteration."""
    progress("the slide without jitter")
    scenarios = runs(0.0)
    unfair = scenarios["unfair"]
    shares = overlaps(unfair, "J1", "J2")
    separated = int(np.argmax(shares < SEPARATED)) + 1
    later = float(np.mean(shares[separated - 1 :] >= SEPARATED))
    progress("the slide with jitter")
    jittered = overlaps(runs(JITTER)["unfair"], "J1", "J2")
    faster = "our J1 gets 30 Gbps for 549 MB; the paper's Up phase also holds backpropagation"
    rows = (
        Row("iteration 1 of J1 ends", 0.28, end_s(unfair, "J1", 0), "s", faster),
        Row("iteration 1 of J2 ends", 0.32, end_s(unfair, "J2", 0), "s"),
        Row("next communication of J1", 0.38, communication_start_s(unfair, "J1", 1), "s"),
        Row("next communication of J2", 0.42, communication_start_s(unfair, "J2", 1), "s"),
        Row(
            f"first iteration with less than {SEPARATED:.0%} overlap",
            4,
            separated,
            "",
            f"overlap shrinks as {_percentages(shares[:separated])}; the paper reads separation off a "
            "smoothed plot",
        ),
        Row("share of later iterations that overlap", "none", "none" if later == 0 else f"{later:.1%}"),
        Row(
            f"the same with {JITTER:.0%} jitter",
            None,
            float(np.mean(jittered[separated - 1 :] >= SEPARATED)),
            "",
            f"Up fills {1e3 * UP_S:.1f} of the {1e3 * DOWN_S:.0f} ms that the other leaves: jitter of "
            f"{1e3 * JITTER * DOWN_S:.0f} ms makes them touch again",
        ),
    )
    return Reproduction(
        "H2", "Unfairness slides two jobs apart (HotNets'22 Fig 2)", rows, partial(_slide, scenarios), _NOTES
    )


def _plan(jobs: list[Tables]) -> Tables:
    return link_plan("two VGG19 jobs", jobs, capacity=f"{CAPACITY_BPS} bps", rates_until=f"{_SHOWN_S} s")


def _catalogue_runs() -> dict[str, Run]:
    fair = [workload(name, "VGG19", 1400, jitter=JITTER) for name in ("J1", "J2")]
    unfair = [{**fair[0], "share": {"weighted": WEIGHT}}, fair[1]]
    return {"fair": simulate(_plan(fair)), "unfair": simulate(_plan(unfair))}


def _speed_ups(scenarios: Mapping[str, Run]) -> dict[str, float]:
    medians_s = {
        name: {job: float(np.median(iteration_times_s(run, job))) for job in ("J1", "J2")}
        for name, run in scenarios.items()
    }
    return {job: medians_s["fair"][job] / medians_s["unfair"][job] for job in ("J1", "J2")}


def _percentages(shares: np.ndarray) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


def _cdf(scenarios: Mapping[str, Run]) -> Figure:
    panels = [
        CdfPanel(
            job,
            {name: [1e3 * time for time in iteration_times_s(run, job)] for name, run in scenarios.items()},
        )
        for job in ("J1", "J2")
    ]
    return cdf_figure(panels, "iteration time (ms)", "Two VGG19 jobs on one link")


def _slide(scenarios: Mapping[str, Run]) -> Figure:
    panels = [panel_of(run, name, 0.0, _SHOWN_S) for name, run in scenarios.items()]
    return timeline_figure(panels, CAPACITY_BPS, "Link utilisation under fair and unfair sharing")
