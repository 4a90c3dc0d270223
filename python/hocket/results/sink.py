"""Destinations for the rows of a run: this memory, nowhere, or the files of `RunWriter`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import polars as pl

from hocket import _hocket
from hocket.results import Run, frame


class Sink(Protocol):
    """Takes the rows during a run, and the manifest at its end."""

    @property
    def held_bytes(self) -> int:
        """The memory that the rows taken so far fill."""

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """Returns the run."""


class Memory:
    """Keeps all rows until the end."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pl.DataFrame | Mapping[str, _hocket._Column]]] = {}
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The memory that the rows taken so far fill."""
        return self._held_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""
        # These calls come on another thread, where polars takes twice as long for a small frame.
        self._parts.setdefault(name, []).append(columns)
        self._held_bytes += sum(len(column["buffer"]) for column in columns.values())

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""
        self._parts.setdefault(name, []).append(frame)
        self._held_bytes += int(frame.estimated_size())

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """Returns the run."""
        return Run(self.take_tables(), dict(manifest))

    def take_tables(self) -> dict[str, pl.DataFrame]:
        """Removes the rows so far and returns them, by name of table."""
        self._held_bytes = 0
        return {name: _whole(self._parts.pop(name)) for name in list(self._parts)}


class Nowhere:
    """Drops all rows, for a run of which only the state is needed."""

    @property
    def held_bytes(self) -> int:
        """The memory that the rows taken so far fill."""
        return 0

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """Returns the run, without tables."""
        return Run({}, dict(manifest))


def _whole(parts: "Sequence[pl.DataFrame | Mapping[str, _hocket._Column]]") -> pl.DataFrame:
    # Batches without rows only declare the columns, for which one of them is enough.
    filled = [part for part in parts if _has_rows(part)] or parts[:1]
    return pl.concat([part if isinstance(part, pl.DataFrame) else frame(part) for part in filled])


def _has_rows(part: "pl.DataFrame | Mapping[str, _hocket._Column]") -> bool:
    if isinstance(part, pl.DataFrame):
        return part.height > 0
    return any(column["buffer"] for column in part.values())
