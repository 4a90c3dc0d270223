"""Bytes that a collective sends over the network, by nccl-tests' factors from algorithm to bus bandwidth."""

from __future__ import annotations

import math

from hocket.profiling.timelines.timeline import Operation

_TWICE = ("all-reduce",)
_ONCE = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
_NOTHING = ("recv", "barrier")
"""A barrier is an all-reduce of one element; received messages count at the rank that sends them."""


def wire_bytes(operation: Operation) -> float:
    """Bytes that a rank sends for `operation`: its message times the factor of busbw (nccl-tests
    `doc/PERFORMANCE.md`); nan if the profiler trace does not give the size or the number of ranks.

    >>> wire_bytes(Operation("all-reduce", size_bytes=8_000, group_size=4))
    12000.0
    >>> wire_bytes(Operation("send", size_bytes=8_000))
    8000.0
    """
    if operation.kind in _NOTHING or operation.size_bytes == 0:
        return 0.0
    if operation.size_bytes is None:
        return math.nan
    # The factor of broadcast and reduce is 1, as is that of a send.
    if operation.kind not in (*_TWICE, *_ONCE):
        return float(operation.size_bytes)
    if operation.group_size is None:
        return math.nan
    share = (operation.group_size - 1) / operation.group_size
    return operation.size_bytes * share * (2 if operation.kind in _TWICE else 1)


def sent_bytes(operation: Operation, gpus_per_server: int | None) -> float:
    """Like `wire_bytes`, but 0 for operations inside a server of `gpus_per_server` GPUs, if given.

    >>> within = Operation("all-reduce", size_bytes=8_000, group_size=2, ranks=(0, 1))
    >>> sent_bytes(within, 8), sent_bytes(within, None)
    (0.0, 8000.0)
    """
    if gpus_per_server is not None and stays_inside(operation, gpus_per_server):
        return 0.0
    return wire_bytes(operation)


def stays_inside(operation: Operation, gpus_per_server: int) -> bool:
    """Whether all ranks of the group are in one server, of consecutive ranks; False if they are unknown.

    >>> stays_inside(Operation("all-reduce", ranks=(8, 9, 15)), 8)
    True
    """
    servers = {rank // gpus_per_server for rank in operation.ranks}
    return len(servers) == 1
