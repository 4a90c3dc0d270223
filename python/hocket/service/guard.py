"""What every request passes on its way in and out: the token is checked, and the answer counted."""

import base64
import hmac
import json
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hocket.service.metrics import Metrics

OPEN_PATHS = ("/healthz",)
"""Answered without a token: they tell nothing of jobs."""

FRONT_PATH, DOCS_PATH, JOBS_PATH, METRICS_PATH = "/", "/docs", "/v1/jobs", "/metrics"
READ_PATHS = (FRONT_PATH, DOCS_PATH, JOBS_PATH, METRICS_PATH, "/openapi.json")
"""What a browser opens from the front page. To read these, the token may also be the password of HTTP Basic
authentication, for which browsers ask. As they then send it unasked, also from pages of others, it opens
nothing that changes anything."""

NO_TOKEN = "the token is missing or wrong; send it as 'Authorization: Bearer TOKEN'"


class Guard:
    """An ASGI application in front of another."""

    def __init__(self, app: ASGIApp, token: str | None, metrics: Metrics) -> None:
        """Without a `token` everyone may ask."""
        self._app = app
        self._token = None if token is None else token.encode()
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if self._admits(scope):
                await self._app(scope, receive, counted)
            else:
                await _refuse(
                    counted, ["Bearer", 'Basic realm="Hocket"'] if _is_reading(scope) else ["Bearer"]
                )
        finally:
            # Only routes that there are, so that nobody's guesses become series.
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if route != "other" else "other"
            self._metrics.answered(method, route, status, time.perf_counter() - started_s)

    def _admits(self, scope: Scope) -> bool:
        if self._token is None or scope["path"] in OPEN_PATHS:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, shown = given.partition(b" ")
        if scheme.lower() == b"bearer":
            token = shown.strip()
        elif scheme.lower() == b"basic" and _is_reading(scope):
            token = _password(shown)
        else:
            return False
        # In constant time: how long a refusal takes tells nothing of the token.
        return hmac.compare_digest(token, self._token)


def _is_reading(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] in READ_PATHS


def _password(shown: bytes) -> bytes:
    """Of HTTP Basic authentication (RFC 7617), whoever the user is; empty if it is none."""
    try:
        return base64.b64decode(shown, validate=True).partition(b":")[2]
    except ValueError:
        return b""


async def _refuse(send: Send, schemes: list[str]) -> None:
    headers = [(b"content-type", b"application/json")]
    headers += [(b"www-authenticate", scheme.encode()) for scheme in schemes]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": NO_TOKEN}).encode()})
