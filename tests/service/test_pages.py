"""The service's pages for browsers."""

import base64
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from tests.service.conftest import Served, registered

from hocket import __version__

TOKEN = "0123456789abcdef"


class Page(HTMLParser):
    """Parses a page; fails if an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.text = ""
        self.loads: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self._open.append(tag)
        for name, value in attrs:
            if tag == "a" and name == "href":
                self.links.append(value or "")
            elif name in ("src", "href") or name.startswith("on"):
                self.loads.append(f"{tag} {name}")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert self._open or data.isspace(), data
        self.text += data


def page(served: Served, path: str) -> Page:
    answer = served.ask("GET", path, token=served.token)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Page(answer.text)


def test_the_front_page_names_the_service_and_links_to_the_others(served: Served) -> None:
    front = page(served, "/")

    assert f"Version {__version__}: 0 jobs registered" in front.text
    assert front.links == ["docs", "v1/jobs", "metrics"]
    for link in front.links:
        assert served.ask("GET", f"/{link}").status_code == 200


def test_the_front_page_shows_predicted_and_measured_iterations(served: Served) -> None:
    for name in ("a", "b"):
        served.register(name, registered())
    served.run("a", "b")
    served.report("a", iteration=20, dry_run=True)

    text = page(served, "/").text

    assert "2 jobs registered" in text
    assert "taking turns helps, predicted speed-up 1.10 on average" in text
    assert "is not followed: dry run" in text
    assert "180.0 (190.0)" in text


def test_names_of_jobs_are_escaped(served: Served) -> None:
    assert served.register("%3Cscript%3Ealert(1)", registered()).status_code == 201

    answer = served.ask("GET", "/")

    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text


def test_the_page_of_the_api_lists_every_request(served: Served) -> None:
    documented = page(served, "/docs")

    schema = served.ask("GET", "/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in documented.text
    assert documented.links == ["openapi.json", "."]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_and_run_nothing(served: Served, path: str) -> None:
    answer = served.ask("GET", path)

    assert Page(answer.text).loads == []
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


class TestTokenInABrowser:
    """Browsers send the token as the password of Basic authentication, which allows only reading."""

    @staticmethod
    def ask(served: Served, method: str, path: str, password: str) -> tuple[int, str]:
        shown = base64.b64encode(f"anyone:{password}".encode()).decode()
        answer = served.ask(method, path, headers={"Authorization": f"Basic {shown}"})
        return answer.status_code, answer.headers.get("www-authenticate", "")

    @pytest.mark.parametrize("path", ["/", "/docs", "/v1/jobs", "/metrics", "/openapi.json"])
    def test_pages_are_shown(self, serve: Callable[..., Served], path: str) -> None:
        served = serve(TOKEN)

        assert self.ask(served, "GET", path, TOKEN) == (200, "")
        assert self.ask(served, "GET", path, "wrong") == (401, 'Bearer, Basic realm="Hocket"')

    @pytest.mark.parametrize(
        ("method", "path"),
        [("PUT", "/v1/jobs/a"), ("DELETE", "/v1/jobs/a"), ("POST", "/v1/jobs/a/reports"), ("POST", "/")],
    )
    def test_nothing_is_changed(self, serve: Callable[..., Served], method: str, path: str) -> None:
        assert self.ask(serve(TOKEN), method, path, TOKEN) == (401, "Bearer")

    def test_garbage_is_rejected(self, serve: Callable[..., Served]) -> None:
        answer = serve(TOKEN).ask("GET", "/", headers={"Authorization": "Basic %%%"})
        assert answer.status_code == 401
