"""Theorem 1 of NSDI'24: one time-shift per job keeps the relative shifts of all jobs on every link."""

import math
from collections.abc import Mapping


def check_relative_shifts(
    link: str, found_ps: Mapping[str, int], shifts_ps: Mapping[str, int], periods_ps: Mapping[str, int]
) -> None:
    """Assert that `shifts_ps` keeps the relative shifts `found_ps` of the jobs of `link`.

    A job's position repeats with its period, so two jobs keep their relative shift if the amounts that
    Algorithm 1 added to them agree modulo the greatest common divisor of their periods. If all pairs agree, a
    single rotation of the whole circle maps `found_ps` to `shifts_ps`.

    Raises `AssertionError`, which names link, jobs and the difference.

    >>> periods = {"a": 60, "b": 40}
    >>> check_relative_shifts("up", {"a": 0, "b": 30}, {"a": 10, "b": 0}, periods)
    >>> check_relative_shifts("up", {"a": 0, "b": 30}, {"a": 10, "b": 5}, periods)
    Traceback (most recent call last):
    AssertionError: Theorem 1 on up: jobs a and b are 5 ps off the relative shift found for them, modulo 20 ps
    """
    names = list(found_ps)
    added_ps = {name: shifts_ps[name] - found_ps[name] for name in names}
    for place, one in enumerate(names):
        for other in names[:place]:
            modulus_ps = math.gcd(periods_ps[one], periods_ps[other])
            off_ps = (added_ps[one] - added_ps[other]) % modulus_ps
            assert off_ps == 0, (
                f"Theorem 1 on {link}: jobs {other} and {one} are {min(off_ps, modulus_ps - off_ps)} ps off "
                f"the relative shift found for them, modulo {modulus_ps} ps"
            )
