"""Records the testbeds of this machine: a file for each, written before anything is created, so that
everything can be removed even if a command is killed.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hocket.errors import InputError

# hier(7): files in /run last until the machine restarts, like namespaces.
DIRECTORY = Path("/run/hocket/testbed")


@dataclass(frozen=True)
class State:
    """A testbed that is complete, or was being created."""

    name: str
    made: bool
    """Whether it is complete."""
    namespaces: tuple[str, ...]
    """The namespaces that belong to it."""
    layout: str
    """The fingerprint of its layout: equal for plans with the same hosts and links."""


def find(name: str) -> State | None:
    """The testbed called `name`, or None if it does not exist.

    Raises `InputError` if its file cannot be read.
    """
    path = _path(name)
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        return State(**{**written, "namespaces": tuple(written["namespaces"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe a testbed: {error}") from None


def all_names() -> list[str]:
    """The names of all testbeds, sorted."""
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def keep(state: State) -> None:
    """Records `state`, replacing any record of the same name.

    Raises `InputError` if it cannot be written.
    """
    path = _path(state.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # rename(2) is atomic, so a process that is killed here leaves no half-written record.
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def forget(name: str) -> None:
    """Removes the files of testbed `name`, which must be held."""
    shutil.rmtree(_run_folder(name), ignore_errors=True)
    for suffix in (".json", ".lock"):
        _path(name).with_suffix(suffix).unlink(missing_ok=True)


@contextmanager
def held(name: str) -> Iterator[None]:
    """Context manager in which no other process creates, uses or removes testbed `name`.

    Raises `InputError` if one already does.
    """
    path = _path(name).with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    try:
        try:
            # flock(2): the kernel releases the lock when its process ends, even if killed.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(name) from None
        if not _is_at(path, descriptor):
            # The previous holder has deleted the file with the testbed, and another process may create a new
            # one.
            raise _in_use(name)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def run_folder(name: str) -> Iterator[Path]:
    """Context manager with an empty directory for the files of a run on testbed `name`, which must be held.

    If a run is killed, the next one or `forget` removes its files. Raises `InputError` if the directory
    cannot be created.
    """
    folder = _run_folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # It will contain the service's token.
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_folder(name: str) -> Path:
    return _path(name).with_suffix(".run")


def _in_use(name: str) -> InputError:
    return InputError(f"testbed {name!r} is in use by another process; wait until it ends")


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _path(name: str) -> Path:
    return DIRECTORY / f"{name}.json"
