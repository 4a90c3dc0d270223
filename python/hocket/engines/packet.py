"""Runs a checked plan on the packet engine.

Every parameter, whether given by the plan or a default, is recorded with its source. Rows go to the sink
during the run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hocket import _hocket
from hocket.engines import rows
from hocket.engines.network import build_dumbbell, build_network
from hocket.errors import SelfCheckError
from hocket.plan import Job, Plan
from hocket.plan.congestion import Congestion
from hocket.plan.parameters import Marking, Parameter, described, values
from hocket.plan.schema import source_of
from hocket.results.sink import Sink

Placement = Mapping[str, Sequence[str]] | None


DEFAULT_CONGESTION = Congestion.model_validate("dcqcn")
"""The congestion control of a job that specifies none: HotNets'22 §2 calls DCQCN the default of RoCE."""


_WINDOWED = ("hpcc", "hpcc-pint")


_LOSSLESS = "no packet found a buffer full"


CHECKS = (
    _LOSSLESS,
    "the bytes of each flow add up: sent, under way, received, acknowledged",
    "no link carried more than its rate",
    "no flow was left unfinished, and no deadlock occurred",
    "the buffers contain exactly the packets that wait, and nothing at the end of a complete run",
)
"""The self-checks that a run has passed unless it failed; the first applies only with PFC."""


class PacketSetup:
    """A plan prepared for the packet engine: network, and each job's flows, congestion control and window."""

    def __init__(self, plan: Plan, placement: Placement) -> None:
        """Raises `InputError` as `Network.flows` does."""
        self.plan = plan
        self.network = build_network(plan) if plan.fabric else build_dumbbell(plan)
        self.flows = self.network.flows(plan, placement)
        # The engine derives a training job's flows; these stand for them where the paths' length counts.
        flows = [
            self.flows[number]
            if job.training is None
            else self.network.flows_between_servers(plan, number, placement)
            for number, job in enumerate(plan.jobs)
        ]
        self.model = model_parameters(plan)
        self.congestion = [
            self._congestion(job, of_job, placement) for job, of_job in zip(plan.jobs, flows, strict=True)
        ]
        self.windows = [_window(job) for job in plan.jobs]

    def simulate(
        self,
        jobs: "Sequence[_hocket._JobSpec]",
        run: "_hocket._RunSpec",
        sink: Sink,
        progress: Callable[[int, int, int | None], object],
    ) -> dict[str, Any]:
        """Runs `jobs` and writes every table to `sink`, including empty ones.

        Returns the manifest's entries on the outcome: status, self-checks, durations and event counts.

        Raises `SelfCheckError` if a self-check of the run fails; rows up to then are in `sink`.
        """
        shown = self.network.display_names()
        skip = self.plan.run.skip_ahead
        missing = _hocket.table_schemas("packet", self._table_groups())
        cuts: list[int] = []

        def add(name: str, columns: "Mapping[str, _hocket._Column]") -> None:
            missing.pop(name, None)
            if name == "jobs":
                cuts.extend(rows.values(columns["policy_acted"]))
            sink.append(name, rows.renamed(columns, shown))

        transports: list[_hocket._TransportSpec] = [
            {"flows": flows, "policy": values(congestion), "window": window.value}
            for flows, congestion, window in zip(self.flows, self.congestion, self.windows, strict=True)
        ]
        try:
            ran = _hocket.simulate_jobs(
                self.network.fabric,
                values(self.model),
                jobs,
                transports,
                self._changes(),
                run,
                (skip.tolerance, skip.cycles) if skip else None,
                add,
                progress,
            )
        except _hocket.SelfCheckError as error:
            # The directory of a failed run has all its tables, too.
            rows.append_empty(sink, missing)
            raise SelfCheckError(str(error)) from None
        rows.append_empty(sink, missing)
        return self._outcome(ran, cuts)

    def _table_groups(self) -> "list[_hocket._TableGroup]":
        groups: list[_hocket._TableGroup] = ["jobs", "events"]
        if self.plan.run.sample_every_ps is not None:
            groups += ["queues", "rates", "utilisation"]
        if any(job.training for job in self.plan.jobs):
            groups.append("training")
        if self.plan.run.skip_ahead:
            groups.append("repeats")
        return groups

    def _outcome(self, ran: "_hocket._PacketRunResult", cuts: Sequence[int]) -> dict[str, Any]:
        by_policy: dict[str, int] = {}
        for congestion, acted in zip(self.congestion, cuts, strict=True):
            policy = values(congestion)["policy"]
            by_policy[policy] = by_policy.get(policy, 0) + acted
        counts: dict[str, Any] = dict(ran["counters"])
        was_interrupted = ran["status"] == "interrupted"
        return {
            # A run that reached the end set in its plan is complete.
            "status": "interrupted" if was_interrupted else "complete",
            "checked": [each for each in CHECKS if self.plan.switch.pfc or each != _LOSSLESS],
            "simulated_s": ran["ended_ps"] / 1e12,
            # The engine alone, without writing tables.
            "run_s": ran["run_s"],
            "packet_hops": counts.pop("packet_hops"),
            "skip_ahead": ran["skipping"],
            "counts": counts | {"rate_cuts": by_policy},
        }

    def described(self) -> dict[str, Any]:
        """Every parameter with its value and its source, for the manifest."""
        jobs = {
            job.name: described([*congestion, window])
            for job, congestion, window in zip(self.plan.jobs, self.congestion, self.windows, strict=True)
        }
        return {"model": described(self.model), "jobs": jobs}

    def _congestion(
        self, job: Job, flows: "Sequence[_hocket._JobFlow]", placement: Placement
    ) -> list[Parameter]:
        """The congestion control of `job`, with defaults that depend on the paths of `flows`."""
        frames = values(self.model)
        packet_bytes = frames["mtu_bytes"] + frames["data_header_bytes"]
        path_bytes = self.network.path_bytes(flows, packet_bytes, frames["ack_bytes"])
        line_rate_bps = _line_rate_bps(self.plan, job, placement)
        congestion = job.congestion or DEFAULT_CONGESTION
        policy, *others = congestion.parameters(line_rate_bps, path_bytes)
        if job.congestion is None:
            # `Congestion.parameters` takes every policy to be given by the plan.
            policy = policy._replace(source="HotNets'22 §2: RoCE's default")
        return [policy, *others]

    def _changes(self) -> "list[_hocket._Change]":
        # The link of either direction stands for its cable: the engine changes both.
        cables = {name: 2 * cable for cable, name in enumerate(self.plan.rates_bps())}
        return [
            {
                "at_ps": change.at_ps,
                "link": cables[change.link],
                "kind": "rate" if change.rate_bps is not None else "down" if change.down else "up",
                "rate_bps": change.rate_bps or 0,
            }
            for change in self.plan.changes
        ]


def model_parameters(plan: Plan) -> list[Parameter]:
    """The parameters of hosts and switches in the engine's form, each with its source."""
    switch, host = plan.switch, plan.host
    switch_keys = (
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
    host_keys = ("mtu_bytes", "ack_every", "nack_interval_ps", "pause_holds_acks", "retransmit_timeout_ps")
    marking = [
        Marking(each.rate_bps, each.minimum_bytes, each.maximum_bytes, each.probability)
        for each in switch.marking
    ]
    by_packets = host.notification == "packets"
    cnp = (host.cnp_interval_ps, host.cnp_priority) if by_packets else None
    cnp_source = source_of(host, "cnp_interval_ps" if by_packets else "notification")
    frames = _hocket.rocev2_frames().items()
    scale_up = plan.fabric.scale_up if plan.fabric else None
    # Without a scale-up network, manifests do not list its payload.
    payloads = [] if scale_up is None else [(scale_up.payload_bytes, source_of(scale_up, "payload_bytes"))]
    return [
        *(Parameter(name, getattr(host, name), source_of(host, name)) for name in host_keys),
        *(Parameter("scale_up_mtu_bytes", payload, source) for payload, source in payloads),
        Parameter("cnp", cnp, cnp_source),
        *(Parameter(name, value, "RoCEv2 over Ethernet") for name, value in frames),
        *(Parameter(name, getattr(switch, name), source_of(switch, name)) for name in switch_keys),
        Parameter("marking", marking, source_of(switch, "marking")),
        Parameter("arithmetic", "exact", "picoseconds"),
    ]


def _line_rate_bps(plan: Plan, job: Job, placement: Placement) -> int:
    if plan.fabric is None:
        return plan.rates_bps()["link"]
    nics = plan.fabric.nic_rates_bps()
    # A job has one set of parameters for all its flows: they suit its slowest NIC.
    return min(nics[host] for host in plan.hosts_of(job, placement))


def _window(job: Job) -> Parameter:
    """The job's window as (kind, bytes), the engine's form; only the kind "bytes" uses the second."""
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
