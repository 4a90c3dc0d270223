"""Reads the token that a service requires."""

import os
from pathlib import Path

from hocket.errors import InputError

TOKEN_VARIABLE = "HOCKET_TOKEN"
MIN_TOKEN_CHARACTERS = 16
"""Hocket: a token of this many random letters and digits cannot be guessed over a network."""


def read_token(path: Path | None) -> str | None:
    """The token in the file at `path`, or without a path in the environment; None if there is none.

    Raises `InputError` if the file cannot be read, or the token cannot be sent in a header or is too short.
    """
    if path is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        token, where = _content(path), f"--token-file {path}"
    if token is None:
        return None
    # Messages never show the token itself.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(f"{where}: the token must consist of printable ASCII characters without spaces")
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise InputError(
            f"{where}: the token must have at least {MIN_TOKEN_CHARACTERS} characters: got {len(token)}; "
            "`openssl rand -hex 32` generates one"
        )
    return token


def _content(path: Path) -> str:
    try:
        # Editors and `openssl rand` end the file with a line break.
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise InputError(f"--token-file {path}: {reason}") from None
