"""What Prometheus reads (text format): jobs, their iterations and slots, and how the service fares itself.

Jobs and links are labels as long as they are there; what goes leaves no series behind.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hocket.service.iterations import BOUNDS_S, IterationTimes
from hocket.service.job import NS_PER_S, Job
from hocket.service.service import Service

MAX_RANKS = 64
"""Of a job with series of their own, the first. Hocket: as many as tell clocks of servers apart; Prometheus
advises against labels of more than a few hundred values."""


class Metrics:
    """All that is shown of a service."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_OfJobs(service))
        self._requests = Counter(
            "hocket_requests", "Answered requests.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "hocket_request_seconds", "From request to answer.", ["route"], registry=self.registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request to a route of the API, or to `other`."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class _OfJobs(Collector):
    """Series made of what the service knows when it is asked."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        jobs = self._service.jobs()
        yield _counted(jobs)
        yield _iterations(jobs)
        yield _adjustments(jobs)
        yield _deviations(jobs)
        yield _offsets(jobs)
        scores = GaugeMetricFamily(
            "hocket_score", "1 less the mean excess of demand over capacity.", labels=["link"]
        )
        for link, score in sorted(self._service.scores().items()):
            scores.add_metric([link], score)
        yield scores


def _counted(jobs: list[Job]) -> Metric:
    slotted = sum(job.kept.slot is not None for job in jobs)
    running = sum(job.kept.runs for job in jobs)
    family = GaugeMetricFamily("hocket_jobs", "Registered jobs.", labels=["state"])
    family.add_metric(["slotted"], slotted)
    family.add_metric(["free"], running - slotted)
    family.add_metric(["silent"], len(jobs) - running)
    return family


def _iterations(jobs: list[Job]) -> Metric:
    family = HistogramMetricFamily(
        "hocket_iteration_seconds", "Iterations of all ranks, from their reports.", labels=["job"]
    )
    for job in jobs:
        family.add_metric([job.kept.name], _buckets(job.times), job.times.total_ns / NS_PER_S)
    return family


def _buckets(times: IterationTimes) -> list[tuple[str, float]]:
    """Each class with all below it, as Prometheus counts."""
    ends = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
    below = 0
    buckets: list[tuple[str, float]] = []
    for end, count in zip(ends, times.counts, strict=True):
        below += count
        buckets.append((end, float(below)))
    return buckets


def _adjustments(jobs: list[Job]) -> Metric:
    family = CounterMetricFamily(
        "hocket_adjustments", "Returns to the slot since the job started.", labels=["job"]
    )
    for job in jobs:
        if job.heard:
            family.add_metric([job.kept.name], job.adjustments)
    return family


def _deviations(jobs: list[Job]) -> Metric:
    family = GaugeMetricFamily(
        "hocket_slot_deviation_seconds",
        "How long after its slot communication starts, of the rank farthest off.",
        labels=["job"],
    )
    for job in jobs:
        if job.deviation_ns is not None:
            family.add_metric([job.kept.name], job.deviation_ns / NS_PER_S)
    return family


def _offsets(jobs: list[Job]) -> Metric:
    family = GaugeMetricFamily(
        "hocket_clock_offset_seconds",
        "How far the service's clock is ahead of that of the rank.",
        labels=["job", "rank"],
    )
    for job in jobs:
        for rank, heard in sorted(job.heard.items()):
            if rank < MAX_RANKS and heard.report.clock_offset_ns is not None:
                family.add_metric([job.kept.name, str(rank)], heard.report.clock_offset_ns / NS_PER_S)
    return family
