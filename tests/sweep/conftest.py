"""Fixtures for sweeps: a cache for each test, and a plan of two jobs."""

from pathlib import Path

import pytest
from tests.conftest import Tables, half, shared_link


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The default cache, in the test's own directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hocket" / "sweep"


@pytest.fixture
def halves() -> Tables:
    """Two jobs that take turns in 180 ms if one is shifted by 90 ms; else their iterations take 234 ms."""
    return shared_link(half("a"), half("b"), run={"iterations": 10})
