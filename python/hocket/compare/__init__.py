"""Runs side by side: what each measured, relative to the first, and what differs in what was asked of them.

`comparison` has the tables, `differences` what differs in plans and parameters, `report` what is printed and
written.
"""

from hocket.compare.comparison import Comparison, compare, read_runs
from hocket.compare.differences import Difference, differences

__all__ = ["Comparison", "Difference", "compare", "differences", "read_runs"]
