"""The first Ctrl-C is noted, the second is one as usual."""

import os
import signal
import threading

import pytest

from hocket.cluster.interruption import Interruption


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_raises() -> None:
    with Interruption() as interruption:
        assert not interruption.came
        ctrl_c()
        assert interruption.came
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


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
