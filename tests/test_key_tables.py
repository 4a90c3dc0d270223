"""The tables of keys on the pages of plans and traces are those of the schema."""

from collections import Counter
from pathlib import Path

import pytest
from docs.site.keys import PAGES, TABLES, renewed, sections
from pydantic import BaseModel

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_make_docs_writes_it(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == renewed(text)


def declared(table: type[BaseModel], key: str) -> tuple[str, str]:
    """The class that declares `key` of `table`, and the key: others inherit it."""
    name = next(name for name, field in table.model_fields.items() if (field.alias or name) == key)
    return next(part.__name__ for part in table.__mro__ if name in part.__annotations__), key


def test_every_key_stands_in_one_table() -> None:
    shown = Counter(
        declared(TABLES[table], key)
        for page in PAGES
        for table, keys in sections((DOCS / page).read_text(encoding="utf-8"))
        for key in keys
    )
    keys = {
        declared(table, field.alias or name)
        for table in TABLES.values()
        for name, field in table.model_fields.items()
    }
    assert shown == Counter(keys)


def test_a_row_says_what_a_key_takes_and_where_its_default_is_from() -> None:
    text = renewed("<!-- keys of Compat: tolerance loops -->\nold\n<!-- end of keys -->\n")
    assert text.splitlines()[2:6] == [
        "| key | value | meaning | default |",
        "|---|---|---|---|",
        "| `tolerance` | number, 0 to 0.5 | Largest relative change of a period that makes periods fit on "
        "one circle. | `0.01`; Hocket: measured iteration times vary by about 1% |",
        '| `loops` | `"discard"` or `"solve"` | A candidate in which the time-shifts around a loop of links '
        'disagree: `"discard"` it, or `"solve"` the jobs of the loop together. | `"discard"`; NSDI\'24 '
        "Algorithm 2, line 15 |",
    ]


def test_parameters_of_a_congestion_control_have_their_other_names() -> None:
    text = renewed("<!-- keys of Dcqcn: byte_counter -->\n<!-- end of keys -->\n")
    assert "| `B` | `rp_byte_reset` (64 B) | |" in text
