"""Bad input is refused with an error that names the file, the place, the value and the limit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.profiling import profile_counters

# Twenty readings of a counter that grows by 10 bytes from each to the next.
LINES = [f"{index / 100},{index * 10}" for index in range(20)]


def csv(*lines: str, header: str = "time_s,tx_bytes") -> str:
    return "\n".join([header, *lines]) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (csv(), "0 readings; a profile needs at least 12"),
        (csv("0,1", "1,2"), "2 readings; a profile needs at least 12"),
        (csv(*LINES, "1e17,200"), "readings 0.01 s apart span 1e+17 s"),
        (
            csv(*LINES, header="time_s,errors"),
            "no known counter; the columns are 'time_s', 'errors', known counters are 'tx_bytes'",
        ),
        (
            csv(*LINES, header="when,tx_bytes"),
            "no time column; the columns are 'when', 'tx_bytes', time columns are 'time_s'",
        ),
        (csv(*LINES[:5], "0.05,nan", *LINES[6:]), "column 'tx_bytes', line 7: 'nan' is not a finite number"),
        (csv(*LINES[:5], "0.05,inf", *LINES[6:]), "column 'tx_bytes', line 7: 'inf' is not a finite number"),
        (csv(*LINES[:5], "0.05,", *LINES[6:]), "column 'tx_bytes', line 7: None is not a finite number"),
        (
            csv(*LINES[:5], "0.05,many", *LINES[6:]),
            "column 'tx_bytes', line 7: 'many' is not a finite number",
        ),
        (csv(*LINES[:5], "NaN,50", *LINES[6:]), "column 'time_s', line 7: 'NaN' is not a finite number"),
        (
            csv(*LINES[:5], "0.05,-1", *LINES[6:]),
            "column 'tx_bytes', line 7: -1; a counter is never negative",
        ),
        (
            csv(*LINES[:5], "0.05,2e19", *LINES[6:]),
            "column 'tx_bytes', line 7: 2e+19; a counter has at most 64 bits",
        ),
        (csv(*LINES[:5], "0.03,50", *LINES[6:]), "line 7: time goes from 0.04 to 0.03; it must increase"),
        (
            csv(*LINES[:5], "0.04,50", *LINES[6:]),
            "line 7: time goes from 0.04 to 0.04; it must increase (if the file has several interfaces",
        ),
        (csv(*(f"{index},0" for index in range(20))), "the counter never increases; there is no traffic"),
        (csv(*LINES), "the rate is constant, 8e-06 Gbps; nothing repeats"),
        (csv(*LINES[:12]), "12 readings; 3 periods of 4 readings each need 13"),
        (csv("0,1,2,3", *LINES), "not a CSV table"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        profile_counters(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        profile_counters(tmp_path / "none.csv")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        profile_counters(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"column": "rx_bytes"}, "no column 'rx_bytes'; the columns are 'time_s', 'tx_bytes'"),
        ({"unit": "bits"}, "column 'tx_bytes': unit 'bits' must be 'bytes' or 'words4'"),
        ({"wrap_bits": 16}, "wrap_bits is 16; it must be 32 or 64"),
        ({"lifespan_s": -1.0}, "lifespan_s is -1.0; it must be from 0 to 10"),
        ({"lifespan_s": float("nan")}, "lifespan_s is nan; it must be from 0 to 10"),
        ({"interface": "mlx5_0"}, "no column to choose interface 'mlx5_0' by"),
    ],
)
def test_a_bad_argument_is_refused(arguments: dict[str, object], message: str) -> None:
    frame = pl.DataFrame({"time_s": np.arange(20) / 100, "tx_bytes": np.arange(20) * 10})
    with pytest.raises(InputError) as caught:
        profile_counters(frame, **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_value_above_32_bits_is_refused_in_a_counter_of_32_bits() -> None:
    frame = pl.DataFrame({"time_s": np.arange(20) / 100, "tx_bytes": np.arange(20) * 2**30})
    with pytest.raises(InputError, match="line 6: 4294967296 does not fit in a counter of 32 bits"):
        profile_counters(frame, wrap_bits=32)


def test_the_error_for_an_unknown_interface_lists_the_interfaces() -> None:
    frame = pl.DataFrame({"time_s": [0.0], "tx_bytes": [1], "device": ["eth0"]})
    with pytest.raises(InputError, match="no reading of interface 'eth1'; the interfaces are 'eth0'"):
        profile_counters(frame, interface="eth1")


def test_line_numbers_are_those_of_the_file_when_one_interface_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    rows = [line for index in range(20) for line in (f"{index},{index},eth0", f"{index},{index},eth1")]
    rows[11] = "5,x,eth1"
    path.write_text(csv(*rows, header="time_s,tx_bytes,device"), encoding="utf-8")
    with pytest.raises(InputError, match="line 13: 'x' is not a finite number"):
        profile_counters(path, interface="eth1")


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=400),
        st.lists(
            st.tuples(st.floats() | st.integers(0, 50), st.integers(-5, 2**66) | st.floats()),
            min_size=10,
            max_size=60,
        ).map(lambda rows: csv(*(f"{time},{count}" for time, count in rows)).encode()),
        st.lists(st.integers(0, 2**34), min_size=12, max_size=80).map(
            lambda counts: csv(*(f"{index},{count}" for index, count in enumerate(counts))).encode()
        ),
    )
)
def test_no_file_makes_the_profiler_fail_with_another_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    path.write_bytes(content)
    with suppress(InputError):
        assert 0.0 <= profile_counters(path).confidence <= 1.0
