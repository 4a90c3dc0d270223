"""Turns doctests in docstrings into code blocks for the API reference: in Markdown, `>>>` is a quotation."""

import re
from typing import Any

import griffe

# Blank lines between two examples belong to the run; any other blank line ends it.
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*(?:\n\n>>> .*(?:\n(?!$).*)*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """The extension of griffe, which reads the docstrings: fences each run of doctest lines."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fences the doctests of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """`text` with its doctests in fences.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2")
    'One.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
