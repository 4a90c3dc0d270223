"""Sweeps: runs of a plan with every combination of values of some of its keys, on all processors of this
machine or of a cluster; results are cached, so that no run is repeated.
"""

from hocket.sweeps.axes import Axis, parse_axis
from hocket.sweeps.running import sweep
from hocket.sweeps.sweep_result import Sweep

__all__ = ["Axis", "Sweep", "parse_axis", "sweep"]
