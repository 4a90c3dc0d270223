"""Client of the service for the command line."""

import http.client
import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from hocket.errors import InputError
from hocket.units import shown

DEFAULT_URL = "http://127.0.0.1:8765"
URL_VARIABLE = "HOCKET_SERVICE"

_TIMEOUT_S = 10.0
# Limit of an answer: enough for the largest number of jobs, with a few links each.
_MAX_ANSWER_BYTES = 100_000_000


class Client:
    """A service at a URL. Redirects are not followed, so that the token is sent to no other host."""

    def __init__(self, url: str, token: str | None) -> None:
        """Raises `InputError` unless `url` is an HTTP or HTTPS URL such as http://127.0.0.1:8765."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            # A port that is no number; the colons of an IPv6 address stand in brackets.
            or (port is None and ":" in parts.netloc.rpartition("]")[2])
        ):
            raise InputError(f"--service: must be a URL such as {DEFAULT_URL}: got {shown(url)}")
        self._url = url.rstrip("/")
        self._parts = parts
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def put(self, job: str, registration: Mapping[str, Any]) -> Any:
        """Registers `job` and returns its state. Raises `InputError` if the service rejects it or does not
        answer.
        """
        return self._ask("PUT", _path(job), registration)

    def delete(self, job: str) -> None:
        """Unregisters `job`. Raises `InputError` like `put`."""
        self._ask("DELETE", _path(job))

    def jobs(self) -> Any:
        """The state of all jobs. Raises `InputError` like `put`."""
        return self._ask("GET", "/v1/jobs")["jobs"]

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        content = None if body is None else json.dumps(body)
        headers = {**self._headers, "Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
            # Bounded: the URL may be that of any server.
            answer = response.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"{self._url}: does not answer: {why}; `hocket serve` starts a service"
            ) from None
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return self._parsed(answer) if answer else None
        raise InputError(f"{self._url}: {_reason(response.status, answer)}")

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None, "the constructor has checked it"
        # Without an explicit port, http.client would look for one in an IPv6 address.
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port or http.client.HTTP_PORT, timeout=_TIMEOUT_S)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            host, port or http.client.HTTPS_PORT, timeout=_TIMEOUT_S, context=context
        )

    def _parsed(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except ValueError:
            raise InputError(f"{self._url}: is not a Hocket service: its answer is not JSON") from None


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _reason(status: int, answer: bytes) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return "the token is missing or wrong: pass --token-file or set HOCKET_TOKEN"
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, TypeError, KeyError):
        return f"is not a Hocket service: it answers with status {status}"
