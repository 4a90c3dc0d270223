"""The commands as a user runs them: what they print, what they write, and how they end."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.progress import Progress
from tests.conftest import half, shared_link

from hocket import Run, _hocket, console, load_plan
from hocket.results import RunWriter
from hocket.version import version_text

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "snapshot1.toml"
RECORDED = ROOT / "experiments" / "recorded-allreduce"

Command = Callable[..., Any]
Tables = dict[str, Any]


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """A plan of two jobs that can take turns."""
    path = tmp_path / "halves.json"
    plan = shared_link(half("a"), half("b"), run={"iterations": 30})
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def test_python_m_hocket_gives_the_answer_of_the_library(hocket_process: Command, halves: Path) -> None:
    outcome = hocket_process("compat", halves, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    answer = outcome.json()
    assert (answer["score"], answer["proven_optimal"], answer["perimeter_s"]) == (1.0, True, 0.18)
    assert answer["time_shifts_s"] == {"a": 0.0, "b": 0.09}
    assert answer["rotations_deg"] == {"a": 0.0, "b": 180.0}


def test_compat_prints_the_score_the_proof_the_shifts_and_the_speed_up(hocket: Command, halves: Path) -> None:
    outcome = hocket("compat", halves)
    assert (outcome.code, outcome.err) == (0, "")
    assert "\nshifting helps: speed-up 1.30 on average, 1.30 at p99\n" in outcome.out
    assert "\nscore 1.000 (proven optimal): the jobs can take turns\n" in outcome.out
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["b", "180.00", "1", "180.0", "90.00"] in lines
    # Alone, sharing and shifted: mean and p99 each.
    assert ["b", "180.00", "180.00", "234.00", "234.00", "180.00", "180.00"] in lines


def test_strict_and_precision_change_the_search(hocket: Command, halves: Path) -> None:
    assert hocket("compat", halves, "--json").json()["precision_deg"] == 0
    assert hocket("compat", halves, "--precision", "30", "--json").json()["precision_deg"] == 30
    assert "score 1.000" in hocket("compat", halves, "--strict").out


def test_no_line_is_cut_or_wrapped_in_a_pipe(hocket_process: Command, tmp_path: Path) -> None:
    names = [letter * 100 for letter in "ab"]
    path = tmp_path / "long.json"
    path.write_text(
        json.dumps({"link": {"capacity": "50 Gbps"}, "jobs": [half(name) for name in names]}),
        encoding="utf-8",
    )
    for command in ("compat", "run"):
        out = hocket_process(command, path).out
        assert all(name in out for name in names)
        assert "…" not in out


def test_names_that_look_like_markup_are_printed_literally(hocket: Command, tmp_path: Path) -> None:
    path = tmp_path / "[bold]plan.json"
    path.write_text(
        json.dumps({"link": {"capacity": "50 Gbps"}, "jobs": [half("[red]a[/red]"), half("[/b]")]}),
        encoding="utf-8",
    )
    for command in ("compat", "run"):
        outcome = hocket(command, path)
        assert outcome.code == 0
        assert "[red]a[/red]" in outcome.out
        assert "[bold]plan.json" in outcome.out


@pytest.mark.parametrize(("suffix", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG\r\n")])
def test_compat_draws_the_circles(
    hocket: Command, halves: Path, tmp_path: Path, suffix: str, begins: bytes
) -> None:
    figure = tmp_path / f"circles.{suffix}"
    outcome = hocket("compat", halves, "--figure", figure)
    assert outcome.code == 0
    assert str(figure) in outcome.err
    assert figure.read_bytes().startswith(begins)


def test_run_writes_tables_and_a_manifest_and_prints_a_summary(
    hocket_process: Command, halves: Path, tmp_path: Path
) -> None:
    outcome = hocket_process("run", halves)
    assert (outcome.code, outcome.err.strip()) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["a", "30", "234.00", "234.00", "234.00", "144.00", "0.00", "0"] in lines
    run = Run.read(tmp_path / "hocket-runs" / "halves")
    assert run.manifest["status"] == "complete"
    assert run.tables["iterations"].height == 60


def test_run_prints_the_manifest_as_json(hocket: Command, halves: Path, tmp_path: Path) -> None:
    outcome = hocket("run", halves, "--json", "--out", tmp_path / "out")
    assert outcome.code == 0
    assert outcome.json() == Run.read(tmp_path / "out").manifest


@pytest.mark.parametrize("series", ["one-phase", "two-phases"])
def test_a_profile_of_real_counters_is_a_job_that_compat_takes(
    hocket: Command, tmp_path: Path, series: str
) -> None:
    job = tmp_path / "job.toml"
    figure = tmp_path / "evidence.svg"
    command = (
        "profile",
        RECORDED / f"{series}.csv",
        "--capacity",
        "1 Gbps",
        "--out",
        job,
        "--figure",
        figure,
    )
    outcome = hocket(*command, "--json")
    assert outcome.code == 0
    found = outcome.json()
    assert found["confidence"] > 0.5
    assert "warning" not in outcome.err
    assert figure.read_bytes().startswith(b"<?xml")
    assert load_plan(job).jobs[0].name == series
    answer = hocket("compat", job, "--json").json()
    assert answer["score"] == 1.0
    assert answer["periods_s"][series] == pytest.approx(found["period_s"], rel=1e-6)
    assert hocket("run", job, "--out", tmp_path / "out").code == 0


def test_profile_warns_where_the_series_shows_no_clear_period(hocket: Command, tmp_path: Path) -> None:
    # Bytes from a pseudo-random number generator have no period within the series.
    state, count, lines = 1, 0, ["time_s,tx_bytes"]
    for index in range(600):
        state = state * 48271 % (2**31 - 1)
        count += state % 1_000_000
        lines.append(f"{index / 100},{count}")
    path = tmp_path / "noise.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    outcome = hocket("profile", path)
    assert outcome.code == 0
    assert "is below 0.5: the series does not show a clear period" in outcome.err


def test_a_plan_runs_on_the_given_engine_and_writes_a_perfetto_file_on_request(
    hocket: Command, halves: Path, tmp_path: Path
) -> None:
    plan = json.loads(halves.read_text(encoding="utf-8"))
    up = [{"start": "0 ms", "duration": "0.5 ms", "rate": "40 Gbps"}]
    plan["jobs"] = [{**job, "period": "1 ms", "up": up} for job in plan["jobs"]]
    plan["run"] = {"iterations": 3, "perfetto": True, "record_rates_until": "1 ms"}
    halves.write_text(json.dumps(plan), encoding="utf-8")
    outcome = hocket("run", halves, "--engine", "packet", "--out", tmp_path / "out")
    assert outcome.code == 0
    assert "packet-hops" in outcome.out
    assert "dcqcn" in outcome.out
    assert "run.record_rates_until: the packet engine records samples instead" in outcome.out
    assert Run.read(tmp_path / "out").manifest["engine"] == "packet"
    events = json.loads((tmp_path / "out" / "perfetto.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {"X", "M"} <= {event["ph"] for event in events}


def test_set_overrides_keys_of_the_file(hocket: Command, halves: Path, tmp_path: Path) -> None:
    settings = ("--set", "run.iterations=3", "--set", "jobs.*.jitter=0")
    assert hocket("run", halves, *settings, "--out", tmp_path / "out").code == 0
    assert Run.read(tmp_path / "out").tables["jobs"]["iterations"].to_list() == [3, 3]
    assert "run.iteration: is not a known key" in hocket("run", halves, "--set", "run.iteration=3").err
    several = hocket("run", halves, "--set", "run.iterations=3,4")
    assert several.code == 2
    assert "--set run.iterations: a run needs one value: got 2" in several.err


def test_the_version_is_printed(hocket: Command) -> None:
    assert hocket("--version").out == f"hocket {version_text()}\n"


def test_help_names_every_command(hocket: Command) -> None:
    outcome = hocket("--help")
    assert outcome.code == 0
    for command in ("compat", "run", "profile", "reproduce", "validate"):
        assert re.search(rf"^\s+{command}\s", outcome.out, re.MULTILINE)


def test_a_closed_pipe_causes_no_traceback(halves: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "hocket", "compat", str(halves), "--json"]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def told_on_terminal(terminal: int, until: bytes, timeout_s: float) -> bytes:
    """What was written to a terminal up to `until`."""
    written, deadline = b"", time.monotonic() + timeout_s
    while until not in written and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            written += os.read(terminal, 4096)
    return written


def test_ctrl_c_ends_a_run_with_130_and_keeps_what_was_finished(tmp_path: Path) -> None:
    plan = {"link": {"capacity": "50 Gbps"}, "run": {"until": "1000000 s"}, "jobs": [half("a"), half("b")]}
    (tmp_path / "long.json").write_text(json.dumps(plan), encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hocket", "run", "long.json", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    try:
        assert b"simulated" in told_on_terminal(ours, b"simulated", timeout_s=60)
        process.send_signal(signal.SIGINT)
        reader = threading.Thread(target=told_on_terminal, args=(ours, b"finished", 60))
        reader.start()
        printed, _ = process.communicate(timeout=60)
        reader.join()
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 130
    assert "written to out" in printed
    run = Run.read(tmp_path / "out")
    assert run.interrupted
    assert run.tables["iterations"].height == run.tables["jobs"]["iterations"].sum() > 0
    assert run.tables["iterations"].select(pl.col("end_s").max()).item() < 10**6


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presses Ctrl-C at a run's first progress report, one of which comes every 65,536 events."""
    monkeypatch.setattr(Progress, "update", lambda *_, **__: signal.raise_signal(signal.SIGINT))


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_prints_a_message_before_finished_rows_are_written(
    hocket: Command, halves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    write = RunWriter.finish

    def noted(writer: RunWriter, manifest: Mapping[str, Any]) -> Run:
        steps.append(f"{manifest['counts']['iterations']} iterations")
        return write(writer, manifest)

    monkeypatch.setattr(console.err, "print", steps.append)
    monkeypatch.setattr(RunWriter, "finish", noted)

    outcome = hocket("run", halves, "--set", "run.iterations=1_000_000")

    assert outcome.code == 130
    word, written, *_ = steps
    assert word == "interrupted: writing what was finished; Ctrl-C again ends without it"
    # The run looks for Ctrl-C every 65,536 events; an iteration has at least two events.
    assert 0 < int(written.removesuffix(" iterations")) <= 65_536


@pytest.mark.usefixtures("interrupted")
def test_a_second_ctrl_c_ends_a_run_without_writing(
    hocket: Command, halves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(_: RunWriter, name: str, columns: Any) -> None:
        # The last table of all: the first Ctrl-C has ended the run by then.
        if name == "jobs" and columns["job"]["buffer"]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunWriter, "append", press)
    outcome = hocket("run", halves, "--set", "run.iterations=1_000_000", "--out", "out")
    assert outcome.code == 130
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_ctrl_c_in_compat_prints_the_best_answer_found_with_its_bound(
    hocket: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = []
    for number, period_ms in enumerate([360, 180, 120, 90, 72, 60] * 3):
        up = [
            {"start": "0 ms", "duration": f"{5 + number} ms", "rate": f"{10 + number} Gbps"},
            {"start": "40 ms", "duration": f"{3 + number % 7} ms", "rate": f"{12 + number} Gbps"},
        ]
        jobs.append({"name": f"j{number}", "period": f"{period_ms} ms", "up": up})
    plan = {
        # The mean demand is 74.5 Gbps: what the load alone proves would leave nothing to interrupt.
        "link": {"capacity": "75 Gbps", "precision_deg": 1},
        "compat": {"time_limit": "1 h"},
        "jobs": jobs,
    }
    (tmp_path / "hard.json").write_text(json.dumps(plan), encoding="utf-8")
    solve = _hocket.solve_link

    def interrupted(*arguments: Any) -> Any:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return solve(*arguments)

    monkeypatch.setattr(_hocket, "solve_link", interrupted)
    outcome = hocket("compat", "hard.json")
    assert outcome.code == 130
    assert re.search(r"score -?[0-9.]+ \(the best found; no shifts reach more than [0-9.]+\)", outcome.out)
    assert "interrupted" in outcome.err


def failing(error: BaseException) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


def test_an_internal_error_names_its_place_and_how_to_report_it(
    hocket: Command, halves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hocket.compat.answer.compatibility", failing(AssertionError("a plan has [jobs]")))
    found = hocket("compat", halves)
    assert found.code == 70
    first, *places = found.err.splitlines()
    assert first == "internal error: AssertionError: a plan has [jobs]"
    assert re.fullmatch(r"  hocket/compat/commands\.py:\d+, in compat_command", places[0])
    assert f"This is a defect of Hocket {version_text()}, not a mistake in your input" in found.err
    assert "Traceback" not in found.err
    monkeypatch.setenv("HOCKET_TRACEBACK", "1")
    assert "Traceback" in hocket("compat", halves).err


def test_a_failed_assertion_in_the_check_of_a_plan_is_an_internal_error(
    hocket: Command, halves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hocket.plan.plan.plan_mistakes", failing(AssertionError("a checked plan has jobs")))
    found = hocket("compat", halves)
    assert (found.code, "internal error: AssertionError: a checked plan has jobs" in found.err) == (70, True)
    assert "hocket/plan/plan.py" in found.err
