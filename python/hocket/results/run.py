"""The results of a run: tables with units in their column names, and a manifest that describes the run.

The directory of a run contains one Parquet file per table, and `manifest.json`.
"""

import json
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from hocket.display import Displayed, brief, counted, on_one_line
from hocket.errors import InputError

if TYPE_CHECKING:
    from hocket import _hocket

MANIFEST = "manifest.json"
# Incremented when columns change their names or meanings, so that older runs are refused and not misread.
_FORMAT = 2


@dataclass(frozen=True, repr=False)
class Run(Displayed):
    """The tables and the manifest of one run.

    Which `tables` exist depends on the engine and on what was recorded; `to_arrow()` of each gives a pyarrow
    table. `manifest["status"]` is `complete`, `interrupted` (the tables then cover what was finished by
    then), or `failed` if a self-check of the run failed or, on a testbed, a worker was lost.
    """

    tables: Mapping[str, pl.DataFrame]
    manifest: dict[str, Any]

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.manifest["status"] == "interrupted")

    def __repr__(self) -> str:
        title, manifest = self._title(), self.manifest
        under = f" under {manifest['scheduler']}" if "scheduler" in manifest else ""
        engine = f" on the {manifest['engine']} engine" if "engine" in manifest else ""
        is_sampled = manifest.get("record", {}).get("iterations") == "sampled"
        nouns = {"jobs": "job", "iterations": "sampled iteration" if is_sampled else "iteration"}
        rows = [counted(self.height(name), noun) for name, noun in nouns.items() if name in self.tables]
        summary = ", ".join((manifest["status"], *rows, counted(len(self.tables), "table")))
        return on_one_line(f"Run{title}{under}{engine}: {summary}")

    def _title(self) -> str:
        """` of NAME` if its plan or study has a name, else empty."""
        name = self.manifest.get("plan", {}).get("name") or self.manifest.get("study")
        return "" if name is None else f" of {brief(name)}"

    def height(self, name: str) -> int:
        """The number of rows of a table, which is not read for this if it is on disk."""
        tables = self.tables
        return tables.height(name) if isinstance(tables, _Stored) else tables[name].height

    def columns(self, name: str, columns: Sequence[str]) -> pl.DataFrame | None:
        """These columns of a table; of a table on disk, no others are read for this. None if it lacks one."""
        tables = self.tables
        if isinstance(tables, _Stored):
            return tables.columns(name, columns)
        table = tables[name]
        return table.select(columns) if set(columns) <= set(table.columns) else None

    def write(self, directory: str | Path) -> Path:
        """Writes the run to `directory`, which is created if missing, and returns the directory. A run there
        is replaced.

        Raises `InputError` if it cannot be written.
        """
        with RunWriter(directory) as writer:
            for name, table in self.tables.items():
                writer.append_frame(name, table)
            writer.finish(self.manifest)
        return writer.directory

    @classmethod
    def read(cls, directory: str | Path) -> "Run":
        """The run in `directory`. Each table is read on first access.

        Raises `InputError` if there is no run, or one in the format of another version of Hocket.
        """
        directory = Path(directory)
        try:
            manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
            if not (isinstance(manifest, dict) and "status" in manifest):
                raise ValueError(f"{MANIFEST} has no status")
            heights = _table_heights(manifest.pop("tables", None))
            # Manifests of format 1 do not state it.
            if (written := manifest.pop("format", 1)) != _FORMAT:
                raise ValueError(
                    f"its tables have format {written!r}, of Hocket {manifest.get('hocket_version', '?')}; "
                    f"this version reads format {_FORMAT}: run it again"
                )
            # A missing or damaged file is an error here, not at the first access to its table.
            for name in heights:
                parquet.read_schema(_parquet(directory, name))
        except (OSError, ValueError) as error:
            raise InputError(f"{directory}: is not a run: {error}") from None
        return cls(_Stored(directory, heights), manifest)


class RunWriter:
    """Writes the tables of a run while it is simulated, so that they need not fit into memory.

    Rows are appended to any table at any time. The directory contains a run only once `finish` has written
    the manifest; a previous run is removed at the start. Use it as a context manager, which closes all files
    even after an error.
    """

    def __init__(self, directory: str | Path) -> None:
        """Creates `directory` if missing, and removes an existing run.

        Raises `InputError` if it cannot be written.
        """
        self.directory = Path(directory)
        self._writers: dict[str, parquet.ParquetWriter] = {}
        self._rows: dict[str, int] = {}
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._remove_previous()
        except OSError as error:
            raise self._unwritable(error) from None

    @property
    def held_bytes(self) -> int:
        """The memory that the rows taken so far fill: none, as they are written at once."""
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Adds the rows in the buffers that the engines return, by name of column, to table `name`.

        Raises `InputError` if they cannot be written.
        """
        arrays = [_array(column) for column in columns.values()]
        self._append(name, pa.Table.from_arrays(arrays, names=list(columns)))

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Adds the rows of `frame` to table `name`. Raises `InputError` if they cannot be written."""
        self._append(name, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """Closes the tables and writes `manifest`; returns the run.

        Raises `InputError` if it cannot be written.
        """
        try:
            self._close()
            # The manifest comes last, so that a directory with one has complete tables.
            text = json.dumps({**manifest, "format": _FORMAT, "tables": self._rows}, indent=2)
            (self.directory / MANIFEST).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None
        return Run.read(self.directory)

    def _append(self, name: str, table: pa.Table) -> None:
        try:
            if name not in self._writers:
                path = _parquet(self.directory, name)
                self._writers[name] = _writer(path, table.schema)
                self._rows[name] = 0
            # A batch without rows only declares the columns, but would become a row group of the file.
            if table.num_rows > 0:
                self._writers[name].write_table(table)
        except OSError as error:
            raise self._unwritable(error) from None
        self._rows[name] += table.num_rows

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _remove_previous(self) -> None:
        try:
            # Only files that the manifest names: others in the directory are not Hocket's.
            names = list(
                _table_heights(json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))["tables"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            names = []
        # The manifest goes first, so that a directory with one has complete tables.
        (self.directory / MANIFEST).unlink(missing_ok=True)
        for name in names:
            _parquet(self.directory, name).unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.directory}: cannot be written: {error.strerror or error}")


class _Stored(Mapping[str, pl.DataFrame]):
    """The tables of a directory, each read on first access."""

    def __init__(self, directory: Path, heights: Mapping[str, int]) -> None:
        self._directory = directory
        self._heights = heights
        self._tables: dict[str, pl.DataFrame | None] = dict.fromkeys(heights)

    def __getitem__(self, name: str) -> pl.DataFrame:
        table = self._tables[name]
        if table is None:
            path = _parquet(self._directory, name)
            # The path of a directory may contain characters of patterns, such as brackets.
            table = self._tables[name] = pl.read_parquet(path, glob=False)
        return table

    # `Mapping.__contains__` would read the table.
    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def columns(self, name: str, columns: Sequence[str]) -> pl.DataFrame | None:
        """These columns of a table, or None if it lacks one."""
        table, path = self._tables[name], _parquet(self._directory, name)
        known = parquet.read_schema(path).names if table is None else table.columns
        if not set(columns) <= set(known):
            return None
        if table is None:
            return pl.read_parquet(path, columns=list(columns), glob=False)
        return table.select(columns)

    def height(self, name: str) -> int:
        """The number of rows of a table, from the manifest."""
        return self._heights[name]


def check_replaceable(directory: Path, replace: bool, **same: object) -> None:
    """Raises `InputError` if `directory` contains a run, unless `replace` is true or the run's manifest has
    all values in `same`, so that the new run has the same tables and nothing is lost.
    """
    if replace or not (directory / MANIFEST).exists():
        return
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    # Through JSON, like the manifest, so that tuples compare equal to lists.
    wanted = json.loads(json.dumps(same))
    if wanted and isinstance(manifest, dict) and {**manifest, **wanted} == manifest:
        return
    raise InputError(f"{directory}: contains another run; --force replaces it, --out DIR writes elsewhere")


def _writer(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    # Names of jobs and links repeat, but numbers hardly do: their dictionaries would take most of the time.
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    # Split by byte, floats compress better and faster: ten million rows take a third of the time.
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    return parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=names, use_byte_stream_split=floats
    )


def _parquet(directory: Path, name: str) -> Path:
    return directory / f"{name}.parquet"


def _table_heights(tables: object) -> dict[str, int]:
    """The number of rows by table, from a manifest. Raises `ValueError` if it has none."""
    # Names become paths of files to read and delete, which must not lead out of the directory.
    if not (isinstance(tables, dict) and all(name.isidentifier() for name in tables)):
        raise ValueError(f"{MANIFEST} does not list the tables")
    return tables


def frame(columns: "Mapping[str, _hocket._Column]") -> pl.DataFrame:
    """A table from the buffers that the engines return, by column."""
    return pl.DataFrame([_series(name, column) for name, column in columns.items()])


def _series(name: str, column: "_hocket._Column") -> pl.Series:
    values = pl.Series(name, np.frombuffer(column["buffer"], dtype=column["dtype"]))
    if column["dictionary"] is None:
        # The buffers have no nulls; engines write NaN for a value that does not exist.
        return values.fill_nan(None) if values.dtype.is_float() else values
    return pl.Series(name, column["dictionary"], dtype=pl.String).gather(values).rename(name)


def _array(column: "_hocket._Column") -> pa.Array:
    values = pa.array(np.frombuffer(column["buffer"], dtype=column["dtype"]), from_pandas=True)
    words = column["dictionary"]
    # The text type of polars, so that rows from an engine and from a frame have one schema.
    return values if words is None else pa.array(words, pa.large_string()).take(values)


def peak_rss_mb() -> float:
    """The peak resident memory of this process, in megabytes."""
    # getrusage(2): Linux counts in kibibytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
