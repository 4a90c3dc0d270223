"""Persistent storage of jobs and their slots in one SQLite file."""

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
from hocket.service.job import JobRecord
from hocket.service.models import Registration, Slot

APPLICATION_ID = 0x686F636B
"""`hock`: identifies Hocket's databases in SQLite's header
(https://www.sqlite.org/pragma.html#pragma_application_id)."""

VERSION = 1
"""The version of the tables below."""

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
    """The content of a database."""

    jobs: tuple[JobRecord, ...]
    """In order of serial."""
    serial: int
    """The highest number of a registration or slot ever assigned, including to jobs that are gone."""


class StoreError(RuntimeError):
    """Writing failed; the database is unchanged."""


class Store:
    """The database of a service. A lock keeps other services from opening it at the same time."""

    def __init__(self, path: Path) -> None:
        """Opens the database at `path`, or creates it.

        Raises `InputError` if it is not a database, belongs to another program or a newer Hocket, is damaged,
        not writable, or in use.
        """
        self._path = path
        self._lock = _locked(path)
        try:
            exists = self._check()
            # One connection that stays open: all calls come from one thread.
            self._engine = sql.create_engine(self._url, poolclass=sql.pool.StaticPool)
            sql.event.listen(self._engine, "connect", _configure)
            sql.event.listen(self._engine, "begin", _begin)
            if not exists:
                self._create()
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
        """Closes the database and releases its lock."""
        self._engine.dispose()
        os.close(self._lock)

    def load(self) -> Stored:
        """Reads all jobs. Raises `InputError` for content that `save` cannot have written."""
        with self._readable(), self._engine.connect() as connection:
            rows = connection.execute(sql.select(_JOBS).order_by(_JOBS.c.serial)).all()
            serial = connection.execute(sql.select(sql.func.max(_SERIAL.c.serial))).scalar_one()
        return Stored(
            tuple(self._record(row) for row in rows), _integer(serial or 0, f"{self._path}: serial")
        )

    def save(self, changed: Mapping[str, JobRecord | None], serial: int) -> None:
        """Writes jobs by name, and removes those that are None. Atomic, and on disk when it returns.

        Raises `StoreError` if writing fails.
        """
        written = [_row(record) for record in changed.values() if record is not None]
        try:
            with self._engine.begin() as connection:
                # Deleted and inserted, so that new and changed jobs need not be told apart.
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
        """Whether the database has its tables. Changes nothing, so that a foreign file stays intact."""
        # Without `_configure`: WAL mode is stored in the file. NullPool closes the connection at the end.
        engine = sql.create_engine(self._url, poolclass=sql.pool.NullPool)
        with self._readable(), engine.connect() as connection:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
            # Unlike integrity_check, this does not compare indexes with tables, which takes most of the time.
            damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        # A file without tables may be empty, or one whose creation was interrupted; `_create` completes it.
        if tables and application != APPLICATION_ID:
            raise InputError(f"{self._path}: belongs to another program; choose another --database")
        if version > VERSION:
            raise InputError(
                f"{self._path}: was written by a newer Hocket: its tables have version {version}, "
                f"but this one supports {VERSION}"
            )
        if damage != "ok":
            raise InputError(f"{self._path}: is damaged: {damage}; restore a backup")
        return bool(tables)

    def _create(self) -> None:
        with self._readable(), self._engine.begin() as connection:
            # Tables and header are one transaction, so a process that is killed here leaves an empty file.
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

    def _record(self, row: "sql.Row[tuple[object, ...]]") -> JobRecord:
        where = f"{self._path}: job {row.name!r}"
        try:
            registration = parse_as(Registration, json.loads(row.registration), where, "")
            slot = None if row.slot is None else Slot.model_validate_json(row.slot)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{where}: is damaged: {error}; restore a backup") from None
        serial = _integer(row.serial, f"{where}: serial")
        registered_ns = _integer(row.registered_ns, f"{where}: registered_ns")
        return JobRecord(row.name, serial, registered_ns, registration, row.runs, slot)


def _integer(value: object, where: str) -> int:
    """Checks that `value` is a number: SQLite may store text in a column of numbers."""
    if not isinstance(value, int):
        raise InputError(f"{where}: is damaged: {value!r} is not a number; restore a backup")
    return value


_DELETE = sql.delete(_JOBS).where(_JOBS.c.name == sql.bindparam("old"))


def _row(record: JobRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "serial": record.serial,
        "registered_ns": record.registered_ns,
        "registration": record.registration.model_dump_json(by_alias=True),
        "runs": record.runs,
        "slot": None if record.slot is None else record.slot.model_dump_json(),
    }


def _configure(connection: sqlite3.Connection, _: object) -> None:
    # By default sqlite3 begins no transaction before a CREATE, so `_begin` does.
    connection.isolation_level = None
    # With these, a commit survives a power failure: https://www.sqlite.org/wal.html §2.
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sql.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _locked(path: Path) -> int:
    """An open file that locks the database at `path` until it is closed or the process ends in any way."""
    # Not the database itself: a backup that is restored replaces its file, and SQLite locks it as well.
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
