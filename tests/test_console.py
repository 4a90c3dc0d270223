"""Tables on terminals of any width, and what `hocket run` prints of training jobs."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket import Run
from hocket.console import Column, out, print_table
from hocket.results.report import print_run

TrainingRun = Callable[..., Run]


def printed(run: Run, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of each line."""
    print_run("a plan", run, Path("out"))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


HEADER = ("job", Column("p50", spare=2), "mean (ms)", Column("waited", spare=1))
ROW = ("vgg19", "1,234.567", "2,345.678", "3,456.789")


def table(room: int | None, header: object, *rows: tuple[str, ...], left: int = 1) -> list[str]:
    """The lines of a table on a terminal of this width, or in a file."""
    with pytest.MonkeyPatch.context() as patch, out.capture() as printed:
        patch.setattr(type(out), "room", room)
        print_table(header, rows, left=left)  # type: ignore[arg-type]
    return printed.get().splitlines()


def test_a_file_gets_every_column() -> None:
    assert table(None, HEADER, ROW) == [
        "job          p50  mean (ms)     waited",
        "vgg19  1,234.567  2,345.678  3,456.789",
    ]


def test_the_most_spare_columns_are_hidden_first_and_are_named() -> None:
    assert table(38, HEADER, ROW) == table(None, HEADER, ROW)
    assert table(37, HEADER, ROW) == [
        "job    mean (ms)     waited",
        "vgg19  2,345.678  3,456.789",
        "1 column hidden: p50; --wide shows all",
    ]
    assert table(20, HEADER, ROW)[-1] == "2 columns hidden: p50, waited; --wide shows all"


def test_a_row_becomes_a_list_if_not_even_the_necessary_columns_fit() -> None:
    assert table(15, HEADER, ROW, ("", "1", "2", "")) == [
        "vgg19",
        "  p50        1,234.567",
        "  mean (ms)  2,345.678",
        "  waited     3,456.789",
        "vgg19",
        "  p50        1",
        "  mean (ms)  2",
    ]


def test_text_is_wrapped_between_words_before_a_column_is_hidden() -> None:
    header = ("job", "why", Column("slot", spare=1))
    row = ("a", "predicted to be 1.13 times faster in slots", "12")
    assert table(40, header, row, left=2) == [
        "job  why                            slot",
        "a    predicted to be 1.13 times       12",
        "     faster in slots",
    ]


def test_the_name_of_a_group_of_columns_is_printed_once() -> None:
    header = ("job", Column("alone\nmean"), Column("alone\np99"), Column("shared\nmean"))
    assert table(None, header, ("a", "1.0", "2.0", "3.0")) == [
        "     alone       shared",
        "job   mean  p99    mean",
        "a      1.0  2.0     3.0",
    ]


NUMBERS = st.lists(
    st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str), min_size=5, max_size=5),
    min_size=1,
    max_size=3,
)


@given(NUMBERS, st.lists(st.integers(0, 3), min_size=5, max_size=5), st.integers(1, 120))
def test_no_number_is_ever_cut(rows: list[list[str]], spare: list[int], room: int) -> None:
    header = [Column(f"column{place}", spare=each) for place, each in enumerate(spare)]
    lines = table(room, ["job", *header], *(("a", *row) for row in rows))
    hidden = [place for place in range(5) if "hidden: " in lines[-1] and f"column{place}" in lines[-1]]
    words = " ".join(lines).split()
    for row in rows:
        assert {cell for place, cell in enumerate(row) if place not in hidden} <= set(words)


def test_wide_prints_on_a_narrow_terminal_as_into_a_file(tmp_path: Path) -> None:
    assert terminal("init", columns=40, directory=tmp_path)[1].split() != ["two-jobs", *QUESTION.split()]
    assert terminal("init", "--wide", columns=40, directory=tmp_path)[1].split() == [
        "two-jobs",
        *QUESTION.split(),
    ]


QUESTION = "Can two training jobs take turns on a link, and by how much must each be shifted?"


def terminal(*arguments: str, columns: int, directory: Path) -> list[str]:
    """The lines that `hocket` prints on a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "hocket", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=directory, env=environment) as process:
        os.close(theirs)
        printed = b""
        # At the end of a pseudo-terminal, reading raises an error.
        while (part := _read(ours)) != b"":
            printed += part
    os.close(ours)
    assert process.returncode == 0
    return printed.decode().replace("\r\n", "\n").splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_a_training_job_has_its_exposed_communication_beside_its_compute(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(training_run(all_reduce_ms=4), capsys)
    times = ["5.000", "5.000", "5.000", "3.000", "2.000", "40.0", "0.000"]
    assert ["dlrm", "4", "2", *times] in lines
    assert "adjustments" not in [word for line in lines for word in line]


def test_a_straggler_is_named_and_ranks_in_balance_are_not(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training_run()
    assert "computes" not in [word for line in printed(run, capsys) for word in line]
    slow = pl.when(rank=2).then(5e-3).otherwise("compute_s").alias("compute_s")
    uneven = Run({**run.tables, "ranks": run.tables["ranks"].with_columns(slow)}, run.manifest)
    line = "dlrm: rank 2 (s0:2) computes 1.43 times as long as the average rank"
    assert line.split() in printed(uneven, capsys)


def test_collectives_are_printed_as_nccl_tests_does(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(training_run(all_reduce_ms=4), capsys)
    assert ["dlrm", "all-reduce", "ring", "100,000,000", "2", "4", "4,000.00", "25.00", "37.50"] in lines


def test_the_congestion_policy_and_how_often_it_acted_are_printed_on_both_engines(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ["dlrm", "hpcc", "50", "9", "12"] in printed(training_run(policy="hpcc"), capsys)
    assert ["dlrm", "fair", "12"] in printed(training_run(engine="flow"), capsys)


def test_periodic_jobs_have_a_table_of_their_own(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training_run(engine="flow")
    jobs = run.tables["jobs"]
    both = pl.concat([jobs, jobs.with_columns(job=pl.lit("vgg19"))])
    lines = printed(Run({**run.tables, "jobs": both}, run.manifest), capsys)
    assert ["vgg19", "2", "5.00", "5.00", "5.00", "2.00", "0.00", "0"] in lines
    assert ["dlrm", "4", "2", "5.000", "5.000", "5.000", "3.000", "2.000", "40.0", "0.000"] in lines


def test_rows_that_are_not_recorded_are_named_with_the_key_that_records_them(
    training_run: TrainingRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training_run()
    many = Run(run.tables, {**run.manifest, "not_recorded": {"operations": 33_865}})
    print_run("a plan", many, Path("out"))
    expected = (
        "33,865 operations of each iteration not recorded; set run.record_operations = 1 to record them"
    )
    assert expected in capsys.readouterr().out.splitlines()
