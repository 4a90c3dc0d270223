"""How a result shows itself: on one line in a terminal, as HTML in a notebook.

What the HTML holds is left to `hocket.notebooks`, which is loaded when a notebook asks for it: it draws, and
needs the results themselves.
"""

from importlib import import_module

MOST_CHARACTERS = 119
"""Of a result on one line."""

_MOST_OF_A_NAME = 32


class Displayed:
    """A result that a notebook shows with its table and its picture."""

    def _repr_html_(self) -> str:
        html: str = import_module("hocket.notebooks").html_of(self)
        return html


def brief(name: str) -> str:
    """`name` in quotes, printable and never long.

    >>> brief("two jobs"), brief("a" * 100)
    ("'two jobs'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'")
    """
    quoted = repr(name)
    return quoted if len(quoted) <= _MOST_OF_A_NAME + 1 else f"{quoted[: _MOST_OF_A_NAME - 1]}…{quoted[-1]}"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "job"), counted(2000, "iteration")
    ('1 job', '2,000 iterations')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def on_one_line(text: str) -> str:
    """`<text>`, cut where it is longer than `MOST_CHARACTERS`.

    >>> on_one_line("Run of 'a'"), len(on_one_line("a" * 200))
    ("<Run of 'a'>", 119)
    """
    return f"<{text}>" if len(text) + 2 <= MOST_CHARACTERS else f"<{text[: MOST_CHARACTERS - 3]}…>"
