"""Where the rows of a run go while it goes on."""

from collections.abc import Mapping
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
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def append(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        """Takes rows of one table, as the engines return them."""
        self.append_frame(name, frame(columns))

    def append_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Takes rows of one table."""
        self._frames.setdefault(name, []).append(frame)

    def finish(self, manifest: Mapping[str, Any]) -> Run:
        """The run."""
        return Run(self.tables(), dict(manifest))

    def tables(self) -> dict[str, pl.DataFrame]:
        """What was taken so far."""
        return {name: pl.concat(frames) for name, frames in self._frames.items()}
