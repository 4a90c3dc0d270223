"""The routes of the API: each parses the request, calls the service and returns the response."""

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from hocket import __version__
from hocket.plan.reading import parse_as, read_json
from hocket.plan.schema import Table
from hocket.service.guard import DOCS_PATH, FRONT_PATH, JOBS_PATH, METRICS_PATH, NO_TOKEN
from hocket.service.metrics import Metrics
from hocket.service.models import (
    JOB_NAME_PATTERN,
    MAX_BODY_BYTES,
    Answer,
    Clock,
    Health,
    Jobs,
    JobView,
    Refusal,
    Registration,
    Report,
)
from hocket.service.pages import HEADERS, api_page, front_page
from hocket.service.service import Service

_REASONS = {
    400: "The body is not JSON.",
    401: NO_TOKEN[:1].upper() + NO_TOKEN[1:] + ".",
    404: "The job is not registered.",
    409: "Another job registered a different capacity for a link, or there are too many jobs.",
    413: f"The body is larger than {MAX_BODY_BYTES / 1e6:g} MB.",
    422: "A value is wrong, missing or out of range.",
    503: "The database cannot be written to.",
}

JobName = Annotated[str, Path(pattern=JOB_NAME_PATTERN, examples=["resnet-7"])]
_AnyTable = TypeVar("_AnyTable", bound=Table)

router = APIRouter()


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of the error responses with `statuses`, and with 401 for a missing token."""
    return {
        status: {"model": Refusal, "description": _REASONS[status]} for status in sorted({401, *statuses})
    }


def _body_of(table: type[Table]) -> dict[str, Any]:
    """The documentation of a request body that is a `table`, which FastAPI cannot derive from `Request`."""
    reference = {"$ref": f"#/components/schemas/{table.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


# Routes are tried in order of definition. This one is first, since nearly all requests are reports.
@router.post(
    "/v1/jobs/{job}/reports",
    response_model=Answer,
    responses=_refusals(400, 404, 413, 422, 503),
    openapi_extra=_body_of(Report),
)
async def report(job: JobName, request: Request) -> Response:
    """Report a rank's iterations and get the job's slot."""
    received = await _read(request, Report)
    service = _service(request)
    answer = service.report(job, received)
    # The clock is read last: any work after it would count as network delay (RFC 5905, transmit timestamp).
    return _json(answer.model_copy(update={"sent_ns": service.now_ns()}))


@router.put(
    "/v1/jobs/{job}",
    response_model=JobView,
    responses={
        201: {"model": JobView, "description": "The job is new."},
        **_refusals(400, 409, 413, 422, 503),
    },
    openapi_extra=_body_of(Registration),
)
async def register(job: JobName, request: Request) -> Response:
    """Register a job, or replace its registration; repeating a registration changes nothing."""
    registration = await _read(request, Registration)
    view, created = _service(request).register(job, registration)
    return _json(view, status=201 if created else 200)


@router.get(JOBS_PATH, response_model=Jobs, responses=_refusals())
async def jobs(request: Request) -> Response:
    """List all jobs with their state."""
    return _json(Jobs(jobs=_service(request).views()))


@router.get("/v1/jobs/{job}", response_model=JobView, responses=_refusals(404, 422))
async def show(job: JobName, request: Request) -> Response:
    """Get the state of a job."""
    return _json(_service(request).view(job))


@router.delete("/v1/jobs/{job}", status_code=204, responses=_refusals(404, 422, 503))
async def unregister(job: JobName, request: Request) -> Response:
    """Unregister a job; the service then solves the remaining jobs again."""
    _service(request).unregister(job)
    return Response(status_code=204)


@router.get("/v1/clock", response_model=Clock, responses=_refusals())
async def clock(request: Request) -> Response:
    """Read the service's clock."""
    received_ns = _service(request).now_ns()
    return _json(Clock(received_ns=received_ns, sent_ns=_service(request).now_ns()))


@router.get(FRONT_PATH, include_in_schema=False)
async def front(request: Request) -> Response:
    """The page of jobs, for browsers."""
    return HTMLResponse(front_page(_service(request).views()), headers=HEADERS)


@router.get(DOCS_PATH, include_in_schema=False)
async def documentation(request: Request) -> Response:
    """The documentation of the API, for browsers."""
    return HTMLResponse(api_page(request.app.openapi()), headers=HEADERS)


@router.get(
    "/healthz",
    response_model=Health,
    responses={
        503: {"model": Refusal, "description": "The service answers, but no longer solves for slots."}
    },
)
async def health(request: Request) -> Response:
    """Check that the service answers and solves for slots."""
    if failure := _service(request).failure:
        raise HTTPException(503, failure)
    return _json(Health(status="ok", version=__version__))


@router.get(
    METRICS_PATH,
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "Prometheus' text format.",
        },
        **_refusals(),
    },
)
async def metrics(request: Request) -> Response:
    """Get metrics of jobs, iterations, slots and requests, for Prometheus."""
    collected = request.app.state.metrics
    assert isinstance(collected, Metrics), "create_app sets the metrics"
    return Response(await collected.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def _service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service), "create_app sets the service"
    return service


async def _read(request: Request, table: type[_AnyTable]) -> _AnyTable:
    """Parses the body of `request` as a `table`, as strictly as a plan file.

    Raises `InputError` for invalid values, and `HTTPException` if the body is too large or not JSON.
    """
    content = b""
    # The size is checked while reading, since a request need not state its length.
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise HTTPException(413, f"body: is larger than the limit of {MAX_BODY_BYTES} bytes")
    try:
        given = read_json(content.decode())
    except RecursionError:
        raise HTTPException(400, "body: is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"body: is not UTF-8 text: byte {error.start} cannot be decoded") from None
    except ValueError as error:
        raise HTTPException(400, f"body: {error}") from None
    return parse_as(table, given, "body", "")


def _json(model: BaseModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(by_alias=True), status, media_type="application/json")
