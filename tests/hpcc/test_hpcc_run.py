"""A study runs as it is, and leaves what its simulator would have left, our tables, and where values are
from.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hocket import _hocket
from hocket.errors import InputError, SelfCheckError
from hocket.hpcc import Study, load_study
from hocket.hpcc.parameters import EXACT
from hocket.hpcc.run import run_study
from hocket.results import Run, frame
from hocket.results.times import in_ps

StudyWith = Callable[..., Study]
PEER = Path(__file__).parents[1] / "peer" / "data"


def schemas(*groups: "_hocket._TableGroup") -> dict[str, pl.Schema]:
    tables = _hocket.table_schemas("packet", groups)
    return {name: frame(columns).schema for name, columns in tables.items()}


def test_the_files_are_those_of_the_simulator_to_the_byte(tmp_path: Path, data: Path) -> None:
    run_study(load_study(PEER / "two2one" / "pfc" / "config.txt"), tmp_path / "pfc")
    recorded = (PEER / "two2one" / "pfc" / "pfc.csv").read_text().split("\n", 1)[1]
    assert (tmp_path / "pfc" / "pfc.txt").read_text() == recorded.replace(",", " ")
    run_study(load_study(data / "two2one-hpcc" / "config.txt"), tmp_path / "hpcc")
    assert (tmp_path / "hpcc" / "fct.txt").read_bytes() == (data / "two2one-hpcc" / "fct.txt").read_bytes()


def test_tables_have_the_documented_columns_also_where_they_are_empty(
    study_with: StudyWith, tmp_path: Path
) -> None:
    quiet = run_study(study_with(), tmp_path / "quiet")
    assert quiet.tables["pauses"].is_empty()
    paused = run_study(study_with(CC_MODE="12", ENABLE_QCN="0"), tmp_path / "paused")
    assert not paused.tables["pauses"].is_empty()
    for run in (quiet, paused):
        assert {name: table.schema for name, table in run.tables.items()} == schemas("events")


def test_the_manifest_has_each_value_with_its_source(study_with: StudyWith, tmp_path: Path) -> None:
    run = run_study(study_with(MIN_RATE=None, BUFFER_SIZE="32"), tmp_path, seed=3)
    manifest = run.manifest
    assert (manifest["engine"], manifest["fidelity"], manifest["seed"]) == ("packet", "reference", 3)
    assert (manifest["status"], manifest["flows"]) == ("complete", 7)
    # 70,000 packets and as many acknowledgements over two links each.
    assert manifest["packet_hops"] == 280_000
    assert manifest["run_s"] > 0
    assert manifest["peak_rss_mb"] > 10
    assert manifest["counts"]["marks"] == run.tables["flows"]["marks"].sum()
    assert manifest["counts"]["rate_cuts"] == {"dcqcn": run.tables["flows"]["rate_cuts"].sum()}
    assert manifest["simulated_s"] == pytest.approx(run.tables["flows"]["fct_s"].max())
    parameters = manifest["parameters"]
    assert parameters["buffer_bytes"] == {"value": 32 * 2**20, "source": "BUFFER_SIZE"}
    assert parameters["min_rate_bps"] == {
        "value": 100_000_000,
        "source": "MIN_RATE (the simulator's default)",
    }
    assert parameters["data_header_bytes"] == {"value": 36, "source": "fidelity reference"}
    assert all(each["source"] for each in parameters.values())
    ignored = {each["key"]: each["why"] for each in manifest["ignored"]}
    assert ignored["U_TARGET"] == "only for hpcc and hpcc-pint, but CC_MODE chooses dcqcn"


def test_the_seed_alone_determines_random_choices(study_with: StudyWith, tmp_path: Path) -> None:
    study = study_with()
    one, again, other = (
        run_study(study, tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert all(one.tables[name].equals(again.tables[name]) for name in one.tables)
    assert not one.tables["flows"].equals(other.tables["flows"])


def test_without_the_simulators_rounding_a_packet_takes_its_exact_time(
    study_with: StudyWith, tmp_path: Path
) -> None:
    flow = tmp_path / "flow.txt"
    study_with()
    flow.write_text("1\n1 0 3 100 1000 0\n")
    study = study_with(CC_MODE="12")
    run = run_study(study, tmp_path / "run", fidelity=EXACT)
    # Twice over two links: 1,082 bytes and back 86 at 200 Gb/s, 500 ns each way and link.
    assert run.tables["flows"].select(in_ps("end_s"))["end_s"].to_list() == [
        2 * (43_280 + 3_440) + 4 * 500_000
    ]


def test_queues_are_sampled_while_the_monitor_is_on(study_with: StudyWith, tmp_path: Path) -> None:
    study = study_with(QLEN_MON_START="0", QLEN_MON_END="100000", QLEN_MON_INTERVAL="500")
    run = run_study(study, tmp_path)
    queues = run.tables["queues"]
    assert {name: table.schema for name, table in run.tables.items()} == schemas("events", "queues")
    at_ps = queues.select(in_ps("at_s"))["at_s"]
    assert (at_ps % 500_000 == 0).all()
    assert 99_000_000 < max(at_ps) <= 100_000_000
    # Seven senders feed one port.
    assert max(queues.filter(link="8->0")["bytes"]) > 1_000_000
    without = run_study(study_with(), tmp_path / "without")
    assert without.tables["flows"].equals(run.tables["flows"])


def test_a_run_ends_at_its_stop_time_with_the_status_stopped(study_with: StudyWith, tmp_path: Path) -> None:
    run = run_study(study_with(SIMULATOR_STOP_TIME="0.0005"), tmp_path)
    assert run.manifest["status"] == "stopped"
    assert run.manifest["simulated_s"] == pytest.approx(0.0005)
    assert run.tables["flows"].is_empty()
    assert (tmp_path / "fct.txt").read_text() == ""


def test_flows_whose_only_link_fails_are_reported(study_with: StudyWith, tmp_path: Path) -> None:
    study_with()
    (tmp_path / "flow.txt").write_text("1\n1 0 3 100 10000000 2\n")
    study = study_with(LINK_DOWN="100 8 0", SIMULATOR_STOP_TIME="40000000000000")
    with pytest.raises(
        SelfCheckError, match=r"config\.txt: flow 0 from \"1\" to \"0\" made no further progress"
    ):
        run_study(study, tmp_path / "run")
    kept = Run.read(tmp_path / "run")
    assert kept.manifest["status"] == "failed"
    assert "made no further progress" in kept.manifest["failure"]
    assert kept.tables["ports"].height > 0


def test_a_run_whose_self_check_fails_has_exit_code_1(
    study_with: StudyWith, hocket: Callable[..., Any], tmp_path: Path
) -> None:
    # Three delays of nothing are no headroom: with PFC on, a packet is lost.
    study_with(CC_MODE="12")
    topology = tmp_path / "topology.txt"
    topology.write_text(topology.read_text().replace("0.0005ms", "0ms"))
    outcome = hocket("run", "config.txt", "--out", "run")
    assert outcome.code == 1
    assert "self-check failed: config.txt: at " in outcome.err
    assert "was dropped although PFC is on" in outcome.err
    assert Run.read(tmp_path / "run").manifest["status"] == "failed"
    # What IEEE 802.1Qbb asks for is enough.
    assert hocket("run", "config.txt", "--out", "run", "--exact", "--force").code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"CC_MODE": "10", "PINT_PROB": "0.5"}, r"PINT_PROB: 0\.5 is not supported, only 1"),
        ({"CC_MODE": "3", "HAS_WIN": "1", "MI_THRESH": "300"}, "max_additive_steps is 300; at most 255"),
        ({"CC_MODE": "3", "HAS_WIN": "1", "INT_MULTI": "65"}, "telemetry unit is 65; it must lie between 1"),
        ({"PACKET_PAYLOAD_SIZE": "20000"}, "a packet's data is 20000; it must lie between 64 and 9216"),
        ({"FCT_OUTPUT_FILE": "manifest.json"}, "'manifest.json' is the name of one of Hocket's own files"),
        ({"PFC_OUTPUT_FILE": "flows.parquet"}, "'flows.parquet' is the name of one of Hocket's own files"),
    ],
)
def test_a_setting_that_the_engine_does_not_support_is_refused_by_name(
    changes: dict[str, str], message: str, study_with: StudyWith, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"config\.txt: .*{message}"):
        run_study(study_with(**changes), tmp_path / "run")
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_ctrl_c_keeps_what_was_recorded(study_with: StudyWith, tmp_path: Path) -> None:
    # Of eight hosts each sends to each, first a little and then for seconds of processor time.
    study_with()
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    rows = [f"{a} {b} 3 100 {size} 0" for size in (10_000, 10**10) for a, b in pairs]
    (tmp_path / "flow.txt").write_text("\n".join([str(len(rows)), *rows]))
    monitor = {"QLEN_MON_START": "0", "QLEN_MON_END": "40000000000000", "QLEN_MON_INTERVAL": "100"}
    study_with(SIMULATOR_STOP_TIME="40000000000000", **monitor)
    command = [sys.executable, "-m", "hocket", "run", "config.txt", "--out", "run"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    # The first rows of sampled queues go out long after the small messages have arrived.
    while not (tmp_path / "run" / "queues.parquet").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    _, printed = running.communicate(timeout=60)
    assert running.returncode == 130, printed
    assert "interrupted at" in printed
    kept = Run.read(tmp_path / "run")
    assert kept.interrupted
    assert set(kept.tables) == set(schemas("events", "queues"))
    assert kept.tables["flows"]["bytes"].to_list() == [10_000] * len(pairs)
    assert len((tmp_path / "run" / "fct.txt").read_text().splitlines()) == len(pairs)


def test_the_command_runs_a_study_and_prints_its_results(
    hocket: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    outcome = hocket("run", data / "incast8-dcqcn" / "config.txt", "--seed", "2")
    assert "dcqcn, fidelity reference, seed 2: complete" in outcome.out
    assert "packet-hops" in outcome.out
    kept = Run.read(tmp_path / "hocket-runs" / "incast8-dcqcn")
    assert kept.manifest["seed"] == 2
    as_json = hocket("run", data / "incast8-dcqcn" / "config.txt", "--exact", "--force", "--json")
    assert json.loads(as_json.out)["fidelity"] == "exact"


def test_options_for_studies_are_refused_for_plans(hocket: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("")
    outcome = hocket("run", "plan.toml", "--exact")
    assert outcome.code == 2
    assert "--exact: works only with HPCC-style studies" in outcome.err


def test_reading_and_handing_over_many_flows_takes_milliseconds(
    study_with: StudyWith, tmp_path: Path
) -> None:
    study_with()
    rows = [f"{1 + flow % 7} 0 3 100 1000 9" for flow in range(16_256)]
    (tmp_path / "flow.txt").write_text("\n".join([str(len(rows)), *rows]))
    study = study_with(SIMULATOR_STOP_TIME="1")
    started = time.perf_counter()
    run = run_study(study, tmp_path / "run")
    assert time.perf_counter() - started < 2
    assert run.tables["flows"].is_empty()
    assert pl.read_parquet(tmp_path / "run" / "ports.parquet").is_empty()
