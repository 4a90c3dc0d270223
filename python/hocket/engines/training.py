"""Training jobs in the engines' form: the workload, the hosts of ranks, the algorithms of collectives."""

from collections.abc import Mapping, Sequence

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.workload import workload_of
from hocket.plan import Collectives, Job, Plan
from hocket.training.workload import Operation

_TELEMETRY = {"timely": "stamp_bytes", "hpcc": "hops_bytes", "hpcc-pint": "load_bytes"}


def training_spec(
    plan: Plan, number: int, placement: Mapping[str, Sequence[str]] | None, network: Network
) -> "_hocket._TrainingSpec":
    """The engines' form of training job `number` of `plan` on `network`.

    Raises `InputError` as `workload_of` does.
    """
    job = plan.jobs[number]
    workload = workload_of(plan, number, placement)
    hosts = plan.hosts_of(job, placement)
    collectives = job.collectives or Collectives()
    return {
        "programs": [[_plain(operation) for operation in program] for program in workload.programs],
        "groups": [list(group) for group in workload.groups],
        "ranks": [(rank.program, list(rank.communicators)) for rank in workload.ranks],
        "hosts": [network.nodes[host] for host in hosts],
        "localities": _localities(plan, hosts),
        "algorithms": [
            ("all-reduce", list(collectives.all_reduce)),
            ("reduce-scatter", list(collectives.reduce_scatter)),
            ("all-gather", list(collectives.all_gather)),
            ("all-to-all", list(collectives.all_to_all)),
            ("broadcast", list(collectives.broadcast)),
        ],
        "chunks": collectives.chunks,
        # `in_flight` may be given alone, above the default of `chunks`.
        "in_flight": min(collectives.in_flight, collectives.chunks),
        "endpoint_delay_ps": collectives.endpoint_delay_ps,
        "reduction_bps": collectives.reduction_rate_bps,
        "stragglers": [(each.rank, each.slowdown) for each in job.stragglers],
        "path": job.path if isinstance(job.path, str) else "ecmp",
        "framing": _framing(plan, job),
        "scale_up_framing": _scale_up_framing(plan),
    }


def _plain(operation: Operation) -> "_hocket._Operation":
    return {
        "name": operation.name,
        "kind": operation.kind,
        "after": list(operation.after),
        "duration_ps": operation.duration_ps,
        "bytes": operation.bytes,
        "communicator": operation.communicator,
        "peer": operation.peer,
        "tag": operation.tag,
    }


def _localities(plan: Plan, hosts: Sequence[str]) -> list[list[int]]:
    """Two lists by rank, the inner level first: the number of its server, and of the switch above that."""
    assert plan.fabric is not None, "training jobs are placed on a fabric"
    topology = plan.fabric.topology
    switches: dict[str, str] = {}
    for cable in topology.cables:
        for host, other in (cable.ends, cable.ends[::-1]):
            if topology.nodes[host] == "host" and topology.nodes[other] == "switch":
                # In a rail-optimised fabric a server is attached to several switches: the first one counts.
                switches.setdefault(plan.fabric.server_of(host), other)
    servers = [plan.fabric.server_of(host) for host in hosts]
    return [_numbered(servers), _numbered([switches.get(server, server) for server in servers])]


def _numbered(names: Sequence[str]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


def _framing(plan: Plan, job: Job) -> "_hocket._Framing":
    frames = _hocket.rocev2_frames()
    telemetry = _TELEMETRY.get(job.congestion.policy) if job.congestion else None
    extra = frames[telemetry] if telemetry else 0
    # The receiver returns time stamps and telemetry to the sender, so acknowledgements grow as well.
    return {
        "payload": plan.host.mtu_bytes,
        "header": frames["data_header_bytes"] + extra,
        "ack": frames["ack_bytes"] + extra,
        "ack_every": plan.host.ack_every,
    }


def _scale_up_framing(plan: Plan) -> "_hocket._Framing":
    # No congestion control governs flows inside a server, so none adds to their headers.
    frames = _hocket.rocev2_frames()
    scale_up = plan.fabric.scale_up if plan.fabric else None
    return {
        "payload": scale_up.payload_bytes if scale_up else plan.host.mtu_bytes,
        "header": frames["data_header_bytes"],
        "ack": frames["ack_bytes"],
        "ack_every": plan.host.ack_every,
    }
