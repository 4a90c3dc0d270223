"""The protocol between agent and service, version 1: reports as JSON, and answers that are validated before
any iteration is delayed by them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from hocket_agent.offset import Exchange
from hocket_agent.slots import Slot

LONGEST_ANSWER = 64 * 1024
"""Bytes. Hocket: an answer has a few hundred."""
LONGEST_REASON = 1_000
"""Characters, in either direction."""
# Hocket: iterations of the largest jobs take a minute or so.
_LONGEST_PERIOD_NS = 3_600_000_000_000
# The largest signed 64-bit number: as Unix time in ns, the year 2262.
_LARGEST = 2**63 - 1


class WrongAnswerError(ValueError):
    """An invalid answer; `kind` is the same each time for the same defect, so that it is logged once."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True)
class Report:
    """A rank's iterations since its last report; names and units are those of the service's API."""

    rank: int
    ranks: int
    sent_ns: int
    iteration: int
    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    communication_ns: int | None
    deviation_ns: int | None
    adjustments: int
    clock_offset_ns: int | None
    clock_uncertainty_ns: int | None
    dry_run: bool
    applied: int | None
    reason: str

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class Reply(NamedTuple):
    """A valid answer to a report."""

    slot: Slot | None
    reason: str
    exchange: Exchange


def parse_reply(body: bytes, sent_ns: int, received_ns: int) -> Reply:
    """Parses the answer to a report; `sent_ns` and `received_ns` are times on our monotonic clock.

    Raises `WrongAnswerError` if it is not a JSON object, lacks a key, or has a value of the wrong type or out
    of range.
    """
    try:
        fields = json.loads(body, parse_constant=_refuse_constant)
    # Deep nesting raises RecursionError; invalid UTF-8 raises UnicodeDecodeError, which is a ValueError.
    except (ValueError, RecursionError) as error:
        raise WrongAnswerError("JSON", f"the answer is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise WrongAnswerError("JSON", f"the answer must be an object: got {type(fields).__name__}")
    times_ns = [_integer(fields, key, 0, _LARGEST) for key in ("received_ns", "sent_ns")]
    if times_ns[1] < times_ns[0]:
        raise WrongAnswerError("times", f"sent_ns: {times_ns[1]} is before received_ns: {times_ns[0]}")
    slot = fields.get("slot")
    reason = fields.get("reason")
    return Reply(
        None if slot is None else _slot(slot, _integer(fields, "ideal_ns", 1, _LONGEST_PERIOD_NS)),
        reason[:LONGEST_REASON] if isinstance(reason, str) else "",
        Exchange(sent_ns, times_ns[0], times_ns[1], received_ns),
    )


def _slot(fields: Any, ideal_ns: int) -> Slot:
    if not isinstance(fields, dict):
        raise WrongAnswerError("slot", f"slot must be null or an object: got {type(fields).__name__}")
    period_ns = _integer(fields, "period_ns", 1, _LONGEST_PERIOD_NS)
    return Slot(
        version=_integer(fields, "version", 0, _LARGEST),
        origin_ns=_integer(fields, "origin_ns", 0, _LARGEST),
        period_ns=period_ns,
        ideal_ns=ideal_ns,
        iteration=_integer(fields, "iteration", 0, _LARGEST),
        # More than half a period from one slot is nearer to the next.
        tolerance_ns=_integer(fields, "tolerance_ns", 1, period_ns // 2),
    )


def _integer(fields: dict[str, Any], key: str, lowest: int, highest: int) -> int:
    value = fields.get(key)
    # In Python, a bool is an int.
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongAnswerError(key, f"{key}: must be a whole number: got {value!r:.80}")
    if not lowest <= value <= highest:
        raise WrongAnswerError(key, f"{key}: {value} is not between {lowest} and {highest}")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
