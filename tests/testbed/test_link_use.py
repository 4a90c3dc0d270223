"""Who used a link when, from the counters of NICs."""

import polars as pl
import pytest
from tests.testbed.conftest import two_jobs
from tests.testbed.test_layout import fabric_plan

from hocket.errors import InputError
from hocket.figures.run import run_figure
from hocket.plan import Plan, parse_plan
from hocket.results import Run
from hocket.testbed.counters import SCHEMA
from hocket.testbed.layout import Layout, lay_out
from hocket.testbed.link_use import measured_use

MBPS = 10**6


def run_of(plan: Plan, layout: Layout, rates_bps: dict[str, list[float]]) -> Run:
    """A run of ten iterations of 100 ms, in which links carried so much, in each 100 ms in turn."""
    jobs = [job.name for job in plan.jobs]
    iterations = [(job, number, number / 10, (number + 1) / 10, 0.1) for job in jobs for number in range(10)]
    capacities = {name: link.capacity_bps for link in layout.links for name in link.names}
    rows = [
        (link, None, step / 10, (step + 1) / 10, round(rate / 80), rate, rate / capacities[link])
        for link, rates in rates_bps.items()
        for step in range(10)
        for rate in (rates[step % len(rates)],)
    ]
    tables = {
        "jobs": pl.DataFrame({"job": jobs, "mean_iteration_s": [0.1] * len(jobs)}),
        "iterations": pl.DataFrame(
            iterations, schema=["job", "iteration", "start_s", "end_s", "iteration_s"], orient="row"
        ),
        "utilisation": pl.DataFrame(rows, schema=SCHEMA, orient="row"),
    }
    return Run(tables, {"measured_s": 1.0})


def carried(rates: pl.DataFrame, job: str, at_s: float) -> float:
    (rate_bps,) = rates.filter(pl.col("job") == job, pl.col("start_s") == at_s)["rate_bps"]
    return float(rate_bps)


def test_a_job_has_of_the_shared_link_what_its_nic_sent() -> None:
    plan = parse_plan(two_jobs())
    layout = lay_out(plan, "bed")
    run = run_of(
        plan,
        layout,
        {
            "link left->right": [160 * MBPS],
            "link right->left": [120 * MBPS],
            "a.left->left": [160 * MBPS, 0],
            "b.left->left": [0, 160 * MBPS],
            # The way back, of which another direction of the link is made.
            "a.right->right": [80 * MBPS],
            "b.right->right": [40 * MBPS],
        },
    )
    use = measured_use(layout, run)
    assert (use.link, use.capacity_bps, use.shared_links) == ("link", 200 * MBPS, 2)
    assert [use.begin_s, use.end_s] == pytest.approx([0.1, 0.5])
    assert carried(use.rates, "a", 0.2) == carried(use.rates, "b", 0.3) == 160 * MBPS
    assert carried(use.rates, "a", 0.3) == carried(use.rates, "b", 0.2) == 0
    above, below = run_figure(run, {"measured": use}, "live").axes
    assert (above.get_ylabel(), below.get_title(loc="left")) == ("rate (Mbps)", "iteration times")
    assert "200 Mbps" in [text.get_text() for text in above.texts]


def test_workers_whose_paths_do_not_cross_the_link_do_not_count() -> None:
    # Of the four flows of this ring, one leaves the first rack, one comes back to it, and two stay in theirs.
    plan = fabric_plan(racks=2, spines=1, rings=[[0, 1, 2, 3]])
    layout = lay_out(plan, "bed")
    (crossing,) = (worker for worker in layout.workers() if worker.path[1].startswith("tor0->spine0"))
    nic, link, *_ = crossing.path
    rates = {worker.path[0]: [10.0 * MBPS] for worker in layout.workers()} | {nic: [7.0 * MBPS]}
    use = measured_use(layout, run_of(plan, layout, {**rates, link: [90.0 * MBPS]}))
    assert (use.link, use.shared_links) == (link, 0)
    assert carried(use.rates, plan.jobs[0].name, 0.2) == 7 * MBPS


def test_a_run_whose_counters_were_not_read_is_refused() -> None:
    plan = parse_plan(two_jobs())
    layout = lay_out(plan, "bed")
    with pytest.raises(InputError, match="the counters of no link were read"):
        measured_use(layout, run_of(plan, layout, {}))
