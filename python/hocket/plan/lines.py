"""The lines of keys in a TOML file, for error messages: `tomllib` does not report positions of keys."""

import re
import tomllib
from bisect import bisect_left
from functools import cached_property

from hocket.plan.table_errors import KeyPath

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
# TOML 1.0 allows one or two quotes just before the three that close a multi-line string.
_TEXT = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A number, a date, true or false: any value that is not a string, an array or a table.
_SCALAR = re.compile(r"[^,\]}\n#]+")


class Lines:
    """The lines of the keys in `text`, which is valid TOML."""

    def __init__(self, text: str) -> None:
        # `tomllib` counts lines after the same replacement.
        self._text = text.replace("\r\n", "\n")

    def of(self, path: KeyPath) -> int | None:
        """The line, from 1, of the key at `path`; for a key that is missing, of the table around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        # Most files have no error, and are never scanned.
        return _Scan(self._text).lines


class _Scan:
    """One pass over valid TOML."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._entries: dict[KeyPath, int] = {}
        table: KeyPath = ()
        while self._skip_blank():
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        """Reads `[a.b]` or `[[a.b]]` and returns its path; each `[[a.b]]` begins a new entry of the array."""
        start = self._at
        is_entry = self._take("[") and self._take("[")
        path: KeyPath = ()
        *above, last = self._key()
        for part in above:
            self._note((*path, part), start)
            path = self._latest((*path, part))
        path = (*path, last)
        if is_entry:
            self._entries[path] = self._entries.get(path, 0) + 1
            # An error may concern the array as a whole, such as too many entries, or this entry.
            self._note(path, start)
            path = self._latest(path)
            self._take("]")
        self._take("]")
        self._note(path, start)
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        # TOML 1.0: [a.b] after [[a]] is a table in the last entry of a.
        return (*path, self._entries[path] - 1) if path in self._entries else path

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path, start)
        self._take("=")
        self._value(path)

    def _key(self) -> list[str]:
        """Reads the parts of a dotted key."""
        parts = []
        while True:
            self._skip_blank()
            if bare := _BARE_KEY.match(self._text, self._at):
                self._at = bare.end()
                parts.append(bare[0])
            else:
                quoted = self._take_text()
                # `tomllib` resolves the escapes.
                parts.extend(tomllib.loads(f"{quoted} = 0"))
            if not self._take("."):
                return parts

    def _value(self, path: KeyPath) -> None:
        self._skip_blank()
        if self._take("["):
            number = 0
            while not self._take("]"):
                self._note((*path, number), self._at)
                self._value((*path, number))
                self._take(",")
                number += 1
        elif self._take("{"):
            while not self._take("}"):
                self._pair(path)
                self._take(",")
        elif self._text[self._at] in "\"'":
            self._take_text()
        else:
            scalar = _SCALAR.match(self._text, self._at)
            assert scalar is not None, "the reader found a value here"
            self._at = scalar.end()

    def _take_text(self) -> str:
        text = _TEXT.match(self._text, self._at)
        assert text is not None, "the reader found a text here"
        self._at = text.end()
        return text[0]

    def _take(self, mark: str) -> bool:
        """Whether `mark` comes next; if so, moves past it."""
        self._skip_blank()
        found = self._text.startswith(mark, self._at)
        self._at += found
        return found

    def _skip_blank(self) -> bool:
        """Moves past blanks and comments; returns whether any text is left."""
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None, "the pattern matches the empty string, too"
        self._at = blank.end()
        return self._at < len(self._text)

    def _note(self, path: KeyPath, at: int) -> None:
        # Several headers or dotted keys may mention one table: the first mention counts.
        self.lines.setdefault(path, bisect_left(self._ends, at) + 1)
