"""What outlives the service's process: jobs and their slots, in one SQLite file."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import sqlalchemy as sql
from sqlalchemy.exc import DatabaseError, OperationalError

from hocket.errors import InputError
from hocket.plan.reading import parse_as
from hocket.service.job import Kept
from hocket.service.models import Registration, Slot

APPLICATION_ID = 0x686F636B
"""`hock`: the field of SQLite's header that says whose a database is
(https://www.sqlite.org/pragma.html#pragma_application_id)."""

VERSION = 1
"""Of the tables below."""

_METADATA = sql.MetaData()
_JOBS = sql.Table(
    "jobs",
    _METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("serial", sql.BigInteger, nullable=False),
    sql.Column("registered_ns", sql.BigInteger, nullable=False),
    sql.Column("registration", sql.Text, nullable=False),
    sql.Column("runs", sql.Boolean, nullable=False),
    sql.Column("slot", sql.Text),
)
_SERIAL = sql.Table("serial", _METADATA, sql.Column("serial", sql.BigInteger, nullable=False))


@dataclass(frozen=True)
class Stored:
    """What a database holds."""

    jobs: tuple[Kept, ...]
    """By serial."""
    serial: int
    """The highest number of a registration or slot that was given out, also to jobs that are gone."""


class StoreError(RuntimeError):
    """What was to be kept could not be; the database is as it was."""


class Store:
    """The database of one service, which no other one may have open at the same time."""

    def __init__(self, path: Path) -> None:
        """Opens the database at `path`, or makes it.

        Raises `InputError` if it cannot be used: not a database, of another program or of a newer Hocket,
        damaged, not writable, or in use.
        """
        self._path = path
        self._lock = _locked(path)
        try:
            made = self._check()
            self._engine = sql.create_engine(self._url, poolclass=sql.pool.StaticPool)
            sql.event.listen(self._engine, "connect", _configure)
            sql.event.listen(self._engine, "begin", _begin)
            if not made:
                self._make()
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets others open it."""
        self._engine.dispose()
        os.close(self._lock)

    def load(self) -> Stored:
        """What was saved. Raises `InputError` for what cannot have been written by `save`."""
        with self._readable(), self._engine.connect() as connection:
            rows = connection.execute(sql.select(_JOBS).order_by(_JOBS.c.serial)).all()
            serial = connection.execute(sql.select(sql.func.max(_SERIAL.c.serial))).scalar_one()
        return Stored(tuple(self._kept(row) for row in rows), _whole(serial or 0, f"{self._path}: serial"))

    def save(self, changed: Mapping[str, Kept | None], serial: int) -> None:
        """Writes jobs by name, and removes those that are none; on disk when it returns, all or nothing.

        Raises `StoreError` if the disk refuses.
        """
        written = [_row(kept) for kept in changed.values() if kept is not None]
        try:
            with self._engine.begin() as connection:
                connection.execute(_DELETE, [{"old": name} for name in changed])
                if written:
                    connection.execute(sql.insert(_JOBS), written)
                connection.execute(sql.delete(_SERIAL))
                connection.execute(sql.insert(_SERIAL), {"serial": serial})
        except DatabaseError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.orig}") from None

    @property
    def _url(self) -> str:
        return f"sqlite:///{self._path}"

    def _check(self) -> bool:
        """Whether the database has its tables; changes nothing."""
        engine = sql.create_engine(self._url, poolclass=sql.pool.NullPool)
        with self._readable(), engine.connect() as connection:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
            damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if tables and application != APPLICATION_ID:
            raise InputError(f"{self._path}: is a database of another program")
        if version > VERSION:
            raise InputError(
                f"{self._path}: was written by a newer Hocket: its tables are of version {version}, "
                f"and this one knows {VERSION}"
            )
        if damage != "ok":
            raise InputError(f"{self._path}: is damaged: {damage}; put a backup in its place")
        return bool(tables)

    def _make(self) -> None:
        with self._readable(), self._engine.begin() as connection:
            # Tables and header come together: a process that is killed here leaves an empty file.
            _METADATA.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            wrong = "cannot be opened" if isinstance(error, OperationalError) else "is not a usable database"
            raise InputError(f"{self._path}: {wrong}: {error.orig}") from None

    def _kept(self, row: "sql.Row[tuple[object, ...]]") -> Kept:
        where = f"{self._path}: job {row.name!r}"
        try:
            registration = parse_as(Registration, json.loads(row.registration), where, "")
            slot = None if row.slot is None else Slot.model_validate_json(row.slot)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{where}: is damaged: {error}; put a backup in its place") from None
        serial = _whole(row.serial, f"{where}: serial")
        registered_ns = _whole(row.registered_ns, f"{where}: registered_ns")
        return Kept(row.name, serial, registered_ns, registration, row.runs, slot)


def _whole(value: object, where: str) -> int:
    """`value`, which SQLite keeps as text, too, in a column of numbers."""
    if not isinstance(value, int):
        raise InputError(f"{where}: is damaged: {value!r} is no number; put a backup in its place")
    return value


_DELETE = sql.delete(_JOBS).where(_JOBS.c.name == sql.bindparam("old"))


def _row(kept: Kept) -> dict[str, object]:
    return {
        "name": kept.name,
        "serial": kept.serial,
        "registered_ns": kept.registered_ns,
        "registration": kept.registration.model_dump_json(by_alias=True),
        "runs": kept.runs,
        "slot": None if kept.slot is None else kept.slot.model_dump_json(),
    }


def _configure(connection: sqlite3.Connection, _: object) -> None:
    # Left to itself sqlite3 begins no transaction before a CREATE; `_begin` does.
    connection.isolation_level = None
    # A write is on disk when it returns, also if power fails: https://www.sqlite.org/wal.html §2.
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sql.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _locked(path: Path) -> int:
    """An open file that locks the database at `path` for this process until it is closed, however it ends."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {beside}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InputError(f"{path}: is in use by another service") from None
    return lock
