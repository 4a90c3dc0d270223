"""How long a prediction is."""

from typing import Any

import pytest

from hocket import compatibility
from hocket.compat import prediction


def iterations_predicted(jobs: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The numbers of iterations that the flow engine would run for a plan of that many jobs on a link."""
    asked: set[int] = set()

    def run(table: str, network: object, specs: object, options: Any, add: object) -> None:
        asked.add(options["iterations"])

    monkeypatch.setattr(prediction, "run_for_table", run)
    up = {"start": "0 ms", "duration": "1 ms", "rate": "1 Gbps"}
    plan = {
        "link": {"capacity": f"{jobs} Gbps"},
        "jobs": [{"name": f"j{number}", "period": "10 ms", "up": [up]} for number in range(jobs)],
        "compat": {"precision_deg": 90},
    }
    compatibility(plan)
    return asked


def test_the_more_jobs_share_a_link_the_fewer_iterations_are_predicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert iterations_predicted(122, monkeypatch) == {1_000}
    # 30 million ÷ (2 events × 300 jobs × 300 jobs on the link).
    assert iterations_predicted(300, monkeypatch) == {166}


def test_at_least_ten_iterations_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_VISITS", 1)
    assert iterations_predicted(2, monkeypatch) == {10}
