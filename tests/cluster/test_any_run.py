"""What holds in every run of a small cluster: any jobs, under each scheduler, with any options.

Theorem 1 of NSDI'24 is asserted on the way, for every component whose shifts come from Algorithm 1.
"""

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hocket import Run
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace
from hocket.workloads import find_model

Tables = dict[str, Any]

POLICIES = [
    *["themis", "pollux-osdi21", "pollux-adaptdl", "random"],
    *["themis+cassini", "pollux-osdi21+cassini", "pollux-adaptdl+cassini", "random+cassini"],
    *["themis+crux", "fifo+cassini+mltcp", "random+crux+mltcp", "random+perfect-routing"],
    *["random+monkeytree", "themis+monkeytree+cassini", "pollux-osdi21+monkeytree", "random+monkeytree+crux"],
]
# Each with a batch size, and all numbers of workers that it may be submitted with here.
MODELS = {"VGG16": (1400, 4), "BERT": (8, 3), "DLRM": (512, 4), "GPT1": (48, 3), "GPT2": (48, 2)}
# Compute times vary normally: one so far from its mean comes once in a billion.
MOST_DEVIATIONS = 6


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Tables:
    """A job of up to a minute alone, which may be shrunk and grown."""
    model = draw(st.sampled_from(list(MODELS)))
    batch_size, most = MODELS[model]
    workers = 2 if model == "GPT2" else draw(st.integers(1, most))
    fixed = draw(st.booleans())
    return {
        "name": f"{model}-{number}",
        "model": model,
        "batch_size": batch_size,
        "workers": workers,
        "min_workers": workers if fixed else 1,
        "max_workers": workers if fixed else max(workers, most),
        "iterations": draw(st.integers(1, 60)),
        "arrival": f"{draw(st.integers(0, 60))} s",
    }


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """One to six jobs on four to twelve GPUs; leases, epochs and periods end meanwhile.

    They last several restarts: where jobs lose their GPUs as soon as they have restarted, none gets done.
    """
    clos = {
        "racks": draw(st.integers(2, 3)),
        "servers_per_rack": 2,
        "gpus_per_server": draw(st.integers(1, 2)),
        "spines": 1,
        "cables_per_spine": 1,
        "nic": "50 Gbps",
        "uplink": "50 Gbps",
    }
    scale_up = clos["gpus_per_server"] == 2
    cluster = {
        "gpus_per_host": 1 if scale_up else draw(st.integers(1, 2)),
        "jitter": draw(st.sampled_from([0, 0.01, 0.1])),
        "merge": draw(st.sampled_from([0, 0.1])),
        "restart_cost": draw(st.sampled_from(["0 s", "3 s", "10 s"])),
    }
    themis = {
        "epoch": "1 min",
        "lease": draw(st.sampled_from(["30 s", "1 min"])),
        "batch": draw(st.sampled_from(["0 s", "3 s"])),
        "exchange": draw(st.sampled_from(["restarting", "auctioned"])),
        "restart_cost": cluster["restart_cost"],
    }
    pollux = {
        "period": "30 s",
        "tune_batch_size": draw(st.booleans()),
        "scale_up": draw(st.sampled_from(["doubling", "any"])),
        "population": 20,
        "generations": 10,
    }
    cassini = {
        "candidates": draw(st.sampled_from([1, 4])),
        "aggregate": draw(st.sampled_from(["mean", "min", "tail", "fabric"])),
        "loops": draw(st.sampled_from(["discard", "solve"])),
        "adjust": draw(st.booleans()),
        "step_limit": 500,
    }
    return parse_trace(
        {
            "seed": draw(st.integers(0, 100)),
            "fabric": {"clos": clos, "scale_up": scale_up},
            "cluster": cluster,
            "themis": themis,
            "pollux": pollux,
            "cassini": cassini,
            "jobs": [draw(jobs(number)) for number in range(draw(st.integers(1, 6)))],
        }
    )


def shortest(trace: Trace) -> float:
    """What the shortest iteration is of one on an idle network."""
    return 1 - MOST_DEVIATIONS * trace.settings.jitter - 1e-9


def check_gpus(run: Run) -> None:
    """No GPU has two jobs at a time, and all time that jobs have them counts."""
    placements = run.tables["placements"]
    for _, stints in placements.explode("gpus").group_by("gpus"):
        for before, after in pairwise(stints.sort("given_s", "until_s").to_dicts()):
            assert before["until_s"] <= after["given_s"]
    hours = placements.group_by("job").agg(
        gpu_hours=((pl.col("until_s") - pl.col("given_s")) * pl.col("workers")).sum() / 3600
    )
    jobs = run.tables["jobs"].select("job", "gpu_hours")
    assert_frame_equal(hours, jobs, check_row_order=False, rel_tol=1e-9)


def check_work(run: Run, trace: Trace) -> None:
    """Every job is done, and its iterations make up its samples, the last perhaps with fewer."""
    assert run.tables["jobs"].select("job", "status").rows() == [(job.name, "done") for job in trace.jobs]
    for job in trace.jobs:
        mine = run.tables["iterations"].filter(pl.col("job") == job.name).sort("iteration")
        each = mine["workers"] * mine["batch_size"]
        samples = (each * mine["count"]).sum()
        assert samples - each[-1] < job.samples <= samples
        assert set(mine["workers"]) <= set(job.sizes)
        lowest, highest = find_model(job.model).batch_size_limits()
        assert mine["batch_size"].is_between(lowest, highest).all()
        for before, after in pairwise(mine.to_dicts()):
            assert before["iteration"] + before["count"] == after["iteration"]
            assert before["end_s"] <= after["start_s"] + 1e-9
        stints = run.tables["placements"].filter(pl.col("job") == job.name)
        assert stints["iterations"].sum() == mine["count"].sum()


def check_times(run: Run, trace: Trace) -> None:
    """Nothing is faster than on an idle network, no link carries more than it can, starts cost time."""
    iterations, links = run.tables["iterations"], run.tables["links"]
    took_s = iterations["iteration_s"] - iterations["delayed_s"]
    assert (iterations["delayed_s"] >= 0).all()
    assert (took_s >= iterations["ideal_s"] * shortest(trace)).all()
    assert (iterations["communication_s"] <= took_s + 1e-9).all()
    assert (links.group_by("link").agg(pl.col("utilisation").sum())["utilisation"] <= 1 + 1e-9).all()
    assert (links["contended_s"] <= links["busy_s"] + 1e-9).all()
    settings = trace.settings
    for _, stints in run.tables["placements"].group_by("job"):
        costs_ps = [settings.start_cost_ps, *[settings.restart_cost_ps] * (stints.height - 1)]
        for stint, cost_ps in zip(stints.sort("given_s", "until_s").to_dicts(), costs_ps, strict=True):
            assert stint["start_s"] - stint["given_s"] >= cost_ps / 1e12 - 1e-9


def check_against_ideal(run: Run, trace: Trace, policy: str) -> None:
    """Who keeps its workers and its batch size ends no sooner than in a cluster of its own."""
    ideal = {row["job"]: row for row in simulate_cluster(trace, "ideal").tables["jobs"].to_dicts()}
    tuned = policy.startswith("pollux") and trace.pollux.tune_batch_size
    for row in run.tables["jobs"].to_dicts():
        assert row["slowdown"] >= shortest(trace)
        fixed = len(next(job for job in trace.jobs if job.name == row["job"]).sizes) == 1
        if fixed and not tuned:
            assert row["completion_s"] >= ideal[row["job"]]["completion_s"] * shortest(trace)


def check_repeats(run: Run, again: Run) -> None:
    for name, table in run.tables.items():
        assert_frame_equal(table, again.tables[name], check_exact=True)


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=12)
@given(trace=traces())
def test_the_tables_of_every_run_are_consistent(policy: str, trace: Trace) -> None:
    run = simulate_cluster(trace, policy)
    check_gpus(run)
    check_work(run, trace)
    check_times(run, trace)
    check_against_ideal(run, trace, policy)
    check_repeats(run, simulate_cluster(trace, policy))
