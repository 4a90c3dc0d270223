"""Runs a checked plan on the packet engine: what the plan says and what it leaves open become parameters with
their sources, and the rows go out while the run goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import polars as pl

from hocket import _hocket
from hocket.config import Job, Plan
from hocket.congestion import Congestion, Parameter
from hocket.errors import SelfCheckError
from hocket.network import build_dumbbell, build_network
from hocket.results import Run, frame
from hocket.schema import source_of

Placement = Mapping[str, Sequence[str]] | None

DEFAULT_CONGESTION = Congestion.model_validate("dcqcn")
"""What governs a job that says nothing: HotNets'22 §2 takes DCQCN for the default of RoCE."""

_WINDOWED = ("hpcc", "hpcc-pint")
_TEXT, _COUNT, _CODE, _REAL = pl.String, pl.UInt64, pl.UInt32, pl.Float64
TABLES: dict[str, dict[str, Any]] = {
    "flows": {
        "flow": _CODE,
        "job": _TEXT,
        "src": _TEXT,
        "dst": _TEXT,
        "bytes": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "fct_s": _REAL,
        "marks": _COUNT,
        "cnps": _COUNT,
        "rate_cuts": _COUNT,
        "retransmissions": _COUNT,
    },
    "iterations": {
        "job": _TEXT,
        "iteration": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "iteration_s": _REAL,
        "communication_s": _REAL,
        "compute_s": _REAL,
        "delayed_s": _REAL,
    },
    "phases": {
        "job": _TEXT,
        "iteration": _COUNT,
        "phase": _CODE,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "bytes": _COUNT,
        "mean_rate_bps": _REAL,
    },
    "adjustments": {"job": _TEXT, "time_ps": _COUNT, "deviation_s": _REAL, "delay_s": _REAL},
    "links": {"link": _TEXT, "job": _TEXT, "bytes": _COUNT, "utilisation": _REAL, "busy_s": _REAL},
    "pauses": {"time_ps": _COUNT, "link": _TEXT, "priority": _CODE, "pause": _CODE},
    "ports": {
        "link": _TEXT,
        "packets": _COUNT,
        "bytes": _COUNT,
        "marked": _COUNT,
        "peak_bytes": _COUNT,
        "pauses": _COUNT,
        "paused_s": _REAL,
    },
    "paused": {"link": _TEXT, "priority": _CODE, "pauses": _COUNT, "paused_s": _REAL},
    "switches": {"switch": _TEXT, "peak_bytes": _COUNT},
}
"""Tables of every run of jobs but `jobs`, and the types of their columns."""

SAMPLED_TABLES: dict[str, dict[str, Any]] = {
    "queues": {"time_ps": _COUNT, "link": _TEXT, "bytes": _COUNT},
    "switch_queues": {"time_ps": _COUNT, "switch": _TEXT, "bytes": _COUNT},
    "rates": {"time_ps": _COUNT, "flow": _CODE, "job": _TEXT, "rate_bps": _COUNT},
    "utilisation": {"time_ps": _COUNT, "link": _TEXT, "job": _TEXT, "bytes": _COUNT},
}
"""Those of a run that takes samples besides."""


class Sink(Protocol):
    """Where rows go while a run goes on, and the manifest at its end."""

    def append(self, name: str, columns: Mapping[str, tuple[Any, ...]]) -> None:
        """Takes rows of one table, as the engines return them."""

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """The run."""


class Memory:
    """Keeps all rows until the end."""

    def __init__(self) -> None:
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def append(self, name: str, columns: Mapping[str, tuple[Any, ...]]) -> None:
        """Takes rows of one table, as the engines return them."""
        self.append_frame(name, frame(columns))

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""
        self._frames.setdefault(name, []).append(frame)

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """The run."""
        return Run({name: pl.concat(frames) for name, frames in self._frames.items()}, dict(manifest))


class Sent:
    """A plan's jobs as they are sent: on which network, by whom to whom, and governed by what."""

    def __init__(self, plan: Plan, placement: Placement) -> None:
        """Raises `InputError` as `Network.flows` does."""
        self.plan = plan
        self.network = build_network(plan) if plan.fabric else build_dumbbell(plan)
        self.flows = self.network.flows(plan, placement)
        self.congestion = [
            _congestion_parameters(job, _line_rate_bps(plan, job, placement)) for job in plan.jobs
        ]
        self.windows = [_window(job) for job in plan.jobs]
        self.model = model_parameters(plan)

    def simulate(
        self,
        jobs: "Sequence[_hocket._JobSpec]",
        run: "_hocket._RunSpec",
        sink: Sink,
        progress: Callable[[int, int, int | None], object],
    ) -> "_hocket._PacketsRan":
        """Runs `jobs`, the rows going to `sink`: every table that there may be, empty ones too.

        Raises `SelfCheckError` where the run proves itself wrong; the rows until then have gone out.
        """
        shown = self.network.display_names()
        sampled = self.plan.run.sample_every_ps is not None
        missing = dict(TABLES | SAMPLED_TABLES if sampled else TABLES)

        def add(name: str, columns: Mapping[str, tuple[Any, ...]]) -> None:
            missing.pop(name, None)
            sink.append(name, _renamed(columns, shown))

        transports: list[_hocket._TransportSpec] = [
            {"flows": flows, "policy": values(congestion), "window": window.value}
            for flows, congestion, window in zip(self.flows, self.congestion, self.windows, strict=True)
        ]
        try:
            return _hocket.simulate_jobs(
                self.network.fabric,
                values(self.model),
                jobs,
                transports,
                self._changes(),
                run,
                self.plan.run.sample_every_ps,
                add,
                progress,
            )
        except _hocket.SelfCheckError as error:
            raise SelfCheckError(str(error)) from None
        finally:
            for name, schema in missing.items():
                sink.append_frame(name, pl.DataFrame(schema=schema))

    def described(self) -> dict[str, Any]:
        """Every parameter, its value and its source, for the manifest."""
        jobs = {
            job.name: _described([*congestion, window])
            for job, congestion, window in zip(self.plan.jobs, self.congestion, self.windows, strict=True)
        }
        return {"model": _described(self.model), "jobs": jobs}

    def rate_cuts(self, acted: pl.DataFrame) -> dict[str, int]:
        """How often each congestion control cut a rate, over all jobs, from the table of jobs."""
        cuts: dict[str, int] = {}
        for congestion, acts in zip(self.congestion, acted["policy_acted"], strict=True):
            policy = values(congestion)["policy"]
            cuts[policy] = cuts.get(policy, 0) + acts
        return cuts

    def _changes(self) -> list[tuple[int, int, str, int]]:
        cables = {name: 2 * cable for cable, name in enumerate(self.plan.rates_bps())}
        return [
            (
                change.at_ps,
                cables[change.link],
                "rate" if change.rate_bps is not None else "down" if change.down else "up",
                change.rate_bps or 0,
            )
            for change in self.plan.changes
        ]


def model_parameters(plan: Plan) -> list[Parameter]:
    """How hosts and switches work, as the engine takes it."""
    switch, host = plan.switch, plan.host
    of_switch = (
        "buffer_bytes",
        "reserve_bytes",
        "headroom",
        "dynamic_threshold",
        "resume_offset_bytes",
        "pfc",
        "scheduling",
        "cut_through",
        "telemetry_unit",
        "pint_base",
    )
    of_host = ("mtu_bytes", "ack_every", "nack_interval_ps", "pause_holds_acks", "retransmit_timeout_ps")
    marking = [
        (each.rate_bps, each.minimum_bytes, each.maximum_bytes, each.probability) for each in switch.marking
    ]
    by_packets = host.notification == "packets"
    cnp = (host.cnp_interval_ps, host.cnp_priority) if by_packets else None
    cnp_source = source_of(host, "cnp_interval_ps" if by_packets else "notification")
    frames = _hocket.rocev2_frames().items()
    return [
        *(Parameter(name, getattr(host, name), source_of(host, name)) for name in of_host),
        Parameter("cnp", cnp, cnp_source),
        *(Parameter(name, value, "RoCEv2 over Ethernet") for name, value in frames),
        *(Parameter(name, getattr(switch, name), source_of(switch, name)) for name in of_switch),
        Parameter("marking", marking, source_of(switch, "marking")),
        Parameter("arithmetic", "exact", "picoseconds"),
    ]


def values(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The values by name, without their sources."""
    return {each.name: each.value for each in parameters}


def _described(parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {each.name: {"value": each.value, "source": each.source} for each in parameters}


def _congestion_parameters(job: Job, line_rate_bps: int) -> list[Parameter]:
    if job.congestion is not None:
        return job.congestion.parameters(line_rate_bps)
    policy, *others = DEFAULT_CONGESTION.parameters(line_rate_bps)
    return [policy._replace(source="HotNets'22 §2: RoCE's default"), *others]


def _line_rate_bps(plan: Plan, job: Job, placement: Placement) -> int:
    if plan.fabric is None:
        return plan.rates_bps()["link"]
    nics = plan.fabric.nic_rates_bps()
    return min(nics[host] for host in (placement or {}).get(job.name) or job.placement or ())


def _window(job: Job) -> Parameter:
    """(kind, bytes) as the engine takes it."""
    congestion = job.congestion or DEFAULT_CONGESTION
    if job.window is None:
        if congestion.policy in _WINDOWED:
            return Parameter(
                "window", ("path-full-scaled", 0), "HPCC, SIGCOMM'19 §3.2: it limits bytes in flight"
            )
        return Parameter("window", ("unlimited", 0), "NICs for RoCE limit rates, not bytes in flight")
    if isinstance(job.window, int):
        return Parameter("window", ("bytes", job.window), "plan")
    kinds = {"unlimited": "unlimited", "path": "path-full", "path-scaled": "path-full-scaled"}
    return Parameter("window", (kinds[job.window], 0), "plan")


def _renamed(
    columns: Mapping[str, tuple[Any, ...]], shown: Mapping[str, str]
) -> Mapping[str, tuple[Any, ...]]:
    if "link" not in columns:
        return columns
    dtype, buffer, dictionary = columns["link"]
    return {**columns, "link": (dtype, buffer, [shown[name] for name in dictionary])}
