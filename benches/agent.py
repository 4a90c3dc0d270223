"""What an agent costs an iteration in the thread that trains, before its body, in its collectives and after
it: median and 99th percentile. Runs under any Python that finds the package.

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
"""Collectives of an iteration, as of a model of 200 MB in the 25 MB buckets of DistributedDataParallel."""
LIMIT_US = 50.0
MS = 1_000_000


class Clock:
    """A clock that iterations and waits move, so that 20,000 iterations take no hour."""

    def __init__(self) -> None:
        self.now_ns = time.monotonic_ns()

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def costs_us(agent: Agent, clock: Clock, before: Callable[[], None]) -> list[float]:
    """What each iteration of 180 ms costs; `before` it something happens that does not count."""
    costs = []
    for _ in range(ITERATIONS):
        before()
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

            def hear(agent: Agent = agent, clock: Clock = clock, followed: "Slot | None" = followed) -> None:
                # As the agent's own thread does when the service answers.
                offset = Offset(0, MS, clock.now_ns)
                agent._reporter.answer = Answer(followed, "no slot", offset, clock.now_ns)

            costs = costs_us(agent, clock, hear)
            agent.close()
            median, worst = statistics.median(costs), statistics.quantiles(costs, n=100)[-1]
            print(f"{title}: median {median:.1f} µs, 99th percentile {worst:.1f} µs; limit {LIMIT_US:.0f} µs")


if __name__ == "__main__":
    main()
