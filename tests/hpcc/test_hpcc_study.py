"""The inputs of the reference simulator's runs are read with their meaning."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hocket.hpcc import Study, load_study
from hocket.hpcc.config import Dcqcn, Default, Hpcc, Ignored, LinkDown, Marking, PfcOnly, QueueMonitor, Window
from hocket.hpcc.study import is_study

StudyWith = Callable[..., Study]


def reasons(study: Study) -> dict[str, str]:
    return {each.key: each.why for each in study.ignored}


def test_the_incast_is_seven_hosts_that_send_to_one(data: Path) -> None:
    study = load_study(data / "incast8-dcqcn" / "config.txt")
    assert study.switch_ids == (8,)
    assert study.topology.host_ids == tuple(range(8))
    assert study.topology.a.tolist() == [8] * 8
    assert study.topology.b.tolist() == list(range(8))
    assert set(study.topology.rate_bps.tolist()) == {200_000_000_000}
    assert set(study.topology.delay_ps.tolist()) == {500_000}
    assert len(study.flows) == 7
    assert study.flows.src.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert study.flows.dst.tolist() == [0] * 7
    assert set(study.flows.priority.tolist()) == {3}
    assert set(study.flows.dport.tolist()) == {100}
    assert set(study.flows.bytes.tolist()) == {10_000_000}
    assert set(study.flows.start_ps.tolist()) == {0}
    assert set(study.flows.sport.tolist()) == {10_000}


def test_settings_come_with_their_units(data: Path) -> None:
    config = load_study(data / "incast8-dcqcn" / "config.txt").config
    assert config.congestion_control == Dcqcn(
        alpha_timer_ps=1_000_000,
        cut_check_ps=4_000_000,
        increase_timer_ps=300_000_000,
        clamp_target_rate=False,
        gain=1 / 256,
        fast_recovery_steps=1,
        additive_increase_bps=40_000_000,
        hyper_increase_bps=400_000_000,
        min_rate_bps=1_000_000_000,
    )
    assert config.window is None
    assert config.ecn
    assert config.marking[4] == Marking(200_000_000_000, kmin_bytes=600_000, kmax_bytes=2_400_000, pmax=0.2)
    assert config.payload_bytes == 1000
    assert config.buffer_bytes == 33_554_432
    assert config.stop_ps == 10**12
    assert config.ack_ignores_pause
    assert config.link_down is None
    assert config.queue_monitor is None
    assert (str(config.fct_file), str(config.pfc_file)) == ("fct.txt", "pfc.txt")
    assert config.defaults == ()


def test_hpcc_has_a_window_and_its_own_parameters(data: Path) -> None:
    config = load_study(data / "two2one-hpcc" / "config.txt").config
    assert config.congestion_control == Hpcc(
        target_utilisation=0.95,
        max_stage=0,
        fast_react=True,
        int_multi=2,
        additive_increase_bps=20_000_000,
        min_rate_bps=1_000_000_000,
    )
    assert config.window == Window(global_rtt=True, follows_rate=True)


def test_each_setting_is_used_or_ignored_with_a_reason(study_with: StudyWith) -> None:
    ignored = reasons(study_with())
    assert ignored["USE_DYNAMIC_PFC_THRESHOLD"] == (
        "the simulators ignore it; PFC thresholds are always dynamic"
    )
    assert ignored["U_TARGET"] == "only for hpcc and hpcc-pint, but CC_MODE chooses dcqcn"
    assert ignored["VAR_WIN"] == "with HAS_WIN 0 there is no window"
    assert ignored["QLEN_MON_FILE"].startswith("the monitor would start after the end of the run")
    assert "RP_TIMER" not in ignored
    assert "KMIN_MAP" not in ignored
    assert reasons(study_with(ENABLE_QCN="0"))["KMIN_MAP"] == "with ENABLE_QCN 0 nothing is marked"
    assert "VAR_WIN" not in reasons(study_with(HAS_WIN="1"))


def test_settings_of_another_congestion_control_are_not_checked(study_with: StudyWith) -> None:
    ignored = reasons(study_with(MULTI_RATE="1", PINT_PROB="0.5"))
    assert ignored["MULTI_RATE"] == "only for hpcc, but CC_MODE chooses dcqcn"
    assert ignored["PINT_PROB"] == "only for hpcc-pint, but CC_MODE chooses dcqcn"


@pytest.mark.parametrize(
    ("mode", "name"),
    [(1, "Dcqcn"), (3, "Hpcc"), (7, "Timely"), (8, "Dctcp"), (10, "HpccPint"), (12, "PfcOnly")],
)
def test_cc_mode_chooses_the_congestion_control(mode: int, name: str, study_with: StudyWith) -> None:
    config = study_with(CC_MODE=str(mode), HAS_WIN="1").config
    assert type(config.congestion_control).__name__ == name


def test_without_congestion_control_its_parameters_have_no_effect(study_with: StudyWith) -> None:
    study = study_with(CC_MODE="12", RATE_AI=None)
    assert study.config.congestion_control == PfcOnly()
    assert "MIN_RATE" in {each.key for each in study.ignored}


def test_missing_keys_have_the_simulators_default(study_with: StudyWith) -> None:
    config = study_with(BUFFER_SIZE=None, MIN_RATE=None).config
    assert config.buffer_bytes == 16 * 2**20
    assert config.defaults == (Default("MIN_RATE", "100Mb/s"), Default("BUFFER_SIZE", "16"))


def test_a_link_fails_two_seconds_and_its_microseconds_after_the_start(study_with: StudyWith) -> None:
    study = study_with(LINK_DOWN="30 8 1", SIMULATOR_STOP_TIME="3")
    assert study.config.link_down == LinkDown(2_000_030_000_000, a=8, b=1)
    assert "is after the end of the run" in reasons(study_with(LINK_DOWN="30 8 1"))["LINK_DOWN"]


def test_the_queue_monitor_counts_nanoseconds(study_with: StudyWith) -> None:
    study = study_with(QLEN_MON_START="0", QLEN_MON_END="20000", QLEN_MON_FILE="/tmp/mix/qlen.txt")
    monitor = study.config.queue_monitor
    assert monitor is not None
    assert monitor == QueueMonitor(monitor.file, start_ps=0, end_ps=20_000_000, interval_ps=100_000)
    assert str(monitor.file) == "qlen.txt"
    assert Default("QLEN_MON_INTERVAL", "100") in study.config.defaults


@pytest.mark.parametrize(
    ("first", "is_one"),
    [("CC_MODE 1", True), ("# settings\n\nENABLE_QCN 1", True), ("seed = 1", False), ("SEED = 1", False)],
)
def test_a_file_that_begins_with_a_key_is_a_study(first: str, is_one: bool, tmp_path: Path) -> None:
    path = tmp_path / "config.txt"
    path.write_text(first)
    assert is_study(path) == is_one
    path.rename(tmp_path / "config.toml")
    assert not is_study(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("written", "kept"), [("mix/fct.txt", "mix/fct.txt"), ("/root/mix/fct.txt", "fct.txt"), ("../a/b", "b")]
)
def test_outputs_stay_below_the_directory_of_the_run(written: str, kept: str, study_with: StudyWith) -> None:
    assert str(study_with(FCT_OUTPUT_FILE=written).config.fct_file) == kept


def test_a_stop_time_beyond_the_clock_means_never(study_with: StudyWith) -> None:
    assert study_with(SIMULATOR_STOP_TIME="40000000000000.00").config.stop_ps == 2**63 - 1


def test_comments_and_blank_lines_are_left_out(study_with: StudyWith) -> None:
    config = study_with(CC_MODE="1 {1: DCQCN, 3: HPCC}\n\n# the timer\n", RP_TIMER="55 # us\r").config
    assert isinstance(config.congestion_control, Dcqcn)
    assert config.congestion_control.increase_timer_ps == 55_000_000


def test_files_are_looked_for_beside_the_config_and_then_in_the_working_directory(
    study_with: StudyWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "mix").mkdir(parents=True)
    (elsewhere / "mix" / "flow.txt").write_text("1\n3 4 2 7 9 0.5\n")
    (elsewhere / "flow.txt").write_text("not read\n")
    monkeypatch.chdir(elsewhere)
    study = study_with(FLOW_FILE="mix/flow.txt")
    assert study.flows.bytes.tolist() == [9]
    assert study.topology.path == tmp_path / "topology.txt"
    assert len(study_with().flows) == 7


def test_lines_after_the_announced_ones_are_reported(study_with: StudyWith, tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text("1\n1 0 3 100 10 0\n\nFirst line: flow #\nsrc dst priority\n")
    with (tmp_path / "topology.txt").open("a") as topology:
        topology.write("8 99 1Gbps 1us 0\n\nFirst line: total node #, switch node #, link #\n")
    study = study_with()
    assert len(study.flows) == 1
    assert len(study.topology.a) == 8
    assert study.ignored[-2].key == "TOPOLOGY_FILE"
    assert study.ignored[-1] == Ignored(
        "FLOW_FILE", "flow.txt", "its first line announces 1; 2 more lines are not read"
    )


@pytest.mark.parametrize(
    ("written", "start_ps"),
    [
        ("0.000000000", 0),
        ("2", 2 * 10**12),
        ("2.", 2 * 10**12),
        (".5", 5 * 10**11),
        ("1e-06", 10**6),
        ("0.123456789012", 123_456_789_012),
        ("0.1234567890125", 123_456_789_013),
        ("9223372.036854775807", 2**63 - 1),
    ],
)
def test_starts_are_seconds_to_the_picosecond(
    written: str, start_ps: int, study_with: StudyWith, tmp_path: Path
) -> None:
    (tmp_path / "flow.txt").write_text(f"1\n1 0 3 100 10 {written}\n")
    assert study_with().flows.start_ps.tolist() == [start_ps]


def test_source_ports_count_the_flows_of_each_pair(study_with: StudyWith, tmp_path: Path) -> None:
    pairs = [(1, 0), (2, 0), (1, 0), (0, 1), (1, 0), (2, 0)]
    rows = "".join(f"{src} {dst} 3 100 10 0\n" for src, dst in pairs)
    (tmp_path / "flow.txt").write_text(f"{len(pairs)}\n{rows}")
    assert study_with().flows.sport.tolist() == [10_000, 10_000, 10_001, 10_000, 10_002, 10_001]


@pytest.mark.parametrize("case", ["incast8-dcqcn", "two2one-hpcc"])
def test_interfaces_are_numbered_as_in_the_reference(case: str, data: Path) -> None:
    topology = load_study(data / case / "config.txt").topology
    numbers = zip(*topology.interfaces, strict=True)
    found = set()
    for (at_a, at_b), a, b in zip(numbers, topology.a, topology.b, strict=True):
        found |= {(int(a), int(at_a), int(b)), (int(b), int(at_b), int(a))}
    rows = np.loadtxt(data / case / "ports.csv", delimiter=",", skiprows=1, dtype=np.int64)
    assert found == {(int(row[0]), int(row[2]), int(row[3])) for row in rows}
