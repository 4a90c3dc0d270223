"""Metrics in the text format of Prometheus: jobs, their iterations and slots, and requests to the service.

Jobs and links are labels only while they are registered, so those that leave take their series with them.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hocket.service.iterations import BOUNDS_S
from hocket.service.job import NS_PER_S, ServedJob
from hocket.service.service import Service

MAX_RANKS = 64
"""The first ranks of a job, which have series of their own. Hocket: enough to compare the clocks of servers;
Prometheus advises against labels with more than a few hundred values."""


class Metrics:
    """All metrics of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests = CollectorRegistry()
        self._answered = Counter(
            "hocket_requests", "Answered requests.", ["method", "route", "status"], registry=self._requests
        )
        self._seconds = Histogram(
            "hocket_request_seconds", "Time from request to answer.", ["route"], registry=self._requests
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request to a route of the API, or to `other`."""
        self._answered.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def text(self) -> bytes:
        """All series as text. They are formatted in a thread, since thousands of jobs take a second."""
        jobs = CollectorRegistry()
        now_ns = self._service.now_ns()
        shown = [_Snapshot.of(job, now_ns) for job in self._service.jobs()]
        jobs.register(_JobCollector(shown, self._service.scores()))
        # Requests have few series, and this thread counts them.
        return await asyncio.to_thread(generate_latest, jobs) + generate_latest(self._requests)


@dataclass(frozen=True)
class _Snapshot:
    """A snapshot of a job's values, taken on the event loop so that a thread can format them."""

    name: str
    state: str
    counts: tuple[int, ...]
    total_ns: int
    adjustments: int | None
    deviation_ns: int | None
    followed: bool | None
    """Whether its slot is followed; None without a slot."""
    offsets_ns: Mapping[int, int]
    uncertainties_ns: Mapping[int, int]
    """Clock offsets and uncertainties, by rank."""

    @staticmethod
    def of(job: ServedJob, now_ns: int) -> "_Snapshot":
        running = "free" if job.record.slot is None else "slotted"
        reports = {rank: last.report for rank, last in sorted(job.last_reports.items()) if rank < MAX_RANKS}
        return _Snapshot(
            name=job.record.name,
            state=running if job.record.runs else "silent",
            counts=tuple(job.times.counts),
            total_ns=job.times.total_ns,
            # After a restart of the service, 0 would look like a counter that was reset and then jumps.
            adjustments=job.adjustments if job.last_reports else None,
            deviation_ns=job.deviation_ns,
            followed=None if job.record.slot is None else job.not_followed(now_ns) is None,
            offsets_ns=_known({rank: report.clock_offset_ns for rank, report in reports.items()}),
            uncertainties_ns=_known({rank: report.clock_uncertainty_ns for rank, report in reports.items()}),
        )

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative buckets, as Prometheus defines histograms."""
        ends = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
        below = 0
        buckets: list[tuple[str, float]] = []
        for end, count in zip(ends, self.counts, strict=True):
            below += count
            buckets.append((end, float(below)))
        return buckets


def _known(times_ns: Mapping[int, int | None]) -> dict[int, int]:
    """The times that ranks have reported."""
    return {rank: time_ns for rank, time_ns in times_ns.items() if time_ns is not None}


class _JobCollector(Collector):
    """Collects the series of jobs and links."""

    def __init__(self, jobs: Sequence[_Snapshot], scores: Mapping[str, float]) -> None:
        self._jobs = jobs
        self._scores = scores

    def collect(self) -> Iterator[Metric]:
        yield self._counted()
        yield self._iterations()
        yield self._adjustments()
        yield self._deviations()
        yield self._followed()
        yield from self._clocks()
        scores = GaugeMetricFamily(
            "hocket_score", "1 minus the mean excess of demand over capacity.", labels=["link"]
        )
        for link, score in sorted(self._scores.items()):
            scores.add_metric([link], score)
        yield scores

    def _counted(self) -> Metric:
        family = GaugeMetricFamily("hocket_jobs", "Registered jobs.", labels=["state"])
        states = [job.state for job in self._jobs]
        # Also states without jobs, whose series would otherwise disappear.
        for state in ("slotted", "free", "silent"):
            family.add_metric([state], states.count(state))
        return family

    def _iterations(self) -> Metric:
        family = HistogramMetricFamily(
            "hocket_iteration_seconds", "Iterations of all ranks, from their reports.", labels=["job"]
        )
        for job in self._jobs:
            family.add_metric([job.name], job.buckets(), job.total_ns / NS_PER_S)
        return family

    def _adjustments(self) -> Metric:
        family = CounterMetricFamily(
            "hocket_adjustments", "Adjustments since the job started.", labels=["job"]
        )
        for job in self._jobs:
            if job.adjustments is not None:
                family.add_metric([job.name], job.adjustments)
        return family

    def _deviations(self) -> Metric:
        family = GaugeMetricFamily(
            "hocket_slot_deviation_seconds",
            "Start of communication minus slot, of the rank with the largest deviation.",
            labels=["job"],
        )
        for job in self._jobs:
            if job.deviation_ns is not None:
                family.add_metric([job.name], job.deviation_ns / NS_PER_S)
        return family

    def _followed(self) -> Metric:
        family = GaugeMetricFamily(
            "hocket_slot_followed", "1 if all ranks follow the slot of their job, else 0.", labels=["job"]
        )
        for job in self._jobs:
            if job.followed is not None:
                family.add_metric([job.name], job.followed)
        return family

    def _clocks(self) -> Iterator[Metric]:
        offset = GaugeMetricFamily(
            "hocket_clock_offset_seconds",
            "The service's clock minus the rank's clock.",
            labels=["job", "rank"],
        )
        uncertainty = GaugeMetricFamily(
            "hocket_clock_uncertainty_seconds",
            "Largest possible error of the clock offset.",
            labels=["job", "rank"],
        )
        for job in self._jobs:
            for family, times_ns in ((offset, job.offsets_ns), (uncertainty, job.uncertainties_ns)):
                for rank, time_ns in times_ns.items():
                    family.add_metric([job.name, str(rank)], time_ns / NS_PER_S)
        yield offset
        yield uncertainty
