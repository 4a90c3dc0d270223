"""Microsoft's Philly (ATC'19): `cluster_job_log`, a JSON list of jobs with the attempts to run each."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from hocket.cluster.importers.records import Record, clock_ps
from hocket.errors import InputError
from hocket.units import shown

_NO_TIME = (None, "", "None")


def read(path: Path) -> Iterator[Record]:
    """The jobs in the file; failed ones are refused, those killed by their users are not: they used GPUs.

    A job has the GPUs of its first attempt, as in the authors' notebook, and the total run time of all its
    attempts, without the waits between them.
    """
    for number, job in enumerate(_list(_content(path), f"{path}: the file")):
        yield _record(_table(job, f"{path}: [{number}]"), f"{path}: [{number}]")


def _record(job: Mapping[str, object], where: str) -> Record:
    name = _text(job, "jobid", where)
    submitted_ps = _time(job, "submitted_time", where)
    attempts = [
        _table(attempt, f"{where}.attempts[{number}]")
        for number, attempt in enumerate(_list(job.get("attempts"), f"{where}.attempts"))
    ]
    spans_ps = [_span(attempt, f"{where}.attempts[{number}]") for number, attempt in enumerate(attempts)]
    if submitted_ps is None or not attempts or None in spans_ps:
        return Record(name, submitted_ps, refused="did not start" if not attempts else "has no times")
    return Record(
        name=name,
        submitted_ps=submitted_ps,
        gpus=_gpus(attempts[0], f"{where}.attempts[0]"),
        run_time_ps=sum(span for span in spans_ps if span is not None),
        refused="failed" if _text(job, "status", where) == "Failed" else None,
    )


def _span(attempt: Mapping[str, object], where: str) -> int | None:
    start_ps, end_ps = _time(attempt, "start_time", where), _time(attempt, "end_time", where)
    return None if start_ps is None or end_ps is None else max(end_ps - start_ps, 0)


def _gpus(attempt: Mapping[str, object], where: str) -> int:
    servers = _list(attempt.get("detail"), f"{where}.detail")
    return sum(
        len(_list(_table(server, f"{where}.detail[{number}]").get("gpus"), f"{where}.detail[{number}].gpus"))
        for number, server in enumerate(servers)
    )


def _time(table: Mapping[str, object], key: str, where: str) -> int | None:
    value = table.get(key)
    if value in _NO_TIME:
        return None
    try:
        return clock_ps(value if isinstance(value, str) else "")
    except ValueError:
        raise InputError(
            f"{where}.{key}: must be a time such as 2017-10-07 01:12:09: got {shown(value)}"
        ) from None


def _text(table: Mapping[str, object], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise InputError(f"{where}.{key}: must be text: got {shown(value)}")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"{where}: must be a list: got {shown(value)}")
    return value


def _table(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a table: got {shown(value)}")
    return value


def _content(path: Path) -> object:
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: is not valid JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: byte {error.start}") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be a list of jobs") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        # Python refuses to parse integers of thousands of digits.
        raise InputError(f"{path}: is not valid JSON: {error}") from None
