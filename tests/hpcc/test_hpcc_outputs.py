"""Scripts that read the simulator's files read ours: same columns, same order, same bytes."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hocket.hpcc import Study, load_study, standalone_ns, write_completions, write_pauses

StudyWith = Callable[..., Study]


@pytest.mark.parametrize("case", ["incast8-dcqcn", "two2one-hpcc"])
def test_the_references_completion_times_are_written_as_it_writes_them(
    case: str, data: Path, tmp_path: Path
) -> None:
    study = load_study(data / case / "config.txt")
    completions = pl.read_csv(data / case / "fct.csv").select("flow", fct_ps=pl.col("fct_ns") * 1000)
    write_completions(tmp_path / "fct.txt", study, completions)
    assert (tmp_path / "fct.txt").read_bytes() == (data / case / "fct.txt").read_bytes()


def test_standalone_time_is_base_rtt_and_bytes_with_headers_at_the_lowest_rate(
    study_with: StudyWith, tmp_path: Path
) -> None:
    # 0 -- 2 -- 3 -- 1 with 100, 40 and 100 Gb/s and 1, 2 and 3 us.
    links = ["0 2 100Gbps 1us 0", "2 3 40Gbps 2us 0", "3 1 100Gbps 3us 0"]
    (tmp_path / "topology.txt").write_text("\n".join(["4 2 3", "2 3", *links]))
    (tmp_path / "flow.txt").write_text("2\n0 1 3 100 2500 0\n1 0 3 100 1 0\n")
    study = study_with(ENABLE_QCN="0")
    # 2 × 6 us + 80 + 200 + 80 ns; 2500 + 3 × 48 bytes at 40 Gb/s are 528.8 ns, 49 bytes 9.8 ns.
    assert standalone_ns(study).tolist() == [12_360 + 528, 12_360 + 9]


def test_standalone_time_takes_the_fewest_hops(study_with: StudyWith, tmp_path: Path) -> None:
    # Host 0 has a way of three slow links beside one of four fast ones, and a link of its own to host 2.
    links = ["0 3 100Gbps 0ns 0", "3 4 100Gbps 0ns 0", "4 5 100Gbps 0ns 0", "5 1 100Gbps 0ns 0"]
    links += ["3 5 1Gbps 5us 0", "0 2 10Gbps 0ns 0"]
    (tmp_path / "topology.txt").write_text("\n".join(["6 3 6", "3 4 5", *links]))
    (tmp_path / "flow.txt").write_text("2\n0 1 3 100 1 0\n0 2 3 100 1 0\n")
    study = study_with(ENABLE_QCN="0")
    # 10 us + 80 + 8,000 + 80 ns and 49 bytes at 1 Gb/s; 800 ns and 49 bytes at 10 Gb/s.
    assert standalone_ns(study).tolist() == [10_000 + 8_160 + 392, 800 + 39]


def test_completion_times_are_rounded_to_the_nearest_nanosecond(
    study_with: StudyWith, tmp_path: Path
) -> None:
    (tmp_path / "flow.txt").write_text("1\n7 0 3 100 1 0.0000000015\n")
    study = study_with()
    write_completions(tmp_path / "fct.txt", study, pl.DataFrame({"flow": [0], "fct_ps": [2_000_499]}))
    assert (tmp_path / "fct.txt").read_text() == "0b000701 0b000001 10000 100 1 2 2000 2081\n"


def test_the_address_of_a_node_is_its_number(study_with: StudyWith, tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text("301 1 2\n300\n299 300 1Gbps 0ns 0\n256 300 1Gbps 0ns 0\n")
    (tmp_path / "flow.txt").write_text("1\n299 256 3 100 1 0\n")
    study = study_with(ENABLE_QCN="0")
    write_completions(tmp_path / "fct.txt", study, pl.DataFrame({"flow": [0], "fct_ps": [0]}))
    assert (tmp_path / "fct.txt").read_text().startswith("0b012b01 0b010001 ")


def test_pauses_say_when_and_where_they_are_received(data: Path, tmp_path: Path) -> None:
    topology = load_study(data / "two2one-hpcc" / "config.txt").topology
    pauses = pl.DataFrame(
        {
            "time_ps": [1_076_357_000, 1_081_669_400],
            "node": [2, 3],
            "interface": [1, 2],
            "is_pause": [True, False],
        }
    )
    write_pauses(tmp_path / "pfc.txt", topology, pauses)
    assert (tmp_path / "pfc.txt").read_text() == "1076357 2 0 1 1\n1081669 3 1 2 0\n"


def test_no_rows_are_an_empty_file(data: Path, tmp_path: Path) -> None:
    study = load_study(data / "two2one-hpcc" / "config.txt")
    integers = {"flow": pl.Int64, "fct_ps": pl.Int64}
    write_completions(tmp_path / "fct.txt", study, pl.DataFrame(schema=integers))
    columns = {"time_ps": pl.Int64, "node": pl.Int64, "interface": pl.Int64, "is_pause": pl.Boolean}
    write_pauses(tmp_path / "pfc.txt", study.topology, pl.DataFrame(schema=columns))
    assert (tmp_path / "fct.txt").read_bytes() == (tmp_path / "pfc.txt").read_bytes() == b""
