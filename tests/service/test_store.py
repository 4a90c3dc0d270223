"""The content of a database, and files that are rejected."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.service.conftest import registered

from hocket.errors import InputError
from hocket.plan.reading import parse_as
from hocket.service.job import JobRecord
from hocket.service.models import Registration, Slot
from hocket.service.store import Store

SLOT = Slot(version=3, origin_ns=1, period_ns=180_000_000, iteration=7, tolerance_ns=9_000_000)


def record(name: str, serial: int = 1, slot: Slot | None = None) -> JobRecord:
    registration = parse_as(Registration, registered(), "test", "")
    return JobRecord(name, serial, 5, registration, runs=slot is not None, slot=slot)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with job `a`, which has a slot."""
    path = tmp_path / "hocket.sqlite"
    with Store(path) as store:
        store.save({"a": record("a", slot=SLOT)}, serial=3)
    return path


def test_saved_jobs_are_loaded(database: Path) -> None:
    with Store(database) as store:
        store.save({"b": record("b", serial=4)}, serial=4)
        store.save({"a": None, "c": record("c", serial=5)}, serial=9)

    with Store(database) as store:
        stored = store.load()

    assert stored.jobs == (record("b", serial=4), record("c", serial=5))
    assert stored.serial == 9


def test_a_slot_is_loaded_with_its_job(database: Path) -> None:
    with Store(database) as store:
        assert store.load().jobs == (record("a", slot=SLOT),)


def test_a_backup_of_an_open_database_is_usable(database: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.sqlite"
    with Store(database) as store:
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        store.save({"a": None}, serial=3)

    with Store(backup) as store:
        assert [job.name for job in store.load().jobs] == ["a"]


def test_two_services_do_not_share_a_database(database: Path) -> None:
    with Store(database), pytest.raises(InputError, match="is in use by another service"):
        Store(database)
    Store(database).close()


def edit(path: Path, statement: str) -> None:
    """Edits the database like another program, and closes it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def newer(path: Path) -> None:
    edit(path, "PRAGMA user_version = 2")


def of_another_program(path: Path) -> None:
    path.unlink()
    edit(path, "CREATE TABLE jobs (name TEXT)")


def no_database(path: Path) -> None:
    path.write_bytes(b"a shopping list\n" * 1_000)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6_000])


def overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def with_a_broken_job(path: Path) -> None:
    edit(path, "UPDATE jobs SET registration = '{\"profile\": 3}'")


def with_a_broken_slot(path: Path) -> None:
    edit(path, "UPDATE jobs SET slot = '{'")


def with_text_for_a_number(path: Path) -> None:
    edit(path, "UPDATE jobs SET serial = 'first'")


def with_a_slot_of_no_length(path: Path) -> None:
    edit(path, "UPDATE jobs SET slot = replace(slot, '180000000', '0')")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (newer, "was written by a newer Hocket: its tables have version 2, but this one supports 1"),
        (of_another_program, "belongs to another program"),
        (no_database, "is not a usable database: file is not a database"),
        (cut_short, "is not a usable database: database disk image is malformed"),
        (overwritten, "is "),
        (a_directory, "cannot be opened: unable to open database file"),
        (with_a_broken_job, "job 'a': profile: must be a table: got 3"),
        (with_a_broken_slot, "job 'a': is damaged"),
        (with_text_for_a_number, "job 'a': serial: is damaged: 'first' is not a number"),
        (with_a_slot_of_no_length, "job 'a': is damaged: 1 validation error for Slot"),
    ],
)
def test_an_unusable_file_is_rejected_by_name_and_left_unchanged(
    database: Path, damage: Callable[[Path], None], reason: str
) -> None:
    damage(database)
    before = database.read_bytes() if database.is_file() else None

    with pytest.raises(InputError) as refused, Store(database) as store:
        store.load()

    assert str(refused.value).startswith(f"{database}: {reason}")
    assert before is None or database.read_bytes() == before


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        Store(tmp_path / "nowhere" / "hocket.sqlite")


def test_a_database_can_be_moved(database: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.sqlite"
    shutil.copy(database, elsewhere)

    with Store(elsewhere) as store:
        assert store.load().serial == 3
