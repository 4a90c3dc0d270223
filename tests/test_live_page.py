"""The steps of docs/live.md on loopback: its service, its plan, its training script."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "live.md").read_text(encoding="utf-8")
EXPORT = (Path(__file__).parents[1] / "docs" / "export.md").read_text(encoding="utf-8")
# This checks that agents and service communicate; following a slot would take more iterations.
ITERATIONS = 10


def block(language: str, beginning: str = "") -> str:
    found = re.search(rf"^```{language}\n({re.escape(beginning)}.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has a block of {language}"
    return found[1]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hocket", *words]


def hocket(directory: Path, *words: str) -> str:
    ran = subprocess.run(command(*words), cwd=directory, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """A service on any free port, and its address."""
    words = command("serve", "--listen", "127.0.0.1:0", "--database", "hocket.sqlite")
    environment = {name: value for name, value in os.environ.items() if name != "HOCKET_TOKEN"}
    with subprocess.Popen(
        words, cwd=directory, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.match(r"serving on (http://\S+):", first)
            assert found is not None, first
            yield found[1]
        finally:
            process.terminate()


def trained(directory: Path, service: str, jobs: Sequence[str]) -> None:
    """Runs the page's script as each of `jobs` at the same time, until all have succeeded."""
    words = command("agent", "--service", service, "--log", "{job}.jsonl", "--job")
    running = [
        subprocess.Popen(
            [*(word.replace("{job}", job) for word in words), job, "--", sys.executable, "train.py"],
            cwd=directory,
        )
        for job in jobs
    ]
    assert [process.wait() for process in running] == [0] * len(jobs)


def test_two_jobs_register_report_and_leave(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(block("toml"), encoding="utf-8")
    script = block("python", "# train.py")
    (tmp_path / "train.py").write_text(script.replace("range(100)", f"range({ITERATIONS})"), encoding="utf-8")
    with served(tmp_path) as service:
        to = ("--service", service)
        hocket(tmp_path, "register", "jobs.toml", "--link", "rack1-up", *to)
        trained(tmp_path, service, ["a", "b"])
        jobs: list[dict[str, Any]] = json.loads(hocket(tmp_path, "jobs", "--json", *to))
        assert [(each["job"], each["iteration"]) for each in jobs] == [("a", ITERATIONS), ("b", ITERATIONS)]
        assert all(each["reason"] for each in jobs)
        assert len((tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()) == ITERATIONS
        hocket(tmp_path, "unregister", "a", "b", *to)
        assert json.loads(hocket(tmp_path, "jobs", "--json", *to)) == []


@pytest.mark.parametrize("page", [PAGE, EXPORT], ids=["live", "export"])
def test_documented_commands_are_valid_shell(page: str) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for each in blocks:
        subprocess.run(["bash", "-n"], input=each, text=True, check=True)
