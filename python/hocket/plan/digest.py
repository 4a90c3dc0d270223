"""A digest of everything in a plan that a run depends on: its keys after defaults, and the contents of the
files that it names.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from hocket.plan.plan import Plan


def digest_of(plan: Plan) -> str:
    """The SHA-256 of `plan` and of the files that it names, as 64 hexadecimal digits."""
    files = [digest for path in plan.files() for digest in _digests(path)]
    content = {"plan": plan.model_dump(mode="json", by_alias=True), "files": files}
    # Keys are sorted, because the order of jobs in a candidate's placement has no effect on a run.
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digests(named: Path) -> list[tuple[str, str]]:
    """The path, relative to `named`, and the SHA-256 of each file in this directory, or of this one file."""
    # A file system lists a directory in an arbitrary order.
    found = sorted(path for path in named.rglob("*") if path.is_file()) if named.is_dir() else [named]
    return [(path.relative_to(named).as_posix(), _digest(path)) for path in found]


def _digest(path: Path) -> str:
    try:
        stat = path.stat()
        return _digest_of_content(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError as error:
        # Running the plan reports the error; the digest only has to differ from that of a readable file.
        return f"cannot be read: {error.strerror}"


@lru_cache(maxsize=10_000)
def _digest_of_content(path: Path, *_stat: int) -> str:
    """The SHA-256 of a file. It is cached, because the combinations of a sweep share files, until the time,
    size or inode of the file changes.
    """
    return hashlib.sha256(path.read_bytes()).hexdigest()
