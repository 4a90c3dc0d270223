"""Measures the time that an agent adds to an iteration in the training thread: median and 99th percentile.

Runs under any Python that finds the package.

    python benches/agent.py
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hocket_agent import Agent, Settings
from hocket_agent.offset import Offset
from hocket_agent.slots import Slot
from hocket_agent.state import Answer

ITERATIONS = 20_000
BUCKETS = 8
"""Collectives per iteration, as for a model of 200 MB in DistributedDataParallel's buckets of 25 MB."""
LIMIT_US = 50.0
"""The limit in docs/agent.md."""
MS = 1_000_000


class Clock:
    """A clock that only iterations and waits advance: in real time, 20,000 iterations would take an hour."""

    def __init__(self) -> None:
        self.now_ns = time.monotonic_ns()

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def costs_us(agent: Agent, clock: Clock, before: Callable[[], None]) -> list[float]:
    """The time that the agent takes in each iteration of 180 ms; the time of `before()` is not counted."""
    costs = []
    for _ in range(ITERATIONS):
        before()
        # Real time, while `clock` is simulated: all that passes is the agent's.
        begin_ns = time.perf_counter_ns()
        with agent.iteration():
            clock.now_ns += 60 * MS
            for _ in range(BUCKETS):
                with agent.communication():
                    clock.now_ns += 10 * MS
            clock.now_ns += 40 * MS
        costs.append((time.perf_counter_ns() - begin_ns) / 1e3)
    return costs


def main() -> None:
    slot = Slot(
        version=1, origin_ns=0, period_ns=183 * MS, ideal_ns=180 * MS, iteration=0, tolerance_ns=9 * MS
    )
    with tempfile.TemporaryDirectory() as directory:
        log = str(Path(directory) / "agent.jsonl")
        print(f"Python {sys.version.partition(' ')[0]}, {BUCKETS} collectives an iteration")
        for title, settings, followed in (
            ("measures", Settings(), None),
            ("measures, with a log", Settings(log=log), None),
            ("waits for its slot each time", Settings(), slot),
            ("waits for its slot each time, with a log", Settings(log=log), slot),
        ):
            clock = Clock()
            agent = Agent(settings, clock=clock, sleep=clock.sleep)

            def reply(agent: Agent = agent, clock: Clock = clock, followed: "Slot | None" = followed) -> None:
                # As the agent's own thread does when the service answers; with the loop's variables as
                # defaults, because a closure would see the next ones.
                offset = Offset(0, MS, clock.now_ns)
                agent._reporter.answer = Answer(followed, "no slot", offset, clock.now_ns)

            costs = costs_us(agent, clock, reply)
            agent.close()
            median, worst = statistics.median(costs), statistics.quantiles(costs, n=100)[-1]
            print(f"{title}: median {median:.1f} µs, 99th percentile {worst:.1f} µs; limit {LIMIT_US:.0f} µs")


if __name__ == "__main__":
    main()
