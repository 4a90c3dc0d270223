"""`hocket serve` as a process: it starts, answers over TCP, stops, and is killed."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command
from tests.service.conftest import registered, reported

TOKEN = "0123456789abcdef0123456789abcdef"
LONGEST_S = 60
"""Limit of each wait; on an idle machine each takes a moment."""


class Process:
    """A service in its own process, on a free port of loopback."""

    def __init__(self, directory: Path, *options: str, token: str | None = None) -> None:
        command = [sys.executable, "-m", "hocket", "serve", "--listen", "127.0.0.1:0", *options]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HOCKET_")}
        if token is not None:
            environment["HOCKET_TOKEN"] = token
        self.token = token
        self.popen = subprocess.Popen(
            command, cwd=directory, env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self.popen.stderr is not None
        self.line = self.popen.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.line)
        assert found, self.line
        self.port = int(found[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request; returns status and answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_S)
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if answer else None

    def slotted(self, *jobs: str) -> dict[str, Any]:
        """Reports for the jobs until all have slots, and returns these."""
        slots: dict[str, Any] = {}
        for _ in range(10_000):
            for job in jobs:
                slots[job] = self.ask("POST", f"/v1/jobs/{job}/reports", reported())[1]["slot"]
            if all(slots.values()):
                return slots
        raise AssertionError(f"no slots after 10,000 reports: {slots}")

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """Stops it with a signal; returns the exit status and its output after the first line."""
        self.popen.send_signal(how)
        _, text = self.popen.communicate(timeout=LONGEST_S)
        return self.popen.returncode, text


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts services on the database of this test; those still running are stopped at the end."""
    started: list[Process] = []

    def begin(*options: str, token: str | None = None) -> Process:
        started.append(Process(tmp_path, *options, token=token))
        return started[-1]

    yield begin
    for each in started:
        if each.popen.poll() is None:
            each.end(signal.SIGKILL)


def test_jobs_are_still_registered_after_ctrl_c_and_a_restart(start: Start) -> None:
    service = start()
    assert "0 jobs in hocket.sqlite" in service.line
    assert service.ask("PUT", "/v1/jobs/a", registered())[0] == 201

    code, text = service.end(signal.SIGINT)

    assert code == 130
    assert text == "interrupted\n"
    assert "1 job in hocket.sqlite" in start().line


def test_a_killed_service_has_forgotten_none_of_its_answers(start: Start) -> None:
    service = start()
    for job in "ab":
        service.ask("PUT", f"/v1/jobs/{job}", registered())
    slots = service.slotted("a", "b")
    # Killed during a registration: the request is sent, but the answer is not awaited.
    body = json.dumps(registered())
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        head = f"PUT /v1/jobs/c HTTP/1.1\r\nHost: service\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())
        service.end(signal.SIGKILL)

    again = start()

    assert again.slotted("a", "b") == slots
    names = [job["job"] for job in again.ask("GET", "/v1/jobs")[1]["jobs"]]
    # Without an answer the registration may or may not be stored, but never in part.
    assert names in (["a", "b"], ["a", "b", "c"])


def test_the_token_is_required_and_never_shown(start: Start) -> None:
    service = start(token=TOKEN)
    assert service.ask("GET", "/v1/jobs")[0] == 200
    service.token = "wrong"
    assert service.ask("GET", "/v1/jobs")[0] == 401

    _, text = service.end(signal.SIGTERM)

    assert TOKEN not in service.line + text


def test_a_port_in_use_is_named(start: Start, hocket: Command) -> None:
    service = start()

    refused = hocket("serve", "--listen", f"127.0.0.1:{service.port}", "--database", "other.sqlite")

    assert refused.code == 2
    assert f"--listen 127.0.0.1:{service.port}: Address already in use" in refused.err


def test_jobs_are_registered_shown_and_unregistered_from_the_command_line(
    start: Start, hocket: Command, tmp_path: Path
) -> None:
    service = start(token=TOKEN)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "80 ms", "rate": "40 Gbps"}]}
    plan = {"link": {"capacity": "50 Gbps"}, "jobs": [{"name": name, **half} for name in ("a", "b c")]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    options = ("--service", service.url, "--token-file", "token")

    registering = hocket("register", "plan.json", *options, "--link", "rack 1")

    assert (registering.code, registering.err) == (0, "")
    assert registering.out.splitlines()[1] == "b c: registered; waits for its first report"
    service.slotted("a", "b%20c")
    shown = hocket("jobs", *options)
    assert re.search(r"^a +1/1 +10 +180\.0 .* helps ", shown.out, re.M)
    assert "  score 1.000 with b c on rack 1: taking turns helps, predicted speed-up " in shown.out
    assert [job["job"] for job in hocket("jobs", *options, "--json").json()] == ["a", "b c"]
    assert hocket("unregister", "a", "b c", *options).code == 0
    assert hocket("jobs", *options, "--json").json() == []
    assert "job 'a' is not registered" in hocket("unregister", "a", *options).err
    without = hocket("jobs", "--service", service.url)
    assert without.code == 2
    assert "the token is missing or wrong" in without.err
