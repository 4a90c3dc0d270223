"""The first Ctrl-C is noted, the second is one as usual."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hocket.cluster.interruption import Interruption
from hocket.console import message_on_ctrl_c

ROOT = Path(__file__).parents[2]


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_raises() -> None:
    with Interruption() as interruption:
        assert not interruption.received
        ctrl_c()
        assert interruption.received
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_ctrl_c_is_handled_below_a_shell_that_ignores_it() -> None:
    # As `sh -c 'pytest &'` does.
    script = "trap '' INT; exec \"$@\""
    chosen = f"{__file__}::test_the_first_is_noted_and_the_second_raises"
    tests = [sys.executable, "-m", "pytest", chosen]
    run = subprocess.run(["sh", "-c", script, "sh", *tests], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_the_earlier_handler_reports_ctrl_c_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with message_on_ctrl_c("keeping it"), Interruption() as interruption:
        ctrl_c()
        assert interruption.received
        assert capsys.readouterr().err == "interrupted: keeping it; Ctrl-C again ends without it\n"
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_in_another_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run() -> None:
        with Interruption():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
