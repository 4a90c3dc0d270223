"""Two ranks of a real PyTorch job over Gloo on loopback, with agents and a stand-in for the service."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hocket_agent

MS = 1_000_000
JOB = Path(__file__).with_name("ddp_job.py")
SECONDS = 120
"""After this time a job counts as hung."""


def has_torch(python: str) -> bool:
    asked = subprocess.run([python, "-c", "import torch.distributed"], capture_output=True, check=False)
    return asked.returncode == 0


@pytest.fixture(scope="module")
def python() -> str:
    """A Python that has PyTorch, if there is one."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if candidate is not None and has_torch(candidate):
            return candidate
    pytest.skip("no Python here has PyTorch: neither the one that runs the tests nor the system's")


RunJob = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that contains only the agent."""
    only = tmp_path_factory.mktemp("only")
    (source,) = hocket_agent.__path__
    (only / "hocket_agent").symlink_to(source)
    return only


@pytest.fixture(scope="module")
def run_job(python: str, package: Path) -> RunJob:
    """Runs a job of two ranks to its end, with logs in a directory; returns their output by rank."""

    def run(directory: Path, how: str, iterations: int, **environment: str) -> list[dict[str, Any]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ranks = [
            subprocess.Popen(
                [python, str(JOB), how, str(iterations)],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(package),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "GLOO_SOCKET_IFNAME": "lo",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "HOCKET_LOG": str(directory / "agent-{rank}.jsonl"),
                    **environment,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = []
        try:
            for rank in ranks:
                out, err = rank.communicate(timeout=SECONDS)
                assert rank.returncode == 0, err
                said.append(json.loads(out))
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        return said

    return run


@pytest.fixture(scope="module")
def unseen(run_job: RunJob, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A job whose communication is not observed."""
    return run_job(tmp_path_factory.mktemp("unseen"), "unseen", 20)


def lines(directory: Path, rank: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / f"agent-{rank}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("how", ["plain", "hook", "functions"])
def test_communication_is_observed_and_training_is_unchanged(
    how: str, run_job: RunJob, unseen: list[dict[str, Any]], tmp_path: Path
) -> None:
    said = run_job(tmp_path, how, 20)
    assert said[0]["weights"] == said[1]["weights"] == pytest.approx(unseen[0]["weights"])
    for rank in range(2):
        its = lines(tmp_path, rank)
        assert [line["iteration"] for line in its] == list(range(20))
        for line in its:
            # After 20 ms of computation.
            assert line["start_ns"] + 20 * MS <= line["communication_start_ns"] <= line["end_ns"]
        # The functions of torch.distributed do not show when their collectives end.
        measured = [line["communication_ns"] is not None for line in its]
        assert measured == [how != "functions"] * 20


def test_ranks_follow_a_slot_and_outlive_the_service(run_job: RunJob, stand_in: Any, tmp_path: Path) -> None:
    applied: set[int] = set()

    def says(report: dict[str, Any]) -> tuple[int, bytes]:
        received_ns = time.time_ns()
        if report["applied"] is not None:
            applied.add(report["rank"])
        if len(applied) == 2:
            # Both have followed their slot: from now on the service only sends garbage.
            return 200, b"<html>"
        slot = {
            "version": 1,
            "origin_ns": 1_700_000_000_000 * MS,
            # Longer than any iteration on a busy machine, which therefore waits each time.
            "period_ns": 40 * MS,
            "iteration": 60,
            "tolerance_ns": 10 * MS,
        }
        fields = {"received_ns": received_ns, "sent_ns": time.time_ns(), "slot": slot, "ideal_ns": 25 * MS}
        return 200, json.dumps(fields).encode()

    service = stand_in(says)
    said = run_job(tmp_path, "plain", 150, HOCKET_SERVICE=service.url, HOCKET_JOB="a")
    assert said[0]["weights"] == said[1]["weights"]
    for rank in range(2):
        its = lines(tmp_path, rank)
        assert len(its) == 150
        followed = [line["iteration"] for line in its if line["slot"] == 1]
        # It is later if the machine is too busy for an exchange within 20 ms by then.
        assert followed[0] >= 60
        assert all(line["delay_ns"] == 0 for line in its[:60])
        assert 0 < max(line["delay_ns"] for line in its[60:]) < 40 * MS
    assert {report["rank"] for report in service.reports} == {0, 1}
    assert max(report["iteration"] for report in service.reports) > 60
