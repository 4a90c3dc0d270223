"""A clock that the test advances, and a service that answers as the test says."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import pytest

# It needs PyTorch, and runs in processes of its own.
collect_ignore = ["ddp_job.py"]
if find_spec("hocket") is None:
    # Other Pythons also run these tests, with the agent but without Hocket.
    collect_ignore += [
        "test_agent_command.py",
        "test_as_simulated.py",
        "test_beside_hocket.py",
        "test_other_pythons.py",
        "test_pytorch.py",
        "test_with_service.py",
    ]

Said = tuple[int, bytes]
SECOND = 1_000_000_000


class Clock:
    """The host's clock: it advances when a test advances it, or when the host waits."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class StandIn:
    """A service on loopback. It answers each report with the status and body that `says` returns."""

    def __init__(self, says: Callable[[dict[str, Any]], Said]) -> None:
        self.reports: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.reports.append(report)
                outer.headers.append(dict(self.headers))
                outer.paths.append(self.path)
                status, body = says(report)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Keeps requests out of the output of the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # Clients may have hung up, which some tests are about.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """From now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def stand_in() -> Iterator[Callable[[Callable[[dict[str, Any]], Said]], StandIn]]:
    """Starts services; those that a test has not stopped are stopped at its end."""
    services: list[StandIn] = []

    def start(says: Callable[[dict[str, Any]], Said]) -> StandIn:
        services.append(StandIn(says))
        return services[-1]

    yield start
    for service in services:
        service.stop()
