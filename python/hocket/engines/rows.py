"""Steps that both engines share when rows go from `_hocket` to a sink."""

from collections.abc import Mapping

from hocket import _hocket
from hocket.results.sink import Sink


def append_empty(sink: Sink, tables: "Mapping[str, Mapping[str, _hocket._Column]]") -> None:
    """Appends `tables`, which are empty, so that a run has every table even without rows for it."""
    for name, columns in tables.items():
        sink.append(name, columns)


def renamed(
    columns: "Mapping[str, _hocket._Column]", shown: Mapping[str, str]
) -> "Mapping[str, _hocket._Column]":
    """The columns with the engine's names of links replaced by those in `shown`."""
    if "link" not in columns:
        return columns
    names = columns["link"]["dictionary"] or ()
    return {**columns, "link": {**columns["link"], "dictionary": [shown[name] for name in names]}}
