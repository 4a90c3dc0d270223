"""Agents start iterations at the same times as the flow engine's simulated agent."""

import numpy as np
import pytest
from tests.agent.jobs import MS, Job, answering, simulate, slot_of

from hocket import _hocket

AFTER_MS = 60
"""From the start of an iteration to its communication, in all jobs here."""


def engine_starts_ms(
    origins_ms: list[int], period_ms: int, aligned_ms: int, until_ms: int
) -> list[list[float]]:
    """Start times of the iterations of such jobs on the flow engine with its own agent. All jobs start at 0
    and receive their slots at `aligned_ms`; there, slots are for the starts of iterations.
    """
    fabric = _hocket.Fabric.one_link(50 * 10**9)
    run = _hocket.ClusterRun(
        fabric, {"seed": 1, "priority_queues": 1, "goodput": (), "merge": 0.0, "marks": None}
    )
    for index in range(len(origins_ms)):
        job = run.add(f"job {index}")
        run.start(
            job,
            {
                "profile": {
                    "period_ps": 180 * 10**9,
                    "phases": [{"start_ps": 60 * 10**9, "duration_ps": 90 * 10**9, "rate_bps": 40 * 10**9}],
                },
                "crossings": [(0, 1)],
                "inputs": [],
                "at_ps": 0,
                "iterations": 10_000,
                "share": ("fair", 1.0),
                "priority": 0,
                "jitter": 0.0,
            },
        )
    run.advance(aligned_ms * 10**9)
    for job, origin_ms in enumerate(origins_ms):
        run.align(job, origin_ms * 10**9, period_ms * 10**9, True)
    run.advance(until_ms * 10**9)
    columns = run.take_tables()["iterations"]
    rows = {
        name: np.frombuffer(each["buffer"], each["dtype"]).astype(np.int64) for name, each in columns.items()
    }
    # Consecutive identical iterations share one row.
    each_ps = (rows["duration_ps"] + rows["delayed_ps"]) // rows["count"]
    starts_ps = np.repeat(rows["start_ps"], rows["count"])
    places = np.arange(len(starts_ps)) - np.repeat(np.cumsum(rows["count"]) - rows["count"], rows["count"])
    starts_ps = starts_ps + places * np.repeat(each_ps, rows["count"])
    jobs = np.repeat(rows["job"], rows["count"])
    return [sorted((starts_ps[jobs == job] / 1e9).tolist()) for job in range(len(origins_ms))]


@pytest.mark.parametrize("origins_ms", [[1_717], [1_700, 1_790], [1_700, 1_730]])
@pytest.mark.parametrize("period_ms", [180, 191])
def test_agents_start_iterations_when_the_simulated_agent_does(origins_ms: list[int], period_ms: int) -> None:
    jobs = [Job() for _ in origins_ms]
    for job, origin_ms in zip(jobs, origins_ms, strict=True):
        job.slot = slot_of(origin_ms + AFTER_MS, period_ms)
    simulate(jobs, 10, answering(jobs, from_second=1))
    engine = engine_starts_ms(origins_ms, period_ms, aligned_ms=1_000, until_ms=10_000)
    for job, expected_ms in zip(jobs, engine, strict=True):
        started_ms = [(at - AFTER_MS * MS) / MS for at in job.communication_ns]
        both = min(len(started_ms), len(expected_ms))
        assert both > 30
        assert started_ms[:both] == pytest.approx(expected_ms[:both], abs=0.001)
