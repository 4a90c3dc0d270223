"""Several recorded jobs become one plan for `compat`."""

from pathlib import Path

import pytest

from hocket.compat import compatibility
from hocket.errors import InputError
from hocket.plan import load_plan
from hocket.profiling import dump_jobs, profile_counters

RECORDED = Path(__file__).parents[2] / "experiments" / "recorded-allreduce"


def test_two_recorded_jobs_make_a_plan_with_an_answer(tmp_path: Path) -> None:
    jobs = [profile_counters(RECORDED / f"{name}.csv") for name in ("one-phase", "two-phases")]
    dump_jobs(jobs, tmp_path / "jobs.toml", "1 Gbps")
    plan = load_plan(tmp_path / "jobs.toml")
    assert [job.name for job in plan.jobs] == ["one-phase", "two-phases"]
    answer = compatibility(plan)
    assert answer.proven_optimal
    # 143.4 and 198.3 ms have no small common multiple: 7 and 5 rounds come within 1%.
    assert [job.rounds for job in answer.jobs] == [7, 5]
    assert 0 < answer.fit.error < 0.01


def test_two_jobs_with_the_same_name_are_refused(tmp_path: Path) -> None:
    job = profile_counters(RECORDED / "one-phase.csv")
    with pytest.raises(InputError, match="two jobs are named 'one-phase'"):
        dump_jobs([job, job], tmp_path / "jobs.toml")
    assert not (tmp_path / "jobs.toml").exists()
