"""Quantities: what is accepted, what is refused, and that formatting is exact."""

import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hocket.errors import InputError
from hocket.units import (
    LARGEST,
    Bytes,
    Duration,
    DurationPs,
    PositiveRateBps,
    Rate,
    format_bytes,
    format_duration,
    format_rate,
    gbps,
    kb,
    kib,
    mb,
    mib,
    ms,
    ns,
    parse_bytes,
    parse_duration,
    parse_rate,
    seconds,
    shown,
    tbps,
    us,
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
        (parse_duration, "2563 h", "is above the largest value, 9,223,372 s (106 days)"),
        (parse_duration, "50 Gbps", "'50 Gbps' is a rate; here a duration is needed"),
        (parse_duration, "1 MS", "unknown unit 'MS'; did you mean ms?"),
        (parse_rate, "50 ms", "'50 ms' is a duration; here a rate is needed"),
        (parse_duration, "3 minutes", "unknown unit 'minutes'; did you mean min, ms or s?"),
        (parse_duration, "3 G", "unknown unit 'G'; did you mean ms, s or us?"),
        (
            parse_rate,
            "50 GBps",
            "'GBps'; a capital B is bytes, and 50 GB/s is 400 Gbps; write GB/s for bytes, Gbps for bits",
        ),
        (parse_rate, "100G", "unknown unit 'G'; did you mean 100 Gbps, or bytes? 100 GB/s is 800 Gbps"),
        (parse_rate, "2.5 mbit", "'mbit'; did you mean 2.5 Mbps, or bytes? 2.5 MB/s is 20 Mbps"),
        (parse_rate, "50 gbps", "unknown unit 'gbps'; did you mean Gbps?"),
        (parse_rate, "1e6 GBps", "unknown unit 'GBps'; did you mean Gbps?"),
        (parse_rate, "3 parsec", "unknown unit 'parsec'; did you mean Gbps, Tbps or Mbps?"),
        (parse_bytes, "3 G", "unknown unit 'G'; did you mean GB, GiB or MB?"),
        (parse_rate, "9" * 100 + " bps", "is a finite number and a unit"),
        (parse_rate, "1e99 Gbps", "is above the largest value"),
        (parse_bytes, "1 bps", "is a rate; here an amount of data is needed"),
        (parse_bytes, "0.1 B", "is not a whole number of bytes"),
    ],
)
def test_text_that_is_not_a_quantity_of_the_dimension_is_refused_with_the_reason(
    parse: Parse, text: str, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert message in str(refused.value)


FASTEST = 10**15


@given(st.integers(min_value=0, max_value=LARGEST))
def test_formatted_text_reads_back_as_the_same_value(value: int) -> None:
    assert parse_duration(format_duration(value)) == value
    assert parse_rate(format_rate(value % FASTEST)) == value % FASTEST
    assert parse_bytes(format_bytes(value)) == value


def test_a_rate_beyond_the_fastest_link_is_refused() -> None:
    assert parse_rate("1000 Tbps") == FASTEST
    with pytest.raises(InputError, match="'1001 Tbps' is above the largest value, 1,000 Tbps"):
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


def test_quantities_equal_their_text() -> None:
    assert (ms(180).ps, gbps(40).bps, mib(1).bytes) == (180 * 10**9, 40 * 10**9, 2**20)
    assert [str(each) for each in (ms(1500), tbps(0.05), kb(32_000), kib(10))] == [
        "1.5 s",
        "50 Gbps",
        "32 MB",
        "10 KiB",
    ]
    assert repr(us(0.5)) == "Duration('500 ns')"
    assert parse_duration(ms(180)) == ms(180).ps


@pytest.mark.parametrize("number", [0.1, 0.3, 0.7, 1.1, 2.675, 1e-6, 123456.789])
def test_a_float_means_its_decimal_text(number: float) -> None:
    assert ms(number) == Duration(f"{number!r} ms")


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 9))
def test_quantities_are_added_and_split_exactly(one: int, other: int, parts: int) -> None:
    first, second = Duration(f"{one} ps"), Duration(f"{other} ps")
    assert (first + second).ps == one + other
    assert first + second - second == first
    assert first * parts / parts == parts * first / parts == first
    assert (first < second, first <= second) == (one < other, one <= other)
    assert (first > second, first >= second) == (one > other, one >= other)
    assert hash(first + second) == hash(second + first)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ms(1) - ms(2), "a duration must not be negative: got '-1000000000 ps'"),
        (lambda: ns(0.001) / 2, "1 ps divided by 2 is not a whole number of ps, the finest resolution"),
        (lambda: gbps(10**6) * 2, "is above the largest value, 1,000 Tbps"),
        (lambda: mb(float("nan")), "an amount of data is a finite number and a unit"),
        (lambda: seconds(True), "a duration is a finite number and a unit"),
        (lambda: Rate("180 ms"), "'180 ms' is a duration; here a rate is needed"),
        (lambda: Rate(str(mb(1))), "'1 MB' is an amount of data; here a rate is needed"),
    ],
)
def test_an_invalid_quantity_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        build()


def test_quantities_of_different_kinds_do_not_mix() -> None:
    assert ms(1) != gbps(0.001)
    mixed: list[Callable[[Any, Any], object]] = [operator.add, operator.sub, operator.lt, operator.mul]
    for operation in mixed:
        with pytest.raises(TypeError):
            operation(ms(1), gbps(1))
    with pytest.raises(TypeError):
        operator.mul(ms(1), 0.5)
