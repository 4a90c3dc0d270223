"""A bad study is refused before it runs, with the file, the line, the value and the limit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hocket.errors import InputError
from hocket.hpcc import Study, load_study

StudyWith = Callable[..., Study]


def refusal(study_with: StudyWith, **changes: str | None) -> list[str]:
    with pytest.raises(InputError) as caught:
        study_with(**changes)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("RATE_IA", "5", "'RATE_IA' is not a known key; did you mean RATE_AI?"),
        ("cc_mode", "1", "'cc_mode' is not a known key; did you mean CC_MODE?"),
        ("SURPRISE", "", "'SURPRISE' is not a known key"),
        ("CC_MODE", "2", "CC_MODE: 2 is not supported; known: 1 (dcqcn), 3 (hpcc), 7 (timely), 8 (dctcp)"),
        ("CC_MODE", "-1", "CC_MODE: must be a whole number from 0 to 2147483647: got '-1'"),
        ("CC_MODE", "", "CC_MODE: takes 1 value: got 0"),
        ("CC_MODE", "1 2", "CC_MODE: takes 1 value: got 2"),
        ("ENABLE_QCN", "Yes", "ENABLE_QCN: must be a whole number from 0 to 1: got 'Yes'"),
        (
            "L2_BACK_TO_ZERO",
            "1",
            "L2_BACK_TO_ZERO: 1 is not supported, only 0: losses are recovered by going",
        ),
        ("ERROR_RATE_PER_LINK", "0.001", "ERROR_RATE_PER_LINK: 0.001 is not supported, only 0"),
        ("NIC_TOTAL_PAUSE_TIME", "5", "NIC_TOTAL_PAUSE_TIME: 5 is not supported, only 0"),
        ("RATE_BOUND", "0", "RATE_BOUND: 0 is not supported, only 1"),
        ("ENABLE_PFC", "0", "ENABLE_PFC: 0 is not supported, only 1: PFC is always on"),
        ("PAUSE_TIME", "0", "PAUSE_TIME: must be above 0: got '0'"),
        ("L2_ACK_INTERVAL", "0", "L2_ACK_INTERVAL: 0 turns ACKs off, and no flow would end"),
        ("L2_ACK_INTERVAL", "1001", "L2_ACK_INTERVAL: 1001 bytes are more than a packet's 1000"),
        ("PACKET_PAYLOAD_SIZE", "0", "PACKET_PAYLOAD_SIZE: must be a whole number from 1 to 65459: got '0'"),
        ("PACKET_PAYLOAD_SIZE", "65460", "PACKET_PAYLOAD_SIZE: must be a whole number from 1 to 65459"),
        ("BUFFER_SIZE", "0", "BUFFER_SIZE: must be a whole number from 1 to 1048576: got '0'"),
        ("SIMULATOR_STOP_TIME", "0", "SIMULATOR_STOP_TIME: must be above 0: got '0'"),
        ("SIMULATOR_STOP_TIME", "inf", "SIMULATOR_STOP_TIME: must be a finite number: got 'inf'"),
        ("SIMULATOR_STOP_TIME", "-1", "SIMULATOR_STOP_TIME: must not be negative: got '-1'"),
        ("RP_TIMER", "0", "RP_TIMER: must be above 0: got '0'"),
        ("RP_TIMER", "1e99", "RP_TIMER: must be at most 9223372036854: got '1e99'"),
        ("EWMA_GAIN", "1.5", "EWMA_GAIN: must be above 0 and at most 1: got '1.5'"),
        ("EWMA_GAIN", "nan", "EWMA_GAIN: must be a finite number: got 'nan'"),
        ("RATE_AI", "0Mb/s", "RATE_AI: must be above 0: got '0Mb/s'"),
        ("RATE_AI", "5Mbs", "RATE_AI: '5Mbs' has the unknown unit 'Mbs'"),
        ("RATE_AI", "-5Mb/s", "RATE_AI: a rate must not be negative: got '-5Mb/s'"),
        ("LINK_DOWN", "1 2", "LINK_DOWN: takes 3 values, microseconds and two nodes: got 2"),
        ("KMIN_MAP", "1 200000000000", "KMIN_MAP: 1 rates take 2 values after their number: got 1"),
        ("KMIN_MAP", "", "KMIN_MAP: must be a whole number from 1 to 64: got ''"),
        ("KMIN_MAP", "99999 1 1", "KMIN_MAP: must be a whole number from 1 to 64: got '99999'"),
        ("KMIN_MAP", "2 8 1 8 2", "KMIN_MAP: has the rate '8' twice"),
        (
            "KMIN_MAP",
            "1 200000000000 2401",
            "KMIN_MAP: 2401 for the rate 200000000000 is above the 2400 of KMAX_MAP",
        ),
        ("PMAX_MAP", "1 200000000000 1.01", "PMAX_MAP: a probability is from 0 to 1: got '1.01'"),
        ("PFC_OUTPUT_FILE", "fct.txt", "PFC_OUTPUT_FILE: 'fct.txt' is also the name of another output"),
        ("FCT_OUTPUT_FILE", "/", "FCT_OUTPUT_FILE: must name a file: got '/'"),
        ("FCT_OUTPUT_FILE", "a\0b", "FCT_OUTPUT_FILE: must be printable: got 'a\\x00b'"),
    ],
)
def test_a_bad_setting_is_refused_by_line(
    key: str, value: str, message: str, study_with: StudyWith, tmp_path: Path
) -> None:
    # The changed key is the last line of the file.
    lines = refusal(study_with, **{key: value})
    last = len((tmp_path / "config.txt").read_text().splitlines())
    assert f"{tmp_path / 'config.txt'}: line {last}: {message}" in "\n".join(lines)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"TOPOLOGY_FILE": None}, "TOPOLOGY_FILE is missing; the simulator has no usable default for it"),
        ({"RP_TIMER": None}, "RP_TIMER is missing"),
        ({"KMAX_MAP": None}, "KMAX_MAP is missing; ENABLE_QCN 1 needs it"),
        ({"CC_MODE": "3", "HAS_WIN": "0"}, "HAS_WIN: must be 1 for HPCC"),
        ({"CC_MODE": "3", "HAS_WIN": "1", "MULTI_RATE": "1"}, "MULTI_RATE: 1 is not supported, only 0"),
        ({"CC_MODE": "3", "HAS_WIN": "1", "SAMPLE_FEEDBACK": "1"}, "SAMPLE_FEEDBACK: 1 is not supported"),
        ({"CC_MODE": "3", "HAS_WIN": "1", "MULTI_RATE": None}, "MULTI_RATE: is missing, but the simulator's"),
        ({"CC_MODE": "10", "PINT_LOG_BASE": "1"}, "PINT_LOG_BASE: must be above 1 and at most 65536"),
        ({"CC_MODE": "10", "PINT_PROB": "0"}, "PINT_PROB: must be above 0 and at most 1"),
        ({"TOPOLOGY_FILE": "none.txt"}, "TOPOLOGY_FILE: no such file: 'none.txt', neither in"),
        ({"FLOW_FILE": "."}, "cannot be read: not a file"),
        ({"LINK_DOWN": "1 8 9", "SIMULATOR_STOP_TIME": "3"}, "LINK_DOWN: no link joins node 8 and node 9"),
        ({"LINK_DOWN": "1 9 8", "SIMULATOR_STOP_TIME": "3"}, "LINK_DOWN: no link joins node 9 and node 8"),
        (
            {"KMIN_MAP": "1 100000000000 400"},
            "KMIN_MAP, KMAX_MAP, PMAX_MAP: 200000000000 is not in all of them, and a switch has a port of ",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    changes: dict[str, str | None], message: str, study_with: StudyWith
) -> None:
    assert message in "\n".join(refusal(study_with, **changes))


def test_a_key_given_twice_is_refused_with_both_lines(study_with: StudyWith) -> None:
    (line,) = refusal(study_with, CC_MODE="1\nHAS_WIN 0")
    assert line.endswith("HAS_WIN is given twice, first in line 19")


def test_all_errors_are_reported_together_up_to_twenty(study_with: StudyWith) -> None:
    assert len(refusal(study_with, CC_MODE="2", BUFFER_SIZE="0", ENABLE_QCN="2")) == 3
    lines = refusal(study_with, **{f"SURPRISE_{index}": "1" for index in range(25)})
    assert len(lines) == 21
    assert lines[-1].endswith("config.txt: and 5 more mistakes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "topology.txt: the file is empty; the first line is 'nodes switches links'"),
        ("9 1\n", "line 1: has 2 values; the first line is 'nodes switches links'"),
        ("9 8 1 1 8 H100\n", "line 1: has 6 values, as in topologies of SimAI, whose NVSwitches"),
        ("0 0 0\n", "line 1: the number of nodes must be a whole number from 1 to 65536: got '0'"),
        (
            "99999999999999999999999 1 8\n",
            "line 1: the number of nodes must be a whole number from 1 to 65536",
        ),
        ("3 4 1\n", "line 1: 4 switches are more than the 3 nodes"),
        ("3 1 2\n", "topology.txt: 0 numbers of switches; the first line announces 1"),
        ("3 1 2\n2 1\n", "line 2: 2 numbers of switches; the first line announces 1"),
        ("3 1 2\n3\n", "line 2: a switch's number must be a whole number from 0 to 2: got '3'"),
        ("3 2 2\n2 2\n", "line 2: switch 2 is named twice"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n", "ends after 1 links; its first line announces 2"),
        ("3 1 1\n2\n0 2 1Gbps 1us\n", "line 3: has 4 values; a link is 'node node rate delay error_rate'"),
        (
            "3 1 1\n2\n0 3 1Gbps 1us 0\n",
            "line 3: a node's number must be a whole number from 0 to 2: got '3'",
        ),
        ("3 1 1\n2\n0 0 1Gbps 1us 0\n", "line 3: a link from node 0 to itself"),
        ("3 1 1\n2\n0 2 0Gbps 1us 0\n", "line 3: rate: must be above 0: got '0Gbps'"),
        ("3 1 1\n2\n0 2 0.3bps 1us 0\n", "line 3: rate: '0.3bps' is not a whole number of bits per second"),
        ("3 1 1\n2\n0 2 1Gbps -1us 0\n", "line 3: delay: a duration must not be negative: got '-1us'"),
        ("3 1 1\n2\n0 2 1Gbps 1us 0.1\n", "line 3: error_rate: '0.1' is not supported, only 0"),
    ],
)
def test_a_bad_topology_is_refused(text: str, message: str, study_with: StudyWith, tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text(text)
    assert message in "\n".join(refusal(study_with, ENABLE_QCN="0"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "flow.txt: the file is empty; the first line is the number of flows"),
        ("0\n", "line 1: the number of flows must be a whole number from 1 to 10000000: got '0'"),
        ("1 2\n", "line 1: has 2 values; the first line is the number of flows"),
        ("1e9\n", "line 1: the number of flows must be a whole number"),
        ("2\n1 0 3 100 10 0\n", "flow.txt: ends after 1 flows; its first line announces 2"),
        ("1\n1 0 3 100 10\n", "line 2: has 5 values; a flow is 'src dst priority dport bytes start_s'"),
        ("1\n\n1 1 3 100 10 0\n", "line 3: a flow from node 1 to itself"),
        ("1\n8 0 3 100 10 0\n", "line 2: src: node 8 is a switch; flows run between hosts"),
        ("1\n0 8 3 100 10 0\n", "line 2: dst: node 8 is a switch; flows run between hosts"),
        ("1\n1 9 3 100 10 0\n", "line 2: dst: 9 is not a node; the last is 8"),
        (
            "1\n1 0 0 100 10 0\n",
            "line 2: priority must be a whole number from 1 to 7: got '0'; 0 is the queue",
        ),
        ("1\n1 0 8 100 10 0\n", "line 2: priority must be a whole number from 1 to 7: got '8'"),
        ("1\n1 0 3 65536 10 0\n", "line 2: dport must be a whole number from 0 to 65535: got '65536'"),
        ("1\n1 0 3 100 0 0\n", "line 2: bytes must be a whole number from 1 to 9223372036854775807: got '0'"),
        ("1\n1 0 3 100 9223372036854775808 0\n", "line 2: bytes must be a whole number from 1 to"),
        ("1\n1 0 3 100 10 -1\n", "line 2: start must not be negative: got '-1'"),
        ("1\n1 0 3 100 10 nan\n", "line 2: start must be a finite number: got 'nan'"),
        ("1\n1 0 3 100 10 1e9\n", "line 2: start must be at most 9223372: got '1e9'"),
        ("1\n1 0 3 100 1_0 0\n", "line 2: bytes must be a whole number"),
        ("1\n1 0 3 100 ١ 0\n", "line 2: bytes must be a whole number"),
    ],
)
def test_bad_flows_are_refused(text: str, message: str, study_with: StudyWith, tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text(text)
    assert message in "\n".join(refusal(study_with))


def test_hosts_without_a_path_are_refused(study_with: StudyWith, tmp_path: Path) -> None:
    # Host 1 is linked to both switches, and a host does not forward.
    links = ["0 3 1Gbps 1us 0", "1 3 1Gbps 1us 0", "1 4 1Gbps 1us 0", "2 4 1Gbps 1us 0"]
    (tmp_path / "topology.txt").write_text("\n".join(["5 2 4", "3 4", *links]))
    (tmp_path / "flow.txt").write_text("3\n0 1 3 100 10 0\n1 2 3 100 10 0\n0 2 3 100 10 0\n")
    (line,) = refusal(study_with, ENABLE_QCN="0")
    assert line == f"{tmp_path / 'flow.txt'}: line 4: node 0 has no path to node 2"


def test_a_buffer_without_room_for_a_packet_is_refused(study_with: StudyWith, tmp_path: Path) -> None:
    # 1 MiB less 8 × 4096 bytes; 3 × 200 Gb/s × 1.7 us are 127,500 bytes of headroom per port.
    text = (tmp_path / "topology.txt").read_text().replace("0.0005ms", "1700ns")
    (tmp_path / "topology.txt").write_text(text)
    (line,) = refusal(study_with, BUFFER_SIZE="1")
    assert "BUFFER_SIZE: 1048576 bytes are too few for switch 8, which needs 1053768" in line
    (tmp_path / "topology.txt").write_text(text.replace("1700ns", "1600ns"))
    assert study_with(BUFFER_SIZE="1").config.buffer_bytes == 2**20


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.txt: no such file"):
        load_study(tmp_path / "config.txt")


def test_bytes_that_are_not_text_are_refused(study_with: StudyWith, tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_bytes(b"1\n\xff")
    (line,) = refusal(study_with)
    assert line == f"{tmp_path / 'flow.txt'}: is not UTF-8 text: byte 2 cannot be decoded"
