"""Handles Ctrl-C during a run."""

import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self


class Interruption:
    """Context in which the first Ctrl-C only sets `received`, so that the current step is completed; a second
    one raises `KeyboardInterrupt` as usual.

    Python delivers signals to the main thread only, so in other threads nothing changes.
    """

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> Self:
        self._handles = threading.current_thread() is threading.main_thread()
        if self._handles:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        signal.signal(signal.SIGINT, self._before)
        # The handler installed before may report the interruption at once.
        if callable(self._before):
            with suppress(KeyboardInterrupt):
                self._before(number, frame)
