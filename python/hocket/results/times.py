"""Converts the seconds in result tables back to the engines' whole picoseconds."""

import polars as pl

from hocket.profiles import PS_PER_S


def in_ps(column: str) -> pl.Expr:
    """A column of seconds in whole picoseconds: exact below 4,096 s. Above, neighbouring 64-bit floats are
    0.9 ps apart, and rounding to them may change the last picosecond.

    >>> pl.DataFrame({"end_s": [0.3]}).select(in_ps("end_s")).item()
    300000000000
    """
    return (pl.col(column) * PS_PER_S).round().cast(pl.Int64)
