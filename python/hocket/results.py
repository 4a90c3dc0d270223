"""What a run leaves behind: tables with units in their column names, and a manifest that says what ran.

A directory of a run holds one Parquet file per table and `manifest.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hocket.errors import InputError

MANIFEST = "manifest.json"
TABLES = ("iterations", "phases", "rates", "links", "adjustments", "jobs")


@dataclass(frozen=True)
class Run:
    """The tables and the manifest of one simulated run.

    `tables` has those named in `TABLES`; `to_arrow()` of each gives a pyarrow table. `manifest["status"]` is
    `complete` or `interrupted`: then the tables hold what was finished by then.
    """

    tables: dict[str, pl.DataFrame]
    manifest: dict[str, Any]

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.manifest["status"] == "interrupted")

    def write(self, directory: str | Path) -> Path:
        """Writes the run into `directory`, made if need be; returns it.

        Raises `InputError` if it cannot be written.
        """
        directory = Path(directory)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, table in self.tables.items():
                table.write_parquet(directory / f"{name}.parquet")
            # The manifest comes last: where it is, the tables are whole.
            (directory / MANIFEST).write_text(json.dumps(self.manifest, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{directory}: cannot be written: {error.strerror}") from None
        return directory

    @classmethod
    def read(cls, directory: str | Path) -> "Run":
        """The run that `write` left in `directory`.

        Raises `InputError` if there is none.
        """
        directory = Path(directory)
        try:
            manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
            if not (isinstance(manifest, dict) and "status" in manifest):
                raise ValueError(f"{MANIFEST} says nothing about a status")
            tables = {name: pl.read_parquet(directory / f"{name}.parquet") for name in TABLES}
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise InputError(f"{directory}: is not a run: {error}") from None
        return cls(tables, manifest)


def frame(columns: Mapping[str, tuple[Any, ...]]) -> pl.DataFrame:
    """A table from the buffers that the engines return, by name of column."""
    return pl.DataFrame([_series(name, *column) for name, column in columns.items()])


def _series(name: str, dtype: str, buffer: bytes, dictionary: list[str] | None = None) -> pl.Series:
    values = pl.Series(name, np.frombuffer(buffer, dtype=dtype))
    if dictionary is None:
        return values
    return pl.Series(name, dictionary, dtype=pl.String).gather(values).rename(name)
