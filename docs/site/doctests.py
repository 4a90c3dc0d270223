"""Doctests of docstrings as code blocks, for the API reference: Markdown takes `>>>` for a quotation."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*(?:\n\n>>> .*(?:\n(?!$).*)*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences each run of doctest lines."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """`text` with its doctests in fences.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2")
    'One.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
