"""The published schema is the application's, and the application conforms to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.types import Receive, Scope, Send
from tests.service.conftest import Served, registered

from hocket.service.app import published_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "openapi.json"
TOKEN = "0123456789abcdef"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def test_the_published_schema_is_that_of_the_application() -> None:
    assert json.loads(PUBLISHED.read_text()) == published_schema(), (
        "hocket serve --openapi > docs/openapi.json"
    )


class _UnderTest:
    """Forwards to the application, which does not exist yet when schemathesis collects the requests."""

    served: Served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.served.app(scope, receive, send)


UNDER_TEST = _UnderTest()
SCHEMA = schemathesis.openapi.from_dict(published_schema())
SCHEMA.app = UNDER_TEST


@pytest.fixture(scope="module", autouse=True)
def under_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A service with a token, and with the job named in the schema's examples."""
    UNDER_TEST.served = Served(tmp_path_factory.mktemp("service") / "hocket.sqlite", TOKEN)
    assert UNDER_TEST.served.register("resnet-7", registered()).status_code == 201
    yield
    UNDER_TEST.served.store.close()


@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_answer_conforms_to_the_schema(case: Any) -> None:
    # A schema cannot express constraints between keys, so a request that conforms to it may still be
    # rejected.
    case.call_and_validate(headers=HEADERS, excluded_checks=[positive_data_acceptance])


quantities = st.integers(1, 10**6)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.data())
def test_consistent_requests_are_accepted(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    gaps_us = data.draw(st.lists(st.tuples(quantities, quantities), min_size=1, max_size=5))
    edges_us = [0]
    for silence_us, sending_us in gaps_us:
        edges_us += [edges_us[-1] + silence_us, edges_us[-1] + silence_us + sending_us]
    up = [
        {"start": f"{start} us", "duration": f"{end - start} us", "rate": f"{data.draw(quantities)} bps"}
        for start, end in zip(edges_us[1::2], edges_us[2::2], strict=True)
    ]
    names = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=20)
    body = {
        "profile": {"period": f"{edges_us[-1] + data.draw(quantities)} us", "up": up},
        "workers": data.draw(st.lists(names, unique=True, max_size=5)),
        "links": [
            {"name": name, "capacity": f"{10**6 + data.draw(quantities)} bps"}
            for name in data.draw(st.lists(names, unique=True, max_size=5))
        ],
    }
    served = Served(tmp_path_factory.mktemp("service") / "hocket.sqlite")

    assert served.register("a", body).status_code == 201

    count, each_ns = data.draw(st.tuples(quantities, quantities))
    total_ns = data.draw(st.integers(count * each_ns, 2 * count * each_ns))
    times = {"iteration": count, "count": count, "total_ns": total_ns}
    answer = served.report("a", **times, min_ns=each_ns, max_ns=2 * each_ns)
    assert answer.status_code == 200
    served.settle()
    served.store.close()
