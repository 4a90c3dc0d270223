"""Databases that `nsys export --type sqlite` makes from reports of Nsight Systems, of one rank or one server.

NVIDIA's "SQLite Export Schema Reference" describes the tables. Sizes of messages are not read: NCCL's
payloads have a binary format that the reference does not describe.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from hocket.errors import InputError
from hocket.profiling.counters import FloatArray
from hocket.profiling.timelines.names import kernel_kind
from hocket.profiling.timelines.timeline import NO_TIMES, IntArray, Operation, Timeline
from hocket.units import shown

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_STRINGS = "StringIds"
_RANGES = "NVTX_EVENTS"
# Tables and columns exist only if they have content. These are needed, and every version writes them.
_NEEDED = {_KERNELS: ("start", "end", "deviceId", "streamId"), _STRINGS: ("id", "value")}
_NAMES = ("demangledName", "shortName")
_PROCESS = "globalPid"
_GRID = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_S_PER_NS = 1e-9
# Names that training loops give to the range of an iteration: "step 12", "iteration_7", "ProfilerStep#3".
_STEP = re.compile(r"(step|iter|iteration)\W*_*\d+", re.IGNORECASE)


def read_nsight(path: str | Path) -> Timeline:
    """Reads the timeline of the GPU with the most communication from the database at `path`.

    Raises:
        InputError: The file cannot be read, is not such a database, or contains no kernel of NCCL.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        # An exported database does not change. Without locks, it can be read even in a read-only folder.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            return timeline_in(str(path), database)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a database of Nsight Systems: {error}") from None


def timeline_in(source: str, database: sqlite3.Connection) -> Timeline:
    """The timeline of the GPU with the most communication; `source` names the database in errors."""
    name_column, process_column, grid = checked_columns(source, database)
    # SQLite's LIKE ignores case.
    strings = database.execute(f"SELECT id, value FROM {_STRINGS} WHERE value LIKE '%nccl%'")
    names = {key: name for key, name in strings if isinstance(key, int) and isinstance(name, str)}
    columns = ("start", "end", "deviceId", process_column, "streamId", name_column, *grid)
    rows = integers(source, database, f"SELECT {', '.join(columns)} FROM {_KERNELS}", len(columns))
    is_nccl = np.isin(rows[:, 5], np.array(list(names), dtype=np.int64))
    if not is_nccl.any():
        raise InputError(f"{source}: none of the {rows.shape[0]:,} kernels in {_KERNELS} is one of NCCL")
    # By process too: with CUDA_VISIBLE_DEVICES, every process of a server has a device 0.
    gpus = Counter(map(tuple, rows[is_nccl][:, 2:4].tolist()))
    # Sorted, so that a tie does not depend on the order of rows.
    gpu = max(sorted(gpus), key=lambda each: gpus[each])
    on_gpu = (rows[:, 2] == gpu[0]) & (rows[:, 3] == gpu[1])
    first_ns = int(rows[on_gpu & is_nccl, 0].min())
    times_s = (rows[:, :2] - first_ns) * _S_PER_NS
    communication = on_gpu & is_nccl
    return Timeline.of(
        source,
        times_s[communication, 0],
        times_s[communication, 1],
        [operation(names[row[5]], row[4], row[6:]) for row in rows[communication].tolist()],
        computes_s=times_s[on_gpu & ~is_nccl],
        steps_s=step_starts_s(database, first_ns),
    )


def checked_columns(source: str, database: sqlite3.Connection) -> tuple[str, str, Sequence[str]]:
    """The columns with a kernel's name, its process ("0" if there is none) and its grid.

    Raises `InputError` that names the missing table or column.
    """
    for table, needed in _NEEDED.items():
        columns = columns_of(database, table)
        if not columns:
            raise InputError(
                f"{source}: no table {table}: record with 'nsys profile --trace=cuda,nvtx' and export with "
                "'nsys export --type sqlite'"
            )
        missing = [column for column in needed if column not in columns]
        if missing:
            raise InputError(f"{source}: table {table} has no column {missing[0]}")
    columns = columns_of(database, _KERNELS)
    names = [column for column in _NAMES if column in columns]
    if not names:
        raise InputError(f"{source}: table {_KERNELS} has neither column {' nor '.join(_NAMES)}")
    grid = [column for column in _GRID if column in columns]
    return names[0], _PROCESS if _PROCESS in columns else "0", grid


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; none if it does not exist."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def integers(source: str, database: sqlite3.Connection, query: str, width: int) -> IntArray:
    """The rows of a query (n, `width`), checked to be integers of 64 bits."""
    rows = database.execute(query).fetchall()
    try:
        if not all(type(value) is int for row in rows for value in row):
            wrong = next(row for row in rows if not all(type(value) is int for value in row))
            raise InputError(
                f"{source}: {_KERNELS} has a row {shown(wrong)}: all its values must be integers"
            )
        return np.array(rows, dtype=np.int64).reshape(-1, width)
    except OverflowError:
        raise InputError(f"{source}: {_KERNELS} has a number beyond 64 bits") from None


def operation(name: str, stream: int, grid: Sequence[int]) -> Operation:
    """The operation of a kernel of NCCL; its grid distinguishes messages of different size."""
    plain = name.partition("(")[0]
    return Operation(kernel_kind(name), detail=f"{plain} {list(grid)}", lane=f"stream {stream}")


def step_starts_s(database: sqlite3.Connection, first_ns: int) -> FloatArray:
    """Starts of the NVTX ranges of iterations; empty if the training loop has none."""
    columns = columns_of(database, _RANGES)
    if not {"start", "text"} <= columns:
        return NO_TIMES
    text = "COALESCE(text, value)" if "textId" in columns else "text"
    strings = f"LEFT JOIN {_STRINGS} ON textId = {_STRINGS}.id" if "textId" in columns else ""
    starts = [
        start - first_ns
        for start, name in database.execute(f"SELECT start, {text} FROM {_RANGES} {strings}")
        if isinstance(start, int) and isinstance(name, str) and _STEP.search(name)
    ]
    return np.unique(np.array(starts, dtype=np.float64)) * _S_PER_NS
