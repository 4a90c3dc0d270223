"""Estimates the offset of the service's clock from the four timestamps of each exchange (RFC 5905)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

# RFC 5905 section 10: the clock filter keeps eight samples and prefers the one with the shortest delay.
_STAGES = 8
# RFC 5905 section 7.2, PHI: the frequency tolerance of a clock, 15 parts per million.
_DRIFT_PPM = 15


class Exchange(NamedTuple):
    """Timestamps of a request and its answer: the first and the last on our monotonic clock, the others on
    the service's clock.
    """

    sent_ns: int
    service_received_ns: int
    service_sent_ns: int
    received_ns: int


class Offset(NamedTuple):
    """The service's clock minus ours with its largest possible error, measured at `at_ns` of our clock."""

    offset_ns: int
    uncertainty_ns: int
    at_ns: int

    def uncertainty_at(self, now_ns: int) -> int:
        """The uncertainty at `now_ns`: it grows after the exchange, as clocks drift."""
        return self.uncertainty_ns + max(0, now_ns - self.at_ns) * _DRIFT_PPM // 1_000_000


class OffsetFilter:
    """Estimates the offset from the best of the last exchanges.

    >>> clock = OffsetFilter()
    >>> clock.add(Exchange(sent_ns=0, service_received_ns=1_030, service_sent_ns=1_050, received_ns=100))
    >>> clock.best(100)
    Offset(offset_ns=990, uncertainty_ns=40, at_ns=100)
    """

    def __init__(self) -> None:
        self._samples: deque[Offset] = deque(maxlen=_STAGES)

    def add(self, exchange: Exchange) -> None:
        """Adds an exchange. RFC 5905 section 8: θ = ((T2 − T1) + (T3 − T4)) / 2, δ = (T4 − T1) − (T3 − T2).
        The true offset is within δ/2 of θ, even if the forward and reverse paths differ.
        """
        forward_ns = exchange.service_received_ns - exchange.sent_ns
        reverse_ns = exchange.service_sent_ns - exchange.received_ns
        # A step of the service's clock between its two timestamps could make δ negative.
        delay_ns = max(0, forward_ns - reverse_ns)
        self._samples.append(Offset((forward_ns + reverse_ns) // 2, delay_ns // 2, exchange.received_ns))

    def best(self, now_ns: int) -> Offset | None:
        """The sample with the lowest uncertainty at `now_ns`; None before the first exchange."""
        return min(self._samples, key=lambda sample: sample.uncertainty_at(now_ns), default=None)
