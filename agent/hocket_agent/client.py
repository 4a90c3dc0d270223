"""HTTP client of the service: one request at a time over a persistent connection, bounded in time and bytes,
without redirects or proxies.
"""

from __future__ import annotations

import http.client
import io
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from hocket_agent.errors import InputError
from hocket_agent.protocol import LONGEST_ANSWER, LONGEST_REASON
from hocket_agent.settings import Settings

_OK = 200
# How a request can fail apart from its status: the network, TLS, and what http.client raises on garbage.
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class UnreachableError(Exception):
    """No usable answer; `kind` is the same each time for the same cause, so that it is logged once."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Response(NamedTuple):
    """An answer's status and body, and when it was requested and received, on our monotonic clock."""

    status: int
    body: bytes
    sent_ns: int
    received_ns: int


class Client:
    """Sends a job's reports. Not thread-safe."""

    def __init__(
        self,
        service: str,
        job: str,
        token: str | None = None,
        *,
        timeout_s: float = 1.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`service` is the service's URL, such as `http://host:port` or `https://host/path`.

        Raises `InputError` if it is not one, or if the token cannot be sent in a header.
        """
        self._connection, base = _connection(service, timeout_s)
        self.job = job
        scheme = "https" if isinstance(self._connection, http.client.HTTPSConnection) else "http"
        host = self._connection.host
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._connection.port}{base}"
        """The service's URL without user and password, safe to log."""
        self._path = f"{base}/v1/jobs/{quote(job, safe='')}/reports"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable() and token and " " not in token):
                raise InputError("HOCKET_TOKEN: must consist of printable ASCII characters without spaces")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_ns = int(timeout_s * 1e9)
        self._clock = clock

    def post(self, body: bytes) -> Response:
        """Sends a report. Raises `UnreachableError` if no complete answer arrives within the time limit."""
        is_kept = self._connection.sock is not None
        try:
            return self._exchange(body)
        except _FAILURES as error:
            self.close()
            # A service closes connections that were idle for long, so a lost one is worth a second try, which
            # opens a new connection and is therefore the last.
            if is_kept and isinstance(error, (ConnectionError, http.client.BadStatusLine)):
                return self.post(body)
            raise UnreachableError(type(error).__name__, f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        self._connection.close()

    def _exchange(self, body: bytes) -> Response:
        deadline_ns = self._clock() + self._timeout_ns
        if self._connection.sock is None:
            self._connection.connect()
            self._connection.sock = _DeadlineSocket(self._connection.sock, self._clock)
        self._connection.sock.deadline_ns = deadline_ns
        # After connecting and before the body is read, so that neither counts as delay of the exchange.
        sent_ns = self._clock()
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        received_ns = self._clock()
        return Response(response.status, _body(response), sent_ns, received_ns)


def client_of(settings: Settings, clock: Callable[[], int] = time.monotonic_ns) -> Client | None:
    """The client for a job's settings, or None if they name no service.

    Raises `InputError` if a setting is invalid.
    """
    if not 0 <= settings.rank < settings.ranks:
        raise InputError(f"RANK: {settings.rank} is not below WORLD_SIZE, {settings.ranks}")
    if settings.service is None and settings.job is None:
        return None
    if settings.service is None:
        raise InputError("HOCKET_SERVICE: not set, but HOCKET_JOB requires it")
    if settings.job is None:
        raise InputError("HOCKET_JOB: not set, but HOCKET_SERVICE requires it")
    return Client(settings.service, settings.job, settings.token, clock=clock)


def refusal(response: Response) -> str | None:
    """The service's error if it rejected the report, else None."""
    if response.status == _OK:
        return None
    try:
        reason = json.loads(response.body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = "no reason given"
    return f"status {response.status}: {str(reason)[:LONGEST_REASON]}"


def _connection(service: str, timeout_s: float) -> tuple[Any, str]:
    """A connection that is not open yet, and the prefix of the API's paths."""
    try:
        url = urlsplit(service)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise InputError(f"HOCKET_SERVICE: {service!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not host or url.query or url.fragment:
        raise InputError(
            "HOCKET_SERVICE: must be a URL such as http://10.0.0.1:8765 or https://host/path: "
            f"got {service!r}"
        )
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    # Without an explicit port, http.client would look for one in an IPv6 address.
    return kind(host, port or kind.default_port, timeout=timeout_s), url.path.rstrip("/")


def _body(response: http.client.HTTPResponse) -> bytes:
    body = response.read(LONGEST_ANSWER + 1)
    if len(body) > LONGEST_ANSWER:
        raise ValueError(f"the answer is longer than {LONGEST_ANSWER} bytes")
    # Given a limit, `read` does not report that a body ends before its Content-Length.
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


class _DeadlineSocket:
    """A socket whose operations share one deadline. A socket's own timeout restarts with each read, so a
    service that sends single bytes could stretch it without limit.
    """

    def __init__(self, sock: Any, clock: Callable[[], int]) -> None:
        self.deadline_ns = 0
        self._sock = sock
        self._clock = clock

    def sendall(self, data: bytes) -> None:
        self._limit()
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._limit()
        return int(self._sock.recv_into(buffer))

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_RawReader(self))

    def close(self) -> None:
        self._sock.close()

    def _limit(self) -> None:
        left_s = (self.deadline_ns - self._clock()) / 1e9
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)


class _RawReader(io.RawIOBase):
    def __init__(self, sock: _DeadlineSocket) -> None:
        super().__init__()
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)
