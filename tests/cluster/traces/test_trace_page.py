"""The page on traces has every key of every table."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from hocket.cluster.file import TraceFile
from hocket.plan import Fabric, Training
from hocket.plan.mistakes import tables_in

PAGE = Path(__file__).parents[3] / "docs" / "trace-format.md"


def keys(table: type[BaseModel]) -> Iterator[str]:
    """The keys of `table` and of the tables in it; those of fabrics and training are on the page of plans."""
    for name, field in table.model_fields.items():
        yield field.alias or name
        for below in tables_in(field.annotation):
            if below not in (Fabric, Training):
                yield from keys(below)


@pytest.mark.parametrize("key", sorted(set(keys(TraceFile))))
def test_a_key_is_on_the_page(key: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"`{key}`" in page or f"`[{key}]`" in page or f"`[[{key}]]`" in page
