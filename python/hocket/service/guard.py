"""ASGI middleware that checks the token of each request and counts its answer."""

import base64
import hmac
import json
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hocket.service.metrics import Metrics

OPEN_PATHS = ("/healthz",)
"""Answered without a token, since they reveal nothing about jobs."""

FRONT_PATH, DOCS_PATH, JOBS_PATH, METRICS_PATH = "/", "/docs", "/v1/jobs", "/metrics"
READ_PATHS = (FRONT_PATH, DOCS_PATH, JOBS_PATH, METRICS_PATH, "/openapi.json")
"""Pages that a browser opens from the front page. They also accept the token as the password of HTTP Basic
authentication, for which browsers prompt. Browsers then send it with every request, even one that another
site triggers, so no request that changes anything accepts it."""

NO_TOKEN = "the token is missing or wrong; send it as 'Authorization: Bearer TOKEN'"


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, token: str | None, metrics: Metrics) -> None:
        """Without a `token`, all requests are allowed."""
        self._app = app
        self._token = None if token is None else token.encode()
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers with 401."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        # Stays if the application raises: Starlette then answers outside of this middleware.
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
                    counted, ["Bearer", 'Basic realm="Hocket"'] if _allows_basic(scope) else ["Bearer"]
                )
        finally:
            # Unknown paths count as `other`, so that requests cannot create series without limit.
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
        elif scheme.lower() == b"basic" and _allows_basic(scope):
            token = _password(shown)
        else:
            return False
        # Compared in constant time, so that the duration reveals nothing about the token.
        return hmac.compare_digest(token, self._token)


def _allows_basic(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] in READ_PATHS


def _password(shown: bytes) -> bytes:
    """The password of HTTP Basic authentication (RFC 7617), for any user; empty if it is malformed."""
    try:
        return base64.b64decode(shown, validate=True).partition(b":")[2]
    except ValueError:
        return b""


async def _refuse(send: Send, schemes: list[str]) -> None:
    headers = [(b"content-type", b"application/json")]
    headers += [(b"www-authenticate", scheme.encode()) for scheme in schemes]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": NO_TOKEN}).encode()})
