"""Which traffic class each job gets: priorities that are unique among the jobs of a link (HotNets'22 §4(ii)),
on as many classes as a fabric has for them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.plan import Plan, PlanLike, as_plan
from hocket.units import shown

DEFAULT_CLASSES = (4, 3)
"""Lossless on switches as SONiC's template sets them up (`qos_config.j2`), the higher one first."""

CNP_CLASS = 6
"""The class of congestion notification packets on RoCE fabrics: strict, before all data."""

CNP_DSCP = 48
"""RoCE's usual DSCP (CS6) of congestion notification packets; SONiC's template sends it to class 6 too."""

LOWEST_PRIORITY = 255
"""Of a plan's priorities the one that goes last."""

# RFC 3168 section 5: the two bits below the DSCP that say "ECN-capable".
_ECT_0 = 0b10
_FIRST, _LAST = 1, CNP_CLASS - 1


def dscp_of(traffic_class: int) -> int:
    """The DSCP of a class: NICs and switches with no other map take the upper three of its six bits for the
    class, and class 3 gets RoCE's usual 26.

    >>> dscp_of(3)
    26
    """
    return 8 * traffic_class + 2


@dataclass(frozen=True)
class JobClass:
    """A job, its priority (0 goes first), and the class that it becomes: 802.1p priority and queue in one."""

    job: str
    priority: int
    traffic_class: int

    @property
    def dscp(self) -> int:
        """That of its class."""
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
    """The classes of all jobs of a plan, in its order."""

    jobs: tuple[JobClass, ...]
    from_plan: bool
    """Whether the plan gives them; otherwise each job has the first that none before it has on its links."""
    lossless: tuple[int, ...]
    """The classes that the fabric has for jobs, the one that is served first in front."""
    simulated_queues: int
    sharers: Mapping[int, tuple[str, ...]]
    """By class: jobs that meet another of the same class on a link, and share it fairly there."""

    @property
    def used(self) -> tuple[int, ...]:
        """The classes that have a job, the one that is served first in front."""
        return tuple(each for each in self.lossless if any(job.traffic_class == each for job in self.jobs))

    @property
    def folded(self) -> bool:
        """Whether the plan simulates priorities apart that the fabric has no class for."""
        most = max(job.priority for job in self.jobs)
        return min(most, self.simulated_queues - 1) >= len(self.lossless)


def parse_classes(text: str) -> tuple[int, ...]:
    """The classes in `text`, such as "3,4", the one that is served first in front: the highest.

    Raises `InputError` for anything but different classes from 1 to 5.

    >>> parse_classes("3,4")
    (4, 3)
    """
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and _FIRST <= int(word) <= _LAST for word in words):
        raise InputError(
            f"--classes: must be classes from {_FIRST} to {_LAST}, such as 3,4 (0 has what nobody marks, "
            f"{CNP_CLASS} the CNPs, which go before all data, 7 the network's own): got {shown(text)}"
        )
    classes = sorted(map(int, words), reverse=True)
    if len(set(classes)) < len(classes):
        raise InputError(f"--classes: each class once: got {shown(text)}")
    return tuple(classes)


def job_classes(
    plan: PlanLike,
    placement: Mapping[str, Sequence[str]] | None = None,
    lossless: Sequence[int] = DEFAULT_CLASSES,
) -> Classes:
    """The classes of the jobs of `plan`, of those in `lossless`.

    As on the engines, priorities beyond the last queue share it. Raises `InputError` for a job that has no
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
    last = min(len(lossless), plan.priority_queues) - 1
    jobs = tuple(
        JobClass(job.name, priority, lossless[min(priority, last)])
        for job, priority in zip(plan.jobs, priorities, strict=True)
    )
    return Classes(jobs, from_plan, tuple(lossless), plan.priority_queues, _sharers(jobs, crossed))


def _crossed(plan: Plan, placement: Mapping[str, Sequence[str]] | None) -> list[Set[int]]:
    """Of each job, the links that it crosses; of a training job all, as only a run shows where it sends."""
    network = build_network(plan)
    everywhere = set(range(len(network.links)))
    return [{link for link, _ in each} or everywhere for each in network.crossings(plan, placement)]


def _unique(crossed: Sequence[Set[int]]) -> list[int]:
    """For each job the first priority that no job before it has on a link of its own, or else the last."""
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
