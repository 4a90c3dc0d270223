"""Which iterations of a run have rows, what is said of all of them, and how much memory rows fill."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hocket import Run, simulate_cluster
from hocket.cluster.explain import explain
from hocket.cluster.recording import check_kept, recording_of
from hocket.cluster.tables import Tables
from hocket.cluster.trace import Trace, parse_trace
from hocket.errors import InputError
from hocket.results.sink import Memory

MakeTrace = Callable[..., Trace]

JOBS = [
    {"name": "a", "workers": 2, "iterations": 300},
    {"name": "b", "workers": 3, "iterations": 200, "arrival": "5 s"},
    {"name": "c", "model": "BERT", "batch_size": 8, "workers": 2, "iterations": 150},
]


def one_job(iterations: int, **cluster: Any) -> Trace:
    job = {"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": iterations}
    return parse_trace({"fabric": {"testbed": "cassini"}, "cluster": cluster, "jobs": [job]})


@pytest.fixture
def recorded(make_trace: MakeTrace) -> Callable[..., Run]:
    """Runs three jobs with jitter under Themis, with these keys of `[cluster]`."""

    def run(**cluster: Any) -> Run:
        return simulate_cluster(make_trace(JOBS, cluster={"jitter": 0.05, **cluster}), "themis")

    return run


def nearest_rank(values: pl.Series, percent: int) -> float:
    """The percentile of single iterations."""
    return float(values.sort()[-(-percent * values.len() // 100) - 1])


def test_everything_but_iterations_is_the_same_whatever_is_recorded(recorded: Callable[..., Run]) -> None:
    whole = recorded()
    for cluster in ({"record": "sampled", "sampled_rows": 50}, {"record": "summary"}, {"merge": 0.3}):
        other = recorded(**cluster)
        for name in whole.tables.keys() - {"iterations"}:
            assert_frame_equal(other.tables[name], whole.tables[name], check_exact=True)


def test_summaries_are_those_of_the_iterations(recorded: Callable[..., Run]) -> None:
    run = recorded()
    rows = run.tables["iterations"]
    assert run.tables["summaries"]["model"].to_list() == ["VGG16", "BERT", None]
    for summary in run.tables["summaries"].to_dicts():
        model = summary["model"]
        mine = rows if model is None else rows.filter(pl.col("model") == model)
        slowdowns = mine["iteration_s"] / mine["ideal_s"]
        assert summary["iterations"] == mine["count"].sum() == mine.height
        assert summary["mean_iteration_s"] == pytest.approx(mine["iteration_s"].mean())
        whole_s, ideal_s = mine["iteration_s"].to_numpy().sum(), mine["ideal_s"].to_numpy().sum()
        assert summary["slowdown"] == pytest.approx(whole_s / ideal_s)
        assert summary["mean_communication_s"] == pytest.approx(mine["communication_s"].mean())
        for percent in (50, 99):
            exact_s = nearest_rank(mine["iteration_s"], percent)
            assert summary[f"p{percent}_iteration_s"] == pytest.approx(exact_s, rel=1e-12)
            assert summary[f"p{percent}_slowdown"] == pytest.approx(nearest_rank(slowdowns, percent))


def test_a_sample_is_a_part_of_all_iterations_and_the_same_each_time(recorded: Callable[..., Run]) -> None:
    rows = recorded().tables["iterations"]
    sampled = recorded(record="sampled", sampled_rows=65)
    assert sampled.manifest["record"]["every"] == 10
    sample = sampled.tables["iterations"]
    # 30, 20 and 15 blocks of ten; a last one may be incomplete.
    assert 60 <= sample.height <= 65
    assert sample.join(rows, on=rows.columns, how="semi", nulls_equal=True).height == sample.height
    assert_frame_equal(
        recorded(record="sampled", sampled_rows=65).tables["iterations"], sample, check_exact=True
    )


def test_a_run_of_summaries_has_no_table_of_iterations(recorded: Callable[..., Run]) -> None:
    run = recorded(record="summary")
    assert "iterations" not in run.tables
    assert run.tables["jobs"]["iterations"].sum() == 650


def test_the_default_depends_on_the_expected_iterations() -> None:
    small, large = recording_of(one_job(5_000_000)), recording_of(one_job(5_000_001))
    assert (small.kind, small.every) == ("all", 1)
    assert small.why == "5,000,000 iterations are expected, at most 5,000,000"
    assert (large.kind, large.every) == ("sampled", 6)
    assert large.why == "5,000,001 iterations are expected, more than 5,000,000"


def test_iterations_after_the_end_are_not_expected() -> None:
    trace = one_job(10**9)
    period_s = trace.jobs[0].profile(2).period_ps / 1e12
    cut = parse_trace({**trace.resolved()["given"], "until": "1000 s"})
    assert recording_of(cut).expected == int(1000 / period_s)


@pytest.mark.parametrize("cluster", [{"merge": 0.1}, {"jitter": 0}])
def test_long_runs_whose_rows_merge_record_all(cluster: dict[str, Any]) -> None:
    assert recording_of(one_job(10**9, **cluster)).kind == "all"


def test_a_given_key_decides() -> None:
    assert recording_of(one_job(10, record="summary")).kind == "summary"
    assert recording_of(one_job(10**9, record="all")).why == "given"


def test_the_manifest_states_what_is_recorded(recorded: Callable[..., Run]) -> None:
    expected = {"iterations": "all", "every": 1, "expected": 650, "percentile_error": 0.0}
    why = "650 iterations are expected, at most 5,000,000"
    assert recorded().manifest["record"] == {**expected, "why": why}


def test_percentiles_of_long_runs_state_their_error() -> None:
    run = simulate_cluster(one_job(20_000), "fifo")
    (error,) = {run.manifest["record"]["percentile_error"]}
    assert 0 < error < 0.0005
    exact = nearest_rank(run.tables["iterations"]["iteration_s"], 99)
    assert run.tables["jobs"]["p99_iteration_s"][0] == pytest.approx(exact, rel=error)


def test_rows_are_passed_on_before_they_fill_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = []
    passed_on = Tables.pass_on_if_full

    def watched(tables: Tables, running: Any) -> None:
        filled.append(tables.collected_bytes)
        passed_on(tables, running)

    monkeypatch.setattr(Tables, "pass_on_if_full", watched)
    run = simulate_cluster(one_job(50_000, table_memory="16 MB"), "fifo", directory=tmp_path)
    assert run.height("iterations") == 50_000
    # Without a limit, the job would run to its end in one step.
    assert 8_000_000 < max(filled) <= 16_000_000


def test_rows_that_would_not_fit_into_memory_are_refused_before_the_run(tmp_path: Path) -> None:
    trace = one_job(200_000, table_memory="16 MB", record="all")
    with pytest.raises(
        InputError, match=r"^cluster.table_memory: rows of about 200,000 iterations take 24 MB"
    ):
        simulate_cluster(trace, "fifo")
    assert simulate_cluster(trace, "fifo", directory=tmp_path).height("iterations") == 200_000


def test_a_run_in_memory_ends_when_its_tables_outgrow_it() -> None:
    sink = Memory()
    sink.append_frame("numbers", pl.DataFrame({"number": range(1_000)}))
    assert sink.held_bytes == 8_000
    check_kept(sink.held_bytes, 8_000)
    with pytest.raises(
        InputError, match=r"^cluster.table_memory: the tables have outgrown the limit of 7.999 kB"
    ):
        check_kept(sink.held_bytes, 7_999)


def test_a_decision_is_explained_by_a_sample_but_not_by_summaries(recorded: Callable[..., Run]) -> None:
    whole = {job.job: job for job in explain(recorded(), 30.0).jobs}
    for job in explain(recorded(record="sampled", sampled_rows=325), 30.0).jobs:
        assert job.iterations == pytest.approx(whole[job.job].iterations, abs=4)
        assert job.iteration_s == pytest.approx(whole[job.job].iteration_s, rel=0.1)
    with pytest.raises(InputError, match=r'^the run recorded only summaries.* record = "all" or "sampled"'):
        explain(recorded(record="summary"), 30.0)


@pytest.mark.parametrize(
    ("cluster", "error"),
    [
        ({"record": "some"}, "cluster.record: must be"),
        ({"sampled_rows": 0}, "cluster.sampled_rows: "),
        ({"table_memory": "1 MB"}, "cluster.table_memory: must be from 16 MB to 1000 TB: got '1 MB'"),
        (
            {"merge": 0.1, "record": "sampled"},
            'cluster.merge: merges rows only with record = "all": got record = "sampled"',
        ),
    ],
)
def test_bad_values_are_refused(cluster: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError) as refused:
        one_job(10, **cluster)
    assert error in str(refused.value)
