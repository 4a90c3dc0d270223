"""How a result displays itself: on one line in a terminal, as HTML in a notebook.

`hocket.notebooks` builds the HTML. It is imported only when a notebook displays a result, because it imports
the classes of results, which import this module.
"""

from importlib import import_module

MOST_CHARACTERS = 119
"""The longest line that a result prints."""

_MAX_NAME = 32


class Displayed:
    """A result that notebooks show as a table and a picture."""

    def _repr_html_(self) -> str:
        html: str = import_module("hocket.notebooks").html_of(self)
        return html


def brief(name: str) -> str:
    """`name` in quotes, printable and never long.

    >>> brief("two jobs"), brief("a" * 100)
    ("'two jobs'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'")
    """
    # `repr` escapes what is not printable. The quotes count, and the last one is kept.
    quoted = repr(name)
    return quoted if len(quoted) <= _MAX_NAME + 1 else f"{quoted[: _MAX_NAME - 1]}…{quoted[-1]}"


def counted(number: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "job"), counted(2000, "iteration")
    ('1 job', '2,000 iterations')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def on_one_line(text: str) -> str:
    """`<text>`, cut at `MOST_CHARACTERS` characters.

    >>> on_one_line("Run of 'a'"), len(on_one_line("a" * 200))
    ("<Run of 'a'>", 119)
    """
    return f"<{text}>" if len(text) + 2 <= MOST_CHARACTERS else f"<{text[: MOST_CHARACTERS - 3]}…>"
