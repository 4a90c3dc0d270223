"""For any sequence of events: only running jobs that share links have slots, their slots fit together, and
they outlive the service.
"""

import math
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.service.conftest import S, Served, registered

NAMES = ("a", "b", "c", "d")
LINKS = ("l1", "l2", "l3")
RANKS = 2

names = st.sampled_from(NAMES)
links = st.sets(st.sampled_from(LINKS), max_size=2)


class Course(RuleBasedStateMachine):
    """A service, its jobs, and the time."""

    @initialize()
    def begin(self) -> None:
        """Starts without jobs."""
        self.directory = TemporaryDirectory()
        self.served = Served(Path(self.directory.name) / "hocket.sqlite")
        self.versions: dict[str, list[tuple[int, int, int]]] = {}

    @rule(name=names, crossed=links, up=st.sampled_from(["20 ms", "60 ms", "140 ms"]), slow=st.booleans())
    def register(self, name: str, crossed: set[str], up: str, slow: bool) -> None:
        """A job registers, or moves."""
        body = registered(
            dict.fromkeys(sorted(crossed), "50 Gbps"), period="360 ms" if slow else "180 ms", up=up
        )
        assert self.served.register(name, body).status_code in (200, 201)

    @rule(chosen=st.sets(names, min_size=2))
    def launch(self, chosen: set[str]) -> None:
        """Jobs that fill one link start together and get slots."""
        up = {2: "80 ms", 3: "55 ms", 4: "42 ms"}[len(chosen)]
        for name in sorted(chosen):
            assert self.served.register(name, registered(up=up)).status_code in (200, 201)
            self.report(name, set(range(RANKS)), 10)
        self.settle()
        for name in sorted(chosen):
            self.report(name, {0}, 20)

    @rule(name=names)
    def refuse(self, name: str) -> None:
        """An invalid registration changes nothing."""
        before = self.served.everything()
        assert self.served.register(name, registered(rate="51 Gbps")).status_code == 422
        assert self.served.everything() == before

    @rule(name=names)
    def unregister(self, name: str) -> None:
        """A job ends."""
        assert self.served.ask("DELETE", f"/v1/jobs/{name}").status_code in (204, 404)

    @rule(name=names, ranks=st.sets(st.integers(0, RANKS - 1)), iteration=st.integers(10, 1_000))
    def report(self, name: str, ranks: set[int], iteration: int) -> None:
        """Some ranks of a job report; the job may have restarted meanwhile."""
        for rank in ranks:
            answer = self.served.report(name, rank, RANKS, iteration=iteration)
            assert answer.status_code in (200, 404)
            if answer.status_code == 200 and answer.json()["slot"] is not None:
                slot = answer.json()["slot"]
                seen = self.versions.setdefault(name, [])
                seen.append((slot["version"], slot["origin_ns"], slot["period_ns"]))

    @rule(seconds=st.sampled_from([1, 60, 400]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.served.now_ns += seconds * S

    @rule()
    def settle(self) -> None:
        """Changes are solved."""
        self.served.settle()
        self.settled()

    @rule()
    def restart(self) -> None:
        """The service restarts with the same slots."""
        before = {job["job"]: job["slot"] for job in self._jobs()}
        self.served.restart()
        assert {job["job"]: job["slot"] for job in self._jobs()} == before

    @precondition(lambda self: hasattr(self, "served"))
    @invariant()
    def shown_slots_are_stored(self) -> None:
        """The database contains the slots that the API returns."""
        kept = {job.name: job.slot and job.slot.model_dump() for job in self.served.store.load().jobs}
        assert kept == {job["job"]: job["slot"] for job in self._jobs()}

    @precondition(lambda self: hasattr(self, "served"))
    @invariant()
    def versions_rise_with_slots(self) -> None:
        """A different slot of a job has a higher version."""
        for seen in self.versions.values():
            for before, after in pairwise(seen):
                assert after[0] >= before[0]
                assert after == before or after[0] > before[0]

    def settled(self) -> None:
        """Checks what holds once everything is solved."""
        slotted = [job for job in self._jobs() if job["slot"] is not None]
        for job in slotted:
            others = [other for other in slotted if other is not job and _crossed(job) & _crossed(other)]
            assert others, f"{job['job']} has a slot, but no job to take turns with"
            for other in others:
                # A job whose ranks have not reported since the restart keeps its slot until they do.
                if job["heard"] == other["heard"] == RANKS:
                    # On a common turn of a few periods, to the nanosecond.
                    periods_ns = job["slot"]["period_ns"], other["slot"]["period_ns"]
                    assert math.lcm(*periods_ns) <= 72 * max(periods_ns)

    def _jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.served.ask("GET", "/v1/jobs").json()["jobs"]
        return jobs

    def teardown(self) -> None:
        """Closes the database."""
        if hasattr(self, "served"):
            self.served.store.close()
            self.directory.cleanup()


def _crossed(job: dict[str, Any]) -> set[str]:
    return {link["name"] for link in job["links"]}


TestAnyCourse = Course.TestCase
TestAnyCourse.settings = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    # Failing sequences are short enough to read without shrinking.
    phases=[Phase.generate],
)
