"""H6: a unique priority per job instead of unfairness, and more jobs than queues (HotNets'22 §4(ii))."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets import h3
from hocket_reproduce.targets.measure import by_job
from hocket_reproduce.targets.setting import (
    JITTER,
    Tables,
    link_plan,
    workload,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row
from hocket_reproduce.targets.testbed import ITERATIONS, run_packets

# §4(ii): "today's switches support a few priority queues"; 8 are the classes of 802.1Q.
QUEUES = (2, 4, 8)
JOBS = range(2, 9)
PERIOD_MS = 240
# The jobs' total share of the link's time: they can take turns, with room to slide apart.
LOAD = 0.9
# Compatible, and with iterations short enough for packets.
GROUP_ON_PACKETS = 4
JOBS_ON_PACKETS = 4


def reproduce(progress: Progress) -> Reproduction:
    """Priorities beside weights on Table 1's compatible groups; slowdown as jobs outnumber queues."""
    rows: list[Row] = []
    for number, (members, compatible) in enumerate(h3.GROUPS, 1):
        if compatible:
            progress(f"group {number}")
            rows.extend(_group_rows(number, members))
    slowdowns = {}
    for queues in QUEUES:
        progress(f"{queues} queues")
        slowdowns[queues] = [slowdown(count, queues) for count in JOBS]
    fair = [slowdown(count, None) for count in JOBS]
    rows.extend(_queue_rows(slowdowns, fair))
    rows.extend(_packet_rows(progress))
    return Reproduction(
        "H6",
        "Unique priorities, and more jobs than queues (HotNets'22 §4(ii))",
        tuple(rows),
        partial(_figure, slowdowns, fair),
        (
            f"1,000 iterations with {JITTER:.0%} jitter on 50 Gbps. Priorities beyond the last queue share "
            "it fairly.",
            f"The sweep: n equal jobs of {PERIOD_MS} ms that send at 45 Gbps for {LOAD:.0%}/n of it, so they "
            "could take turns. Slowdown is the mean iteration over all jobs ÷ the time alone.",
            f"On packets: {ITERATIONS} iterations, the slide included; switches serve their queues with "
            "strict priority, hosts have DCQCN as in H1.",
        ),
    )


def slowdown(count: int, queues: int | None) -> float:
    """Mean slowdown of `count` equal jobs with unique priorities on `queues` queues; fair shares if None."""
    run = simulate(link_plan("queues", _equal_jobs(count, queues), priority_queues=queues or 1))
    return _mean_slowdown(run)


def slowdown_on_packets(count: int, queues: int | None, iterations: int = ITERATIONS) -> float:
    """`slowdown` on the packet engine."""
    return _mean_slowdown(
        run_packets(_equal_jobs(count, queues), priority_queues=queues or 1, iterations=iterations)
    )


def _equal_jobs(count: int, queues: int | None) -> list[Tables]:
    up_ms = PERIOD_MS * LOAD / count
    up = {"start": f"{PERIOD_MS - up_ms:.3f} ms", "duration": f"{up_ms:.3f} ms", "rate": "45 Gbps"}
    return [
        {
            "name": f"job {place}",
            "period": f"{PERIOD_MS} ms",
            "up": [up],
            "priority": 0 if queues is None else place,
            "jitter": JITTER,
        }
        for place in range(count)
    ]


def _mean_slowdown(run: Run) -> float:
    return float(np.mean(list(by_job(run, "mean_iteration_s").values()))) / (PERIOD_MS / 1e3)


def prioritised(members: tuple[h3.Member, ...]) -> list[Tables]:
    """A group of Table 1 with a priority per job, the most aggressive one first."""
    return [
        workload(each.name, each.model, each.batch_size, jitter=JITTER, priority=place)
        for place, each in enumerate(members)
    ]


def _group_rows(number: int, members: tuple[h3.Member, ...]) -> Iterator[Row]:
    means_s = by_job(simulate(link_plan("priorities", prioritised(members))), "mean_iteration_s")
    for each in members:
        yield Row(
            f"group {number}: {each.name} with its own priority",
            each.unfair_ms,
            1e3 * means_s[each.name],
            "ms",
            "the paper's value is with unfair DCQCN, which it calls the same effect",
        )


def _packet_rows(progress: Progress) -> Iterator[Row]:
    progress("priorities on packets")
    members, _ = h3.GROUPS[GROUP_ON_PACKETS - 1]
    means_s = by_job(run_packets(prioritised(members)), "mean_iteration_s")
    for each in members:
        yield Row(
            f"packets, group {GROUP_ON_PACKETS}: {each.name} with its own priority",
            each.unfair_ms,
            1e3 * means_s[each.name],
            "ms",
            "the slide included",
        )
    progress("few queues on packets")
    fair = slowdown_on_packets(JOBS_ON_PACKETS, None)
    for queues in (2, JOBS_ON_PACKETS):
        yield Row(
            f"packets, {JOBS_ON_PACKETS} jobs on {queues} queues: slowdown",
            None,
            slowdown_on_packets(JOBS_ON_PACKETS, queues),
            "×",
            f"{fair:.2f}× when sharing fairly",
        )


def _queue_rows(slowdowns: Mapping[int, list[float]], fair: list[float]) -> Iterator[Row]:
    for queues, values in slowdowns.items():
        # The last number of jobs with a queue each, one more, and the most.
        for count in sorted({queues, queues + 1, max(JOBS)}):
            if count in JOBS:
                place = list(JOBS).index(count)
                yield Row(
                    f"{count} jobs on {queues} queues: slowdown",
                    None,
                    values[place],
                    "×",
                    f"{fair[place]:.2f}× when sharing fairly",
                )


def _figure(slowdowns: Mapping[int, list[float]], fair: list[float]) -> Figure:
    series = {f"{queues} queues": values for queues, values in slowdowns.items()}
    panel = LinesPanel(
        "", "jobs on the link", "mean slowdown (×)", list(JOBS), {"fair sharing": fair, **series}
    )
    return lines_figure([panel], "Unique priorities with few queues")
