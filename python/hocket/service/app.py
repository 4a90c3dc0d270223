"""The HTTP API of the service: its routes, error responses and schema."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from hocket.errors import InputError
from hocket.service.guard import Guard
from hocket.service.metrics import Metrics
from hocket.service.models import Registration, Report
from hocket.service.routes import router
from hocket.service.service import Service
from hocket.service.state import ConflictError, UnknownJobError
from hocket.service.store import StoreError
from hocket.units import shown

_LOG = logging.getLogger(__name__)


def create_app(service: Service, token: str | None = None) -> FastAPI:
    """The application for `service`; with a `token`, every request except `/healthz` has to send it."""
    app = _without_service()
    app.state.service = service
    app.state.metrics = Metrics(service)
    app.add_middleware(Guard, token=token, metrics=app.state.metrics)
    return app


def published_schema() -> dict[str, Any]:
    """The OpenAPI schema of the API."""
    return _without_service().openapi()


def _without_service() -> FastAPI:
    app = FastAPI(
        title="Hocket",
        version="1",
        summary="Gives running training jobs the slots in which they may communicate.",
        lifespan=_lifespan,
        docs_url=None,  # FastAPI's page loads scripts from a CDN
        redoc_url=None,
        # Clients of the service follow no redirects, which could lead their token elsewhere.
        redirect_slashes=False,
        # A model that is both received and returned has one entry in the schema.
        separate_input_output_schemas=False,
    )
    app.include_router(router)
    _add_error_handlers(app)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]  # FastAPI documents it so
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    background = asyncio.create_task(app.state.service.run())
    background.add_done_callback(partial(_report_end, app.state.service))
    yield
    background.cancel()
    # Until the task has ended the process of its solver.
    await asyncio.gather(background, return_exceptions=True)


def _report_end(service: Service, task: "asyncio.Task[None]") -> None:
    # An exception in a task is silent until somebody awaits it, and nobody does while the service runs.
    if not task.cancelled() and task.exception() is not None:
        service.failure = "solving has stopped, and slots no longer change; restart the service"
        _LOG.error(service.failure, exc_info=task.exception())


def _add_error_handlers(app: FastAPI) -> None:
    def handler(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
        async def handle(_: Request, error: Exception) -> Response:
            return JSONResponse({"error": str(error)}, status)

        return handle

    for kind, status in (
        (InputError, 422),
        (UnknownJobError, 404),
        (ConflictError, 409),
        (StoreError, 503),
        (ClientDisconnect, 400),
    ):
        app.add_exception_handler(kind, handler(status))

    @app.exception_handler(HTTPException)
    async def _http_error(request: Request, error: HTTPException) -> Response:
        route = request.scope.get("route")
        if route is None or error.status_code == 405:
            # Starlette raised it, because no route matches.
            reason = f"{request.method} {shown(request.url.path)} is not in this API; see /docs"
            # Starlette's own header names the methods of only one of the routes at this path.
            methods = [] if route is None else _methods(route.path)
            headers = {"Allow": ", ".join(methods)} if methods else error.headers
            return JSONResponse({"error": reason}, error.status_code, headers)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid_name(request: Request, _: RequestValidationError) -> Response:
        # `routes` parses bodies itself, so only the name of a job can be invalid here.
        limit = "must have 1 to 100 characters, not start with '.', and contain no '/' or control characters"
        return JSONResponse({"error": f"job: {limit}: got {shown(request.path_params['job'])}"}, 422)


def _methods(path: str) -> list[str]:
    """All methods allowed at a path, each of which has its own route."""
    routes = [route for route in router.routes if isinstance(route, APIRoute) and route.path == path]
    return sorted({method for route in routes for method in route.methods or ()})


def _schema(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        # `routes` parses these bodies itself, so FastAPI does not know their models.
        _, definitions = models_json_schema(
            [(Registration, "validation"), (Report, "validation")],
            ref_template="#/components/schemas/{model}",
        )
        components = schema["components"]
        components["schemas"] = dict(sorted({**components["schemas"], **definitions["$defs"]}.items()))
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
        schema["paths"]["/healthz"]["get"]["security"] = []
        app.openapi_schema = schema
    return app.openapi_schema
