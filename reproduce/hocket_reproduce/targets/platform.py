"""HOTI'22's platform with training jobs as plans, and the results that R6 to R8 take from their runs on
packets.

Congestion controls are those of `packets`, spelled as in plans.
"""

import os
import threading
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from hocket.engines.run import simulate
from hocket.results import Run
from hocket.units import format_bytes, format_rate
from hocket_reproduce.targets import packets
from hocket_reproduce.targets.packets import Control
from hocket_reproduce.targets.setting import SEED, Tables
from hocket_reproduce.targets.target import Progress

Key = TypeVar("Key", bound=Hashable)

STATIC = Control("static window", {"policy": "static-window"}, {})
"""§IV-E and §VI: a window per queue pair, set once."""

SERVERS_PER_RACK = 2
GPUS_PER_SERVER = 8
"""§III-B."""

OVERSUBSCRIBED = (
    "The network is that of Table I, with 200 Gbps between each ToR and each of eight spines and so 2:1 "
    "for the 16 GPUs of a rack: only then does R5 show PAUSE frames, as the paper does. The GPUs of a "
    "server share a switch with 1,600 Gbps and 25 ns to each; its PAUSE frames stand for NVLink's credits "
    "and are not counted."
)
"""A note of each target."""


@dataclass(frozen=True)
class Algorithm:
    """§III-D's 1D or 2D: the algorithm of All-Reduce on each level of the network, and how many of the four
    chunks are in flight at once."""

    name: str
    all_reduce: tuple[str, ...]
    in_flight: int

    def tables(self) -> Tables:
        """The plan's `[jobs.collectives]`."""
        return {
            "all_reduce": list(self.all_reduce),
            "chunks": packets.CHUNKS,
            "in_flight": self.in_flight,
        }


ONE_D = Algorithm("1D", ("direct",), 1)
"""§III-D and §IV-C1: direct among all GPUs. With one level there is nothing to pipeline, so a chunk waits for
the messages of the previous one."""

TWO_D = Algorithm("2D", ("direct", "direct"), packets.CHUNKS)
"""§III-D: reduce-scatter within the server, then across servers, then all-gather in reverse order; chunks are
pipelined, so that both levels are in use at once."""

IN_FLIGHT = (
    "Chunks: §III-D pipelines four of them to use all levels of the network at once, and §IV-C1 says of "
    "All-To-All that a chunk is issued in one burst and waits for its messages. So chunks run one after "
    "another on one level (All-To-All, 1D), and all at once on two (2D)."
)
"""A note of the targets that depend on chunks."""


def fabric(racks: int) -> Tables:
    """The plan's `[fabric]`: Table I with two servers in each rack."""
    return {
        "clos": {
            "racks": racks,
            "servers_per_rack": SERVERS_PER_RACK,
            "gpus_per_server": GPUS_PER_SERVER,
            "spines": packets.SPINES,
            "nic": "200 Gbps",
            "uplink": "200 Gbps",
            "cables_per_spine": 1,
            "delay": "500 ns",
        },
        # Table I: 200 GB/s in total, and 25 ns.
        "scale_up": {"rate": "1600 Gbps", "delay": "25 ns"},
    }


def plan(control: Control, racks: int, jobs: Sequence[Tables]) -> Tables:
    """`jobs` under `control` on `racks` racks; keys of a job override those of the control."""
    switch: Tables = {"buffer": "32 MiB", "scheduling": "round-robin"}
    if "marking" in control.model:
        switch["marking"] = [
            {
                "rate": format_rate(rate_bps),
                "minimum": format_bytes(minimum),
                "maximum": format_bytes(maximum),
                "probability": probability,
            }
            for rate_bps, minimum, maximum, probability in control.model["marking"]
        ]
    if "telemetry_unit" in control.model:
        switch["telemetry_unit"] = control.model["telemetry_unit"]
    governed: Tables = {"congestion": control.parameters["policy"]}
    if control.window == packets.WINDOW:
        governed["window"] = "path-scaled"
    return {
        "seed": SEED,
        "fabric": fabric(racks),
        "switch": switch,
        # Acknowledgements carry the marks, as in the paper's simulator.
        "host": {"mtu": format_bytes(packets.PAYLOAD_BYTES), "notification": "acks"},
        # `outcome` reads neither flows nor operations.
        "run": {"engine": "packet", "record_flows": False, "record_operations": 0},
        "jobs": [{**governed, **job} for job in jobs],
    }


def training_job(name: str, training: Tables, algorithm: Algorithm, **keys: object) -> Tables:
    """A job of one iteration with the table `training` and collectives by `algorithm`; `keys` override."""
    return {"name": name, "training": training, "collectives": algorithm.tables(), "iterations": 1, **keys}


@dataclass(frozen=True)
class JobTimes:
    """Iterations of a job in ms, and the mean compute time of its GPUs in each."""

    iterations_ms: tuple[float, ...]
    compute_ms: tuple[float, ...]

    @property
    def iteration_ms(self) -> float:
        """The mean iteration."""
        return float(np.mean(self.iterations_ms))

    @property
    def exposed_ms(self) -> float:
        """Communication in ms that no compute hid, in the mean iteration: §III-E's exposed communication."""
        return self.iteration_ms - float(np.mean(self.compute_ms))


@dataclass(frozen=True)
class PlatformRun:
    """The results that the targets compare. `pauses` are the PAUSE frames that ToRs and spines sent,
    `peak_mb` the most that any of them had queued."""

    jobs: Mapping[str, JobTimes]
    pauses: int
    peak_mb: float
    packet_hops: int

    @property
    def alone(self) -> JobTimes:
        """Times of the run's only job."""
        (times,) = self.jobs.values()
        return times


def outcome(run: Run) -> PlatformRun:
    """The results in the tables of `run`."""
    iterations = run.tables["iterations"]
    jobs = {
        job: JobTimes(*(_ms(iterations, job, column) for column in ("iteration_s", "compute_s")))
        for job in run.tables["jobs"]["job"]
    }
    # PAUSE frames are counted at the port that receives them. Those of NVSwitches stand for NVLink's credits.
    across = ~pl.col("link").str.contains("nvswitch")
    pauses = int(run.tables["ports"].filter(across)["pauses"].sum())
    peaks = run.tables["switches"].filter(~pl.col("switch").str.contains("nvswitch"))["peak_bytes"].to_numpy()
    return PlatformRun(jobs, pauses, float(peaks.max()) / 1e6, run.manifest["packet_hops"])


def _ms(iterations: pl.DataFrame, job: str, column: str) -> tuple[float, ...]:
    of_job = iterations.filter(pl.col("job") == job).sort("iteration")
    return tuple((1e3 * of_job[column].to_numpy()).tolist())


def measure(plans: Mapping[Key, Tables], progress: Progress) -> dict[Key, PlatformRun]:
    """Runs `plans`, as many at once as there are processors; returns their results by key."""
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=min(len(plans), os.cpu_count() or 1)) as pool:
        try:
            runs = {key: pool.submit(_run, tables, stopped) for key, tables in plans.items()}
            for done, _ in enumerate(as_completed(runs.values()), 1):
                progress(f"{done} of {len(runs)} runs")
            return {key: run.result() for key, run in runs.items()}
        except BaseException:
            # Also on Ctrl-C: the pool's exit waits for its threads, which only end early if told to.
            stopped.set()
            raise


def _run(tables: Tables, stopped: threading.Event) -> PlatformRun:
    def check_stopped(simulated_s: float, done: int, total: int | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    run = simulate(tables, progress=check_stopped)
    if run.interrupted:
        raise KeyboardInterrupt
    return outcome(run)
