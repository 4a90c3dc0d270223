"""What agent and service say to each other, version 1: reports as JSON, and answers checked before anything
is delayed by them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from hocket_agent.offset import Exchange
from hocket_agent.slots import Slot

LONGEST_ANSWER = 64 * 1024
"""Bytes. Hocket: answers are a few hundred."""
LONGEST_REASON = 1_000
"""Characters, in either direction."""
# Hocket: iterations of the largest jobs take a minute or so.
_LONGEST_PERIOD_NS = 3_600_000_000_000
# 2262 in unix time: the largest 63-bit number.
_LARGEST = 2**63 - 1


class WrongAnswerError(ValueError):
    """An answer that cannot be right; `kind` is what is wrong with it, the same for each time that it
    happens.
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True)
class Report:
    """What a rank did since its last report; names and units are those of the service's API."""

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
    """A checked answer to a report."""

    slot: Slot | None
    reason: str
    exchange: Exchange


def parse_reply(body: bytes, sent_ns: int, received_ns: int) -> Reply:
    """The answer to a report that was sent and answered at these times of our monotonic clock.

    `WrongAnswerError` if it is no JSON object, lacks a key, or a value is of the wrong type or beyond its
    limits."""
    try:
        fields = json.loads(body, parse_constant=_refuse_constant)
    # A deep nesting is a RecursionError, wrong UTF-8 a UnicodeDecodeError, which is a ValueError.
    except (ValueError, RecursionError) as error:
        raise WrongAnswerError("JSON", f"the answer is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise WrongAnswerError("JSON", f"the answer must be an object: got {type(fields).__name__}")
    times_ns = [_whole(fields, key, 0, _LARGEST) for key in ("received_ns", "sent_ns")]
    if times_ns[1] < times_ns[0]:
        raise WrongAnswerError("times", f"sent_ns: {times_ns[1]} is before received_ns: {times_ns[0]}")
    slot = fields.get("slot")
    reason = fields.get("reason")
    return Reply(
        None if slot is None else _slot(slot, _whole(fields, "ideal_ns", 1, _LONGEST_PERIOD_NS)),
        reason[:LONGEST_REASON] if isinstance(reason, str) else "",
        Exchange(sent_ns, times_ns[0], times_ns[1], received_ns),
    )


def _slot(fields: Any, ideal_ns: int) -> Slot:
    if not isinstance(fields, dict):
        raise WrongAnswerError("slot", f"slot must be null or an object: got {type(fields).__name__}")
    period_ns = _whole(fields, "period_ns", 1, _LONGEST_PERIOD_NS)
    return Slot(
        version=_whole(fields, "version", 0, _LARGEST),
        origin_ns=_whole(fields, "origin_ns", 0, _LARGEST),
        period_ns=period_ns,
        ideal_ns=ideal_ns,
        iteration=_whole(fields, "iteration", 0, _LARGEST),
        # Half a period away from one slot is nearer to the next.
        tolerance_ns=_whole(fields, "tolerance_ns", 1, period_ns // 2),
    )


def _whole(fields: dict[str, Any], key: str, lowest: int, highest: int) -> int:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongAnswerError(key, f"{key}: must be a whole number: got {value!r:.80}")
    if not lowest <= value <= highest:
        raise WrongAnswerError(key, f"{key}: {value} is not between {lowest} and {highest}")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
