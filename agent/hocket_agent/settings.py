"""The agent's settings, read from a job's environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hocket_agent.errors import InputError

# The names used by torchrun, Slurm and Open MPI, in the order in which they are looked up.
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_RANKS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")


@dataclass(frozen=True)
class Settings:
    """An agent's settings; each corresponds to the environment variable of the same name."""

    service: str | None = None
    job: str | None = None
    # Settings may be logged, the token may not.
    token: str | None = field(default=None, repr=False)
    rank: int = 0
    ranks: int = 1
    dry_run: bool = False
    log: str | None = None
    """With `{rank}` replaced."""
    communication_after_ms: float | None = None
    congestion: str | None = None
    """The congestion control for the job's TCP connections."""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings in a job's environment; an empty variable counts as not set.

    Raises `InputError` for an invalid value.

    >>> settings_of({"HOCKET_LOG": "agent-{rank}.jsonl", "RANK": "3", "WORLD_SIZE": "4"}).log
    'agent-3.jsonl'
    """
    rank, ranks = _first_integer(environment, _RANK, 0), _first_integer(environment, _RANKS, 1)
    log = environment.get("HOCKET_LOG") or None
    return Settings(
        service=environment.get("HOCKET_SERVICE") or None,
        job=environment.get("HOCKET_JOB") or None,
        token=environment.get("HOCKET_TOKEN") or None,
        rank=rank,
        ranks=ranks,
        dry_run=_flag(environment, "HOCKET_DRY_RUN"),
        log=None if log is None else log.replace("{rank}", str(rank)),
        communication_after_ms=_milliseconds(environment, "HOCKET_COMMUNICATION_AFTER_MS"),
        congestion=environment.get("HOCKET_CONGESTION") or None,
    )


def _first_integer(environment: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        text = environment.get(name)
        if text:
            # int() would also accept signs, blanks, underscores and digits of other scripts.
            if not (text.isascii() and text.isdigit()):
                raise InputError(f"{name}: must be a whole number, at least 0: got {text!r}")
            return int(text)
    return default


def _flag(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name) or "0"
    if text not in ("0", "1"):
        raise InputError(f"{name}: must be 0 or 1: got {text!r}")
    return text == "1"


def _milliseconds(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{name}: must be a number of milliseconds, at least 0: got {text!r}")
    return value
