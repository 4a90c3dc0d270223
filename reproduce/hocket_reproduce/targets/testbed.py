"""The testbed of HotNets'22 and NSDI'24 on the packet engine: jobs on two hosts each, which share one link of
50 Gbps under DCQCN.

Parameters that the papers do not print are the defaults of plans: marking from 200 to 800 KB at 50 Gbps,
packets of 4,096 bytes, CNPs at most every 4 µs.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.targets.setting import SEED, Tables, link_plan

ITERATIONS = 20
"""Few enough for packet-level runs of seconds; runs of the flow engine have 1,000."""

T_US = 125
T_AGGRESSIVE_US = 100
"""HotNets'22 §2: the rate-increase timer T of both jobs, and of J1 in the unfair scenario."""

_LINK = "link"


def dcqcn(timer_us: int = T_US, **parameters: object) -> Tables:
    """The congestion control of a job: ConnectX NICs as shipped, with T as HotNets'22 §2 sets it."""
    return {"dcqcn": {"preset": "hotnets22", "increase_timer": f"{timer_us} us", **parameters}}


def with_timers(jobs: Sequence[Tables], timers_us: Sequence[int], **parameters: object) -> list[Tables]:
    """`jobs` under DCQCN, each with its T of `timers_us` and all with the further `parameters`."""
    return [
        {**job, "congestion": dcqcn(timer_us, **parameters)}
        for job, timer_us in zip(jobs, timers_us, strict=True)
    ]


def run_packets(
    jobs: Sequence[Tables],
    *,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    sample_every: str | None = None,
    priority_queues: int = 8,
    host: Mapping[str, object] | None = None,
    skip_ahead: bool = False,
) -> Run:
    """Runs `jobs` on the packet engine; a job that names no congestion control has `dcqcn()`.

    `host` are keys of a plan's `[host]`; with `skip_ahead` exact repetitions are copied instead of simulated.
    Raises `KeyboardInterrupt` on Ctrl-C.
    """
    governed = [{"congestion": dcqcn(), **job} for job in jobs]
    plan = link_plan("packets", governed, iterations=iterations, priority_queues=priority_queues)
    sampled = {} if sample_every is None else {"sample_every": sample_every}
    run = simulate(
        {
            **plan,
            "seed": seed,
            "host": dict(host or {}),
            "run": {
                "engine": "packet",
                "iterations": iterations,
                "skip_ahead": skip_ahead,
                **sampled,
            },
        }
    )
    if run.interrupted:
        raise KeyboardInterrupt
    return run


def contended_shares_gbps(run: Run) -> dict[str, float]:
    """Each job's rate on the link in Gbps, headers included, while all jobs are in their first Up phase.

    `run` must have been sampled.
    """
    first = run.tables["phases"].filter((pl.col("iteration") == 0) & (pl.col("phase") == 0))
    start_s, end_s = float(first["start_s"].to_numpy().max()), float(first["end_s"].to_numpy().min())
    within = (pl.col("at_s") > start_s) & (pl.col("at_s") <= end_s) & (pl.col("link") == _LINK)
    sent = run.tables["utilisation"].filter(within).group_by("job").agg(pl.col("bytes").sum())
    by_job = dict(zip(sent["job"].to_list(), sent["bytes"].to_list(), strict=True))
    return {job: by_job.get(job, 0) * 8e-9 / (end_s - start_s) for job in first["job"].to_list()}
