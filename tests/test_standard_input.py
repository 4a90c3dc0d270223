"""`-` for a file is standard input, TOML or JSON, with paths relative to the current directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import CommandResult

ROOT = Path(__file__).parents[1]
PLAN = (ROOT / "examples" / "two_jobs.toml").read_text(encoding="utf-8")
FABRIC = (ROOT / "examples" / "two_racks.toml").read_text(encoding="utf-8")
TRACE = (ROOT / "examples" / "cluster" / "snapshot.toml").read_text(encoding="utf-8")
COUNTERS = (ROOT / "experiments" / "recorded-allreduce" / "one-phase.csv").read_text(encoding="utf-8")


def hocket(directory: Path, given: str, *arguments: str) -> CommandResult:
    done = subprocess.run(
        [sys.executable, "-m", "hocket", *arguments],
        input=given,
        cwd=directory,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (PLAN, ("compat", "-")),
        (PLAN, ("run", "-", "--set", "run.iterations=3")),
        (PLAN, ("sweep", "-", "--set", "run.iterations=3", "--no-cache", "--workers", "1")),
        (PLAN, ("export", "-")),
        (FABRIC, ("fabric", "-")),
        (TRACE, ("trace", "-")),
        (COUNTERS, ("profile", "-")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_that_read_a_file_read_standard_input(
    tmp_path: Path, given: str, arguments: tuple[str, ...]
) -> None:
    outcome = hocket(tmp_path, given, *arguments)
    assert outcome.code == 0, outcome.err
    assert outcome.out


def test_json_on_standard_input_is_recognised_by_its_brace(tmp_path: Path) -> None:
    refused = hocket(tmp_path, '{"link": {"capacity": "50 Gbps"}}', "compat", "-")
    assert refused.err == "error: /dev/stdin: jobs: is missing\n"
    refused = hocket(tmp_path, '\n[link]\ncapacity = "50 Gbps"\ncolour = 1\n', "compat", "-")
    assert "error: /dev/stdin:4: link.colour: is not a known key" in refused.err


def test_a_run_of_standard_input_is_named_so(tmp_path: Path) -> None:
    assert hocket(tmp_path, PLAN, "run", "-", "--set", "run.iterations=1").code == 0
    assert (tmp_path / "hocket-runs" / "stdin" / "manifest.json").exists()


def test_relative_paths_in_standard_input_start_from_the_current_directory(tmp_path: Path) -> None:
    plan = '[fabric.lingjun]\nfile = "there.txt"\n[[jobs]]\nname = "a"\ntraining = { model = "VGG16" }\n'
    assert "there.txt: cannot be read" in hocket(tmp_path, plan, "compat", "-").err
    (tmp_path / "there.txt").write_text("no fabric", encoding="utf-8")
    assert "there.txt: cannot be read" not in hocket(tmp_path, plan, "compat", "-").err
