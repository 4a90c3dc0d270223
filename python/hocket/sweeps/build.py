"""Identifies the build of Hocket, because another build may give other results."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import hocket

_SUFFIXES = (".py", ".so", ".pyd", ".json")


# Cached, because a process keeps running the files that it imported, whatever becomes of them.
@cache
def build() -> str:
    """The SHA-256, in hexadecimal, of Hocket's version and of all files in the package that affect results:
    Python sources, their data and the compiled engines.
    """
    package = Path(hocket.__file__).parent
    digest = hashlib.sha256(version("hocket").encode())
    for path in sorted(path for path in package.rglob("*") if path.suffix in _SUFFIXES):
        # No path contains NUL, and digests have a fixed length: other files cannot give the same bytes.
        digest.update(f"\0{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
