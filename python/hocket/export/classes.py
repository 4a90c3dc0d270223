"""The traffic class of each job: priorities that are unique among the jobs of a link (HotNets'22 §4(ii)),
mapped to the classes that the fabric has for jobs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.plan import Plan, PlanLike, as_plan
from hocket.units import shown

DEFAULT_CLASSES = (4, 3)
"""The classes that SONiC's template makes lossless (`qos_config.j2`), the higher one first."""

CNP_CLASS = 6
"""The class of congestion notification packets on RoCE fabrics, served strictly before all data."""

CNP_DSCP = 48
"""The usual DSCP (CS6) of RoCE's congestion notification packets, which SONiC's template maps to class 6."""

LOWEST_PRIORITY = 255
"""The plan's priority that is served last."""

# RFC 3168 section 5: these two bits below the DSCP mark a packet as ECN-capable.
_ECT_0 = 0b10
# Class 0 is for unmarked traffic. CNPs must go before all data, and network control has class 7.
_FIRST, _LAST = 1, CNP_CLASS - 1


def dscp_of(traffic_class: int) -> int:
    """The DSCP of a class, such as 26, which is usual for RoCE, for class 3.

    NICs and switches take the upper three of its six bits as the class, unless they are configured otherwise.

    >>> dscp_of(3)
    26
    """
    return 8 * traffic_class + 2


@dataclass(frozen=True)
class JobClass:
    """A job, its priority (0 is served first), and its class, which is both 802.1p priority and queue."""

    job: str
    priority: int
    traffic_class: int

    @property
    def dscp(self) -> int:
        """The DSCP of its class."""
        return dscp_of(self.traffic_class)

    @property
    def nccl_ib_tc(self) -> int:
        """The traffic-class byte of its RoCE packets: DSCP × 4 + ECT(0).

        >>> JobClass("a", 0, 3).nccl_ib_tc
        106
        """
        return 4 * self.dscp + _ECT_0


@dataclass(frozen=True)
class Classes:
    """The classes of all jobs of a plan, in the order of the plan."""

    jobs: tuple[JobClass, ...]
    from_plan: bool
    """Whether the plan gives priorities. Otherwise each job has the first priority free on its links."""
    lossless: tuple[int, ...]
    """The classes that the fabric has for jobs, in the order of service."""
    simulated_queues: int
    sharers: Mapping[int, tuple[str, ...]]
    """By class: the jobs that share a link, fairly, with another job of the same class."""

    @property
    def used(self) -> tuple[int, ...]:
        """The classes that have a job, in the order of service."""
        return tuple(each for each in self.lossless if any(job.traffic_class == each for job in self.jobs))

    @property
    def folded(self) -> bool:
        """Whether the plan simulates more priorities separately than the fabric has classes."""
        most = max(job.priority for job in self.jobs)
        return min(most, self.simulated_queues - 1) >= len(self.lossless)


def parse_classes(text: str) -> tuple[int, ...]:
    """The classes in `text`, such as "3,4", in the order of service: the highest first.

    Raises `InputError` for anything but different classes from 1 to 5.

    >>> parse_classes("3,4")
    (4, 3)
    """
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and _FIRST <= int(word) <= _LAST for word in words):
        raise InputError(
            f"--classes: must be classes from {_FIRST} to {_LAST}, such as 3,4 (0 is for unmarked traffic, "
            f"{CNP_CLASS} for CNPs, which go before all data, 7 for network control): got {shown(text)}"
        )
    # Strict priority serves the highest class first.
    classes = sorted(map(int, words), reverse=True)
    if len(set(classes)) < len(classes):
        raise InputError(f"--classes: must name each class only once: got {shown(text)}")
    return tuple(classes)


def job_classes(
    plan: PlanLike,
    placement: Mapping[str, Sequence[str]] | None = None,
    lossless: Sequence[int] = DEFAULT_CLASSES,
) -> Classes:
    """Assigns each job of `plan` one of the classes `lossless`.

    As on the engines, priorities beyond the last queue share it. Raises `InputError` for a job without a
    placement.

    >>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
    >>> jobs = [{"name": "a", **half}, {"name": "b", **half}]
    >>> classes = job_classes({"link": {"capacity": "50 Gbps"}, "jobs": jobs})
    >>> [(each.job, each.traffic_class, each.nccl_ib_tc) for each in classes.jobs]
    [('a', 4, 138), ('b', 3, 106)]
    """
    plan = as_plan(plan)
    crossed = _crossed(plan, placement)
    from_plan = any("priority" in job.model_fields_set for job in plan.jobs)
    priorities = [job.priority for job in plan.jobs] if from_plan else _unique(crossed)
    # A plan with fewer queues than classes must behave on the fabric as it was simulated.
    last = min(len(lossless), plan.priority_queues) - 1
    jobs = tuple(
        JobClass(job.name, priority, lossless[min(priority, last)])
        for job, priority in zip(plan.jobs, priorities, strict=True)
    )
    return Classes(jobs, from_plan, tuple(lossless), plan.priority_queues, _sharers(jobs, crossed))


def _crossed(plan: Plan, placement: Mapping[str, Sequence[str]] | None) -> list[Set[int]]:
    """The links that each job crosses; all for a training job, since only a run shows where it sends."""
    network = build_network(plan)
    everywhere = set(range(len(network.links)))
    return [{link for link, _ in each} or everywhere for each in network.crossings(plan, placement)]


def _unique(crossed: Sequence[Set[int]]) -> list[int]:
    """For each job the first priority that no earlier job has on any of its links, or else the last."""
    # In the plan's order: which of several compatible jobs goes first is arbitrary (HotNets'22 §4(ii)).
    used: dict[int, set[int]] = {}
    found: list[int] = []
    for links in crossed:
        taken = set[int]().union(*(used.setdefault(link, set()) for link in links))
        found.append(next((each for each in range(LOWEST_PRIORITY) if each not in taken), LOWEST_PRIORITY))
        for link in links:
            used[link].add(found[-1])
    return found


def _sharers(jobs: Sequence[JobClass], crossed: Sequence[Set[int]]) -> dict[int, tuple[str, ...]]:
    on_links = Counter(
        (link, job.traffic_class) for job, links in zip(jobs, crossed, strict=True) for link in links
    )
    found: dict[int, list[str]] = {}
    for job, links in zip(jobs, crossed, strict=True):
        if any(on_links[link, job.traffic_class] > 1 for link in links):
            found.setdefault(job.traffic_class, []).append(job.job)
    return {each: tuple(names) for each, names in found.items()}
