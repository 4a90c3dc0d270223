"""Ways to run the command line from a test: in this process, which is quick, and as a user does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hocket import cli


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its output, as JSON."""
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def hocket(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Runs `hocket` with these arguments in this process and an empty directory.

    What compiled code prints is captured too, so that a panic shows.
    """

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["hocket", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def hocket_process(tmp_path: Path) -> Command:
    """Runs `python -m hocket` with these arguments in a process of its own and an empty directory."""

    def run(*arguments: str | Path) -> Outcome:
        command = [sys.executable, "-m", "hocket", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
