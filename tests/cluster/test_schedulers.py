"""What holds under every scheduler: one job alone is as under Ideal, and a run repeats itself to the byte."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hocket import Run
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace

MakeTrace = Callable[..., Trace]

POLICIES = [
    "themis",
    "themis+cassini",
    "pollux-osdi21",
    "pollux-adaptdl",
    "pollux+cassini",
    "random",
    "random+cassini",
    "fifo",
    "fifo+cassini",
    "themis+crux",
    "themis+mltcp",
    "themis+cassini+perfect-routing",
    "fifo+monkeytree",
    "themis+monkeytree+cassini",
    "ideal",
]


def poisson(seed: int) -> Trace:
    """Ten minutes of jobs for 24 GPUs."""
    return parse_trace(
        {
            "fabric": {"testbed": "cassini"},
            "seed": seed,
            "poisson": {"load": 0.9, "duration": "10 min", "models": ["VGG16", "BERT", "DLRM"]},
        }
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_one_job_alone_runs_as_under_ideal(make_trace: MakeTrace, policy: str) -> None:
    job = {"name": "a", "workers": 4, "min_workers": 4, "max_workers": 4}
    pollux = {"tune_batch_size": False}
    trace = make_trace([job], cluster={"jitter": 0.01}, pollux=pollux)
    alone, ideal = (simulate_cluster(trace, each).tables for each in (policy, "ideal"))
    # The model of marks is for flows of one path, queue and weight.
    uncounted = ["marks"] if any(suffix in policy for suffix in ("crux", "mltcp", "routing")) else []
    for table in ("iterations", "jobs"):
        assert_frame_equal(alone[table].drop(uncounted), ideal[table].drop(uncounted))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, policy: str) -> None:
    files = []
    for directory in (tmp_path / "one", tmp_path / "other"):
        simulate_cluster(poisson(7), policy, directory=directory)
        files.append({path.name: path.read_bytes() for path in sorted(directory.glob("*.parquet"))})
    assert files[0] == files[1]
    assert len(files[0]) == 9


@pytest.mark.parametrize("policy", ["themis+cassini", "pollux+cassini"])
def test_tables_do_not_depend_on_hashes_or_threads(tmp_path: Path, policy: str) -> None:
    trace = tmp_path / "trace.toml"
    trace.write_text(
        '[fabric]\ntestbed = "cassini"\n[poisson]\nload = 0.9\nduration = "10 min"\n', encoding="utf-8"
    )
    files = []
    for number in ("1", "2"):
        threads = {"RAYON_NUM_THREADS": number, "POLARS_MAX_THREADS": number, "PYTHONHASHSEED": number}
        command = [sys.executable, "-m", "hocket", "cluster", str(trace), "--scheduler", policy]
        subprocess.run([*command, "--out", number], cwd=tmp_path, env=os.environ | threads, check=True)
        written = sorted((tmp_path / number / f"trace-{policy}").glob("*.parquet"))
        files.append({path.name: path.read_bytes() for path in written})
    assert files[0] == files[1]
    assert len(files[0]) == 9


def test_another_seed_gives_another_run() -> None:
    one, other = (simulate_cluster(poisson(seed), "random").tables["iterations"] for seed in (1, 2))
    assert not one.equals(other)


def test_tables_kept_in_memory_are_those_written(tmp_path: Path) -> None:
    kept = simulate_cluster(poisson(7), "themis+cassini")
    written = simulate_cluster(poisson(7), "themis+cassini", directory=tmp_path)
    assert list(kept.tables) == list(written.tables)
    for name, table in kept.tables.items():
        assert_frame_equal(table, Run.read(tmp_path).tables[name])


def test_the_samples_of_jobs_add_up(tmp_path: Path) -> None:
    run = simulate_cluster(poisson(7), "themis+cassini")
    jobs, iterations = run.tables["jobs"], run.tables["iterations"]
    assert run.manifest["counts"]["jobs"] == jobs.height == run.manifest["counts"]["done"]
    done = iterations.group_by("job", maintain_order=True).agg(
        pl.col("count").sum().alias("iterations"),
        ((pl.col("iteration_s") * pl.col("count")).sum() / pl.col("count").sum()).alias("mean_iteration_s"),
        pl.col("marks").sum(),
    )
    known = jobs.select("job", "iterations", "mean_iteration_s", "marks")
    assert_frame_equal(done.sort("job"), known.sort("job"), rel_tol=1e-9)
    # Iterations of a job end one after another, and what is waited for a slot comes before one starts.
    for _, mine in iterations.group_by("job"):
        lasted = mine["end_s"].diff().drop_nulls()
        assert (lasted >= mine["iteration_s"][1:] - 1e-6).all()


def test_ideal_jobs_run_at_once_as_on_an_idle_network() -> None:
    jobs = simulate_cluster(poisson(7), "ideal").tables["jobs"]
    assert (jobs["waiting_s"] == 0).all()
    assert jobs["slowdown"].to_list() == pytest.approx([1] * jobs.height, abs=0.02)
