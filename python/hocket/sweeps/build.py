"""Which build of Hocket this is: answers of another one are not this one's."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import hocket

_COMPUTES = (".py", ".so", ".pyd", ".json")


@cache
def build() -> str:
    """The SHA-256, in hexadecimal, of Hocket's version and of everything in the package that computes: Python
    sources, their data and the compiled engines.
    """
    package = Path(hocket.__file__).parent
    digest = hashlib.sha256(version("hocket").encode())
    for path in sorted(path for path in package.rglob("*") if path.suffix in _COMPUTES):
        digest.update(f"\0{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
