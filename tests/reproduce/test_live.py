"""LIVE at a smaller size, and its predictions, which need no testbed."""

import numpy as np
import pytest

from hocket.plan import parse_plan
from hocket.tcp import requirements
from hocket_reproduce.targets import TARGETS
from hocket_reproduce.targets.live.pictures import sent_rates
from hocket_reproduce.targets.live.plans import (
    ADAPTIVE,
    CASES,
    JOBS,
    PERIOD_MS,
    SHIFTED,
    UNEQUAL,
    UNSHIFTED,
    in_case,
    live_plan,
    predicted,
)
from hocket_reproduce.targets.live.rows import rows
from hocket_reproduce.targets.live.runs import ENGINES, CaseRuns, measure

ITERATIONS = 12
LACKING = TARGETS["LIVE"].missing()


def outcome(name: str, case: str) -> CaseRuns:
    """A case on both engines."""
    chosen = next(each for each in CASES if each.name == case)
    runs = predicted(in_case(live_plan(name, ITERATIONS), chosen), chosen)
    return CaseRuns(chosen, dict(zip(ENGINES, runs, strict=True)))


@pytest.mark.parametrize("engine", ENGINES)
def test_shifts_are_predicted_to_remove_contention_between_compatible_jobs(engine: str) -> None:
    unshifted, shifted = (outcome("compatible", case.name).mean_ms(engine) for case in (UNSHIFTED, SHIFTED))
    # Each sends for 120 ms at 400 of 500 Mbps, together for up to 192 ms; once one has ended, the other is
    # faster. Slots leave room for jitter.
    assert 355 < unshifted < 375
    assert PERIOD_MS <= shifted < 1.02 * PERIOD_MS


def test_unequal_weights_decide_which_incompatible_job_waits() -> None:
    unequal = outcome("incompatible", UNEQUAL.name)
    assert unequal.mean_ms("flow engine", "a") < unequal.mean_ms("flow engine", "b")
    assert in_case(live_plan("compatible"), ADAPTIVE)["jobs"][1]["share"] == {"adaptive": 1.0}


def test_sent_rates_add_up_to_the_bytes_of_the_phases_on_both_engines() -> None:
    plan = live_plan("compatible", ITERATIONS)
    phase = parse_plan(plan).jobs[0].profiles()[0].phases[0]
    phase_bytes = phase.rate_bps * phase.duration_ps / 8e12
    runs = outcome("compatible", SHIFTED.name).runs
    for engine, headers in zip(ENGINES, (1.0, 1.06), strict=True):
        for job in JOBS:
            rates = sent_rates(runs[engine]).filter(job=job)
            lasted_s = np.diff(rates["start_s"].to_numpy())
            sent_bytes = float(lasted_s @ rates["rate_bps"].to_numpy()[:-1]) / 8
            assert sent_bytes == pytest.approx(headers * ITERATIONS * phase_bytes, rel=0.02)


@pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING))
def test_a_short_live_run_has_a_row_for_every_case_beside_both_engines() -> None:
    measured = measure("compatible", lambda _: None, ITERATIONS)
    unfair = [] if requirements.missing() else [UNEQUAL.name, ADAPTIVE.name]
    assert list(measured.cases) == [UNSHIFTED.name, SHIFTED.name, *unfair]
    for alone in measured.alone.values():
        # No upper bound: other work on this machine may slow it.
        assert alone.mean_ms("live") > 0.99 * PERIOD_MS
    quantities = [row.quantity for row in rows(measured)]
    assert len(quantities) == len(set(quantities))
    for each in (*measured.alone.values(), *measured.cases.values()):
        assert each.runs["live"].manifest["status"] == "complete"
