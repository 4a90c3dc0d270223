"""Times in result tables: seconds, of which the engines' whole picoseconds can be had back."""

import polars as pl

from hocket.profiles import PS_PER_S


def in_ps(column: str) -> pl.Expr:
    """A column of seconds in whole picoseconds: exact up to 4,500 s, where 64-bit floats get too coarse.

    >>> pl.DataFrame({"end_s": [0.3]}).select(in_ps("end_s")).item()
    300000000000
    """
    return (pl.col(column) * PS_PER_S).round().cast(pl.Int64)
