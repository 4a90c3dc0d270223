"""What both engines do to rows on their way from `_hocket` to a sink."""

from collections.abc import Mapping

from hocket import _hocket
from hocket.results.sink import Sink


def append_empty(sink: Sink, tables: "Mapping[str, Mapping[str, _hocket._Column]]") -> None:
    """Adds `tables`, which have no rows, so that a run without such rows has the tables too."""
    for name, columns in tables.items():
        sink.append(name, columns)


def renamed(
    columns: "Mapping[str, _hocket._Column]", shown: Mapping[str, str]
) -> "Mapping[str, _hocket._Column]":
    """The columns with links named as in `shown`."""
    if "link" not in columns:
        return columns
    names = columns["link"]["dictionary"] or ()
    return {**columns, "link": {**columns["link"], "dictionary": [shown[name] for name in names]}}
