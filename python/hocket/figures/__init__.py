"""Figures of results: each module has a function from tables or values to a matplotlib Figure."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from hocket.errors import InputError

FORMATS = (".svg", ".png", ".pdf")

# The same figure gives the same bytes.
_UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save(figure: Figure, path: str | Path) -> Path:
    """Writes `figure` to `path` in the format of its suffix, `.svg`, `.png` or `.pdf`; returns the path.

    Raises `InputError` for any other suffix, or if the file cannot be written.
    """
    path = check_format(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Text in an SVG stays text, so readers can select and search it.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hocket"}):
            figure.savefig(path, metadata=_UNDATED.get(path.suffix.lower()))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def check_format(path: str | Path) -> Path:
    """Returns `path` if its suffix is a supported format; call it before the work, not after.

    Raises `InputError` otherwise.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path}: a figure is one of {', '.join(FORMATS)}: got {path.suffix or 'no suffix'!r}"
        )
    return path
