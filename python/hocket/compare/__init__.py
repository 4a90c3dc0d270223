"""Runs side by side: the measurements of each relative to the first, and the differences of their plans.

`comparison` builds the tables, `differences` compares plans and parameters, `report` prints and writes them.
"""

from hocket.compare.comparison import Comparison, compare, read_runs
from hocket.compare.differences import Difference, differences

__all__ = ["Comparison", "Difference", "compare", "differences", "read_runs"]
