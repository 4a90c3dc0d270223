"""Answers of the API; a rejected request changes nothing."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.service.conftest import MS, S, Served, registered, reported

from hocket.service import state
from hocket.service.app import create_app
from hocket.service.models import MAX_BODY_BYTES
from hocket.service.store import StoreError

TOKEN = "0123456789abcdef0123456789abcdef"


def changed(table: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `table` with another value at `path`, such as `profile.up.0.rate`."""
    copy = json.loads(json.dumps(table))
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inside = copy
    for part in parents:
        inside = inside[part]
    inside[last] = value
    return copy  # type: ignore[no-any-return]


def metric(served: Served, name: str, **labels: str) -> float:
    """The value of the only metric with these labels."""
    families = text_string_to_metric_families(served.ask("GET", "/metrics", token=served.token).text)
    found = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    (value,) = found
    return value


def test_a_job_is_shown_as_it_was_registered(served: Served) -> None:
    created = served.register("a", registered())

    assert created.status_code == 201
    assert created.json() == served.view("a")
    assert created.json()["profile"] == {
        "period": "180 ms",
        "up": [{"start": "0 s", "duration": "80 ms", "rate": "40 Gbps"}],
    }
    assert created.json()["links"] == [{"name": "l1", "capacity": "50 Gbps", "flows": 1}]
    assert served.ask("GET", "/v1/jobs").json() == {"jobs": [created.json()]}


def test_a_job_shows_what_its_ranks_report(served: Served) -> None:
    served.register("a", registered())
    served.report("a", 0, 2, adjustments=1, deviation_ns=3 * MS, applied=4)
    served.report("a", 1, 2, adjustments=2, deviation_ns=-5 * MS, applied=4, iteration=11)

    view = served.view("a")

    assert (view["heard"], view["ranks"], view["iteration"]) == (2, 2, 11)
    assert (view["adjustments"], view["deviation_ns"], view["applied"]) == (2, -5 * MS, 4)


def test_a_name_that_needs_escapes_means_the_same_job_everywhere(served: Served) -> None:
    assert served.register("GPT-3 %28ü%29", registered()).status_code == 201

    assert served.view("GPT-3 %28ü%29")["job"] == "GPT-3 (ü)"


def test_the_clock_returns_the_services_time(served: Served) -> None:
    assert served.ask("GET", "/v1/clock").json() == {"received_ns": served.now_ns, "sent_ns": served.now_ns}


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("profile.period", "0 s", "body: profile.period: a duration must be above 0 here: got '0 s'"),
        ("profile.period", 180, "body: profile.period: a duration is written as text with a unit"),
        ("profile.up", [], "body: profile.up: has too few entries: got 0, at least 1 needed"),
        ("profile.up.0.duration", "181 ms", "body: profile.up[0]: 0 s + 181 ms does not fit in the period"),
        (
            "profile.up.0.rate",
            "51 Gbps",
            "body: profile.up[0].rate: 51 Gbps is above the capacity of link 'l1'",
        ),
        (
            "profile.up.0.rates",
            "1 Gbps",
            "body: profile.up[0].rates: is not a known key; did you mean 'rate'?",
        ),
        ("workers", ["h", "h"], "body: workers[1]: 'h' is named twice"),
        ("workers", "h", "body: workers: must be a list: got 'h'"),
        ("links.0.name", "\x1b[2J", "body: links[0].name: must be a name of printable characters"),
        ("links.0.flows", 0, "body: links[0].flows: must be at least 1: got 0"),
        (
            "links",
            [{"name": str(n), "capacity": "50 Gbps"} for n in range(1_001)],
            "body: links: has more than",
        ),
        ("owner", "me", "body: owner: is not a known key"),
    ],
)
def test_an_invalid_registration_is_rejected_with_a_reason(
    served: Served, path: str, value: object, reason: str
) -> None:
    served.register("a", registered())
    before = served.everything()

    for job in ("a", "new"):
        refused = served.register(job, changed(registered(), path, value))
        assert refused.status_code == 422
        assert refused.json()["error"].startswith(reason)

    assert served.everything() == before


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("rank", 1, "body: rank: must be below ranks, 1: got 1"),
        ("rank", True, "body: rank: must be a whole number: got true"),
        ("count", 11, "body: count: 11 is more than all iterations, 10"),
        ("total_ns", 1, "body: total_ns: 1 contradicts 10 iterations of"),
        ("iteration", -1, "body: iteration: must be at least 0: got -1"),
        ("deviation_ns", 1.5, "body: deviation_ns: must be a whole number"),
        ("sent_ns", 2**63, "body: sent_ns: must be at most 9223372036854775807: got a number of more"),
    ],
)
def test_an_invalid_report_is_rejected_with_a_reason(
    served: Served, key: str, value: Any, reason: str
) -> None:
    served.register("a", registered())
    before = served.everything()

    refused = served.report("a", **{key: value})

    assert refused.status_code == 422
    assert refused.json()["error"].startswith(reason)
    assert served.everything() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "body: is not valid JSON"),
        (b'{"profile": ', "body: is not valid JSON"),
        (b'{"profile": NaN}', "body: has the number NaN"),
        (b'{"a": 1, "a": 2}', "body: has the key 'a' twice"),
        (b"\xff", "body: is not UTF-8 text"),
        (b"[" * 100_000, "body: is nested too deeply"),
    ],
)
def test_a_body_that_is_not_json_is_rejected(served: Served, content: bytes, reason: str) -> None:
    refused = served.ask("PUT", "/v1/jobs/a", content)

    assert refused.status_code == 400
    assert refused.json()["error"].startswith(reason)


def test_a_large_body_is_rejected(served: Served) -> None:
    refused = served.ask("PUT", "/v1/jobs/a", b" " * (MAX_BODY_BYTES + 1))

    assert refused.status_code == 413
    assert refused.json() == {"error": "body: is larger than the limit of 2000000 bytes"}


@pytest.mark.parametrize("name", [".", "..", ".a", "a%0Ab", "x" * 101, "%1b"])
def test_a_name_that_cannot_be_part_of_a_url_is_rejected(served: Served, name: str) -> None:
    refused = served.ask("PUT", f"/v1/jobs/{name}", json.dumps(registered()))

    assert refused.status_code in (404, 405, 422)
    if refused.status_code == 422:
        assert "job: must have 1 to 100 characters, not start with '.'" in refused.json()["error"]
    assert served.ask("GET", "/v1/jobs").json() == {"jobs": []}


def test_a_different_capacity_of_a_link_is_rejected_naming_both(served: Served) -> None:
    served.register("a", registered())
    before = served.everything()

    refused = served.register("b", registered({"l1": "100 Gbps"}))

    assert refused.status_code == 409
    assert refused.json()["error"] == (
        "link 'l1': job 'b' states a capacity of 100 Gbps, but job 'a' 50 Gbps"
    )
    assert served.everything() == before
    # A job alone on the link may change the capacity.
    assert served.register("a", registered({"l1": "100 Gbps"})).status_code == 200


def test_more_jobs_than_the_limit_are_rejected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MAX_JOBS", 2)
    for name in "ab":
        served.register(name, registered())

    refused = served.register("c", registered())

    assert refused.status_code == 409
    assert refused.json() == {"error": "job 'c': the limit of 2 registered jobs is reached"}
    assert served.register("a", registered(up="10 ms")).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/reports")])
def test_a_job_that_is_not_registered_is_not_found(served: Served, method: str, path: str) -> None:
    refused = served.ask(method, f"/v1/jobs/a{path}", json.dumps(reported()))

    assert refused.status_code == 404
    assert refused.json() == {"error": "job 'a' is not registered"}


def test_unknown_paths_are_rejected_in_the_same_form(served: Served) -> None:
    assert served.ask("GET", "/v2/jobs").json() == {"error": "GET '/v2/jobs' is not in this API; see /docs"}
    refused = served.ask("POST", "/v1/jobs/a", "{}")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "DELETE, GET, PUT"


def test_a_failed_write_changes_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.register("a", registered())
    before = served.everything()

    def full(*_: object) -> None:
        raise StoreError("hocket.sqlite: cannot be written: database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(served.store, "save", full)
        assert served.register("b", registered()).status_code == 503
        assert served.ask("DELETE", "/v1/jobs/a").status_code == 503

    assert served.everything() == before


class TestToken:
    """With a token, no request without it reads or changes anything."""

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/v1/jobs"),
            ("GET", "/v1/jobs/a"),
            ("PUT", "/v1/jobs/a"),
            ("DELETE", "/v1/jobs/a"),
            ("POST", "/v1/jobs/a/reports"),
            ("GET", "/v1/clock"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("GET", "/"),
            ("GET", "/docs"),
            ("GET", "/nothing"),
        ],
    )
    @pytest.mark.parametrize("given", [None, "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper()])
    def test_it_is_required(
        self, serve: Callable[..., Served], method: str, path: str, given: str | None
    ) -> None:
        served = serve(TOKEN)
        served.register("a", registered())
        before = served.everything()

        refused = served.ask(method, path, json.dumps(registered(up="1 ms")), given)

        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert "token" in refused.json()["error"]
        assert served.everything() == before

    def test_requests_with_the_token_succeed(self, serve: Callable[..., Served]) -> None:
        served = serve(TOKEN)

        assert served.register("a", registered()).status_code == 201
        assert served.report("a").status_code == 200

    def test_health_requires_no_token(self, serve: Callable[..., Served]) -> None:
        assert serve(TOKEN).ask("GET", "/healthz").json()["status"] == "ok"

    def test_a_service_that_has_stopped_solving_is_not_healthy(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        async def asked() -> httpx.Response:
            monkeypatch.setattr(served.service, "run", fail)
            app = create_app(served.service)
            transport = httpx.ASGITransport(app)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://service") as client,
            ):
                # The task ends first, then its callbacks run.
                for _ in range(3):
                    await asyncio.sleep(0)
                return await client.get("/healthz")

        answer = asyncio.run(asked())
        assert answer.status_code == 503
        assert "restart the service" in answer.json()["error"]


class TestMetrics:
    """Metrics for Prometheus."""

    def test_iterations_are_counted_by_duration(self, served: Served) -> None:
        served.register("a", registered())
        served.report("a")

        assert metric(served, "hocket_iteration_seconds_count", job="a") == 10
        assert metric(served, "hocket_iteration_seconds_sum", job="a") == pytest.approx(1.8)
        assert metric(served, "hocket_iteration_seconds_bucket", job="a", le="0.1") == 0
        assert metric(served, "hocket_iteration_seconds_bucket", job="a", le="0.2") == 10

    def test_jobs_slots_and_clocks_are_shown(self, served: Served) -> None:
        for name in "ab":
            served.register(name, registered())
        served.run("a", "b")
        served.report(
            "a", adjustments=3, deviation_ns=-2 * MS, clock_offset_ns=S // 2, clock_uncertainty_ns=MS
        )

        assert metric(served, "hocket_jobs", state="slotted") == 2
        assert metric(served, "hocket_score", link="l1") == 1.0
        assert metric(served, "hocket_adjustments_total", job="a") == 3
        assert metric(served, "hocket_slot_deviation_seconds", job="a") == -0.002
        assert metric(served, "hocket_clock_offset_seconds", job="a", rank="0") == 0.5
        assert metric(served, "hocket_clock_uncertainty_seconds", job="a", rank="0") == 0.001

    def test_a_slot_is_followed_once_all_ranks_report_it(self, served: Served) -> None:
        for name in "ab":
            served.register(name, registered())
        served.run("a", "b")
        assert metric(served, "hocket_slot_followed", job="a") == 0

        served.report("a", applied=served.slot("a")["version"])

        assert metric(served, "hocket_slot_followed", job="a") == 1

    def test_requests_are_counted_by_route_and_unknown_paths_together(self, served: Served) -> None:
        for number in range(20):
            served.ask("GET", f"/guess/{number}")
        served.register("a", registered())

        assert metric(served, "hocket_requests_total", route="other", status="404") == 20
        assert metric(served, "hocket_requests_total", route="/v1/jobs/{job}", status="201") == 1

    def test_an_unregistered_job_leaves_no_series(self, served: Served) -> None:
        served.register("secret", registered())
        served.report("secret")
        served.ask("DELETE", "/v1/jobs/secret")

        assert "secret" not in served.ask("GET", "/metrics").text

    def test_only_the_first_64_ranks_of_a_job_have_clocks(self, served: Served) -> None:
        served.register("a", registered())
        for rank in range(70):
            served.report("a", rank, 70, clock_offset_ns=rank)

        text = served.ask("GET", "/metrics").text
        assert text.count("hocket_clock_offset_seconds{") == 64


def test_concurrent_registrations_cannot_give_a_link_two_capacities(tmp_path: Path) -> None:
    served = Served(tmp_path / "hocket.sqlite")

    async def race() -> list[int]:
        transport = httpx.ASGITransport(served.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            answers = await asyncio.gather(
                *(
                    client.put(f"/v1/jobs/j{number}", json=registered({"l1": f"{50 + number % 2} Gbps"}))
                    for number in range(40)
                )
            )
        return [answer.status_code for answer in answers]

    statuses = asyncio.run(race())

    assert sorted(set(statuses)) == [201, 409]
    jobs = served.ask("GET", "/v1/jobs").json()["jobs"]
    assert len({job["links"][0]["capacity"] for job in jobs}) == 1
    assert len(served.store.load().jobs) == statuses.count(201)
    served.store.close()
