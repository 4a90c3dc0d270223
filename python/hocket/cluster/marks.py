"""ECN marks of a cluster run: numbers for the flow engine's model, fitted to the packet engine, and for which
networks they hold.
"""

from dataclasses import dataclass
from typing import Any

from hocket import _hocket
from hocket.engines.network import Network

RATE_BPS = 50 * 10**9
"""NSDI'24 §5.1: NICs of 50 Gbps, and links as fast between the switches."""

CELL_BYTES = 80
"""Of a Tofino switch's buffer, in which NSDI'24 §5.1 counts; the paper does not print it."""

SWITCH: dict[str, Any] = {
    "marking": [
        {
            "rate": "50 Gbps",
            "minimum": f"{1_000 * CELL_BYTES} B",
            "maximum": f"{2_000 * CELL_BYTES} B",
            "probability": 0.2,
        }
    ],
    "headroom": f"{4_000 * CELL_BYTES} B",
}
"""`[switch]` of a plan for the testbed of NSDI'24 §5.1: WRED from 1,000 to 2,000 cells, 4,000 cells for PFC.

Hocket: P_max is the default of plans, as the paper is silent.
"""

CONGESTION: dict[str, Any] = {"dcqcn": {"preset": "hotnets22"}}
"""Of each job there: DCQCN as ConnectX-5 NICs have it (HotNets'22 §2), the NICs of NSDI'24 §5.1."""


@dataclass(frozen=True)
class Marks:
    """The model of `hocket_flowsim::MarkModel`: what it means stands there. Packets have 4,096 bytes of data.

    Elements are for 2 flows that a link holds back, then 3, and so on.
    """

    per_second: tuple[float, ...]
    """Once they have found their rates."""
    per_join: tuple[float, ...]
    """Further ones when the last of them comes."""
    settling_ps: int
    """Within which time, as a time constant, those of a join are marked."""
    recovery_ps: int
    """How fast, as a time constant, flows are back at rates at which they can be marked as much again."""

    def spec(self) -> "_hocket._Marks":
        """As the engine takes them."""
        return {
            "per_second": self.per_second,
            "per_join": self.per_join,
            "settling_ps": self.settling_ps,
            "recovery_ps": self.recovery_ps,
        }


FITTED = Marks(
    per_second=(6_400.0, 7_980.0, 10_560.0, 13_550.0, 17_020.0),
    per_join=(1_009.0, 2_077.0, 2_260.0, 2_435.0, 2_435.0),
    settling_ps=3_800_000_000,
    recovery_ps=24_900_000_000,
)
"""For links of 50 Gbps with `SWITCH` and `CONGESTION`. `hocket reproduce x3` fits them anew."""


def marks_for(network: Network) -> "_hocket._Marks | None":
    """The model as the engine takes it; none if a link of `network` has another rate than that of the fit."""
    return FITTED.spec() if all(rate_bps == RATE_BPS for _, rate_bps in network.links) else None
