"""What Prometheus reads (text format): jobs, their iterations and slots, and how the service fares itself.

Jobs and links are labels as long as they are there; what goes leaves no series behind.
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
"""Of a job with series of their own, the first. Hocket: as many as tell clocks of servers apart; Prometheus
advises against labels of more than a few hundred values."""


class Metrics:
    """All that is shown of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests = CollectorRegistry()
        self._answered = Counter(
            "hocket_requests", "Answered requests.", ["method", "route", "status"], registry=self._requests
        )
        self._seconds = Histogram(
            "hocket_request_seconds", "From request to answer.", ["route"], registry=self._requests
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request to a route of the API, or to `other`."""
        self._answered.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def text(self) -> bytes:
        """All series as they are now. Writing those of thousands of jobs takes a second, in a thread."""
        jobs = CollectorRegistry()
        now_ns = self._service.now_ns()
        shown = [_Shown.of(job, now_ns) for job in self._service.jobs()]
        jobs.register(_OfJobs(shown, self._service.scores()))
        return await asyncio.to_thread(generate_latest, jobs) + generate_latest(self._requests)


@dataclass(frozen=True)
class _Shown:
    """What of a job is shown, as it was when it was asked for."""

    name: str
    state: str
    counts: tuple[int, ...]
    total_ns: int
    adjustments: int | None
    deviation_ns: int | None
    followed: bool | None
    """Whether its slot is followed; none without a slot."""
    offsets_ns: Mapping[int, int]
    uncertainties_ns: Mapping[int, int]
    """Both of clocks, by rank."""

    @staticmethod
    def of(job: ServedJob, now_ns: int) -> "_Shown":
        running = "free" if job.kept.slot is None else "slotted"
        reports = {rank: heard.report for rank, heard in sorted(job.heard.items()) if rank < MAX_RANKS}
        return _Shown(
            name=job.kept.name,
            state=running if job.kept.runs else "silent",
            counts=tuple(job.times.counts),
            total_ns=job.times.total_ns,
            adjustments=job.adjustments if job.heard else None,
            deviation_ns=job.deviation_ns,
            followed=None if job.kept.slot is None else job.not_followed(now_ns) is None,
            offsets_ns=_told({rank: report.clock_offset_ns for rank, report in reports.items()}),
            uncertainties_ns=_told({rank: report.clock_uncertainty_ns for rank, report in reports.items()}),
        )

    def buckets(self) -> list[tuple[str, float]]:
        """Each class of iteration times with all below it, as Prometheus counts."""
        ends = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
        below = 0
        buckets: list[tuple[str, float]] = []
        for end, count in zip(ends, self.counts, strict=True):
            below += count
            buckets.append((end, float(below)))
        return buckets


def _told(times_ns: Mapping[int, int | None]) -> dict[int, int]:
    """Those that ranks have told."""
    return {rank: time_ns for rank, time_ns in times_ns.items() if time_ns is not None}


class _OfJobs(Collector):
    """Series of jobs and links."""

    def __init__(self, jobs: Sequence[_Shown], scores: Mapping[str, float]) -> None:
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
            "hocket_score", "1 less the mean excess of demand over capacity.", labels=["link"]
        )
        for link, score in sorted(self._scores.items()):
            scores.add_metric([link], score)
        yield scores

    def _counted(self) -> Metric:
        family = GaugeMetricFamily("hocket_jobs", "Registered jobs.", labels=["state"])
        states = [job.state for job in self._jobs]
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
            "hocket_adjustments", "Returns to the slot since the job started.", labels=["job"]
        )
        for job in self._jobs:
            if job.adjustments is not None:
                family.add_metric([job.name], job.adjustments)
        return family

    def _deviations(self) -> Metric:
        family = GaugeMetricFamily(
            "hocket_slot_deviation_seconds",
            "How long after its slot communication starts, of the rank farthest off.",
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
            "How far the service's clock is ahead of that of the rank.",
            labels=["job", "rank"],
        )
        uncertainty = GaugeMetricFamily(
            "hocket_clock_uncertainty_seconds",
            "How well the rank knows the service's clock.",
            labels=["job", "rank"],
        )
        for job in self._jobs:
            for family, times_ns in ((offset, job.offsets_ns), (uncertainty, job.uncertainties_ns)):
                for rank, time_ns in times_ns.items():
                    family.add_metric([job.name, str(rank)], time_ns / NS_PER_S)
        yield offset
        yield uncertainty
