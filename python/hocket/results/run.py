"""What a run leaves behind: tables with units in their column names, and a manifest that says what ran.

A directory of a run holds one Parquet file per table and `manifest.json`.
"""

import json
import resource
from collections.abc import Iterator, Mapping
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
# Counted up when columns change their names or meanings.
_FORMAT = 2


@dataclass(frozen=True, repr=False)
class Run(Displayed):
    """The tables and the manifest of one simulated run.

    Which `tables` there are depends on the engine and on what was recorded; `to_arrow()` of each gives a
    pyarrow table. `manifest["status"]` is `complete`, `interrupted` (then the tables hold what was finished
    by then), or `failed` where a check of the run itself did not hold.
    """

    tables: Mapping[str, pl.DataFrame]
    manifest: dict[str, Any]

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.manifest["status"] == "interrupted")

    def __repr__(self) -> str:
        of, manifest = self._title(), self.manifest
        under = f" under {manifest['scheduler']}" if "scheduler" in manifest else ""
        engine = f" on the {manifest['engine']} engine" if "engine" in manifest else ""
        nouns = [name for name in ("jobs", "iterations") if name in self.tables]
        rows = [counted(self.height(noun), noun.removesuffix("s")) for noun in nouns]
        said = ", ".join((manifest["status"], *rows, counted(len(self.tables), "table")))
        return on_one_line(f"Run{of}{under}{engine}: {said}")

    def _title(self) -> str:
        """Of what it is, if that has a name."""
        name = self.manifest.get("plan", {}).get("name") or self.manifest.get("study")
        return "" if name is None else f" of {brief(name)}"

    def height(self, name: str) -> int:
        """The rows of a table; one that is not in memory is not read for it."""
        tables = self.tables
        return tables.height(name) if isinstance(tables, _Stored) else tables[name].height

    def write(self, directory: str | Path) -> Path:
        """Writes the run into `directory`, made if need be, in place of any run there; returns it.

        Raises `InputError` if it cannot be written.
        """
        with RunWriter(directory) as writer:
            for name, table in self.tables.items():
                writer.append_frame(name, table)
            writer.finish(self.manifest)
        return writer.directory

    @classmethod
    def read(cls, directory: str | Path) -> "Run":
        """The run that was written into `directory`. Each table is read when it is first looked at.

        Raises `InputError` if there is none.
        """
        directory = Path(directory)
        try:
            manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
            if not (isinstance(manifest, dict) and "status" in manifest):
                raise ValueError(f"{MANIFEST} says nothing about a status")
            heights = _table_heights(manifest.pop("tables", None))
            if (found := manifest.pop("format", 1)) != _FORMAT:
                raise ValueError(
                    f"its tables have format {found!r}, of Hocket {manifest.get('hocket_version', '?')}; "
                    f"this version reads format {_FORMAT}: run it again"
                )
            for name in heights:
                parquet.read_schema(_parquet(directory, name))
        except (OSError, ValueError) as error:
            raise InputError(f"{directory}: is not a run: {error}") from None
        return cls(_Stored(directory, heights), manifest)


class RunWriter:
    """Writes a run while it goes on, so that its tables need not fit into memory.

    Rows are appended to the tables in any order of tables. The directory is a run once `finish` has written
    the manifest; whatever run was there before is not one from the beginning on. Use it as a context: files
    are closed at its end, whatever happens.
    """

    def __init__(self, directory: str | Path) -> None:
        """Makes `directory` if need be and takes a run that is there away.

        Raises `InputError` if it cannot be written.
        """
        self.directory = Path(directory)
        self._writers: dict[str, parquet.ParquetWriter] = {}
        self._rows: dict[str, int] = {}
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._take_away()
        except OSError as error:
            raise self._unwritable(error) from None

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
            # The manifest comes last: where it is, the tables are whole.
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
            if table.num_rows > 0:
                self._writers[name].write_table(table)
        except OSError as error:
            raise self._unwritable(error) from None
        self._rows[name] += table.num_rows

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _take_away(self) -> None:
        try:
            names = list(
                _table_heights(json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))["tables"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            names = []
        (self.directory / MANIFEST).unlink(missing_ok=True)
        for name in names:
            _parquet(self.directory, name).unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.directory}: cannot be written: {error.strerror or error}")


class _Stored(Mapping[str, pl.DataFrame]):
    """The tables of a directory, each read when it is first looked at."""

    def __init__(self, directory: Path, heights: Mapping[str, int]) -> None:
        self._directory = directory
        self._heights = heights
        self._tables: dict[str, pl.DataFrame | None] = dict.fromkeys(heights)

    def __getitem__(self, name: str) -> pl.DataFrame:
        table = self._tables[name]
        if table is None:
            path = _parquet(self._directory, name)
            table = self._tables[name] = pl.read_parquet(path, glob=False)
        return table

    # The mixin's reads the table.
    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def height(self, name: str) -> int:
        """The rows of a table, as the manifest counts them."""
        return self._heights[name]


def check_replaceable(directory: Path, replace: bool, **same: object) -> None:
    """Raises `InputError` if `directory` holds a run, unless that is to be replaced, or its manifest has the
    `same` values: then the new run has the same tables, and nothing is lost.
    """
    if replace or not (directory / MANIFEST).exists():
        return
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    wanted = json.loads(json.dumps(same))
    if wanted and isinstance(manifest, dict) and {**manifest, **wanted} == manifest:
        return
    raise InputError(f"{directory}: holds another run; --force replaces it, --out DIR writes elsewhere")


def _writer(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    """Names of jobs and links repeat; numbers hardly do, and a dictionary of them costs more than all else.
    Split by byte, floats compress better and faster: ten million rows take a third of the time.
    """
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    return parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=names, use_byte_stream_split=floats
    )


def _parquet(directory: Path, name: str) -> Path:
    return directory / f"{name}.parquet"


def _table_heights(tables: object) -> dict[str, int]:
    """What a manifest says about tables: their rows, by name."""
    if not (isinstance(tables, dict) and all(name.isidentifier() for name in tables)):
        raise ValueError(f"{MANIFEST} does not say which tables there are")
    return tables


def frame(columns: "Mapping[str, _hocket._Column]") -> pl.DataFrame:
    """A table from the buffers that the engines return, by name of column."""
    return pl.DataFrame([_series(name, column) for name, column in columns.items()])


def _series(name: str, column: "_hocket._Column") -> pl.Series:
    values = pl.Series(name, np.frombuffer(column["buffer"], dtype=column["dtype"]))
    if column["dictionary"] is None:
        return values.fill_nan(None) if values.dtype.is_float() else values
    return pl.Series(name, column["dictionary"], dtype=pl.String).gather(values).rename(name)


def _array(column: "_hocket._Column") -> pa.Array:
    values = pa.array(np.frombuffer(column["buffer"], dtype=column["dtype"]), from_pandas=True)
    words = column["dictionary"]
    # As polars has text: rows are written alike, whether they come from an engine or from a frame.
    return values if words is None else pa.array(words, pa.large_string()).take(values)


def peak_rss_mb() -> float:
    """The most memory that this process has had, in megabytes."""
    # Linux counts in kibibytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
