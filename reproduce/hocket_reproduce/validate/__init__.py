"""The packet engine against recorded runs of an ns-3 based simulator: `compare` repeats one of them, `report`
presents many.
"""

from hocket_reproduce.validate.comparison import Comparison, Quantity, compare
from hocket_reproduce.validate.reference import Case, Totals, read_recorded

__all__ = ["Case", "Comparison", "Quantity", "Totals", "compare", "read_recorded"]
