"""Plans small enough for a testbed on this machine, and whether the machine supports one."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hocket.testbed import state
from hocket.testbed.lifecycle import missing, take_down


def two_jobs() -> dict[str, Any]:
    """Two jobs on a link of 200 Mbps: 40 ms at 160 Mbps, every 100 ms."""
    up = [{"start": "60 ms", "duration": "40 ms", "rate": "160 Mbps"}]
    return {
        "link": {"capacity": "200 Mbps", "delay": "0 ms"},
        "run": {"iterations": 5},
        "jobs": [{"name": name, "period": "100 ms", "up": up} for name in ("a", "b")],
    }


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for the records of testbeds."""
    directory = tmp_path / "states"
    monkeypatch.setattr(state, "DIRECTORY", directory)
    return directory


@cache
def lacking_here() -> list[str]:
    """What this machine lacks for a testbed; checked once, since loading PyTorch takes seconds."""
    return missing()


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a testbed, which is removed after the test; skips if this machine does not support one."""
    lacking = lacking_here()
    if lacking:
        pytest.skip("; ".join(lacking))
    # Tests may run in several processes at once.
    name = f"test-{os.getpid()}"
    yield name
    take_down(name)
