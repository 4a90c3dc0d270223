"""What a run leaves behind: tables with units in their column names, and a manifest that says what ran.

A directory of a run holds one Parquet file per table and `manifest.json`.
"""

import json
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from hocket.errors import InputError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Run:
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
            names = _table_names(manifest.pop("tables", None))
            for name in names:
                parquet.read_schema(_parquet(directory, name))
        except (OSError, ValueError) as error:
            raise InputError(f"{directory}: is not a run: {error}") from None
        return cls(_Stored(directory, names), manifest)


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

    def append(self, name: str, columns: Mapping[str, tuple[Any, ...]]) -> None:
        """Adds the rows in the buffers that the engines return, by name of column, to table `name`.

        Raises `InputError` if they cannot be written.
        """
        arrays = [_array(*column) for column in columns.values()]
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
            text = json.dumps({**manifest, "tables": self._rows}, indent=2)
            (self.directory / MANIFEST).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None
        return Run.read(self.directory)

    def _append(self, name: str, table: pa.Table) -> None:
        try:
            if name not in self._writers:
                path = _parquet(self.directory, name)
                self._writers[name] = parquet.ParquetWriter(path, table.schema, compression="zstd")
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
            names = _table_names(
                json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))["tables"]
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

    def __init__(self, directory: Path, names: list[str]) -> None:
        self._directory = directory
        self._tables: dict[str, pl.DataFrame | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> pl.DataFrame:
        table = self._tables[name]
        if table is None:
            path = _parquet(self._directory, name)
            table = self._tables[name] = pl.read_parquet(path, glob=False)
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _parquet(directory: Path, name: str) -> Path:
    return directory / f"{name}.parquet"


def _table_names(tables: object) -> list[str]:
    """The names in what a manifest says about tables: their rows, by name."""
    if not (isinstance(tables, dict) and all(name.isidentifier() for name in tables)):
        raise ValueError(f"{MANIFEST} does not say which tables there are")
    return list(tables)


def frame(columns: Mapping[str, tuple[Any, ...]]) -> pl.DataFrame:
    """A table from the buffers that the engines return, by name of column."""
    return pl.DataFrame([_series(name, *column) for name, column in columns.items()])


def _series(name: str, dtype: str, buffer: bytes, dictionary: list[str] | None = None) -> pl.Series:
    values = pl.Series(name, np.frombuffer(buffer, dtype=dtype))
    if dictionary is None:
        return values
    return pl.Series(name, dictionary, dtype=pl.String).gather(values).rename(name)


def _array(dtype: str, buffer: bytes, dictionary: list[str] | None = None) -> pa.Array:
    values = pa.array(np.frombuffer(buffer, dtype=dtype))
    return values if dictionary is None else pa.array(dictionary, pa.string()).take(values)


def peak_rss_mb() -> float:
    """The most memory that this process has had, in megabytes."""
    # Linux counts in kibibytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
