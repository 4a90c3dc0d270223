"""Answers of the service and the offset of its clock: an invalid answer is rejected with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket_agent.offset import Exchange, OffsetFilter
from hocket_agent.protocol import WrongAnswerError, parse_reply
from hocket_agent.slots import Slot

SECOND = 10**9
TEN_YEARS_NS = 3_650 * 86_400 * SECOND
SLOT: dict[str, Any] = {
    "version": 3,
    "origin_ns": 1_700_000_000 * SECOND,
    "period_ns": 183_600_000,
    "iteration": 40,
    "tolerance_ns": 9_000_000,
}
ANSWER: dict[str, Any] = {
    "received_ns": 10,
    "sent_ns": 20,
    "slot": SLOT,
    "ideal_ns": 180_000_000,
    "reason": "",
}


def parsed(answer: Any) -> Any:
    return parse_reply(json.dumps(answer).encode(), 1, 2)


def test_an_answer_with_a_slot() -> None:
    reply = parsed(ANSWER)
    assert reply.slot == Slot(3, 1_700_000_000 * SECOND, 183_600_000, 180_000_000, 40, 9_000_000)
    assert reply.exchange == Exchange(1, 10, 20, 2)


def test_an_answer_without_a_slot_says_why() -> None:
    reply = parsed({**ANSWER, "slot": None, "reason": "shares no link", "of a later version": 1})
    assert (reply.slot, reply.reason) == (None, "shares no link")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"slot": 1}, "slot must be null or an object: got int"),
        ({"slot": {**SLOT, "period_ns": 0}}, "period_ns: 0 is not between 1 and 3600000000000"),
            ({"slot": {**SLOT, "period_ns": TEN_YEARS_NS}}, "period_ns: 315360000000000000 is not between"),
        ({"slot": {**SLOT, "period_ns": 1.5}}, "period_ns: must be a whole number: got 1.5"),
        ({"slot": {**SLOT, "period_ns": True}}, "period_ns: must be a whole number: got True"),
        ({"slot": {**SLOT, "tolerance_ns": 91_800_001}}, "tolerance_ns: 91800001 is not between 1 and"),
        ({"slot": {**SLOT, "origin_ns": 2**63}}, "origin_ns: 9223372036854775808 is not between 0 and"),
        ({"slot": {**SLOT, "origin_ns": None}}, "origin_ns: must be a whole number: got None"),
        ({"slot": {**SLOT, "iteration": -1}}, "iteration: -1 is not between 0 and"),
        ({"slot": {**SLOT, "version": "3"}}, "version: must be a whole number: got '3'"),
        ({"ideal_ns": 0}, "ideal_ns: 0 is not between 1 and"),
        ({"received_ns": 21}, "sent_ns: 20 is before received_ns: 21"),
        ({"sent_ns": "x" * 1_000}, "sent_ns: must be a whole number: got 'xxx"),
    ],
)  # fmt: skip
def test_an_answer_with_an_invalid_value_is_rejected(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongAnswerError) as refused:
        parsed({**ANSWER, **changes})
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>not found</html>",
        b'{"received_ns": NaN}',
        b'{"received_ns": Infinity}',
        b"[1, 2]",
        b"null",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"received_ns": 1' + b"0" * 5_000 + b"}",
    ],
)
def test_a_body_that_is_not_an_answer_is_rejected(body: bytes) -> None:
    with pytest.raises(WrongAnswerError):
        parse_reply(body, 1, 2)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_arbitrary_bodies_are_rejected(body: bytes) -> None:
    with pytest.raises(WrongAnswerError):
        parse_reply(body, 1, 2)


@given(
    offset_ns=st.integers(-(10**18), 10**18),
    paths_ns=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20),
)
def test_the_true_offset_lies_within_the_uncertainty(offset_ns: int, paths_ns: list[tuple[int, int]]) -> None:
    clock = OffsetFilter()
    now_ns = 0
    for forward_ns, reverse_ns in paths_ns:
        arrives_ns = now_ns + forward_ns
        end_ns = arrives_ns + 500 + reverse_ns
        clock.add(Exchange(now_ns, arrives_ns + offset_ns, arrives_ns + 500 + offset_ns, end_ns))
        now_ns = end_ns
    best = clock.best(now_ns)
    assert best is not None
    # Both the offset and the uncertainty were rounded down.
    assert abs(best.offset_ns - offset_ns) <= best.uncertainty_ns + 1


def test_the_exchange_with_the_least_delay_counts_until_it_is_too_old() -> None:
    clock = OffsetFilter()
    clock.add(Exchange(0, 1_000_100, 1_000_100, 200))
    clock.add(Exchange(2 * SECOND, 2_001_041_000, 2_001_041_000, 2 * SECOND + 42_000))
    early, late = clock.best(SECOND), clock.best(2 * SECOND + 42_000)
    assert early is not None
    assert late is not None
    assert (early.offset_ns, early.uncertainty_ns) == (1_000_000, 100)
    # 15 ppm of 2 s are 30 µs: by then the other one is better, with 21 µs.
    assert (late.offset_ns, late.uncertainty_ns) == (1_020_000, 21_000)


def test_exchanges_before_the_last_eight_are_forgotten() -> None:
    clock = OffsetFilter()
    clock.add(Exchange(0, 100, 100, 0))
    for number in range(8):
        clock.add(Exchange(number, 500 + number, 500 + number, number + 1_000))
    best = clock.best(1_008)
    assert best is not None
    assert best.offset_ns == 0
