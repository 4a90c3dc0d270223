"""Where the rows of a run go while it goes on."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import polars as pl

from hocket import _hocket
from hocket.results import Run, frame


class Sink(Protocol):
    """Where rows go while a run goes on, and the manifest at its end."""

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """The run."""


class Memory:
    """Keeps all rows until the end."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pl.DataFrame | Mapping[str, _hocket._Column]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""
        # These calls come on another thread, where polars takes twice as long for a small frame.
        self._parts.setdefault(name, []).append(columns)

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""
        self._parts.setdefault(name, []).append(frame)

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """The run."""
        return Run(self.take_tables(), dict(manifest))

    def take_tables(self) -> dict[str, pl.DataFrame]:
        """The rows so far by name of table; they are kept no longer."""
        return {name: _whole(self._parts.pop(name)) for name in list(self._parts)}


def _whole(parts: "Sequence[pl.DataFrame | Mapping[str, _hocket._Column]]") -> pl.DataFrame:
    filled = [part for part in parts if _has_rows(part)] or parts[:1]
    return pl.concat([part if isinstance(part, pl.DataFrame) else frame(part) for part in filled])


def _has_rows(part: "pl.DataFrame | Mapping[str, _hocket._Column]") -> bool:
    if isinstance(part, pl.DataFrame):
        return part.height > 0
    return any(column["buffer"] for column in part.values())
