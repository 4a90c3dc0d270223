"""Steps that both engines share when rows go from `_hocket` to a sink."""

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket import _hocket
    from hocket.results.sink import Sink

# By NumPy type of a column: the type of `struct`.
_FORMATS = {"<u8": "Q", "<i8": "q", "<u4": "I", "<f8": "d", "|b1": "?"}


def append_empty(sink: "Sink", tables: "Mapping[str, Mapping[str, _hocket._Column]]") -> None:
    """Appends `tables`, which are empty, so that a run has every table even without rows for it."""
    for name, columns in tables.items():
        sink.append(name, columns)


def values(column: "_hocket._Column") -> tuple[Any, ...]:
    """The values of a column as Python objects; for text, the codes into its dictionary.

    It is for a few numbers, for which loading NumPy would take longer.

    >>> values({"dtype": "<u4", "buffer": bytes([1, 0, 0, 0, 0, 1, 0, 0]), "dictionary": None})
    (1, 256)
    """
    kind = _FORMATS[column["dtype"]]
    return struct.unpack(f"<{len(column['buffer']) // struct.calcsize(kind)}{kind}", column["buffer"])


def renamed(
    columns: "Mapping[str, _hocket._Column]", shown: Mapping[str, str]
) -> "Mapping[str, _hocket._Column]":
    """The columns with the engine's names of links replaced by those in `shown`."""
    if "link" not in columns:
        return columns
    names = columns["link"]["dictionary"] or ()
    return {**columns, "link": {**columns["link"], "dictionary": [shown[name] for name in names]}}
