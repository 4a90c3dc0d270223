"""Reproductions as tables on the terminal, as JSON, and as sections of the pages in docs/validation/."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from rich.markup import escape

from hocket.console import Column, out, print_table
from hocket.figures import save
from hocket_reproduce.targets import TARGETS
from hocket_reproduce.targets.target import Reproduction, Row
from hocket_reproduce.validation_pages import page_of, renew_section

BEGIN = "<!-- results: made by `hocket reproduce --all --write docs/validation.md` -->"
END = "<!-- end of results -->"

PICTURED = ("H2", "H3", "H6", "H7", "C2", "C4", "C9", "C21")
"""Targets whose figure is part of their page: they take seconds, and the figures are small."""

# Half a pixel is invisible, and leaves a quarter of the points of a distribution of 1,000 iterations.
_SIMPLIFIED_PX = 0.5

# Units written without a space; an empty unit needs none either.
_CLOSE_UNITS = ("°", "%", "×", "")


def print_reproduction(reproduction: Reproduction) -> None:
    """Prints the rows with the paper's values beside ours, then the notes."""
    out.print(f"[bold]{escape(reproduction.id)}  {escape(reproduction.title)}[/bold]")
    rows = (
        (
            row.quantity,
            _value(row.paper, row.unit),
            _value(row.ours, row.unit),
            _difference(row),
            row.comment,
        )
        for row in reproduction.rows
    )
    print_table(
        ("quantity", *reproduction.columns, "difference", Column("comment", text=True)),
        rows,
        styles=["yellow" if row.differs else "" for row in reproduction.rows],
    )
    for note in reproduction.notes:
        out.print(f"  {escape(note)}", style="dim")


def as_json(reproductions: Sequence[Reproduction]) -> list[dict[str, Any]]:
    """`reproductions` as JSON; `difference` is relative, `null` if there is none."""
    return [
        {
            "id": each.id,
            "title": each.title,
            "columns": list(each.columns),
            "rows": [
                {
                    "quantity": row.quantity,
                    "paper": row.paper,
                    "ours": row.ours,
                    "unit": row.unit,
                    "difference": row.difference,
                    "comment": row.comment,
                }
                for row in each.rows
            ],
            "notes": list(each.notes),
        }
        for each in reproductions
    ]


def write_validation(overview: Path, reproductions: Sequence[Reproduction]) -> None:
    """Writes `reproductions` between the two markers of the pages behind `overview`, and their figures beside
    them.

    The section of a target that is already there is replaced; others are kept. Raises `InputError` if a page
    cannot be read or written, or lacks a marker.
    """
    for page in dict.fromkeys(page_of(overview, each.id) for each in reproductions):
        new = [each for each in reproductions if page_of(overview, each.id) == page]

        # `new` as a default, so that each page gets its own value and not the loop's last.
        def renewed(results: str, new: Sequence[Reproduction] = new) -> str:
            sections = _sections(results) | {each.id: markdown(each) for each in new}
            ordered = [sections[name] for name in TARGETS if name in sections]
            return "\n".join(["\n", *ordered, ""])

        renew_section(page, BEGIN, END, renewed)
        for each in new:
            if each.id in PICTURED and each.figure is not None:
                with rc_context({"path.simplify_threshold": _SIMPLIFIED_PX}):
                    save(each.figure(), page.with_name(f"{each.id}.svg"))


def _sections(results: str) -> dict[str, str]:
    """The sections between the markers by target, as `markdown` wrote them."""
    _, *sections = f"\n{results.strip()}".split("\n## ")
    return {each.partition(":")[0]: f"## {each.rstrip()}\n" for each in sections}


def markdown(reproduction: Reproduction) -> str:
    """A section with the figure, the rows as a table, then the notes as a list."""
    picture = [f"![{reproduction.title}]({reproduction.id}.svg)", ""]
    lines = [
        f"## {reproduction.id}: {reproduction.title}",
        "",
        *(picture if reproduction.id in PICTURED else ()),
        f"| quantity | {' | '.join(reproduction.columns)} | difference | comment |",
        "|---|---:|---:|---:|---|",
    ]
    for row in reproduction.rows:
        cells = (
            row.quantity,
            _value(row.paper, row.unit),
            _value(row.ours, row.unit),
            _difference(row),
            row.comment,
        )
        # A vertical bar in a text would end its cell.
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    notes = [f"- {note}" for note in reproduction.notes]
    return "\n".join([*lines, *(["", *notes] if notes else []), ""])


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return "–"
    shown = value if isinstance(value, str) else f"{value:.4g}"
    return f"{shown}{'' if unit in _CLOSE_UNITS else ' '}{unit}"


def _difference(row: Row) -> str:
    if row.difference is not None:
        return f"{row.difference:+.1%}"
    if isinstance(row.paper, str) and isinstance(row.ours, str):
        return "differs" if row.differs else "same"
    return "–"
