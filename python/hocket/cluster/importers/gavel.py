"""Traces of Gavel (OSDI'20): tab-separated rows in three layouts, which differ in their number of values."""

from collections.abc import Iterator
from pathlib import Path

from hocket.cluster.importers.records import Record, Row, lines
from hocket.errors import InputError

_LAYOUTS = {
    len(columns): columns
    for columns in (
        ("type", "command", "steps_argument", "steps", "arrival", "scale_factor"),
        ("type", "command", "directory", "steps_argument", "steps", "arrival", "scale_factor"),
        (
            "type",
            "command",
            "directory",
            "steps_argument",
            "needs_data",
            "steps",
            "scale_factor",
            "priority_weight",
            "slo",
            "arrival",
        ),
    )
}


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file; a step counts as an iteration, and the scale factor is the number of GPUs."""
    for line, values in lines(path, "\t"):
        if len(values) not in _LAYOUTS:
            counts = ", ".join(str(count) for count in sorted(_LAYOUTS))
            raise InputError(
                f"{path}: line {line}: has {len(values)} tab-separated values; a job of Gavel has {counts}"
            )
        row = Row(path, line, dict(zip(_LAYOUTS[len(values)], values, strict=True)))
        yield Record(
            name=f"line-{line}",
            submitted_ps=row.seconds("arrival"),
            gpus=row.whole("scale_factor"),
            iterations=row.whole("steps"),
            # Later versions append the batch size: "ResNet-18 (batch size 128)".
            application=row.text("type").partition(" (")[0],
        )
