"""ρ by hand: 274 s of serial work, up to four workers, in a cluster of eight GPUs."""

from collections.abc import Callable

import pytest

from hocket.schedulers import Cluster, JobState, Span, State
from hocket.schedulers.themis import ThemisOptions
from hocket.schedulers.themis.fairness import Competition, FinishTime, Speedups, speedup

MakeCluster = Callable[[int, int, int], Cluster]
MakeJob = Callable[..., JobState]
MakeState = Callable[..., State]

S = 10**12


def finish_time(
    job: JobState, now_ps: int = 0, competing: float = 1.0, cluster_gpus: int = 8, **options: object
) -> FinishTime:
    themis = ThemisOptions.model_validate(options)
    return FinishTime(job, now_ps, cluster_gpus, competing, themis, Speedups(job.job, themis.slowdown))


@pytest.mark.parametrize(
    ("workers", "span", "expected"),
    [
        # T_id = 274 s ÷ 4. T_sh = 274 s ÷ (G × S(G)), so ρ = 4 ÷ (G × S(G)).
        (4, Span.SERVER, 1.0),
        (2, Span.SERVER, 2.0),
        (2, Span.RACK, 4 / (2 * 0.72)),
        (4, Span.RACKS, 1 / 0.52),
        (1, Span.SERVER, 4.0),
    ],
)
def test_rho_is_shared_time_over_ideal_time(
    make_job: MakeJob, workers: int, span: Span, expected: float
) -> None:
    assert finish_time(make_job("a")).rho(workers, span) == pytest.approx(expected, rel=1e-12)


def test_time_that_has_passed_counts_and_work_that_is_done_does_not(
    make_job: MakeJob,
) -> None:
    job = make_job("a", (0, 1), arrival_ps=100 * S, done=500 * 1400)
    # 63 s since arrival, and 137 s of serial work left on two GPUs of a server.
    expected = (63 + 137 / 2) / (274 / 4)
    assert finish_time(job, 163 * S).rho(2, Span.SERVER, in_place=True) == pytest.approx(expected, rel=1e-12)


def test_the_cluster_limits_the_ideal_parallelism(make_job: MakeJob) -> None:
    assert finish_time(make_job("a"), cluster_gpus=2).rho(2, Span.SERVER) == pytest.approx(1.0, rel=1e-12)


def test_many_competing_jobs_make_the_ideal_time_longer(make_job: MakeJob) -> None:
    assert finish_time(make_job("a"), competing=2.5).rho(4, Span.SERVER) == pytest.approx(0.4, rel=1e-12)


def test_a_change_costs_a_restart_and_the_first_start_does_not(make_job: MakeJob) -> None:
    running, fresh = finish_time(make_job("a", (0, 1))), finish_time(make_job("a"))
    ideal_s = 274 / 4
    assert running.rho(2, Span.SERVER, in_place=True) == fresh.rho(2, Span.SERVER)
    moved = running.rho(2, Span.SERVER)
    assert moved - fresh.rho(2, Span.SERVER) == pytest.approx(30 / ideal_s, rel=1e-9)
    assert finish_time(make_job("a", (0, 1)), restart_cost="0 s").rho(2, Span.SERVER) == 2.0


def test_the_table_of_an_auction_has_the_same_values(make_job: MakeJob) -> None:
    # Bit by bit, as equal bids must be equal.
    estimate = finish_time(make_job("a", (0, 1), arrival_ps=100 * S, done=123 * 1400), 163 * S, 1.7)
    for count in (2, 4):
        expected = [[estimate.rho(size, span) for span in Span] for size in (1, 2, 3, 4)[:count]]
        assert estimate.rhos(count).tolist() == expected


@pytest.mark.parametrize("started", [False, True])
def test_waiting_is_worse_than_any_bid_and_gets_worse(make_job: MakeJob, started: bool) -> None:
    job = make_job("a", started=started)
    waits = [finish_time(job, now * S).rho(0, Span.SERVER) for now in (0, 60, 3_600)]
    assert waits[0] < waits[1] < waits[2]
    assert waits[2] - waits[0] == pytest.approx(1_000 * 3_600 / (274 / 4), rel=1e-9)
    assert waits[0] > max(finish_time(job).rho(workers, Span.RACKS) for workers in (1, 2, 3, 4))


def test_models_without_a_published_slowdown_take_that_of_their_profile(
    make_job: MakeJob,
) -> None:
    job = make_job("a", model=("BERT", 8)).job
    alone, four = job.profile(1).period_ps, job.profile(4).period_ps
    assert {speedup(job, 4, span, "published") for span in Span} == {4 * alone / four}


def test_a_profile_may_replace_what_is_published(make_job: MakeJob) -> None:
    job = make_job("a").job
    # An all-reduce among four sends 3/2 of what it sends among two: 148 ms of 274 ms become 222 ms,
    # up to what the mean bytes of all calibration points of VGG16 add.
    assert speedup(job, 2, Span.RACKS, "profile") == 2.0
    assert speedup(job, 4, Span.RACKS, "profile") == pytest.approx(4 * 274 / (126 + 222), rel=0.05)
    assert speedup(job, 4, Span.RACKS, "published") == 4 * 0.52


def test_a_job_on_its_only_number_of_workers_has_what_it_can_use(make_job: MakeJob) -> None:
    job = make_job("a", sizes=(2,), model=("GPT2", 48))
    assert finish_time(job).rho(2, Span.RACKS) == pytest.approx(1.0, rel=1e-12)


def test_only_a_slowdown_ties_a_job_to_its_span(make_job: MakeJob) -> None:
    assert finish_time(make_job("a")).widest(4, Span.RACK) == Span.RACK
    assert finish_time(make_job("a")).widest(1, Span.SERVER) == Span.RACKS
    assert finish_time(make_job("a", model=("BERT", 8))).widest(4, Span.SERVER) == Span.RACKS


def test_competition_is_averaged_over_the_time_that_a_job_is_there(
    make_job: MakeJob,
    make_cluster: MakeCluster,
    make_state: MakeState,
) -> None:
    a, b, c = (make_job(name) for name in "abc")
    cluster, competition = make_cluster(1, 1, 1), Competition()
    competition.observe(make_state(5 * S, cluster, a, b))
    assert competition.average("a") == 2.0
    competition.observe(make_state(15 * S, cluster, a, b, c))
    assert competition.average("a") == 2.0
    assert competition.average("c") == 3.0
    competition.observe(make_state(20 * S, cluster, a, c))
    # 10 s of two jobs, then 5 s of three.
    assert competition.average("a") == pytest.approx((10 * 2 + 5 * 3) / 15, rel=1e-12)
    assert competition.average("c") == 3.0
    competition.observe(make_state(30 * S, cluster, a, c))
    assert competition.average("c") == pytest.approx((5 * 3 + 10 * 2) / 15, rel=1e-12)
