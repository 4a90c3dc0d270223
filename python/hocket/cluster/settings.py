"""`[cluster]`: assumptions of a run about servers and jobs, independent of the scheduler."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from hocket.plan.schema import Number, Table, default, size_within
from hocket.units import DurationPs, parse_bytes, parse_duration

RecordKind = Literal["all", "sampled", "summary"]
"""Which iterations of a run get a row."""

DEFAULT_MOST_ROWS = 5_000_000
"""Runs with more expected iterations are sampled by default. This number of rows fits into the default of
`table_memory`."""


class Settings(Table):
    """The cluster besides its fabric."""

    gpus_per_host: Annotated[StrictInt, Field(ge=1, le=64)] = default(
        1, "NSDI'24 §5.1: servers of one GPU and one NIC"
    )
    """GPUs that share each NIC of the fabric."""
    gpu_memory_bytes: Annotated[int, *size_within(1, 10**15)] | None = Field(default=None, alias="gpu_memory")
    """Memory of a GPU: no model of `[[models]]` may need more. By default it is not checked."""
    start_cost_ps: DurationPs = default(
        parse_duration("5 s"), "Hocket: a container starts and loads its model", "start_cost"
    )
    """Time from a job's first GPUs to its first iteration."""
    restart_cost_ps: DurationPs = default(
        parse_duration("30 s"),
        "Pollux (OSDI'21 §5.3): restarts take 30 s in its simulator; measured were 15 to 120 s (§4.2)",
        "restart_cost",
    )
    """The same each time that a job is moved, grown or shrunk."""
    jitter: Annotated[Number, Field(ge=0, le=1)] = default(
        0.01, "Hocket: measured iteration times vary by about 1%"
    )
    """Standard deviation of compute times, relative to their mean."""
    marks: StrictBool = default(True, "Hocket: NSDI'24 Fig 13 and 14 count ECN marks")
    """Whether ECN marks are counted."""
    merge: Annotated[Number, Field(ge=0, lt=1)] = default(0.0, "Hocket: a row for each iteration")
    """Consecutive iterations of a job whose times differ by less than this fraction share one row."""
    record: RecordKind | None = None
    """The iterations that have a row in the table `iterations`: `all`; `sampled`, about `sampled_rows` of
    them, drawn at random; or `summary`, none. All other tables and all printed numbers are computed from all
    iterations in any case. By default `all`, but `sampled` if more than 5 million iterations are expected and
    neither `merge` nor a `jitter` of 0 lets similar ones share a row."""
    sampled_rows: Annotated[StrictInt, Field(ge=1, le=10**9)] = default(
        1_000_000,
        "Hocket: percentiles of the sample are close to those of all, and figures are drawn in seconds",
    )
    """With `sampled`: the approximate number of rows. One iteration is drawn from each block of consecutive
    ones of a job; the expected number of iterations determines the size of the blocks."""
    table_memory_bytes: Annotated[int, *size_within(16 * 10**6, 10**15)] = default(
        parse_bytes("1 GB"), "Hocket: a fraction of a laptop's memory", "table_memory"
    )
    """Memory for rows. A run with a directory writes them when they fill half of it; a run without one ends
    with an error if they exceed it."""
    skip_ahead: StrictBool = default(False, "Hocket: simulate every iteration")
    """Simulate only some of the iterations between two changes of placements or slots, and repeat them in
    place of the others: exactly for jobs without jitter, which are simulated until all of them are where they
    were before. Jobs with jitter that share links by adaptive weights are always simulated."""
