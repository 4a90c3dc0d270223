"""Parameters that reproductions share, each with its source, and plans made from them.

They were written down before any result was compared, and none was changed to come closer to a paper.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hocket.workloads import calibrated_workers

Tables: TypeAlias = dict[str, Any]
"""A plan, or one of its tables, as a TOML reader returns it."""

SEED = 1
CAPACITY = "50 Gbps"
"""NSDI'24 §5.1 and HotNets'22 §2: NICs of 50 Gbps; the catalogue is calibrated against such a link."""

NIC = CAPACITY
"""The NIC rate of catalogue jobs, whatever the capacity of the link that they share."""

CONTENDED_CAPACITY = "42 Gbps"
"""Goodput of two DCQCN jobs that share a link of 50 Gbps: 21 Gbps each, HotNets'22 Fig 1b."""

ITERATIONS = 1_000
"""HotNets'22 §2 and NSDI'24 §2.2 run each job for 1,000 iterations."""

JITTER = 0.01
"""Relative standard deviation of compute times. No paper gives one; 1% is the default tolerance of plans."""

PRECISION_DEG = 5.0
"""NSDI'24 §5.1: unless otherwise stated, time-shifts are sought in steps of 5°."""

# (job, model, batch size) of NSDI'24 Table 2.
SNAPSHOTS: Mapping[int, tuple[tuple[str, str, int], ...]] = {
    1: (("wideresnet101", "WideResNet101", 800), ("vgg16", "VGG16", 1400)),
    2: (("vgg19", "VGG19", 1400), ("vgg16", "VGG16", 1700), ("resnet50", "ResNet50", 1600)),
    3: (("vgg19", "VGG19", 1024), ("vgg16", "VGG16", 1200)),
    4: (("roberta-1", "RoBERTa", 12), ("roberta-2", "RoBERTa", 12)),
    5: (("bert", "BERT", 8), ("vgg19", "VGG19", 1400), ("wideresnet101", "WideResNet101", 800)),
}


def workload(name: str, model: str, batch_size: int, **policy: object) -> Tables:
    """A job of the catalogue on as many workers as it was calibrated with, with further keys of a plan's
    `[[jobs]]`.
    """
    workers = calibrated_workers(model, batch_size)
    catalogue = {"workload": model, "batch_size": batch_size, "workers": workers, "nic": NIC}
    return {"name": name, **catalogue, **policy}


def snapshot(number: int) -> list[Tables]:
    """The jobs of a snapshot of NSDI'24 Table 2."""
    return [workload(*job) for job in SNAPSHOTS[number]]


def across_one_link(workers: Sequence[int]) -> tuple[Tables, list[list[str]]]:
    """A dumbbell fabric for jobs with these numbers of workers, and the hosts of each: one worker is on the
    right, the others are on the left, so the ring of a job crosses the link once in each direction.
    """
    left = sum(workers) - len(workers)
    firsts = (sum(workers[:place]) - place for place in range(len(workers)))
    hosts = [
        [f"s{host}" for host in (*range(first, first + count - 1), left + place)]
        for place, (first, count) in enumerate(zip(firsts, workers, strict=True))
    ]
    return {"dumbbell": {"left": left, "right": len(workers), "nic": NIC, "bottleneck": CAPACITY}}, hosts


def link_plan(
    name: str,
    jobs: Sequence[Tables],
    *,
    capacity: str = CAPACITY,
    iterations: int = ITERATIONS,
    rates_until: str = "0 s",
    priority_queues: int = 8,
    contended_goodput: object = None,
) -> Tables:
    """A plan of `jobs` on one link; rates are recorded until `rates_until`."""
    lossy = {} if contended_goodput is None else {"contended_goodput": contended_goodput}
    return {
        "name": name,
        "seed": SEED,
        "link": {
            "capacity": capacity,
            "precision_deg": PRECISION_DEG,
            "priority_queues": priority_queues,
            **lossy,
        },
        "run": {"iterations": iterations, "record_rates_until": rates_until},
        "jobs": list(jobs),
    }


def each_with(jobs: Sequence[Tables], **policy: object) -> list[Tables]:
    """`jobs`, each with the keys `policy` added."""
    return [{**job, **policy} for job in jobs]


def shifted(
    jobs: Sequence[Tables], time_shifts_s: Mapping[str, float], *, readjust: bool = False
) -> list[Tables]:
    """`jobs` with their time-shifts; if `readjust`, the agent of NSDI'24 §5.7 keeps them in their slots."""
    return [{**job, "time_shift": in_time(time_shifts_s[job["name"]]), "readjust": readjust} for job in jobs]


def in_time(time_s: float) -> str:
    """A duration as plans spell it, to the nearest picosecond.

    >>> in_time(0.12)
    '120000000000 ps'
    """
    return f"{round(time_s * 1e12)} ps"
