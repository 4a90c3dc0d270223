"""Quantities: what is read, what is refused, and that formatting loses nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hocket.errors import InputError
from hocket.units import (
    LARGEST,
    Bytes,
    DurationPs,
    PositiveRateBps,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_rate,
    shown,
)

Parse = Callable[[str], int]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_duration, "180 ms", 180 * 10**9),
        (parse_duration, "125us", 125 * 10**6),
        (parse_duration, "125 \u00b5s", 125 * 10**6),
        (parse_duration, "125 \u03bcs", 125 * 10**6),
        (parse_duration, "0.1 s", 10**11),
        (parse_duration, "2 min", 120 * 10**12),
        (parse_duration, "1e-3 ns", 1),
        (parse_duration, " 0 ms ", 0),
        (parse_rate, "50 Gbps", 50 * 10**9),
        (parse_rate, "200 Gb/s", 200 * 10**9),
        (parse_rate, "100 Gbit/s", 100 * 10**9),
        (parse_rate, "200 GB/s", 1600 * 10**9),
        (parse_rate, "33.3 Gbps", 33_300_000_000),
        (parse_bytes, "32 MB", 32_000_000),
        (parse_bytes, "10 KiB", 10_240),
        (parse_bytes, "1.5 KiB", 1_536),
    ],
)
def test_a_quantity_with_its_unit_is_read_exactly(parse: Parse, text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_duration, "180", "a duration needs a unit such as ms: got '180'"),
        (parse_duration, "-1 ms", "a duration must not be negative: got '-1 ms'"),
        (parse_duration, "nan ms", "is a finite number and a unit"),
        (parse_duration, "inf s", "is a finite number and a unit"),
        (parse_duration, "", "is a finite number and a unit"),
        (parse_duration, "1 ms 2", "unknown unit 'ms 2'"),
        (parse_duration, "1_000 ms", "unknown unit '_000 ms'"),
        (parse_duration, "\u0661 ms", "is a finite number and a unit"),
        (parse_duration, "0.5 ps", "'0.5 ps' is not a whole number of ps"),
        (parse_duration, "2563 h", "is above the largest value, 9223372036854775807 ps"),
        (parse_duration, "50 Gbps", "'50 Gbps' is a rate; here a duration is needed"),
        (parse_duration, "1 MS", "unknown unit 'MS'; did you mean ms?"),
        (parse_rate, "50 ms", "'50 ms' is a duration; here a rate is needed"),
        (parse_rate, "50 GBps", "unknown unit 'GBps'; did you mean"),
        (parse_rate, "9" * 100 + " bps", "is a finite number and a unit"),
        (parse_rate, "1e99 Gbps", "is above the largest value"),
        (parse_bytes, "1 bps", "is a rate; here an amount of data is needed"),
        (parse_bytes, "0.1 B", "is not a whole number of bytes"),
    ],
)
def test_what_is_not_a_quantity_of_the_dimension_is_refused_with_its_reason(
    parse: Parse, text: str, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert message in str(refused.value)


FASTEST = 10**15


@given(st.integers(min_value=0, max_value=LARGEST))
def test_what_is_formatted_reads_back_as_the_same_value(value: int) -> None:
    assert parse_duration(format_duration(value)) == value
    assert parse_rate(format_rate(value % FASTEST)) == value % FASTEST
    assert parse_bytes(format_bytes(value)) == value


def test_a_rate_beyond_the_fastest_link_is_refused() -> None:
    assert parse_rate("1000 Tbps") == FASTEST
    with pytest.raises(InputError, match="'1001 Tbps' is above the largest value, 1000000000000000 bits per"):
        parse_rate("1001 Tbps")


def value_or_refusal(parse: Parse, text: str) -> int | str:
    try:
        return parse(text)
    except InputError as refused:
        return str(refused)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_on_one_printable_line(text: str) -> None:
    for parse in (parse_duration, parse_rate, parse_bytes):
        found = value_or_refusal(parse, text)
        assert found.isprintable() if isinstance(found, str) else 0 <= found <= LARGEST


def test_formatting_picks_the_largest_unit_with_a_whole_part() -> None:
    assert format_duration(1_500_000) == "1.5 us"
    assert format_duration(999) == "999 ps"
    assert format_rate(10**12) == "1 Tbps"
    assert format_bytes(2**25) == "32 MiB"
    assert format_bytes(0) == "0 B"


def test_a_model_field_takes_text_only_and_writes_it_back() -> None:
    durations = TypeAdapter[int](DurationPs)
    assert durations.validate_python("3 us") == 3_000_000
    assert durations.dump_python(3_000_000) == "3 us"
    wrong_types: list[object] = [3, 3.0, True, None, ["3 us"]]
    for wrong in wrong_types:
        with pytest.raises(ValidationError, match="written as text with a unit"):
            durations.validate_python(wrong)
    assert TypeAdapter[int](Bytes).dump_python(32_000_000) == "32 MB"


def test_a_positive_field_refuses_zero_with_its_unit() -> None:
    with pytest.raises(ValidationError, match="a rate must be above 0 here: got '0 Gbps'"):
        TypeAdapter[int](PositiveRateBps).validate_python("0 Gbps")


def test_values_are_quoted_on_one_printable_line() -> None:
    assert shown("a\nb\x1b\ud800") == r"'a\nb\x1b\ud800'"
    assert shown(10**5000) == "a number of more than 63 bits"
    assert (shown({}), shown([]), shown(None)) == ("a table", "a list", "null")
    assert (shown(True), shown(2.5), shown(b"")) == ("true", "2.5", "a bytes")
