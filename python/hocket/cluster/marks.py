"""ECN marks of a cluster run: parameters of the flow engine's model, fitted to the packet engine, and the
networks for which they are valid.
"""

from dataclasses import dataclass
from typing import Any

from hocket import _hocket
from hocket.engines.network import Network

RATE_BPS = 50 * 10**9
"""NSDI'24 §5.1: NICs of 50 Gbps, and links as fast between the switches."""

CELL_BYTES = 80
"""A cell of a Tofino switch's buffer, the unit of NSDI'24 §5.1; the paper does not state its size."""

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
"""`congestion` of each job there: DCQCN as in ConnectX-5 NICs (HotNets'22 §2), the NICs of NSDI'24 §5.1."""


@dataclass(frozen=True)
class Marks:
    """Parameters of `hocket_flowsim::MarkModel`, which documents the model. Packets carry 4,096 bytes of
    data.

    The first element is for two flows limited by a link, the next for three, and so on.
    """

    per_second: tuple[float, ...]
    """Marks per second once the flows have settled at their rates."""
    per_join: tuple[float, ...]
    """Additional marks when the last of these flows joins."""
    settling_ps: int
    """Time constant over which the marks of a join occur."""
    recovery_ps: int
    """Time constant of the recovery of rates after a contention: a join at time t after it causes the share
    1 − e^(−t / recovery) of its marks."""

    def spec(self) -> "_hocket._Marks":
        """The parameters as the engine takes them."""
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
"""Parameters for links of 50 Gbps with `SWITCH` and `CONGESTION`. `hocket reproduce x3` repeats the fit."""


def marks_for(network: Network) -> "_hocket._Marks | None":
    """The model as the engine takes it; None if a link of `network` has another rate than that of the fit."""
    return FITTED.spec() if all(rate_bps == RATE_BPS for _, rate_bps in network.links) else None
