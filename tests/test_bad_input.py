"""Every invalid input ends in one message that names the file, the key, the value and the limit, and in
exit code 2; never in a traceback or a panic.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tables = dict[str, Any]
Command = Callable[..., Any]

UP = {"start": "0 ms", "duration": "60 ms", "rate": "30 Gbps"}
LINK = {"capacity": "50 Gbps"}


def plan(*, link: object = LINK, up: object = (UP,), **changes: object) -> str:
    """A plan of one job as JSON, with `changes` to the job."""
    job = {"name": "a", "period": "180 ms", "up": up, **changes}
    return json.dumps({"link": link, "jobs": [job]})


def plan_with(**tables: object) -> str:
    """A plan of one job as JSON, with `tables` beside it."""
    return json.dumps({**json.loads(plan()), **tables})


BAD_PLANS = {
    "an unknown key": (plan(perod="1 s"), "jobs[0].perod: is not a known key; did you mean 'period'?"),
    "a missing unit": (plan(period="180"), "jobs[0].period: a duration needs a unit such as ms: got '180'"),
    "a bare number": (
        plan(link={"capacity": 50}),
        'link.capacity: a rate is written as text with a unit, such as "10 Gbps": got 50',
    ),
    "a unit of another kind": (
        plan(period="180 Gbps"),
        "jobs[0].period: '180 Gbps' is a rate; here a duration is needed, such as 10 ms",
    ),
    "a phase outside its period": (
        plan(up=[{**UP, "start": "150 ms"}]),
        "jobs[0].up[0]: 150 ms + 60 ms does not fit in the period of 180 ms",
    ),
    "a phase within another": (
        plan(up=[UP, {**UP, "start": "30 ms"}]),
        "jobs[0].up[1].start: 30 ms is before up[0] ends at 60 ms",
    ),
    "a rate above the link's": (
        plan(up=[{**UP, "rate": "60 Gbps"}]),
        "jobs[0].up[0].rate: 60 Gbps is above the link's capacity of 50 Gbps",
    ),
    "a period of zero": (
        plan(period="0 ms"),
        "jobs[0].period: a duration must be above 0 here: got '0 ms'",
    ),
    "a phase of zero": (
        plan(up=[{**UP, "duration": "0 ms"}]),
        "jobs[0].up[0].duration: a duration must be above 0 here: got '0 ms'",
    ),
    "a negative start": (
        plan(up=[{**UP, "start": "-1 ms"}]),
        "jobs[0].up[0].start: a duration must not be negative: got '-1 ms'",
    ),
    "a capacity of zero": (
        plan(link={"capacity": "0 Gbps"}),
        "link.capacity: a rate must be above 0 here: got '0 Gbps'",
    ),
    "10,000 phases": (
        plan(up=[{**UP, "start": f"{n} us", "duration": "1 us"} for n in range(10_000)]),
        "jobs[0].up: has more than 1000 entries: got 10000",
    ),
    "NaN as JSON's number": (plan(jitter=math.nan), "has the number NaN; only finite numbers are allowed"),
    "NaN with a unit": (plan(period="nan ms"), "jobs[0].period: a duration is a finite number and a unit"),
    "a number above the largest": (plan(jitter=2), "jobs[0].jitter: must be at most 1: got 2"),
    "more than 63 bits": (
        plan(period="9223372036854775808 ps"),
        "jobs[0].period: '9223372036854775808 ps' is above the largest value, 9,223,372 s",
    ),
    "a fraction of a picosecond": (
        plan(period="0.5 ps"),
        "jobs[0].period: '0.5 ps' is not a whole number of ps, the finest resolution",
    ),
    "no jobs": ('{"link": {"capacity": "50 Gbps"}, "jobs": []}', "jobs: has too few entries: got 0"),
    "neither link nor fabric": (
        plan(link=None),
        "a plan needs either a [link] or a [fabric]: got neither",
    ),
    "an unknown workload": (
        '{"link": {"capacity": "50 Gbps"}, "jobs": '
        '[{"name": "a", "workload": "VGG61", "batch_size": 1024, "workers": 2}]}',
        "jobs[0].workload: 'VGG61' is not a workload of the catalogue; did you mean",
    ),
    "a batch size outside the catalogue's": (
        '{"link": {"capacity": "50 Gbps"}, "jobs": '
        '[{"name": "a", "workload": "VGG16", "batch_size": 9999, "workers": 2}]}',
        "jobs[0].batch_size: 9999 is outside the catalogue's batch sizes for VGG16, 512 to 1800",
    ),
    "an unknown engine": (
        plan_with(run={"engine": "photon"}),
        "run.engine: must be 'flow' or 'packet': got 'photon'",
    ),
    "samples every 0 s": (
        plan_with(run={"sample_every": "0 s"}),
        "run.sample_every: a duration must be above 0 here: got '0 s'",
    ),
    "skipping ahead a number of times": (
        plan_with(run={"skip_ahead": 3}),
        "run.skip_ahead: must be true, false or a table of tolerance and cycles: got 3",
    ),
    "a tolerance of a whole iteration": (
        plan_with(run={"skip_ahead": {"tolerance": 1}}),
        "run.skip_ahead.tolerance: must be below 1: got 1",
    ),
    "a single cycle to compare": (
        plan_with(run={"skip_ahead": {"cycles": 1}}),
        "run.skip_ahead.cycles: must be at least 2: got 1",
    ),
    "an unknown congestion control": (
        plan(congestion="cubic"),
        "jobs[0].congestion: must be one of 'pfc-only', 'dcqcn', 'dctcp', 'timely', 'hpcc', 'hpcc-pint', "
        "'static-window', 'receiver-driven', or a table that maps one of them to its parameters: got 'cubic'",
    ),
    "two congestion controls": (
        plan(congestion={"dcqcn": {}, "hpcc": {}}),
        "jobs[0].congestion: must name exactly one congestion control, of pfc-only, dcqcn, ",
    ),
    "a parameter of no unit": (
        plan(congestion={"dcqcn": {"increase_timer": 125}}),
        "jobs[0].congestion.dcqcn.increase_timer: a duration is written as text with a unit",
    ),
    "a misspelt parameter": (
        plan(congestion={"dcqcn": {"increase_tmer": "125 us"}}),
        "jobs[0].congestion.dcqcn.increase_tmer: is not a known key; did you mean 'increase_timer'?",
    ),
    "a parameter of another control": (
        plan(congestion={"hpcc": {"increase_timer": "125 us"}}),
        "jobs[0].congestion.hpcc.increase_timer: is not a known key; known: target_utilisation, ",
    ),
    "a parameter given in two spellings": (
        plan(congestion={"dcqcn": {"T": "125 us", "rp_time_reset": 125}}),
        "jobs[0].congestion.dcqcn.rp_time_reset: means the same as T; give one of them",
    ),
    "a NIC's setting that is no whole number": (
        plan(congestion={"dcqcn": {"rp_dce_tcp_g": 1024}}),
        "jobs[0].congestion.dcqcn.rp_dce_tcp_g: must be a whole number from 0 to 1023: got 1024",
    ),
    "an unknown preset": (
        plan(congestion={"dcqcn": {"preset": "mlx4"}}),
        "jobs[0].congestion.dcqcn.preset: must be 'recommended', 'mlx5', 'sigcomm15' or 'hotnets22': "
        "got 'mlx4'",
    ),
    "a gain above 1": (
        plan(congestion={"dctcp": {"gain": 2}}),
        "jobs[0].congestion.dctcp.gain: must be at most 1: got 2",
    ),
    "a window of nothing": (plan(window="0 B"), "jobs[0].window: must be above 0 B: got '0 B'"),
    "a window without a unit": (
        plan(window="some"),
        'jobs[0].window: must be "unlimited", "path", "path-scaled" or bytes such as "64 kB": got \'some\'',
    ),
    "two windows": (
        plan(congestion="static-window", window="64 kB"),
        "jobs[0].window: static-window has a window of its own: congestion = { static-window = ",
    ),
    "an unknown path": (
        plan(path="fastest"),
        'jobs[0].path: must be "ecmp", "spray" or a list of links: got \'fastest\'',
    ),
    "a path on one link": (
        plan(path=["link"]),
        "jobs[0].path: names links of a [fabric]; on one shared [link] there is only one path",
    ),
    "a buffer below one packet": (
        plan_with(switch={"buffer": "100 B"}),
        "switch.buffer: must be from 1 kB to 4.294967295 GB: got '100 B'",
    ),
    "thresholds out of order": (
        plan_with(
            switch={
                "marking": [
                    {"rate": "25 Gbps", "minimum": "400 kB", "maximum": "100 kB", "probability": 0.2},
                    {"rate": "25 Gbps", "minimum": "1 kB", "maximum": "2 kB", "probability": 0.2},
                ]
            }
        ),
        "switch.marking[0].minimum: 400 kB is above maximum, 100 kB",
    ),
    "thresholds of one rate given twice": (
        plan_with(
            switch={
                "marking": [
                    {"rate": "25 Gbps", "minimum": "1 kB", "maximum": "2 kB", "probability": 0.2},
                    {"rate": "25 Gbps", "minimum": "1 kB", "maximum": "2 kB", "probability": 0.2},
                ]
            }
        ),
        "switch.marking[1].rate: is given twice",
    ),
    "a probability above 1": (
        plan_with(
            switch={
                "marking": [{"rate": "25 Gbps", "minimum": "1 kB", "maximum": "2 kB", "probability": 1.5}]
            }
        ),
        "switch.marking[0].probability: must be at most 1: got 1.5",
    ),
    "seven weights": (
        plan_with(switch={"scheduling": {"weighted": [1] * 7}}),
        'switch.scheduling: must be "strict", "round-robin" or { weighted = [w0, …, w7] } with 8 whole '
        "weights from 1 to 65535: got a table",
    ),
    "an unknown headroom": (
        plan_with(switch={"headroom": "enough"}),
        'switch.headroom: must be "computed", "three-delays" or bytes such as "50 kB": got \'enough\'',
    ),
    "a threshold's exponent too large": (
        plan_with(switch={"dynamic_threshold": 5}),
        "switch.dynamic_threshold: must be at most 4: got 5",
    ),
    "a packet above the largest frame": (
        plan_with(host={"mtu": "10 kB"}),
        "host.mtu: must be from 64 B to 9 KiB: got '10 kB'",
    ),
    "a priority of CNPs above 7": (
        plan_with(host={"cnp_priority": 8}),
        "host.cnp_priority: must be at most 7: got 8",
    ),
    "no packet per acknowledgement": (
        plan_with(host={"ack_every": 0}),
        "host.ack_every: must be at least 1: got 0",
    ),
    "a change of an unknown link": (
        plan_with(changes=[{"at": "1 ms", "link": "lonk", "down": True}]),
        "changes[0].link: 'lonk' is not a link; did you mean 'link'?",
    ),
    "a change that changes nothing": (
        plan_with(changes=[{"at": "1 ms", "link": "link"}]),
        "changes[0]: needs either down = true or false, or a rate: got neither",
    ),
    "a change to more than a link's rate": (
        plan_with(changes=[{"at": "1 ms", "link": "link", "rate": "60 Gbps"}]),
        "changes[0].rate: 60 Gbps is above the link's own rate, 50 Gbps",
    ),
    "a host of no link": (
        json.dumps(
            {
                "fabric": {"links": [{"ends": ["s1", "s2"], "rate": "50 Gbps"}], "hosts": ["s3"]},
                "jobs": [{"name": "a", "period": "180 ms", "up": [UP], "placement": ["s1", "s2"]}],
            }
        ),
        "fabric.hosts[0]: 's3' is not at the end of any link",
    ),
    "a list instead of a plan": ("[]", "must be a table of keys: got a list"),
    "an empty file": ("", "is empty; a plan has at least a [link] or [fabric] and one of [[jobs]]"),
    "only white space": (" \n\t", "is empty"),
    "half a file": (plan()[:-20], "is not valid JSON: "),
    "brackets without end": ("[" * 100_000, "is nested too deeply to be a plan"),
}


def assert_is_one_clear_error(outcome: Any, *texts: object) -> None:
    """Exit code 2, no result printed, and one message that contains all of `texts`."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    message = " ".join(outcome.err.split())
    assert "Traceback" not in message
    assert "panicked" not in message
    assert len(outcome.err) < 2_000, "a message is read by a person"
    for each in texts:
        assert " ".join(str(each).split()) in message


@pytest.mark.parametrize("command", ["compat", "run"])
@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_bad_plan_is_one_message_with_file_key_value_and_limit(
    hocket: Command, tmp_path: Path, command: str, case: str
) -> None:
    text, message = BAD_PLANS[case]
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    assert_is_one_clear_error(hocket(command, path), f"{path}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[link]\ncapacity = "50 Gbps"\n[[jobs]\n', "is not valid TOML"),
        ("jobs = [nan]\n", "jobs[0]: must be a table"),
        ('[link]\ncapacity = "50 Gbps"\ncapacity = "40 Gbps"\n', "is not valid TOML"),
        ("seed = 1979-05-27\n", "seed: must be a whole number"),
        ("[link]\n", "link.capacity: is missing"),
    ],
)
def test_a_bad_toml_plan_is_one_message_with_the_file(
    hocket: Command, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    assert_is_one_clear_error(hocket("compat", path), f"{path}: ", message)


@pytest.mark.parametrize("command", ["compat", "run", "profile"])
@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 40, b"\x00" * 1000, b"\x89PNG\r\n\x1a\n\x00\x00", b""], ids=len
)
def test_binary_garbage_and_empty_files_are_refused_by_name(
    hocket: Command, tmp_path: Path, command: str, content: bytes
) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(content)
    assert_is_one_clear_error(hocket(command, path), path)


@pytest.mark.parametrize("command", ["compat", "run", "profile"])
def test_a_directory_a_missing_file_and_one_that_cannot_be_read_are_refused_by_file(
    hocket: Command, tmp_path: Path, command: str
) -> None:
    # Reading its own memory at address 0 fails for any process, even as root.
    for path in (tmp_path, tmp_path / "missing.toml", Path("/proc/self/mem")):
        assert_is_one_clear_error(hocket(command, path), path)


def test_a_plan_of_more_than_16_mb_is_not_read(hocket: Command, tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    path.write_bytes(b"#" * 16_000_001)
    assert_is_one_clear_error(hocket("run", path), f"{path}: is larger than the limit of 16 MB")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.json"
    path.write_text(plan(), encoding="utf-8")
    return path


@pytest.mark.parametrize(("given", "shown"), [("nan", "nan"), ("0.05", "0.05"), ("91", "91"), ("-5", "-5")])
def test_a_precision_outside_its_limits_is_refused(
    hocket: Command, good: Path, given: str, shown: str
) -> None:
    outcome = hocket("compat", good, f"--precision={given}")
    limits = "0 for all shifts, or from 0.1 to 90 degrees"
    assert_is_one_clear_error(outcome, f"--precision: must be {limits}: got {shown}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("compat",),
        ("compat", "good.json", "--precision", "five"),
        ("compat", "--fast", "good.json"),
        ("dance",),
    ],
)
def test_invalid_arguments_exit_with_2(hocket: Command, good: Path, arguments: list[str]) -> None:
    assert_is_one_clear_error(hocket(*arguments), "Usage: hocket")


def test_an_unknown_figure_format_is_refused_before_any_work(hocket: Command, good: Path) -> None:
    outcome = hocket("compat", good, "--figure", "circles.bmp")
    assert_is_one_clear_error(outcome, "circles.bmp: a figure is one of .svg, .png, .pdf: got '.bmp'")


def test_output_that_cannot_be_written_is_refused_by_name(hocket: Command, good: Path) -> None:
    below_a_file = good / "below"
    assert hocket("compat", good, "--figure", below_a_file / "circles.svg").code == 2
    assert_is_one_clear_error(
        hocket("run", good, "--out", below_a_file), f"{below_a_file}: cannot be written"
    )
    assert_is_one_clear_error(hocket("run", good, "--out", good), f"{good}: cannot be written")


def test_an_unknown_candidate_is_refused_by_name(hocket: Command, good: Path) -> None:
    outcome = hocket("run", good, "--candidate", "c1")
    assert_is_one_clear_error(outcome, good, "no candidate is called 'c1'; known: none")


def test_errors_found_only_by_the_engine_name_the_file_and_the_job(hocket: Command, tmp_path: Path) -> None:
    longest = "9223372036854775807 ps"
    path = tmp_path / "for ever.json"
    path.write_text(plan(period=longest, up=[{**UP, "duration": longest}]), encoding="utf-8")
    assert_is_one_clear_error(hocket("run", path), path, 'job "a"')
    assert_is_one_clear_error(hocket("compat", path), path, "the unified circle would be longer than 2305843")


@pytest.mark.parametrize(
    ("changes", "tables", "texts"),
    [
        (
            {"congestion": {"dcqcn": {"min_rate": "60 Gbps"}}},
            {},
            ('job "a"', "min_rate is 60 Gbps", "50 Gbps"),
        ),
        (
            {"congestion": {"timely": {"low": "600 us"}}},
            {},
            ('job "a"', "low is 600 us", "below high, 500 us"),
        ),
        ({}, {"switch": {"buffer": "20 kB"}}, ("buffer of switch", "20000 bytes")),
    ],
)
def test_errors_found_only_by_the_packet_engine_name_the_file_and_the_limit(
    hocket: Command, tmp_path: Path, changes: Tables, tables: Tables, texts: tuple[str, ...]
) -> None:
    path = tmp_path / "packets.json"
    path.write_text(json.dumps({**json.loads(plan(**changes)), **tables}), encoding="utf-8")
    assert_is_one_clear_error(hocket("run", path, "--engine", "packet"), path, *texts)


def test_an_unknown_engine_and_an_engine_for_a_study_are_refused(hocket: Command, good: Path) -> None:
    assert_is_one_clear_error(hocket("run", good, "--engine", "photon"), "'photon' is not one of")
    study = good.with_name("config.txt")
    study.write_text("CC_MODE 1\n", encoding="utf-8")
    assert_is_one_clear_error(hocket("run", study, "--engine", "flow"), "--engine: works only with plans")


def test_periods_too_far_apart_for_one_circle_name_the_file_and_the_limit(
    hocket: Command, tmp_path: Path
) -> None:
    jobs = [
        {"name": name, "period": period, "up": [{**UP, "duration": "1 ps"}]}
        for name, period in (("a", "1 ps"), ("b", "1 h"))
    ]
    path = tmp_path / "far apart.json"
    path.write_text(json.dumps({"link": LINK, "jobs": jobs}), encoding="utf-8")
    assert_is_one_clear_error(hocket("compat", path), path, "no common multiple up to 720 iterations")


def test_an_unknown_target_is_refused_by_name(hocket: Command) -> None:
    assert_is_one_clear_error(hocket("reproduce", "Z99"), "'Z99' is not a target; known: H1, H2")
    assert_is_one_clear_error(hocket("reproduce"), "reproduce: give the ids of targets, or --all, or --list")
    assert_is_one_clear_error(hocket("reproduce", "H1", "--all"), "reproduce: give")
