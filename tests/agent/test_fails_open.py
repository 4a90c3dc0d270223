"""Training continues whatever happens to the service, and reports to the service are correct."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.agent.conftest import SECOND, Clock

from hocket_agent import Agent, InputError, Settings
from hocket_agent.client import (
    Client,
    Response,
    UnreachableError,
    client_of,
)
from hocket_agent.reporter import LONGEST_PAUSE_S, Finished, Reporter
from hocket_agent.settings import settings_of
from hocket_agent.slots import Slot
from hocket_agent.state import LEASE_NS, Iteration

MS = 1_000_000
START_NS = 1_700_000_000 * SECOND


def slot(version: int = 1, **changes: int) -> dict[str, int]:
    times = {"origin_ns": START_NS, "period_ns": 190 * MS, "iteration": 0, "tolerance_ns": 9 * MS}
    return {"version": version, **times, **changes}


def answered(clock: Clock, its: dict[str, int] | None, reason: str = "") -> bytes:
    now_ns = START_NS + clock.now_ns
    fields = {"received_ns": now_ns, "sent_ns": now_ns, "slot": its, "ideal_ns": 180 * MS, "reason": reason}
    return json.dumps(fields).encode()


class Scripted(Client):
    """A client whose service answers as the test says, or fails."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("http://127.0.0.1:1", "job", clock=clock)
        self._its_clock = clock
        self.says: Callable[[], tuple[int, bytes]] = lambda: (200, answered(clock, None))
        self.reports: list[dict[str, Any]] = []

    def post(self, body: bytes) -> Response:
        self.reports.append(json.loads(body))
        status, said = self.says()
        return Response(status, said, self._its_clock.now_ns, self._its_clock.now_ns)


@pytest.fixture
def client(clock: Clock) -> Scripted:
    return Scripted(clock)


@pytest.fixture
def reporter(client: Scripted, clock: Clock) -> Reporter:
    return Reporter(client, rank=1, ranks=2, dry_run=False, clock=clock)


def finished(number: int, took_ms: int, delay_ms: int = 0, communication_ms: int | None = None) -> Finished:
    start_ns = number * SECOND
    communication_ns = None if communication_ms is None else communication_ms * MS
    iteration = Iteration(
        number, start_ns, None, start_ns + took_ms * MS, delay_ms * MS, False, communication_ns
    )
    return Finished(iteration, deviation_ns=-5, slot=7, adjustments=3, reason="")


def test_a_report_sums_up_the_iterations_since_the_last(reporter: Reporter, client: Scripted) -> None:
    reporter.step()
    first = client.reports[0]
    assert (first["rank"], first["ranks"], first["dry_run"]) == (1, 2, False)
    assert (first["iteration"], first["count"], first["min_ns"], first["communication_ns"]) == (0, 0, 0, None)
    for each in (finished(0, 180, communication_ms=90), finished(1, 170, 30, 80), finished(2, 160)):
        reporter.add(each)
    reporter.step(last=True)
    second = client.reports[1]
    assert (second["iteration"], second["count"]) == (3, 3)
    # The second waited 30 ms for its slot.
    assert (second["total_ns"], second["min_ns"], second["max_ns"]) == (540 * MS, 160 * MS, 200 * MS)
    assert second["communication_ns"] == 170 * MS
    assert (second["deviation_ns"], second["applied"], second["adjustments"]) == (-5, 7, 3)
    assert (first["reason"], second["reason"]) == ("no iteration has ended yet", "")
    reporter.step(last=True)
    assert (client.reports[2]["iteration"], client.reports[2]["count"]) == (3, 0)


def test_iterations_of_a_lost_report_are_in_the_next_one(
    reporter: Reporter, client: Scripted, clock: Clock
) -> None:
    client.says = lambda: (503, b"")
    reporter.add(finished(0, 180))
    reporter.step()
    client.says = lambda: (200, answered(clock, None))
    reporter.add(finished(1, 180))
    reporter.step(last=True)
    assert [report["count"] for report in client.reports] == [1, 2]


def test_the_clocks_offset_is_reported_against_the_wall_clock(reporter: Reporter, client: Scripted) -> None:
    reporter.step(last=True)
    assert client.reports[0]["clock_offset_ns"] is None
    reporter.step(last=True)
    report = client.reports[1]
    # Both count from 1970; the service's clock shows START_NS plus the time of the monotonic clock.
    assert report["sent_ns"] + report["clock_offset_ns"] == START_NS + 1_000 * SECOND
    assert report["clock_uncertainty_ns"] == 0


def test_a_service_that_does_not_answer_is_asked_less_and_less_often(
    reporter: Reporter, client: Scripted, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    client.says = lambda: (500, b"oops")
    asked_s = []
    for second in range(200):
        before = len(client.reports)
        reporter.step()
        if len(client.reports) > before:
            asked_s.append(second)
        clock.now_ns += SECOND
    pauses = [late - early for early, late in zip(asked_s, asked_s[1:])]
    assert pauses[:5] == [2, 4, 8, 16, 30]
    assert set(pauses[5:]) == {LONGEST_PAUSE_S}
    # One line for each kind of failure.
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "status 500: no reason given; training continues" in caplog.text
    client.says = lambda: (200, answered(clock, None))
    reporter.step(last=True)
    asked = len(client.reports)
    clock.now_ns += SECOND
    reporter.step()
    assert len(client.reports) == asked + 1


def test_an_unregistered_job_keeps_asking(reporter: Reporter, client: Scripted, clock: Clock) -> None:
    client.says = lambda: (404, b'{"error": "no job \\"job\\" is registered"}')
    for _ in range(3):
        reporter.step()
        clock.now_ns += SECOND
    assert len(client.reports) == 3
    assert reporter.answer is not None
    assert reporter.answer.slot is None
    assert reporter.answer.reason == 'status 404: no job "job" is registered'


@pytest.mark.parametrize("status", [200, 204, 301, 400, 401, 500])
@pytest.mark.parametrize(
    "body", [b"", b"garbage", b"{}", b"[]", b'{"error": []}', b'{"slot": 1}', b"[" * 9_999]
)
def test_an_invalid_answer_does_not_replace_the_last_valid_one(
    reporter: Reporter, client: Scripted, clock: Clock, status: int, body: bytes
) -> None:
    client.says = lambda: (200, answered(clock, slot()))
    reporter.step()
    held = reporter.answer
    assert held is not None
    client.says = lambda: (status, body)
    reporter.step(last=True)
    assert reporter.answer is held


def test_a_version_that_goes_backwards_is_ignored_until_the_lease_is_over(
    reporter: Reporter, client: Scripted, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    client.says = lambda: (200, answered(clock, slot(version=5)))
    reporter.step()
    for wrong in (slot(version=4), slot(version=5, period_ns=200 * MS)):
        client.says = partial(lambda its: (200, answered(clock, its)), wrong)
        reporter.step(last=True)
        assert reporter.answer is not None
        assert reporter.answer.slot is not None
        assert (reporter.answer.slot.version, reporter.answer.slot.period_ns) == (5, 190 * MS)
    assert caplog.text.count("slot.version: 4 is below 5") == 1
    clock.now_ns += LEASE_NS + 1
    reporter.step()
    assert reporter.answer is not None
    assert reporter.answer.slot == Slot(5, START_NS, 200 * MS, 180 * MS, 0, 9 * MS)


def test_a_log_that_cannot_be_written_is_reported_once(
    client: Scripted, clock: Clock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    log = tmp_path / "missing" / "agent.jsonl"
    reporter = Reporter(client, rank=0, ranks=1, dry_run=False, log=str(log), clock=clock)
    for number in range(3):
        reporter.add(finished(number, 180))
        reporter.step()
    assert caplog.text.count("logging of iterations stops") == 1
    assert client.reports[0]["count"] == 1


def test_the_log_has_a_line_for_each_iteration(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "agent.jsonl"
    agent = Agent(Settings(log=str(log)), clock=clock, sleep=clock.sleep)
    begun_ns = time.time_ns()
    for _ in range(12):
        with agent.iteration():
            clock.now_ns += 60 * MS
            with agent.communication():
                clock.now_ns += 90 * MS
            clock.now_ns += 30 * MS
    agent.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["iteration"] for line in lines] == list(range(12))
    for line in lines:
        assert line["communication_start_ns"] - line["start_ns"] == 60 * MS
        assert line["end_ns"] - line["start_ns"] == 180 * MS
        assert line["communication_ns"] == 90 * MS
        assert (line["delay_ns"], line["deviation_ns"], line["adjusted"], line["slot"]) == (
            0,
            None,
            False,
            None,
        )
    # Wall-clock times, of a clock that was read when the agent began.
    assert abs(lines[0]["start_ns"] - begun_ns) < 3_600 * SECOND


def test_steps_of_the_wall_clock_reach_neither_delays_nor_the_log(
    tmp_path: Path, clock: Clock, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = stand_in(lambda _: (200, answered(clock, slot())))
    log = tmp_path / "agent.jsonl"
    agent = Agent(Settings(service.url, "a", log=str(log)), clock=clock, sleep=clock.sleep, interval_s=0.01)
    iterate_until(agent, clock, lambda status: bool(status["slot"] == 1))
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    for _ in range(30):
        assert iterate(agent, clock) % (190 * MS) == 0
    agent.close()
    starts_ns = [json.loads(line)["start_ns"] for line in log.read_text().splitlines()]
    assert max(late - early for early, late in zip(starts_ns, starts_ns[1:])) < 2 * 190 * MS
    assert starts_ns == sorted(starts_ns)


def test_why_a_slot_is_not_followed_is_logged_once(
    stand_in: Any, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = stand_in(lambda _: (200, answered(clock, slot(period_ns=400 * MS))))
    agent = Agent(Settings(service.url, "a"), clock=clock, sleep=clock.sleep, interval_s=0.01)
    iterate_until(agent, clock, lambda status: "400.000 ms" in status["reason"])
    for _ in range(30):
        iterate(agent, clock)
    agent.close()
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("slot 1")]
    assert len(lines) == 1
    assert lines[0].startswith("slot 1 is not followed: ")
    assert service.reports[-1]["applied"] is None
    assert service.reports[-1]["reason"].startswith("the slot's period of 400.000 ms is more than 2 times")


def iterate(agent: Agent, clock: Clock) -> int:
    """Runs an iteration of 180 ms, and returns when its communication started, after 60 ms."""
    with agent.iteration():
        clock.now_ns += 60 * MS
        agent.communication_started()
        communicates_ns = clock.now_ns
        clock.now_ns += 120 * MS
    return communicates_ns


def iterate_until(agent: Agent, clock: Clock, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Iterates until the agent's status fulfils a condition; gives its thread some seconds."""
    for _ in range(3_000):
        iterate(agent, clock)
        if holds(agent.status()):
            return
        time.sleep(0.01)
    pytest.fail(f"the agent never reached this status: {agent.status()}")


def test_a_job_follows_its_slot_and_keeps_training_when_the_service_dies(stand_in: Any, clock: Clock) -> None:
    service = stand_in(lambda _: (200, answered(clock, slot())))
    settings = Settings(service=service.url, job="a job", token="secret")
    agent = Agent(settings, clock=clock, sleep=clock.sleep, interval_s=0.01)
    iterate_until(agent, clock, lambda status: bool(status["slot"] == 1))
    for _ in range(10):
        # The first slot is at START_NS on the service's clock, which is 0 on ours.
        assert iterate(agent, clock) % (190 * MS) == 0
    assert service.paths[0] == "/v1/jobs/a%20job/reports"
    assert service.headers[0]["Authorization"] == "Bearer secret"
    service.stop()
    # The slot is kept until its lease is over; then the job runs at full speed.
    assert agent.status()["slot"] == 1
    clock.now_ns += LEASE_NS + SECOND
    delayed_ns = 0
    for _ in range(20):
        iterate(agent, clock)
        delayed_ns = agent.status()["delayed_ns"]
    for _ in range(100):
        iterate(agent, clock)
    assert agent.status()["delayed_ns"] == delayed_ns
    assert agent.status()["slot"] is None
    assert agent.status()["reason"] == "the service has not answered for 60 s"
    agent.close()


def test_a_dry_run_delays_nothing_and_reports(stand_in: Any, clock: Clock) -> None:
    service = stand_in(lambda _: (200, answered(clock, slot())))
    settings = Settings(service=service.url, job="a", dry_run=True)
    agent = Agent(settings, clock=clock, sleep=clock.sleep, interval_s=0.01)
    iterate_until(agent, clock, lambda status: status["service"] == "answers")
    begin_ns = clock.now_ns
    for _ in range(50):
        iterate(agent, clock)
    assert clock.now_ns - begin_ns == 50 * 180 * MS
    assert agent.status()["reason"] == "dry run"
    agent.close()
    assert (service.reports[-1]["dry_run"], service.reports[-1]["reason"]) == (True, "dry run")
    # This clock jumps, so an answer under way may be too late, and its iterations are then reported again.
    assert 0 < service.reports[-1]["iteration"] <= agent.status()["iterations"]


def test_redirects_are_not_followed(stand_in: Any) -> None:
    service = stand_in(lambda _: (307, b""))
    assert Client(service.url, "a").post(b"{}").status == 307
    assert service.paths == ["/v1/jobs/a/reports"]


def test_an_answer_that_is_too_long_is_not_read_to_its_end(stand_in: Any) -> None:
    service = stand_in(lambda _: (200, b" " * 100_000))
    with pytest.raises(UnreachableError, match="longer than 65536 bytes"):
        Client(service.url, "a").post(b"{}")


@pytest.fixture
def raw() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Starts servers that call a function with each connection."""
    listeners: list[socket.socket] = []

    def start(serve: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65_536)
                        serve(connection)
            except OSError:
                """The test is over."""

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    "said",
    [b"", b"\x00\xff" * 500, b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"],
)
def test_a_service_that_does_not_speak_http_or_hangs_up_is_unreachable(raw: Any, said: bytes) -> None:
    client = Client(raw(lambda connection: connection.sendall(said)), "a")
    for _ in range(2):
        with pytest.raises(UnreachableError):
            client.post(b"{}")


def test_an_answer_sent_byte_by_byte_is_abandoned_at_the_deadline(raw: Any) -> None:
    # Each reading advances this clock by 50 ms; an exchange may take a second.
    looks = iter(range(10**6))
    over = threading.Event()

    def dribble(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not over.is_set():
            connection.sendall(b"x")

    client = Client(raw(dribble), "a", clock=lambda: next(looks) * 50 * MS)
    try:
        with pytest.raises(UnreachableError):
            client.post(b"{}")
    finally:
        over.set()
    assert next(looks) < 30


def test_a_connection_that_the_service_closed_is_reopened(raw: Any) -> None:
    once = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    client = Client(raw(lambda connection: connection.sendall(once)), "a")
    assert [client.post(b"{}").body for _ in range(5)] == [b"{}"] * 5


def test_training_continues_when_the_agent_fails(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: float) -> None:
        raise OSError("no sleep")

    clock = Clock()
    looks = 0

    def failing() -> int:
        nonlocal looks
        looks += 1
        if looks > 20:
            raise OSError("no clock")
        return clock()

    agent = Agent(clock=failing, sleep=broken)
    done = 0
    for _ in range(50):
        with agent.iteration():
            agent.communication_started()
            done += 1
    assert done == 50
    assert agent.status()["reason"] == "the agent has failed: OSError('no clock')"
    assert caplog.text.count("training continues without it") == 1


def test_an_exception_in_training_is_raised_and_not_counted() -> None:
    agent = Agent()
    with pytest.raises(KeyError), agent.iteration():
        raise KeyError("of the user")
    with agent.iteration():
        pass
    assert agent.status()["iterations"] == 1


def test_a_wrapped_step_is_an_iteration() -> None:
    agent = Agent()

    @agent.wrap
    def step(batch: int, *, scale: int = 1) -> int:
        """Does a step."""
        return batch * scale

    assert [step(2, scale=3), step(4)] == [6, 4]
    assert step.__doc__ == "Does a step."
    assert agent.status()["iterations"] == 2


def test_a_wrapped_step_within_an_iteration_is_part_of_it() -> None:
    agent = Agent()
    larger = agent.wrap(max)
    with agent.iteration():
        assert [larger(1, 2), larger(4, 3)] == [2, 4]
    assert agent.status()["iterations"] == 1


def test_a_model_without_observable_communication_is_trained(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, model = Agent(), object()
    # This process has no PyTorch.
    assert agent.attach(model) is model
    assert (
        "cannot observe when communication starts: torch.distributed is not imported; training continues"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"HOCKET_SERVICE": "http://127.0.0.1:1"}, "HOCKET_JOB: not set, but HOCKET_SERVICE requires it"),
        ({"HOCKET_JOB": "a"}, "HOCKET_SERVICE: not set, but HOCKET_JOB requires it"),
        ({"HOCKET_SERVICE": "ftp://x", "HOCKET_JOB": "a"}, "HOCKET_SERVICE: must be a URL such as"),
        (
            {"HOCKET_SERVICE": "http://x:99999", "HOCKET_JOB": "a"},
            "HOCKET_SERVICE: 'http://x:99999' is not a URL",
        ),
        (
            {"HOCKET_SERVICE": "http://x", "HOCKET_JOB": "a", "HOCKET_TOKEN": "a\nb"},
            "HOCKET_TOKEN: must consist of printable",
        ),
        ({"RANK": "one"}, "RANK: must be a whole number, at least 0: got 'one'"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK: 4 is not below WORLD_SIZE, 4"),
        ({"HOCKET_DRY_RUN": "yes"}, "HOCKET_DRY_RUN: must be 0 or 1: got 'yes'"),
        (
            {"HOCKET_COMMUNICATION_AFTER_MS": "nan"},
            "HOCKET_COMMUNICATION_AFTER_MS: must be a number of milliseconds, at least 0: got 'nan'",
        ),
    ],
)
def test_an_invalid_environment_is_logged_and_the_agent_only_measures(
    environment: dict[str, str], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InputError) as refused:
        client_of(settings_of(environment))
    assert str(refused.value).startswith(sentence)
    agent = Agent.from_environment(environment)
    with agent.iteration():
        pass
    assert agent.status()["iterations"] == 1
    assert f"the agent only measures: {sentence}" in caplog.text


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script that does not configure logging: pytest's own handlers are bypassed."""
    monkeypatch.setattr(logging.getLogger("hocket.agent"), "propagate", False)


@pytest.mark.usefixtures("unconfigured")
class TestLineAtTheStart:
    """A job says once on stderr whether it found a service."""

    def test_it_names_the_service_that_answers(
        self, stand_in: Any, clock: Clock, capfd: pytest.CaptureFixture[str]
    ) -> None:
        service = stand_in(lambda _: (200, answered(clock, None)))
        agent = Agent(Settings(service.url, "a", token="secret"), clock=clock, interval_s=0.01)
        iterate_until(agent, clock, lambda _: len(service.reports) > 3)
        agent.close()
        assert capfd.readouterr().err == f"hocket_agent: connected to {service.url} as job a\n"

    def test_it_names_a_service_that_comes_back(
        self, client: Scripted, clock: Clock, capfd: pytest.CaptureFixture[str]
    ) -> None:
        reporter = Reporter(client, rank=0, ranks=2, dry_run=False, clock=clock)
        client.says = lambda: (503, b"")
        for _ in range(3):
            reporter.step(last=True)
        client.says = lambda: (200, answered(clock, None))
        for _ in range(3):
            reporter.step(last=True)
        said = capfd.readouterr().err
        assert said.count("hocket_agent: connected to http://127.0.0.1:1 as job job\n") == 1

    def test_it_says_that_the_job_is_not_registered(
        self, client: Scripted, clock: Clock, capfd: pytest.CaptureFixture[str]
    ) -> None:
        reporter = Reporter(client, rank=0, ranks=1, dry_run=False, clock=clock)
        client.says = lambda: (404, b'{"error": "job \'job\' is not registered"}')
        for _ in range(3):
            reporter.step(last=True)
        assert capfd.readouterr().err == (
            "hocket_agent: connected to http://127.0.0.1:1, but job job is not registered: "
            "its iterations are only measured until it is (`hocket register`)\n"
        )

    def test_only_rank_0_prints_it(
        self, client: Scripted, clock: Clock, capfd: pytest.CaptureFixture[str]
    ) -> None:
        Reporter(client, rank=1, ranks=2, dry_run=False, clock=clock).step()
        Agent.from_environment({"RANK": "1", "WORLD_SIZE": "2"}).close()
        assert capfd.readouterr().err == ""

    def test_it_says_that_no_service_is_configured(self, capfd: pytest.CaptureFixture[str]) -> None:
        Agent.from_environment({}).close()
        assert capfd.readouterr().err == (
            "hocket_agent: no service is configured (HOCKET_SERVICE is not set): "
            "training continues without slots\n"
        )


def test_a_job_without_its_service_says_so_once_on_stderr_and_exits_normally() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        service = f"http://127.0.0.1:{unused.getsockname()[1]}"
    script = (
        "import time; from hocket_agent import Agent; agent = Agent.from_environment()\n"
        "for _ in range(30):\n"
        "    with agent.iteration(): time.sleep(0.1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HOCKET_SERVICE": service, "HOCKET_JOB": "a"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == (
        f"no usable answer from the service at {service}: ConnectionRefusedError: [Errno 111] "
        "Connection refused; training continues without slots, and the agent retries\n"
    )


def test_the_line_goes_to_the_log_where_one_is_configured(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Agent.from_environment({}).close()
    assert "no service is configured" in caplog.text
    assert capfd.readouterr().err == ""


def test_the_password_in_a_url_is_not_shown() -> None:
    assert Client("https://user:secret@[::1]/hocket", "a").address == "https://[::1]:443/hocket"


def test_the_token_is_shown_nowhere(stand_in: Any, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    service = stand_in(lambda _: (401, b'{"error": "the token is wrong"}'))
    settings = Settings(service.url, "a", token="a-secret-of-ours")
    agent = Agent(settings, clock=clock, sleep=clock.sleep, interval_s=0.01)
    iterate_until(agent, clock, lambda status: "the token is wrong" in status["service"])
    agent.close()
    assert "the token is wrong" in caplog.text
    for shown in (repr(settings), str(agent.status()), caplog.text):
        assert "a-secret-of-ours" not in shown


def test_ranks_are_those_of_torchrun_slurm_or_open_mpi() -> None:
    for rank, ranks in (
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ):
        settings = settings_of({rank: "3", ranks: "8"})
        assert (settings.rank, settings.ranks) == (3, 8)
