"""The packet engine held against recorded runs of an ns-3 based simulator: `compare` repeats one of them,
`report` shows many.
"""

from hocket.validate.comparison import Comparison, Quantity, compare
from hocket.validate.reference import Case, Totals, read_recorded

__all__ = ["Case", "Comparison", "Quantity", "Totals", "compare", "read_recorded"]
