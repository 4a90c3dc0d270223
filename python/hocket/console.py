"""Output of all commands: consoles, tables, progress bars, numbers as text, and exit codes."""

import json
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from rich.progress import Progress

# Exit codes. Click also exits with 2 if it refuses an argument; 70 is EX_SOFTWARE of sysexits.h; 130 is what
# shells report for a program that SIGINT (2) ended: 128 + 2.
FAILED = 1
INPUT_ERROR = 2
DEFECT = 70
INTERRUPTED = 130


class _Output(Console):
    """Standard output of the commands."""

    wide = False
    """Whether tables may be wider than the terminal: `--wide`."""

    @property
    def room(self) -> int | None:
        """The limit on the width of a table: the terminal's width, or `None` in a file or a pipe."""
        return self.width if self.is_terminal and not self.wide else None


# `soft_wrap`: in a file or a pipe, rich would wrap lines at 80 characters. `highlight` would colour numbers.
out = _Output(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_GAP = 2
# Narrower text is hard to read, so columns are hidden before text is wrapped further.
_NARROW_TEXT = 24


@dataclass(frozen=True)
class Column:
    """A column of a table. In a title of two lines, the first names a group of columns."""

    title: str
    spare: int = 0
    """If the terminal is too narrow, columns with the highest number are hidden first, equal ones together;
    columns with 0 are never hidden.
    """
    text: bool = False
    """Whether the cells are text, which is left-aligned and may wrap; numbers never wrap."""

    @property
    def name(self) -> str:
        """The title on one line."""
        return " ".join(self.title.split("\n"))


def print_json(value: Any) -> None:
    """Prints `value` as indented JSON, never wrapped."""
    # Not through rich, which would take brackets for markup.
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def progress_bar() -> "Progress":
    """A progress bar on stderr, removed when it ends."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def message_on_ctrl_c(kept: str) -> Iterator[None]:
    """Within it, the first Ctrl-C immediately prints what will be kept (`kept`) and raises
    `KeyboardInterrupt`; a second one ends the program without keeping it. Nothing changes where Ctrl-C is
    ignored, as in the background of a shell.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return

    def print_and_interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        err.print(f"interrupted: {kept}; Ctrl-C again ends without it")
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, print_and_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def print_table(
    header: Iterable[str | Column],
    rows: Iterable[Iterable[str]],
    left: int = 1,
    styles: Sequence[str] = (),
) -> None:
    """Prints a plain table; unless a `Column` says otherwise, the first `left` columns are text, the others
    numbers.

    No cell is ever cut. If the table is wider than the terminal, text wraps between words; if that is not
    enough, spare columns are hidden, and a line below the table names them; as a last resort, each row
    becomes a list with a line for each column. `styles` has one of rich's styles for each row.
    """
    columns = [
        each if isinstance(each, Column) else Column(each, text=number < left)
        for number, each in enumerate(header)
    ]
    cells = [list(row) for row in rows]
    shown, widths = _fitted(columns, cells, out.room)
    if not shown:
        _print_stacked(columns, cells, styles)
        return
    for line in _header_lines([columns[number] for number in shown], widths):
        out.print(f"[bold]{escape(line)}[/bold]")
    for place, row in enumerate(cells):
        for line in _lines([row[number] for number in shown], [columns[number] for number in shown], widths):
            out.print(escape(line), style=styles[place] if styles else None)
    hidden = [each.name for number, each in enumerate(columns) if number not in shown]
    if hidden:
        noun = "column" if len(hidden) == 1 else "columns"
        out.print(f"{len(hidden)} {noun} hidden: {escape(', '.join(hidden))}; --wide shows all", style="dim")


def _fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int | None
) -> tuple[list[int], list[int]]:
    """The indices of the columns to show, and their widths; both empty if no selection fits."""
    # `cell_len` and not `len` everywhere: some characters take two columns of a terminal, some none.
    natural = [
        max(cell_len(line) for line in (*title, *(row[number] for row in cells)))
        for number, title in enumerate(_titles(columns))
    ]
    if room is None:
        return [*range(len(columns))], natural
    # The first column identifies the row, so it never wraps.
    least = [
        min(whole, _least_text([column.name, *(row[number] for row in cells)]))
        if column.text and number
        else whole
        for number, (column, whole) in enumerate(zip(columns, natural, strict=True))
    ]
    for spare in sorted({0, *(column.spare for column in columns)}, reverse=True):
        shown = [number for number, column in enumerate(columns) if column.spare <= spare]
        gaps = _GAP * (len(shown) - 1)
        if sum(least[number] for number in shown) + gaps > room:
            continue
        widths = [natural[number] for number in shown]
        # Shrinking the widest column first leaves the columns about equally wide.
        while sum(widths) + gaps > room:
            can_shrink = [place for place, number in enumerate(shown) if widths[place] > least[number]]
            widths[max(can_shrink, key=widths.__getitem__)] -= 1
        return shown, widths
    return [], []


def _least_text(texts: Iterable[str]) -> int:
    """The least width of a column of `texts` in which no word is broken and wrapped text stays readable."""
    texts = list(texts)
    longest = max(cell_len(word) for text in texts for word in text.split() or [""])
    return max(longest, min(_NARROW_TEXT, max(map(cell_len, texts))))


def _titles(columns: Sequence[Column]) -> list[list[str]]:
    """The lines of each title; the name of a group is only above its first column."""
    groups = [column.title.rpartition("\n")[0] for column in columns]
    repeated = [group == above for group, above in zip(groups, ["", *groups[:-1]], strict=True)]
    return [
        column.title.split("\n")[repeats and bool(group) :]
        for column, group, repeats in zip(columns, groups, repeated, strict=True)
    ]


def _header_lines(columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    titles = [
        textwrap.wrap(title[0], width) if len(title) == 1 and cell_len(title[0]) > width else title
        for title, width in zip(_titles(columns), widths, strict=True)
    ]
    height = max(map(len, titles))
    for number in range(height):
        # Titles are aligned at the bottom, next to the cells.
        line = [[*[""] * (height - len(title)), *title][number] for title in titles]
        yield _joined(line, columns, widths)


def _lines(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    """A row on as many lines as its longest text needs."""
    # A name that is split at a hyphen could not be searched for or copied.
    wrapped = [
        textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)
        if column.text and cell_len(cell) > width
        else [cell]
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    for number in range(max(map(len, wrapped))):
        yield _joined([cell[number] if number < len(cell) else "" for cell in wrapped], columns, widths)


def _joined(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        blank = " " * (width - cell_len(cell))
        padded.append(cell + blank if column.text else blank + cell)
    return (" " * _GAP).join(padded).rstrip()


def _print_stacked(columns: Sequence[Column], cells: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Prints each row as a list under its first cell; an empty first cell repeats the one above."""
    width = max(cell_len(column.name) for column in columns[1:])
    title = ""
    for place, row in enumerate(cells):
        style = styles[place] if styles else None
        title = row[0] or title
        out.print(f"[bold]{escape(title)}[/bold]", style=style)
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                blank = " " * (width - cell_len(column.name))
                out.print(escape(f"  {column.name}{blank}  {cell}"), style=style)


def print_warnings(warnings: Iterable[str]) -> None:
    """Prints each warning on a line of its own on stderr."""
    for warning in warnings:
        err.print(f"[yellow]warning:[/yellow] {escape(warning)}")


def print_ignored(ignored: Iterable[tuple[str, str]]) -> None:
    """Prints keys that have no effect; those with the same reason share a line."""
    reasons: dict[str, list[str]] = {}
    for key, why in ignored:
        reasons.setdefault(why, []).append(key)
    if reasons:
        out.print("without effect:")
    for why, keys in reasons.items():
        out.print(f"  {escape(', '.join(keys))}: {escape(why)}", style="dim")


def count(number: int | None) -> str:
    """A count, or a dash for none.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    return "–" if number is None else f"{number:,}"


def milliseconds(seconds: float | None, decimals: int = 3) -> str:
    """Seconds in milliseconds, or a dash for none.

    >>> milliseconds(1.2345678), milliseconds(0.18, decimals=2)
    ('1,234.568', '180.00')
    """
    return "–" if seconds is None else f"{seconds * 1e3:,.{decimals}f}"


def microseconds(seconds: float | None) -> str:
    """Seconds in microseconds with two decimals, or a dash.

    >>> microseconds(1.23456e-3)
    '1,234.56'
    """
    return "–" if seconds is None else f"{seconds * 1e6:,.2f}"


def gigabytes_per_s(rate_bps: float | None) -> str:
    """Bits per second in gigabytes per second with two decimals, or a dash.

    >>> gigabytes_per_s(200e9)
    '25.00'
    """
    return "–" if rate_bps is None else f"{rate_bps / 8e9:,.2f}"


def percent(part: float | None, whole: float | None) -> str:
    """A share of a whole with one decimal, or a dash.

    >>> percent(1.0, 8.0), percent(0.0, 0.0)
    ('12.5', '–')
    """
    return "–" if part is None or not whole else f"{100 * part / whole:.1f}"


def ratio(value: float | None) -> str:
    """A ratio with three decimals, or a dash.

    >>> ratio(0.98765)
    '0.988'
    """
    return "–" if value is None else f"{value:.3f}"
