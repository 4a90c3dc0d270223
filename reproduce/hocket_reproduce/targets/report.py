"""Reproductions as a table on the terminal, as JSON, and as the results table of docs/validation.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from hocket.console import Column, out, print_table
from hocket_reproduce.sections import renew_section
from hocket_reproduce.targets import TARGETS
from hocket_reproduce.targets.target import Reproduction, Row

BEGIN = "<!-- results: made by `hocket reproduce --all --write docs/validation.md` -->"
END = "<!-- end of results -->"

# Written without a space; so is no unit at all.
_CLOSE_UNITS = ("°", "%", "×", "")


def print_reproduction(reproduction: Reproduction) -> None:
    """Prints the rows with the paper's values beside ours, and what was assumed."""
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
    """The same rows as JSON takes them; `difference` is relative, `null` where there is none."""
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


def write_validation(path: str | Path, reproductions: Sequence[Reproduction]) -> None:
    """Puts `reproductions` into the results of the Markdown file at `path`, between their two markers.

    A target that stands there already is replaced, others stay. Raises `InputError` if the file cannot be
    read or written, or lacks a marker.
    """

    def renewed(results: str) -> str:
        sections = _sections(results) | {each.id: markdown(each) for each in reproductions}
        ordered = [sections[name] for name in TARGETS if name in sections]
        return "\n".join(["\n", *ordered, ""])

    renew_section(path, BEGIN, END, renewed)


def _sections(results: str) -> dict[str, str]:
    """The sections between the markers by target, as `markdown` wrote them."""
    _, *sections = f"\n{results.strip()}".split("\n### ")
    return {each.partition(":")[0]: f"### {each.rstrip()}\n" for each in sections}


def markdown(reproduction: Reproduction) -> str:
    """A section with the rows as a table, then the notes as a list."""
    lines = [
        f"### {reproduction.id}: {reproduction.title}",
        "",
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
