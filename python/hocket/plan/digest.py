"""What a run depends on of its plan, in one value: the keys after defaults, and what is in the files that it
names.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from hocket.plan.plan import Plan


def digest_of(plan: Plan) -> str:
    """The SHA-256 of `plan` and of the files that it names, as 64 hexadecimal digits."""
    files = [digest for path in plan.files() for digest in _digests(path)]
    asked = {"plan": plan.model_dump(mode="json", by_alias=True), "files": files}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _digests(named: Path) -> list[tuple[str, str]]:
    """Each file at or below `named` by its path from there, with the SHA-256 of what is in it."""
    found = sorted(path for path in named.rglob("*") if path.is_file()) if named.is_dir() else [named]
    return [(path.relative_to(named).as_posix(), _digest(path)) for path in found]


def _digest(path: Path) -> str:
    try:
        about = path.stat()
        return _digest_of_content(path, about.st_mtime_ns, about.st_size, about.st_ino)
    except OSError as error:
        # Whoever runs the plan refuses it.
        return f"cannot be read: {error.strerror}"


@lru_cache(maxsize=10_000)
def _digest_of_content(path: Path, *_about: int) -> str:
    """Read once, and again when something about the file has changed: combinations share their files."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
