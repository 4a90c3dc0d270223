"""What tests of sweeps share: a cache of the test's own, and a plan of two jobs."""

from pathlib import Path
from typing import Any

import pytest

Tables = dict[str, Any]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache of the test's user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hocket" / "sweep"


@pytest.fixture
def halves() -> Tables:
    """Two jobs that are Up at 40 Gbps for half of 180 ms on a link of 50 Gbps.

    Together they send at 25 Gbps each, and the 90 ms at 40 Gbps take 144 ms: an iteration is 234 ms. Shifted
    by 90 ms they take turns in 180 ms.
    """
    up = [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]
    return {
        "link": {"capacity": "50 Gbps"},
        "run": {"iterations": 10},
        "jobs": [{"name": name, "period": "180 ms", "up": up} for name in "ab"],
    }
