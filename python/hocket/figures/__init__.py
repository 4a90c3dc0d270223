"""Figures of results: each module has a function from tables or values to a matplotlib Figure."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from hocket.errors import InputError

FORMATS = (".svg", ".png", ".pdf")

# Without a date, the same figure gives the same bytes; PNGs have none.
_UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save(figure: Figure, path: str | Path) -> Path:
    """Writes `figure` to `path` in the format of its suffix, `.svg`, `.png` or `.pdf`; returns the path.

    Raises `InputError` for any other suffix, or if the file cannot be written.
    """
    path = check_format(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Text in an SVG stays text, so readers can select and search it. The salt replaces the random ids of
        # elements.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hocket"}):
            figure.savefig(path, metadata=_UNDATED.get(path.suffix.lower()))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def check_format(path: str | Path) -> Path:
    """Returns `path` if its suffix is a supported format, else raises `InputError`.

    Commands call it before they compute anything, so that a mistyped suffix costs no run.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path}: a figure is one of {', '.join(FORMATS)}: got {path.suffix or 'no suffix'!r}"
        )
    return path
