"""Solves in a separate process with a time limit, so that the service keeps answering."""

import asyncio
import pickle
import struct
import sys
from collections.abc import Mapping
from typing import BinaryIO

from hocket.service.contention import Component, HeldSlot, Solution, solve

TIME_LIMIT_S = 30.0
"""Per component. Hocket: one of 64 jobs with a few phases each takes less than a second."""

_LENGTH = struct.Struct("<Q")


class Solver:
    """A process that solves one component at a time. It starts on the first call, and restarts if it has
    ended.
    """

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._time_limit_s = time_limit_s
        self._process: asyncio.subprocess.Process | None = None

    async def __call__(self, component: Component, held: Mapping[str, HeldSlot], jitter: float) -> Solution:
        """Like `contention.solve`; returns no slots if that takes too long or fails."""
        try:
            async with asyncio.timeout(self._time_limit_s):
                return await self._ask((component, held, jitter))
        except TimeoutError:
            why = f"solving took longer than {self._time_limit_s:g} s"
        except (asyncio.IncompleteReadError, ConnectionError):
            why = "solving failed; see the service's log"
        # Its answer to this question, if it still came, would be taken for that to the next.
        await self.close()
        return Solution({}, {}, {}, None, why)

    async def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def _ask(self, question: tuple[object, ...]) -> Solution:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hocket.service.solver"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Ctrl-C must reach only the service, which then ends this process.
                start_new_session=True,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "it is a pipe"
        assert stdout is not None, "it is a pipe"
        stdin.write(_framed(question))
        await stdin.drain()
        (length,) = _LENGTH.unpack(await stdout.readexactly(_LENGTH.size))
        # Safe, as nothing else writes to the pipe.
        solution = pickle.loads(await stdout.readexactly(length))
        assert isinstance(solution, Solution), "the process returns nothing else"
        return solution


def _framed(value: object) -> bytes:
    content = pickle.dumps(value)
    return _LENGTH.pack(len(content)) + content


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers until its input closes, which also happens when the service is killed."""
    while header := questions.read(_LENGTH.size):
        (length,) = _LENGTH.unpack(header)
        component, held, jitter = pickle.loads(questions.read(length))
        answers.write(_framed(solve(component, held, jitter)))
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
