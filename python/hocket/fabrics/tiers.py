"""Tiers of a fabric: switches, their cables down and up, and over-subscription."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hocket.fabrics.topology import Topology
from hocket.units import format_rate

# More rates than these would make the table's columns wider than what they explain.
_MOST_RATES = 2


@dataclass(frozen=True)
class Ports:
    """The rates of a switch's cables down and up, in bits per second in each direction."""

    below: tuple[int, ...]
    """To hosts and to switches of a lower tier."""
    # A cable between two switches of one tier, such as a dumbbell's, also carries traffic away from hosts.
    above: tuple[int, ...]
    """To switches of a higher tier or of the same tier."""

    def oversubscription(self) -> Fraction | None:
        """The capacity below ÷ that above; `None` for a switch with no cable up."""
        return Fraction(sum(self.below), sum(self.above)) if self.above else None


@dataclass(frozen=True)
class Tier:
    """Switches at the same distance from hosts; tier 1 is next to them."""

    number: int
    switches: Mapping[str, Ports]

    def names(self) -> str:
        """The first and the last switch, as text.

        >>> Tier(1, {f"tor{n}": Ports((), ()) for n in range(8)}).names()
        'tor0 … tor7'
        """
        names = list(self.switches)
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"

    def below(self) -> str:
        """The cables below each switch as text, such as `16 × 200 Gbps`."""
        return _range_text([ports.below for ports in self.switches.values()])

    def above(self) -> str:
        """The cables above each switch as text."""
        return _range_text([ports.above for ports in self.switches.values()])

    def oversubscription(self) -> str:
        """The over-subscription of the switches as text, such as `2:1`; a range if it differs.

        >>> ports = Ports(below=(50,) * 4, above=(50, 50))
        >>> Tier(1, {"tor0": ports, "tor1": Ports((50, 50), (50, 50))}).oversubscription()
        '1:1 to 2:1'
        """
        # Fractions, because equal ratios of different capacities must be one ratio.
        different = {ports.oversubscription() for ports in self.switches.values()}
        ratios = sorted(ratio for ratio in different if ratio is not None)
        return " to ".join(f"{float(ratio):.3g}:1" for ratio in dict.fromkeys((*ratios[:1], *ratios[-1:])))


def tiers_of(topology: Topology) -> tuple[Tier, ...]:
    """The tiers of the switches that hosts can reach, from the hosts up."""
    tiers = topology.tiers
    below: dict[str, list[int]] = {switch: [] for switch in tiers}
    above: dict[str, list[int]] = {switch: [] for switch in tiers}
    for cable in topology.cables:
        for one, other in (cable.ends, cable.ends[::-1]):
            # Traffic inside a server does not use the fabric's capacity, so scale-up switches form no tier.
            if one in tiers and topology.nodes[other] != "scale-up":
                side = below if tiers.get(other, 0) < tiers[one] else above
                side[one].append(cable.rate_bps)
    switches: dict[int, dict[str, Ports]] = {}
    for switch, tier in tiers.items():
        ports = Ports(tuple(sorted(below[switch])), tuple(sorted(above[switch])))
        switches.setdefault(tier, {})[switch] = ports
    # `Topology.tiers` has the order of a search from the hosts; `Tier.names` shows the first and last number.
    order = {node: number for number, node in enumerate(topology.nodes)}
    return tuple(
        Tier(number, dict(sorted(switches[number].items(), key=lambda item: order[item[0]])))
        for number in sorted(switches)
    )


def rates_text(rates_bps: tuple[int, ...]) -> str:
    """The number of cables of each rate; for more than two rates, the number of cables and their total.

    >>> rates_text((50 * 10**9, 100 * 10**9, 50 * 10**9))
    '2 × 50 Gbps + 100 Gbps'
    >>> rates_text((10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9))
    '4 cables, 10 Gbps'
    """
    counts = sorted(Counter(rates_bps).items())
    if len(counts) > _MOST_RATES:
        return f"{len(rates_bps):,} cables, {format_rate(sum(rates_bps))}"
    each = (f"{count} × {format_rate(rate)}" if count > 1 else format_rate(rate) for rate, count in counts)
    return " + ".join(each)


def _range_text(cables: list[tuple[int, ...]]) -> str:
    """The cables of every switch, or the range from least to most capacity; empty if there are none."""
    in_order = sorted(cables, key=lambda rates: (sum(rates), rates))
    least, most = rates_text(in_order[0]), rates_text(in_order[-1])
    return most if least == most else f"{least or 'nothing'} to {most}"
