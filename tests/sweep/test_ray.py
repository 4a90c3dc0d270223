"""The same sweep on a local cluster of Ray gives the same rows."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from hocket import InputError
from hocket.sweeps import sweep

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "hocket[ray]"')
Tables = dict[str, Any]


@pytest.fixture
def cluster() -> Iterator[None]:
    """A cluster of two processors on this machine."""
    ray.init(num_cpus=2, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_cluster_gives_the_same_rows_as_this_machine(halves: Tables) -> None:
    halves["jobs"][0]["jitter"] = 0.05
    axes: dict[str, list[object]] = {"run.iterations": [1, 100], "jobs.*.share": ["fair", {"adaptive": 1.0}]}
    here = sweep(halves, axes, seeds=2, cache=False)
    there = sweep(halves, axes, seeds=2, cache=False, ray="auto")
    assert_frame_equal(here.table, there.table)
    assert ray.is_initialized()


@pytest.mark.usefixtures("cluster")
def test_a_run_that_fails_on_a_cluster_is_a_row(halves: Tables) -> None:
    plan = {**halves, "changes": [{"at": "1 ms", "link": "link", "rate": "40 Gbps"}]}
    plan["jobs"] = [{**halves["jobs"][0], "iterations": 1}]
    axes = {"run.engine": ["flow", "packet"], "jobs[0].up[0].duration": ["10 us", "20 us"]}
    swept = sweep(plan, axes, ray="auto", workers=1)
    assert swept.table["status"].to_list() == ["failed", "failed", "complete", "complete"]


def test_a_local_cluster_is_started_for_a_sweep_and_ends_with_it(halves: Tables, tmp_path: Path) -> None:
    swept = sweep(halves, {"seed": [1, 2, 3]}, ray="local", workers=2, directory=tmp_path / "out")
    assert swept.manifest["status"] == "complete"
    assert not ray.is_initialized()
    again = sweep(halves, {"seed": [1, 2, 3]}, ray="nowhere:1")
    assert [each["cached"] for each in again.manifest["runs"]] == [True, True, True]


def test_an_unreachable_cluster_is_refused(halves: Tables) -> None:
    with socket.socket() as nobody:
        # A socket that is bound but does not listen refuses connections.
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        for unreachable in (address, f"ray://{address}", "auto"):
            with pytest.raises(InputError, match=f"--ray: the cluster '{unreachable}' cannot be reached"):
                sweep(halves, {"seed": [1, 2]}, ray=unreachable)
