"""Ctrl-C in the middle of a run."""

import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self


class Interruption:
    """Within it, the first Ctrl-C is only noted, so that no step is left half done; a second one raises
    `KeyboardInterrupt` as usual.

    Signals reach the main thread alone: elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.came = False

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
        self.came = True
        signal.signal(signal.SIGINT, self._before)
        # Whoever waits for it may say so at once.
        if callable(self._before):
            with suppress(KeyboardInterrupt):
                self._before(number, frame)
