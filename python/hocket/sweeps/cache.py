"""Caches the answers of runs on disk, by plan and build, so that no run is repeated.

An entry is one file, written atomically and checked when it is read: a damaged entry counts as missing.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa

from hocket.errors import InputError
from hocket.plan.digest import digest_of
from hocket.sweeps.task import Answer, Task

_DIGEST_BYTES = hashlib.sha256().digest_size
_TOTALS = b"hocket"


def default_directory() -> Path:
    """The default directory of the cache: `$XDG_CACHE_HOME/hocket/sweep`, or `~/.cache/hocket/sweep`."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # XDG Base Directory Specification: relative paths are invalid and must be ignored.
    return (named if named.is_absolute() else Path.home() / ".cache") / "hocket" / "sweep"


def key_of(task: Task) -> str:
    """A digest of everything that the answer of `task` depends on, as 64 hexadecimal digits: the plan after
    defaults, the contents of the files that it names, the engine, and the build.
    """
    question = {"plan": digest_of(task.plan), "engine": task.engine, "build": task.build}
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


class Cache:
    """Answers in a directory, by key."""

    def __init__(self, directory: Path) -> None:
        """Creates `directory` if it is missing. Raises `InputError` if it cannot be written."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Permissions do not show whether the file system is read-only or full.
            tempfile.TemporaryFile(dir=directory).close()
        except OSError as error:
            raise InputError(f"{directory}: cannot be used as the cache: {error.strerror or error}") from None

    def find(self, key: str) -> Answer | None:
        """The answer under `key`; `None` if there is none, or if its file is damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        # The digest covers the key, so that an entry that was moved to another key counts as damaged.
        digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(key.encode() + payload).digest() != digest:
            return None
        table = pa.ipc.open_stream(payload).read_all()
        kept = json.loads(table.schema.metadata[_TOTALS])
        jobs = pl.from_arrow(table.replace_schema_metadata())
        assert isinstance(jobs, pl.DataFrame), "a table is a frame"
        return Answer(jobs, kept["totals"], kept["run_s"])

    def keep(self, key: str, answer: Answer) -> None:
        """Writes `answer` under `key`, replacing an existing one; readers see either the old or the new one.

        Raises `OSError` if it cannot be written.
        """
        kept = json.dumps({"totals": answer.totals, "run_s": answer.run_s})
        table = answer.jobs.to_arrow(compat_level=pl.CompatLevel.oldest())
        table = table.replace_schema_metadata({_TOTALS: kept})
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        payload = stream.getvalue().to_pybytes()
        digest = hashlib.sha256(key.encode() + payload).digest()
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        # Renaming a file within a directory is atomic, writing it is not.
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(digest + payload)
                file.close()
                os.replace(file.name, path)
            # Ctrl-C must leave no temporary file behind either.
            except BaseException:
                os.unlink(file.name)
                raise

    def _path(self, key: str) -> Path:
        # In one of 256 directories, so that none gets very large.
        return self.directory / key[:2] / key
