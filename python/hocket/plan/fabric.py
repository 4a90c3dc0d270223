"""`[fabric]`: a shape with parameters or a list of links, and the scale-up networks inside servers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    StrictInt,
)

from hocket.errors import InputError
from hocket.fabrics import (
    Cable,
    CassiniTree,
    ScaleUpNetwork,
    Topology,
    cassini_testbed,
    clos,
    dumbbell,
    fat_tree,
    from_cables,
    lingjun,
    rail_optimised,
    scale_up_switch,
    server_of,
    with_scale_up,
)
from hocket.plan.goodput import ContendedGoodput
from hocket.plan.schema import (
    FilePath,
    Name,
    Number,
    Table,
    constructor,
    default,
    directory_of,
    flag_or_table,
    size_within,
)
from hocket.plan.table_errors import KeyPath, Mistake, Suggestions
from hocket.units import (
    DurationLike,
    DurationPs,
    PositiveRateBps,
    RateLike,
    SizeLike,
    parse_duration,
    parse_rate,
    shown,
)

MAX_CABLES = 1_000_000
"""The most links of a fabric."""

LARGEST_SCALE_UP_PAYLOAD = 32_768
"""The most bytes of data in a packet of a scale-up network: the packet engine holds sizes in 16 bits."""

_HOTI = "HOTI'22 Table I"
_HOTI_RACK = "HOTI'22 §III-B"
_500_NS = parse_duration("500 ns")
_200_GBPS = parse_rate("200 Gbps")

Servers = Annotated[StrictInt, Field(ge=1, le=MAX_CABLES)]
Spines = Annotated[StrictInt, Field(ge=0, le=MAX_CABLES)]
GpusPerServer = Annotated[StrictInt, Field(ge=1, le=1_024)]


def _delay() -> Any:
    return default(_500_NS, f"{_HOTI}: 500 ns per link", "delay")


def _one_gpu() -> Any:
    return default(1, "NSDI'24 §5.1: servers of one GPU")


class FabricLink(Table):
    """A bidirectional link between two nodes of the fabric."""

    ends: Annotated[tuple[Name, ...], Field(min_length=2, max_length=2)]
    """The two nodes that the link joins."""
    rate_bps: PositiveRateBps = Field(alias="rate")
    """Rate in each direction, at most 1 Pbps."""
    delay_ps: DurationPs = _delay()
    """One-way delay. The flow engine does not use it."""
    name: Name | None = None
    """Name of the link; by default its ends, joined by a hyphen. Parallel links between the same nodes
    need a name each."""

    @constructor
    def __init__(
        self,
        ends: tuple[str, str],
        rate: RateLike,
        *,
        delay: DurationLike | None = None,
        name: str | None = None,
    ) -> None: ...

    def cable(self) -> Cable:
        """The link as a cable of the fabric."""
        one, other = self.ends
        return Cable((one, other), self.rate_bps, self.delay_ps, self.name)


def _fewest_for_full_bisection(below: Callable[[Mapping[str, Any]], int]) -> Callable[[dict[str, Any]], int]:
    """A default: the fewest cables from a switch to each spine that carry the rate of all NICs below the
    switch; `below` counts these NICs.
    """

    def fewest(given: dict[str, Any]) -> int:
        # Without spines there is nothing to connect; a single rack or unit is valid all the same.
        uplinks_bps = max(given["spines"], 1) * given["uplink_bps"]
        needed: int = -(-below(given) * given["nic_bps"] // uplinks_bps)
        return max(needed, 1)

    return fewest


class Clos(Table):
    """Racks of servers with a ToR switch each; spines connect the ToRs."""

    racks: Servers
    """Racks, each with a ToR switch."""
    servers_per_rack: Servers = default(2, f"{_HOTI_RACK}: two server nodes within a rack")
    """Servers in each rack."""
    gpus_per_server: GpusPerServer = default(8, f"{_HOTI_RACK}: each server node hosts 8 GPUs")
    """GPUs in each server, each with a NIC of its own."""
    spines: Spines = default(8, f"{_HOTI_RACK}: eight spine switches")
    """Spine switches. A single rack needs none."""
    nic_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: NIC to ToR", "nic")
    """Rate of each GPU's NIC."""
    uplink_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: ToR to spine", "uplink")
    """Rate of each link from a ToR to a spine."""
    cables_per_spine: Servers = Field(
        default_factory=_fewest_for_full_bisection(
            lambda given: given["servers_per_rack"] * given["gpus_per_server"]
        ),
        json_schema_extra={"source": f"{_HOTI_RACK}: no over-subscription; the fewest that give that"},
    )
    """Links from each ToR to each spine."""
    delay_ps: DurationPs = _delay()
    """One-way delay of each link."""

    @constructor
    def __init__(
        self,
        *,
        racks: int,
        servers_per_rack: int | None = None,
        gpus_per_server: int | None = None,
        spines: int | None = None,
        nic: RateLike | None = None,
        uplink: RateLike | None = None,
        cables_per_spine: int | None = None,
        delay: DurationLike | None = None,
    ) -> None: ...

    def cables(self) -> int:
        """The number of its links."""
        nics = self.servers_per_rack * self.gpus_per_server
        return self.racks * (nics + self.spines * self.cables_per_spine)

    def mistakes(self) -> Iterator[Mistake]:
        """The errors between its keys."""
        if self.racks > 1 and self.spines == 0:
            yield ("spines",), f"{self.racks} racks need at least one spine between them: got 0"

    def topology(self) -> Topology:
        """Its nodes and cables."""
        return clos(
            racks=self.racks,
            servers_per_rack=self.servers_per_rack,
            gpus_per_server=self.gpus_per_server,
            spines=self.spines,
            nic_bps=self.nic_bps,
            uplink_bps=self.uplink_bps,
            cables_per_spine=self.cables_per_spine,
            delay_ps=self.delay_ps,
        )


class Rail(Table):
    """GPU i of each server connects to rail switch i; spines connect the rail switches."""

    servers: Servers
    """Servers in total."""
    gpus_per_server: GpusPerServer = default(8, f"{_HOTI_RACK}: each server node hosts 8 GPUs")
    """GPUs in each server, each with a NIC of its own."""
    servers_per_unit: Servers = Field(
        default_factory=lambda given: given["servers"],
        json_schema_extra={"source": "Hocket: one unit; NVIDIA's DGX SuperPOD has 32 servers in each"},
    )
    """Servers that share one set of rail switches; by default all of them."""
    spines: Spines = default(8, f"{_HOTI_RACK}: eight spine switches")
    """Spine switches. A single unit needs none."""
    nic_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: NIC to ToR", "nic")
    """Rate of each GPU's NIC."""
    uplink_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: ToR to spine", "uplink")
    """Rate of each link from a rail switch to a spine."""
    cables_per_spine: Servers = Field(
        default_factory=_fewest_for_full_bisection(lambda given: given["servers_per_unit"]),
        json_schema_extra={"source": f"{_HOTI_RACK}: no over-subscription; the fewest that give that"},
    )
    """Links from each rail switch to each spine."""
    delay_ps: DurationPs = _delay()
    """One-way delay of each link."""

    @constructor
    def __init__(
        self,
        *,
        servers: int,
        gpus_per_server: int | None = None,
        servers_per_unit: int | None = None,
        spines: int | None = None,
        nic: RateLike | None = None,
        uplink: RateLike | None = None,
        cables_per_spine: int | None = None,
        delay: DurationLike | None = None,
    ) -> None: ...

    def cables(self) -> int:
        """The number of its links."""
        # The last unit may have fewer servers than the others, but has as many switches and cables to spines.
        units = -(-self.servers // self.servers_per_unit)
        return self.gpus_per_server * (self.servers + units * self.spines * self.cables_per_spine)

    def mistakes(self) -> Iterator[Mistake]:
        """The errors between its keys."""
        if self.servers_per_unit > self.servers:
            yield (
                ("servers_per_unit",),
                f"{self.servers_per_unit} is above servers, {self.servers}",
            )
        elif self.servers_per_unit < self.servers and self.spines == 0:
            yield ("spines",), "several units need at least one spine between them: got 0"

    def topology(self) -> Topology:
        """Its nodes and cables."""
        return rail_optimised(
            servers=self.servers,
            gpus_per_server=self.gpus_per_server,
            servers_per_unit=self.servers_per_unit,
            spines=self.spines,
            nic_bps=self.nic_bps,
            uplink_bps=self.uplink_bps,
            cables_per_spine=self.cables_per_spine,
            delay_ps=self.delay_ps,
        )


class FatTree(Table):
    """The k-ary fat tree: k³/4 GPUs, all links of one rate."""

    k: Annotated[StrictInt, Field(ge=2, le=128)]
    """Ports of each switch, an even number."""
    gpus_per_server: GpusPerServer = _one_gpu()
    """GPUs in each server; divides k/2."""
    rate_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: all links", "rate")
    """Rate of each link."""
    delay_ps: DurationPs = _delay()
    """One-way delay of each link."""

    @constructor
    def __init__(
        self,
        *,
        k: int,
        gpus_per_server: int | None = None,
        rate: RateLike | None = None,
        delay: DurationLike | None = None,
    ) -> None: ...

    def cables(self) -> int:
        """The number of its links."""
        # k³/4 in each of three layers: GPUs to edge, edge to aggregation, aggregation to core switches.
        return 3 * self.k**3 // 4

    def mistakes(self) -> Iterator[Mistake]:
        """The errors between its keys."""
        if self.k % 2:
            yield ("k",), f"must be even: got {self.k}"
        elif self.k // 2 % self.gpus_per_server:
            yield (
                ("gpus_per_server",),
                f"{self.gpus_per_server} does not divide the {self.k // 2} GPUs below each edge switch",
            )

    def topology(self) -> Topology:
        """Its nodes and cables."""
        return fat_tree(
            k=self.k, gpus_per_server=self.gpus_per_server, rate_bps=self.rate_bps, delay_ps=self.delay_ps
        )


class Dumbbell(Table):
    """Servers on both sides of one link."""

    left: Servers
    """Servers at the left switch."""
    right: Servers
    """Servers at the right switch."""
    gpus_per_server: GpusPerServer = _one_gpu()
    """GPUs in each server, each with a NIC of its own."""
    nic_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: NIC to ToR", "nic")
    """Rate of each GPU's NIC."""
    bottleneck_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: ToR to spine", "bottleneck")
    """Rate of the link between the two switches."""
    delay_ps: DurationPs = _delay()
    """One-way delay of each link."""

    @constructor
    def __init__(
        self,
        *,
        left: int,
        right: int,
        gpus_per_server: int | None = None,
        nic: RateLike | None = None,
        bottleneck: RateLike | None = None,
        delay: DurationLike | None = None,
    ) -> None: ...

    def cables(self) -> int:
        """The number of its links."""
        return (self.left + self.right) * self.gpus_per_server + 1

    def mistakes(self) -> Iterator[Mistake]:
        """No errors: its keys do not depend on each other."""
        return iter(())

    def topology(self) -> Topology:
        """Its nodes and cables."""
        return dumbbell(
            left=self.left,
            right=self.right,
            gpus_per_server=self.gpus_per_server,
            nic_bps=self.nic_bps,
            bottleneck_bps=self.bottleneck_bps,
            delay_ps=self.delay_ps,
        )


class Lingjun(Table):
    """The network of a production cluster: a CSV file with the switches above each server."""

    file: FilePath
    """CSV file with the columns `ip`, `DSW`, `PSW` and `ASW` and a line for each server."""
    gpus_per_server: GpusPerServer = default(8, f"{_HOTI_RACK}: each server node hosts 8 GPUs")
    """GPUs in each server, each with a NIC of its own."""
    nic_bps: PositiveRateBps = default(_200_GBPS, f"{_HOTI}: NIC to ToR", "nic")
    """Rate of each GPU's NIC."""
    oversubscription: Annotated[Number, Field(ge=1, le=1_000)] = default(
        1.0, f"{_HOTI_RACK}: no over-subscription; the file has no rates"
    )
    """Capacity of the links below a group of switches ÷ the capacity of its link up."""
    delay_ps: DurationPs = _delay()
    """One-way delay of each link."""

    @constructor
    def __init__(
        self,
        *,
        file: str,
        gpus_per_server: int | None = None,
        nic: RateLike | None = None,
        oversubscription: float | None = None,
        delay: DurationLike | None = None,
    ) -> None: ...

    def topology(self, directory: Path) -> Topology:
        """Its nodes and cables, from its file, whose path is relative to `directory`.

        Raises `InputError` if the file cannot be read or is not such a table.
        """
        return lingjun(
            Path(directory, self.file),
            gpus_per_server=self.gpus_per_server,
            nic_bps=self.nic_bps,
            oversubscription=self.oversubscription,
            delay_ps=self.delay_ps,
        )


Shape = Clos | Rail | FatTree | Dumbbell
"""A fabric by its parameters."""


class ScaleUp(Table):
    """The scale-up network inside each server: a switch, and a link to it from each GPU."""

    rate_bps: PositiveRateBps = default(
        parse_rate("1600 Gbps"), f"{_HOTI}: NVLink, 200 GB/s in total", "rate"
    )
    """Rate of each GPU's link, in each direction."""
    delay_ps: DurationPs = default(parse_duration("25 ns"), f"{_HOTI}: NVLink, 25 ns", "delay")
    """One-way delay of each link."""
    payload_bytes: Annotated[int, *size_within(64, LARGEST_SCALE_UP_PAYLOAD)] = default(
        16_384, "Hocket: 82 ns at 1600 Gbps; NVLink's own packets are far smaller, and more work", "payload"
    )
    """Data in a packet on these links, on the packet engine."""

    @constructor
    def __init__(
        self,
        *,
        rate: RateLike | None = None,
        delay: DurationLike | None = None,
        payload: SizeLike | None = None,
    ) -> None: ...


class Fabric(Table):
    """The network that jobs are placed on: exactly one of a shape, a known testbed, and a list of links.

    In `links`, a node with one link is a host; a node with several is a switch unless `hosts` names it.
    """

    clos: Clos | None = None
    """Racks of servers with a ToR switch each, spine switches above."""
    rail: Rail | None = None
    """GPU i of each server at rail switch i, spine switches above."""
    fat_tree: FatTree | None = None
    """A k-ary fat tree."""
    dumbbell: Dumbbell | None = None
    """Servers at two switches with one link between them."""
    testbed: CassiniTree | None = None
    """The testbed of NSDI'24 §5.1: 24 servers of one GPU, 50 Gbps NICs, 2:1 over-subscribed. Of several trees
    with its numbers, `"cassini"` is the default reading, and the others are named by their ToRs, aggregation
    switches and cores."""
    lingjun: Lingjun | None = None
    """The network of a production cluster, from a file."""
    links: Annotated[tuple[FabricLink, ...], Field(min_length=1, max_length=MAX_CABLES)] | None = None
    """Links one by one."""
    hosts: Annotated[tuple[Name, ...], Field(max_length=MAX_CABLES)] = ()
    """Nodes of `links` that are hosts although they have several links; others with several are switches."""
    scale_up: Annotated[ScaleUp | None, *flag_or_table(ScaleUp, "rate, delay and payload")] = None
    """A switch inside each server of several GPUs: true for its defaults, or a table."""
    priority_queues: Annotated[StrictInt, Field(ge=1, le=256)] = default(
        8, "IEEE 802.1Q has eight traffic classes"
    )
    """Number of queues of each link. Priorities beyond the last queue share it."""
    contended_goodput: ContendedGoodput | None = None
    """Flow engine: fraction of a link's capacity that two jobs, three and so on get together while they
    demand more than the link has; the last one is also that of more jobs. `"testbed"` is what the papers'
    testbed shows. By default nothing is lost."""
    _directory: Path = PrivateAttr(default=Path())

    @constructor
    def __init__(
        self,
        *,
        clos: Clos | None = None,
        rail: Rail | None = None,
        fat_tree: FatTree | None = None,
        dumbbell: Dumbbell | None = None,
        testbed: CassiniTree | None = None,
        lingjun: Lingjun | None = None,
        links: Sequence[FabricLink] | None = None,
        hosts: Sequence[str] | None = None,
        scale_up: bool | ScaleUp | None = None,
        priority_queues: int | None = None,
        contended_goodput: Literal["testbed"] | Sequence[float] | None = None,
    ) -> None: ...

    def model_post_init(self, context: Any, /) -> None:
        """Called by pydantic when a fabric is read or built, but not when a plan receives one that is already
        built, which therefore keeps its directory.
        """
        self._directory = directory_of(context)

    def files(self) -> tuple[Path, ...]:
        """The files that it names, as paths that include the directory of its plan."""
        return () if self.lingjun is None else (self._directory / self.lingjun.file,)

    @property
    def shape(self) -> Shape | None:
        """The shape that it is built from, if there is one."""
        return self.clos or self.rail or self.fat_tree or self.dumbbell

    @cached_property
    def topology(self) -> Topology:
        """Its nodes and cables.

        Raises `InputError` if its file cannot be read; the check of a plan has read it already.
        """
        if self.shape is not None:
            found = self.shape.topology()
        elif self.testbed is not None:
            found = cassini_testbed(self.testbed)
        elif self.lingjun is not None:
            found = self.lingjun.topology(self._directory)
        else:
            assert self.links is not None, "a checked fabric has a shape, a testbed or links"
            found = from_cables((link.cable() for link in self.links), self.hosts)
        if self.scale_up is None:
            return found
        return with_scale_up(found, ScaleUpNetwork(self.scale_up.rate_bps, self.scale_up.delay_ps))

    def gpus(self) -> tuple[str, ...]:
        """The names of all hosts, server by server, by number within each."""
        return self.topology.gpus

    def server_of(self, host: str) -> str:
        """The name of the server that `host` is in."""
        return server_of(host)

    def hosts_at(self, places: Sequence[str]) -> tuple[str, ...]:
        """The hosts at `places`, in order: each place is a host, or a server that stands for its GPUs."""
        nodes, servers = self.topology.nodes, self.topology.servers
        return tuple(host for place in places for host in ([place] if place in nodes else servers[place]))

    def nic_rates_bps(self) -> Mapping[str, int]:
        """The rate of each host's slowest NIC, in bits per second."""
        return self.topology.nic_rates_bps


def fabric_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    """The errors between keys of `fabric`."""
    kinds = ("clos", "rail", "fat_tree", "dumbbell", "testbed", "lingjun", "links")
    given = [key for key in kinds if getattr(fabric, key) is not None]
    if len(given) != 1:
        yield (), f"needs exactly one of {', '.join(kinds)}: got {' and '.join(given) or 'none'}"
        return
    if fabric.hosts and fabric.links is None:
        yield ("hosts",), f"belongs to links; the hosts of {given[0]} are known"
    if fabric.shape is not None:
        # The limit is checked before `topology` builds anything, which for a huge shape would exhaust memory.
        found = [((given[0], *path), text) for path, text in fabric.shape.mistakes()]
        if not found and fabric.shape.cables() > MAX_CABLES:
            found = [((given[0],), f"has {fabric.shape.cables():,} links, above the limit of {MAX_CABLES:,}")]
        yield from found
        if found:
            return
    # Of all fabrics, only one that is read from a file can fail here.
    try:
        topology = fabric.topology
    except InputError as error:
        yield (given[0], "file"), str(error)
        return
    yield from _link_mistakes(fabric)
    if fabric.scale_up is not None and "scale-up" not in topology.nodes.values():
        yield (
            ("scale_up",),
            "joins GPUs of one server, such as 's0:0' and 's0:1', and no server has two",
        )


def _link_mistakes(fabric: Fabric) -> Iterator[Mistake]:
    labels: dict[str, int] = {}
    for index, link in enumerate(fabric.links or ()):
        path: KeyPath = ("links", index)
        label = link.cable().label
        if link.ends[0] == link.ends[1]:
            yield (*path, "ends"), f"{shown(link.ends[0])} is linked to itself"
        # Paths, changes and tables refer to a link by its label, so labels must be unique.
        if label in labels:
            yield (
                path,
                f"{shown(label)} already names fabric.links[{labels[label]}]; "
                "parallel links need a name each",
            )
        labels.setdefault(label, index)
    nodes = fabric.topology.nodes
    ends = Suggestions(nodes)
    if fabric.scale_up is not None:
        inside = {scale_up_switch(server) for server in fabric.topology.servers}
        for index, link in enumerate(fabric.links or ()):
            for end in inside.intersection(link.ends):
                yield ("links", index, "ends"), f"{shown(end)} is the name of the scale-up switch of a server"
    for index, host in enumerate(fabric.hosts if fabric.links else ()):
        if host not in nodes:
            yield ("hosts", index), f"{shown(host)} is not at the end of any link{ends.closest(host)}"
