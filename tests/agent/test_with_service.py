"""Agents and the real service over HTTP: two jobs that share a link get slots, and keep training when the
service is killed.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hocket_agent import Agent, Settings

PHASE = {"start": "100 ms", "duration": "90 ms", "rate": "40 Gbps"}
PLAN = {
    "link": {"capacity": "50 Gbps"},
    "jobs": [{"name": name, "period": "200 ms", "up": [PHASE]} for name in ("a", "b")],
}
SECONDS = 60
"""Limit of each wait."""


class Service:
    """`hocket serve` in its own process; it can be started again at the same address after a kill."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        address = self.url.removeprefix("http://") or "127.0.0.1:0"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hocket", "serve", "--listen", address, "--database", "jobs.sqlite"],
            cwd=self._directory,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        assert said.startswith("serving on http"), said
        self.url = said.removeprefix("serving on ").partition(": ")[0]

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None

    def register(self, plan: dict[str, Any]) -> None:
        path = self._directory / "plan.json"
        path.write_text(json.dumps(plan))
        command = [sys.executable, "-m", "hocket", "register", str(path), "--service", self.url]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    its = Service(tmp_path)
    yield its
    its.kill()


def train(agent: Agent, until: threading.Event) -> None:
    """Iterations of about 200 ms, with communication after 100 ms: long enough that the offset of
    the service's clock is known to within 5% of them even on a busy machine.
    """
    while not until.is_set():
        with agent.iteration():
            time.sleep(0.100)
            with agent.communication():
                time.sleep(0.090)
            time.sleep(0.010)


def wait_for(holds: Callable[[], bool], agents: list[Agent]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, [agent.status() for agent in agents]
        time.sleep(0.05)


def test_jobs_get_slots_and_outlive_the_service(service: Service) -> None:
    service.start()
    service.register(PLAN)
    agents = [Agent(Settings(service.url, name), interval_s=0.1) for name in ("a", "b")]
    over = threading.Event()
    threads = [threading.Thread(target=train, args=(agent, over)) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: all(agent.status()["slot"] is not None for agent in agents), agents)
        service.kill()
        wait_for(lambda: all("Refused" in agent.status()["service"] for agent in agents), agents)
        done = [agent.status()["iterations"] for agent in agents]
        wait_for(
            lambda: all(
                agent.status()["iterations"] > before + 5 for agent, before in zip(agents, done, strict=True)
            ),
            agents,
        )
        service.start()
        wait_for(lambda: all(agent.status()["service"] == "answers" for agent in agents), agents)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for agent in agents:
            agent.close()


def test_a_job_that_is_not_registered_is_measured_until_it_is(service: Service) -> None:
    service.start()
    agent = Agent(Settings(service.url, "a"), interval_s=0.1)
    over = threading.Event()
    thread = threading.Thread(target=train, args=(agent, over))
    thread.start()
    try:
        wait_for(lambda: agent.status()["reason"].startswith("status 404"), [agent])
        service.register(PLAN)
        wait_for(lambda: not agent.status()["reason"].startswith("status 404"), [agent])
        assert agent.status()["slot"] is None
    finally:
        over.set()
        thread.join()
        agent.close()
