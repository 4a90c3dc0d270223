"""Builds fabrics of GPU clusters from their parameters, as nodes and cables."""

from hocket.fabrics.production import lingjun
from hocket.fabrics.shapes import (
    CASSINI_DELAY_PS,
    CassiniTree,
    cassini_testbed,
    clos,
    dumbbell,
    fat_tree,
    rail_optimised,
)
from hocket.fabrics.tiers import Ports, Tier, rates_text, tiers_of
from hocket.fabrics.topology import (
    Cable,
    NodeKind,
    ScaleUpNetwork,
    Topology,
    from_cables,
    scale_up_switch,
    server_of,
    with_scale_up,
)

__all__ = [
    "CASSINI_DELAY_PS",
    "Cable",
    "CassiniTree",
    "NodeKind",
    "Ports",
    "ScaleUpNetwork",
    "Tier",
    "Topology",
    "cassini_testbed",
    "clos",
    "dumbbell",
    "fat_tree",
    "from_cables",
    "lingjun",
    "rail_optimised",
    "rates_text",
    "scale_up_switch",
    "server_of",
    "tiers_of",
    "with_scale_up",
]
