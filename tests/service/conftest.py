"""A service whose clock the test sets, and which solves when the test asks."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from hocket.service.app import create_app
from hocket.service.contention import Component, HeldSlot, Solution, solve
from hocket.service.service import Service
from hocket.service.store import Store

S = 1_000_000_000
MS = 1_000_000


class SolvedHere:
    """Solves in the test's process."""

    async def __call__(self, component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
        return solve(component, held, jitter)

    async def close(self) -> None:
        """Does nothing: no process was started."""


class Served:
    """A service behind its API, with the time of its clock."""

    def __init__(self, database: Path, token: str | None = None) -> None:
        self.now_ns = 1_000_000 * S
        self.database = database
        self.token = token
        self._open()

    def _open(self) -> None:
        self.store = Store(self.database)
        self.service = Service(self.store, SolvedHere(), lambda: self.now_ns)
        self.app: FastAPI = create_app(self.service, self.token)

    def restart(self) -> None:
        """Restarts the service with the same database."""
        self.store.close()
        self._open()

    def ask(
        self,
        method: str,
        path: str,
        content: bytes | str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer to a request. Nothing runs in the background: the application is not started."""
        headers = {} if headers is None else dict(headers)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"

        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(exchange())

    def settle(self) -> None:
        """Solves all changes."""
        asyncio.run(self.service.settle())

    def register(self, job: str, body: Any) -> httpx.Response:
        """The answer to a registration."""
        return self.ask("PUT", f"/v1/jobs/{job}", json.dumps(body), self.token)

    def report(self, job: str, rank: int = 0, ranks: int = 1, **changed: Any) -> httpx.Response:
        """The answer to a report."""
        return self.ask(
            "POST", f"/v1/jobs/{job}/reports", json.dumps(reported(rank, ranks, **changed)), self.token
        )

    def run(self, *jobs: str) -> None:
        """Sends the first report of each job and solves, so that the jobs have slots if slots help."""
        for job in jobs:
            assert self.report(job).status_code == 200
        self.settle()

    def slot(self, job: str) -> Any:
        """The slot that a job has."""
        return self.view(job)["slot"]

    def view(self, job: str) -> Any:
        """The state of a job."""
        return self.ask("GET", f"/v1/jobs/{job}", token=self.token).json()

    def everything(self) -> object:
        """The state of all jobs, and the content of the database."""
        return self.ask("GET", "/v1/jobs", token=self.token).json(), self.store.load()


def registered(
    links: Mapping[str, str] | None = None,
    *,
    period: str = "180 ms",
    up: str = "80 ms",
    rate: str = "40 Gbps",
) -> dict[str, Any]:
    """The registration of a job with one Up phase; by default it crosses link `l1` of 50 Gbps."""
    links = {"l1": "50 Gbps"} if links is None else links
    return {
        "profile": {"period": period, "up": [{"start": "0 ms", "duration": up, "rate": rate}]},
        "workers": ["host0", "host1"],
        "links": [{"name": name, "capacity": capacity} for name, capacity in links.items()],
    }


def reported(rank: int = 0, ranks: int = 1, **changed: Any) -> dict[str, Any]:
    """A rank's report after 10 iterations of 180 ms."""
    usual = {"sent_ns": 5, "iteration": 10, "count": 10}
    times = {"total_ns": 1_800 * MS, "min_ns": 170 * MS, "max_ns": 190 * MS}
    return {"rank": rank, "ranks": ranks, **usual, **times, **changed}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Creates services on the database of this test, one at a time."""
    made: list[Served] = []

    def make(token: str | None = None) -> Served:
        made.append(Served(tmp_path / "hocket.sqlite", token))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A service without jobs."""
    return serve()
