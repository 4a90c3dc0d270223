"""The token that a service asks for, and where it is read from."""

import os
from pathlib import Path

from hocket.errors import InputError

TOKEN_VARIABLE = "HOCKET_TOKEN"
LEAST_TOKEN_CHARACTERS = 16
"""Hocket: of random letters and digits, so many cannot be guessed over a network."""


def read_token(path: Path | None) -> str | None:
    """The token in the file at `path`, else in the environment, else none.

    Raises `InputError` if the file cannot be read, or the token cannot be sent in a header or is too short.
    """
    if path is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        token, where = _content(path), f"--token-file {path}"
    if token is None:
        return None
    # The token itself is shown nowhere.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(f"{where}: a token is printable ASCII without spaces")
    if len(token) < LEAST_TOKEN_CHARACTERS:
        raise InputError(
            f"{where}: a token has at least {LEAST_TOKEN_CHARACTERS} characters: got {len(token)}; "
            "`openssl rand -hex 32` makes one"
        )
    return token


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise InputError(f"--token-file {path}: {reason}") from None
