"""One HTTP request at a time to the service, over a connection that is kept: bounded in time and in bytes,
without redirects and proxies.
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
from hocket_agent.protocol import LONGEST_ANSWER
from hocket_agent.settings import Settings

_OK = 200
# What an answer can fail with besides its status: the network, TLS, and what http.client makes of garbage.
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class UnreachableError(Exception):
    """No usable answer; `kind` is why, the same for each time that it happens."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Response(NamedTuple):
    """An answer's status and body, and when request and answer passed, on our monotonic clock."""

    status: int
    body: bytes
    sent_ns: int
    received_ns: int


class Client:
    """Sends a job's reports. For one thread."""

    def __init__(
        self,
        service: str,
        job: str,
        token: str | None = None,
        *,
        timeout_s: float = 1.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`service` is the URL of a service, `http://host:port` or with https and a path in front.

        `InputError` if it is none, or if job or token cannot be sent.
        """
        self._connection, base = _connection(service, timeout_s)
        self.job = job
        scheme = "https" if isinstance(self._connection, http.client.HTTPSConnection) else "http"
        host = self._connection.host
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._connection.port}{base}"
        """The service's, without anything that is secret in its URL."""
        self._path = f"{base}/v1/jobs/{quote(job, safe='')}/reports"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable() and token and " " not in token):
                raise InputError("HOCKET_TOKEN: a token is of printable ASCII characters without spaces")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_ns = int(timeout_s * 1e9)
        self._clock = clock

    def post(self, body: bytes) -> Response:
        """Sends a report. `UnreachableError` if there is no whole answer within the time limit."""
        is_kept = self._connection.sock is not None
        try:
            return self._exchange(body)
        except _FAILURES as error:
            self.close()
            # The service ends connections that were idle for long: that says nothing about it.
            if is_kept and isinstance(error, (ConnectionError, http.client.BadStatusLine)):
                return self.post(body)
            raise UnreachableError(type(error).__name__, f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Ends the connection; the next request makes a new one."""
        self._connection.close()

    def _exchange(self, body: bytes) -> Response:
        deadline_ns = self._clock() + self._timeout_ns
        if self._connection.sock is None:
            self._connection.connect()
            self._connection.sock = _Bounded(self._connection.sock, self._clock)
        self._connection.sock.deadline_ns = deadline_ns
        sent_ns = self._clock()
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        received_ns = self._clock()
        return Response(response.status, _body(response), sent_ns, received_ns)


def client_of(settings: Settings, clock: Callable[[], int] = time.monotonic_ns) -> Client | None:
    """The client that a job's settings ask for, if they name a service.

    `InputError` if a setting cannot be.
    """
    if not 0 <= settings.rank < settings.ranks:
        raise InputError(f"RANK: {settings.rank} is not below WORLD_SIZE, {settings.ranks}")
    if settings.service is None and settings.job is None:
        return None
    if settings.service is None:
        raise InputError("HOCKET_SERVICE: is missing; HOCKET_JOB needs it")
    if settings.job is None:
        raise InputError("HOCKET_JOB: is missing; HOCKET_SERVICE needs it")
    return Client(settings.service, settings.job, settings.token, clock=clock)


def refusal(response: Response) -> str | None:
    """What the service says where it does not answer the report; nothing where it does."""
    if response.status == _OK:
        return None
    try:
        said = json.loads(response.body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        said = "no reason given"
    return f"status {response.status}: {str(said)[:1_000]}"


def _connection(service: str, timeout_s: float) -> tuple[Any, str]:
    """A connection that is not open yet, and what stands before the paths of the API."""
    try:
        url = urlsplit(service)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise InputError(f"HOCKET_SERVICE: {service!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not host or url.query or url.fragment:
        raise InputError(
            "HOCKET_SERVICE: must be a URL such as http://10.0.0.1:8765 or https://host/path: "
            f"got {service!r}"
        )
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    # Without a port http.client would look for one in an IPv6 address.
    return kind(host, port or kind.default_port, timeout=timeout_s), url.path.rstrip("/")


def _body(response: http.client.HTTPResponse) -> bytes:
    body = response.read(LONGEST_ANSWER + 1)
    if len(body) > LONGEST_ANSWER:
        raise ValueError(f"the answer is longer than {LONGEST_ANSWER} bytes")
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


class _Bounded:
    """A socket all of whose operations end at one deadline: a timeout of its own would begin anew with each
    byte of a service that sends them one by one.
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
        return io.BufferedReader(_Reading(self))

    def close(self) -> None:
        self._sock.close()

    def _limit(self) -> None:
        left_s = (self.deadline_ns - self._clock()) / 1e9
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)


class _Reading(io.RawIOBase):
    def __init__(self, sock: _Bounded) -> None:
        super().__init__()
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)
