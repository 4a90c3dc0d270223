"""How far the service's clock is from ours, from the four times of each request and its answer (RFC 5905)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

# RFC 5905 section 10: the clock filter keeps eight samples and believes the one with the shortest way.
_STAGES = 8
# RFC 5905 section 7.2, PHI: what a clock may drift, 15 parts in a million.
_DRIFT_PPM = 15


class Exchange(NamedTuple):
    """A request and its answer: the first and the last time on our monotonic clock, the others on the
    service's.
    """

    sent_ns: int
    service_received_ns: int
    service_sent_ns: int
    received_ns: int


class Offset(NamedTuple):
    """The service's clock less ours, and how wrong that can be, at a time of ours."""

    offset_ns: int
    uncertainty_ns: int
    at_ns: int

    def uncertainty_at(self, now_ns: int) -> int:
        """As clocks drift, it grows from the exchange on."""
        return self.uncertainty_ns + max(0, now_ns - self.at_ns) * _DRIFT_PPM // 1_000_000


class OffsetFilter:
    """The best of the last exchanges.

    >>> clock = OffsetFilter()
    >>> clock.add(Exchange(sent_ns=0, service_received_ns=1_030, service_sent_ns=1_050, received_ns=100))
    >>> clock.best(100)
    Offset(offset_ns=990, uncertainty_ns=40, at_ns=100)
    """

    def __init__(self) -> None:
        self._samples: deque[Offset] = deque(maxlen=_STAGES)

    def add(self, exchange: Exchange) -> None:
        """RFC 5905 section 8: θ = ((T2 − T1) + (T3 − T4)) / 2, δ = (T4 − T1) − (T3 − T2). The true offset is
        within δ/2 of θ, however unlike the two ways are."""
        there_ns = exchange.service_received_ns - exchange.sent_ns
        back_ns = exchange.service_sent_ns - exchange.received_ns
        way_ns = max(0, there_ns - back_ns)
        self._samples.append(Offset((there_ns + back_ns) // 2, way_ns // 2, exchange.received_ns))

    def best(self, now_ns: int) -> Offset | None:
        """The sample whose uncertainty is the least by now; none before the first exchange."""
        return min(self._samples, key=lambda sample: sample.uncertainty_at(now_ns), default=None)
