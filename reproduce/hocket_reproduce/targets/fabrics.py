"""Small fabrics on which jobs share several links: a chain and a loop of jobs.

Each switch has two hosts, so that no two jobs share one.
"""

from collections.abc import Sequence

from hocket_reproduce.targets.setting import (
    CAPACITY,
    PRECISION_DEG,
    SEED,
    Tables,
    workload,
)


def chain(jobs: Sequence[Tables]) -> Tables:
    """NSDI'24 Fig 7: job 2 shares l1 with job 1 and l2 with job 3; the switches are in a row."""
    places = (("h1a", "h2a"), ("h1b", "h3a"), ("h2b", "h3b"))
    return _plan("chain", [("t1", "t2", "l1"), ("t2", "t3", "l2")], jobs, places, "discard")


def triangle(jobs: Sequence[Tables], loops: str) -> Tables:
    """Three jobs on a star, every two of which share one link: the smallest loop of an affinity graph."""
    places = (("h1a", "h2a"), ("h2b", "h3a"), ("h3b", "h1b"))
    trunks = [("core", f"t{leaf}", f"l{leaf}") for leaf in (1, 2, 3)]
    return _plan("triangle", trunks, jobs, places, loops)


def fig_7_jobs() -> list[Tables]:
    """Compatible jobs for Fig 7, which names none: NSDI'24 Table 2's snapshot 1, and one as long."""
    return [
        workload("j1", "WideResNet101", 800),
        workload("j2", "VGG16", 1400),
        job("j3", 274, 100),
    ]


def job(name: str, period_ms: int, up_ms: int) -> Tables:
    """A job that sends at 40 Gbps at the end of its period."""
    up = {"start": f"{period_ms - up_ms} ms", "duration": f"{up_ms} ms", "rate": "40 Gbps"}
    return {"name": name, "period": f"{period_ms} ms", "up": [up]}


def _plan(
    name: str,
    trunks: Sequence[tuple[str, str, str]],
    jobs: Sequence[Tables],
    places: Sequence[tuple[str, str]],
    loops: str,
) -> Tables:
    links: list[Tables] = [{"ends": [a, b], "rate": CAPACITY, "name": label} for a, b, label in trunks]
    links += [
        {"ends": [f"t{leaf}", f"h{leaf}{host}"], "rate": CAPACITY} for leaf in (1, 2, 3) for host in "ab"
    ]
    placed = [{**each, "placement": list(hosts)} for each, hosts in zip(jobs, places, strict=True)]
    for each in placed:
        # The placement has one host per worker, so it already gives their number.
        each.pop("workers", None)
    return {
        "name": name,
        "seed": SEED,
        "fabric": {"links": links},
        "compat": {"loops": loops, "precision_deg": PRECISION_DEG},
        "jobs": placed,
    }
