"""Invalid input of `hocket serve`, `register`, `jobs` and `unregister`, and the registrations of a plan's
jobs.
"""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command, half, shared_link

from hocket.errors import InputError
from hocket.plan import parse_plan
from hocket.service.client import Client
from hocket.service.registrations import registrations

TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOCKET_SERVICE", "HOCKET_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--listen", "8765"], "--listen: must be HOST:PORT, such as 127.0.0.1:8765: got '8765'"),
        (["--listen", "::1:8765"], "--listen: must be HOST:PORT"),
        (["--listen", "127.0.0.1:http"], "--listen: the port must be a number from 0 to 65535: got 'http'"),
        (["--listen", "127.0.0.1:65536"], "--listen: the port must be a number from 0 to 65535: got '65536'"),
        (["--listen", "0.0.0.0:0"], "--listen 0.0.0.0: other machines can reach it, so it requires a token"),
        (["--listen", "[::]:0"], "--listen ::: other machines can reach it, so it requires a token"),
        (["--expire", "1 s"], "--expire: must be at least 10 s"),
        (["--expire", "soon"], "--expire: a duration is a finite number and a unit"),
        (["--jitter", "0.6"], "--jitter: must be from 0 to 0.5: got 0.6"),
        (["--token-file", "nowhere"], "--token-file nowhere: No such file or directory"),
        (["--token-file", "short"], "the token must have at least 16 characters: got 5"),
        (["--token-file", "spaced"], "the token must consist of printable ASCII characters without spaces"),
        (["--database", "nowhere/hocket.sqlite"], "nowhere/hocket.sqlite: cannot be opened"),
    ],
)
def test_a_service_that_cannot_start_says_why(
    hocket: Command, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    (tmp_path / "short").write_text("short")
    (tmp_path / "spaced").write_text("a token of many words")

    refused = hocket("serve", *arguments)

    assert refused.code == 2
    assert reason in refused.err
    assert "short\n" not in refused.err


def test_the_schema_is_printed(hocket: Command) -> None:
    assert hocket("serve", "--openapi").json()["info"]["title"] == "Hocket"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8765", "ftp://127.0.0.1", "http://", "http://h:port", "http://h:99999"]
)
def test_an_address_that_is_not_a_url_is_rejected(hocket: Command, url: str) -> None:
    refused = hocket("jobs", "--service", url)

    assert refused.code == 2
    assert "--service: must be a URL such as http://127.0.0.1:8765" in refused.err


def test_a_service_that_does_not_answer_is_named(hocket: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    refused = hocket("jobs", "--service", f"http://127.0.0.1:{port}")

    assert refused.code == 2
    assert f"http://127.0.0.1:{port}: does not answer: " in refused.err


def registered_on(plan: dict[str, Any], **options: str) -> dict[str, dict[str, Any]]:
    return registrations(parse_plan(plan), **options)


def test_jobs_on_one_link_register_it_under_the_given_name() -> None:
    plan = shared_link(half("a"))

    assert registered_on(plan)["a"] == {
        "profile": {"period": "180 ms", "up": [{"start": "0 s", "duration": "90 ms", "rate": "40 Gbps"}]},
        "workers": [],
        "links": [{"name": "link", "capacity": "50 Gbps", "flows": 1}],
    }
    assert registered_on(plan, link="rack 1")["a"]["links"][0]["name"] == "rack 1"


def test_jobs_on_a_fabric_register_their_hosts_and_the_links_that_their_ring_crosses() -> None:
    plan = {
        "fabric": {"links": [{"ends": [host, "s"], "rate": "50 Gbps"} for host in ("h0", "h1", "h2")]},
        "jobs": [half("a", placement=["h0", "h1"])],
    }

    found = registered_on(plan)["a"]

    assert found["workers"] == ["h0", "h1"]
    assert sorted(link["name"] for link in found["links"]) == ["h0->s", "h1->s", "s->h0", "s->h1"]


def test_invalid_registrations_are_rejected(hocket: Command, tmp_path: Path) -> None:
    plan = shared_link(half("team/a"))
    (tmp_path / "plan.json").write_text(json.dumps(plan))

    refused = hocket("register", "plan.json")
    unknown = hocket("register", "plan.json", "--candidate", "best")

    assert refused.code == unknown.code == 2
    assert "plan.json: job 'team/a': the service requires names without '/'" in refused.err
    assert "--candidate: 'best' is not in the plan; it has none" in unknown.err


@pytest.mark.parametrize("url", ["http://[::1]", "http://[::1]:8765", "http://service:80/hocket"])
def test_the_url_of_a_service_may_be_an_ipv6_address_with_or_without_a_port(url: str) -> None:
    Client(url, token=None)


@pytest.mark.parametrize("url", ["http://[::1]:", "http://service:http", "http://service:99999", "http://"])
def test_the_url_of_a_service_has_a_host_and_a_port_that_is_a_number(url: str) -> None:
    with pytest.raises(InputError, match="--service: must be a URL"):
        Client(url, token=None)
