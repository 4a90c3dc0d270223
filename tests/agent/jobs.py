"""Jobs on a shared link whose ranks have agents without I/O; nothing here reads a real clock."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random

from hocket_agent.offset import Offset
from hocket_agent.slots import Slot
from hocket_agent.state import Answer, Iteration, Shifter

MS = 1_000_000
SECOND = 1_000 * MS


@dataclass
class Rank:
    """A rank with a clock of its own, `base_ns` behind the service's and `drift_ppm` faster."""

    shifter: Shifter
    base_ns: int = 0
    drift_ppm: int = 0
    known: Offset | None = None

    def local_ns(self, time_ns: int) -> int:
        return time_ns - self.base_ns + time_ns * self.drift_ppm // 10**6

    def hears(self, time_ns: int, slot: Slot | None, error_ns: int = 0) -> None:
        """An answer with the offset measured now, wrong by `error_ns`."""
        local_ns = self.local_ns(time_ns)
        self.known = Offset(time_ns - local_ns + error_ns, abs(error_ns), local_ns)
        self.shifter.answered(Answer(slot, "", self.known, local_ns))


@dataclass
class Job:
    """`after` ms of computation, `up` ms of communication at `rate` of the link where it is alone, and
    `rest` ms of computation. Two jobs with the default values can take turns.
    """

    after: float = 60.0
    up: float = 90.0
    rest: float = 30.0
    rate: float = 0.8
    jitter: float = 0.0
    straggles: Callable[[int], float] = lambda _: 0.0
    """How many ms longer the last rank computes in an iteration of this number."""
    ranks: list[Rank] = field(default_factory=lambda: [Rank(Shifter())])
    draws: Random = field(default_factory=lambda: Random(1))
    slot: Slot | None = None
    starts_ns: list[int] = field(default_factory=list)
    """When each iteration could start, before its own delay: at the end of the previous one."""
    communication_ns: list[int] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)
    delays_ns: list[int] = field(default_factory=list)
    """The longest of its ranks' delays."""

    def run(self) -> Generator[tuple[str, float], int, None]:
        """Yields ("until", time in ns) or ("send", ms without contention); is sent the time of completion."""
        now_ns = yield "until", 0
        while True:
            number = len(self.starts_ns)
            self.starts_ns.append(now_ns)
            begun = []
            for rank in self.ranks:
                delay = rank.shifter.delay(number, rank.local_ns(now_ns))
                begun.append((now_ns + delay.wait_ns, delay))
            ready_ns = [start_ns + self._drawn(self.after) for start_ns, _ in begun]
            ready_ns[-1] += round(self.straggles(number) * MS)
            sent_from_ns = yield "until", max(ready_ns)
            self.communication_ns.append(sent_from_ns)
            sent_ns = yield "send", self.up
            now_ns = yield "until", sent_ns + self._drawn(self.rest)
            self.ends_ns.append(now_ns)
            self.delays_ns.append(max(delay.wait_ns for _, delay in begun))
            for rank, (start_ns, delay), communication_ns in zip(self.ranks, begun, ready_ns):
                rank.shifter.completed(
                    Iteration(
                        number,
                        rank.local_ns(start_ns),
                        rank.local_ns(communication_ns),
                        rank.local_ns(now_ns),
                        delay.wait_ns,
                        delay.adjusted,
                        communication_ns=None,
                    )
                )

    def _drawn(self, ms: float) -> int:
        return round(ms * MS * self.draws.gauss(1.0, self.jitter)) if self.jitter else round(ms * MS)

    @property
    def adjustments(self) -> int:
        return max(rank.shifter.adjustments for rank in self.ranks)

    def mean_ms(self, since: int = 0) -> float:
        """Mean duration of the iterations from number `since`, delays included."""
        return (self.ends_ns[-1] - self.starts_ns[since]) / (len(self.ends_ns) - since) / MS


def slot_of(
    origin_ms: float, period_ms: float, ideal_ms: float = 180, version: int = 1, iteration: int = 0
) -> Slot:
    return Slot(
        version=version,
        origin_ns=round(origin_ms * MS),
        period_ns=round(period_ms * MS),
        ideal_ns=round(ideal_ms * MS),
        iteration=iteration,
        tolerance_ns=round(ideal_ms * MS) // 20,
    )


def answering(jobs: list[Job], from_second: int = 1) -> Callable[[int], None]:
    """A service that answers each rank of each job with its slot, from some second on."""

    def every_second(now_ns: int) -> None:
        for job in jobs:
            for rank in job.ranks:
                rank.hears(now_ns, job.slot if now_ns >= from_second * SECOND else None)

    return every_second


def simulate(jobs: list[Job], seconds: float, every_second: Callable[[int], None]) -> None:
    """Runs jobs on a link of rate 1 that senders share equally, each up to its own rate. `every_second` is
    called with the time.
    """
    works = [job.run() for job in jobs]
    wakes: dict[int, float] = {}
    left: dict[int, float] = {}

    def advance(index: int, time_ns: int | None) -> None:
        # A generator that has not begun is sent nothing.
        what, amount = next(works[index]) if time_ns is None else works[index].send(time_ns)
        if what == "until":
            wakes[index] = amount
        else:
            left[index] = amount * MS * jobs[index].rate

    for index in range(len(jobs)):
        advance(index, None)
    now, tick = 0.0, 0.0
    while now < seconds * SECOND:
        rates = shares({index: jobs[index].rate for index in left})
        done = {index: now + left[index] / rates[index] for index in left}
        then = min([tick, *wakes.values(), *done.values()])
        left = {index: amount - rates[index] * (then - now) for index, amount in left.items()}
        now = then
        if now == tick:
            every_second(round(now))
            tick += SECOND
        for index in [index for index, at in wakes.items() if at <= now]:
            del wakes[index]
            advance(index, round(now))
        for index in [index for index, at in done.items() if at <= now]:
            del left[index]
            advance(index, round(now))


def shares(wanted: dict[int, float]) -> dict[int, float]:
    """Max-min fair rates on a link of rate 1."""
    rates: dict[int, float] = {}
    free = 1.0
    for count, index in enumerate(sorted(wanted, key=wanted.__getitem__)):
        rates[index] = min(wanted[index], free / (len(wanted) - count))
        free -= rates[index]
    return rates
