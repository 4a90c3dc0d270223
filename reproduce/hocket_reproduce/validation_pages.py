"""The pages behind docs/validation.md, whose parts between two markers are written by commands."""

from collections.abc import Callable
from pathlib import Path

from hocket.errors import InputError

ENGINES = "engines.md"
"""The page of comparisons without a paper."""

_PAGES = {"H": "hotnets22.md", "R": "hoti22.md", "C": "nsdi24.md", "B": "rivals.md"}


def page_of(overview: Path, target: str) -> Path:
    """The page with the section of `target`, in the folder beside `overview` with the same name."""
    return overview.with_suffix("") / _PAGES.get(target[0], ENGINES)


def read_page(path: Path) -> str:
    """The text of the page at `path`; raises `InputError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None


def renew_section(path: Path, begin: str, end: str, renewed: Callable[[str], str]) -> None:
    """Replaces the text between `begin` and `end` in the file at `path` by `renewed` of that text.

    Raises `InputError` if the file cannot be read or written, or lacks a marker.
    """
    before, has_begin, rest = read_page(path).partition(begin)
    section, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise InputError(f"{path}: has no results to replace; they stand between {begin!r} and {end!r}")
    try:
        path.write_text(f"{before}{begin}{renewed(section)}{end}{after}", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
