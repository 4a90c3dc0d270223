"""`[[models]]`: iterations of one's own models, what schedulers make of them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hocket import Run, simulate_cluster
from hocket.cluster.replay import replay
from hocket.cluster.trace import Trace, load_trace, parse_trace
from hocket.errors import InputError
from hocket.profiles import WorkloadProfile
from hocket.schedulers import Span
from hocket.schedulers.pollux.fitting import fitted_throughput
from hocket.schedulers.themis.fairness import speedup
from hocket.workloads import Model, profile

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "experiments" / "recorded-allreduce" / "two-phases.csv"
MS, GBPS = 10**9, 10**9

Tables = dict[str, Any]


def fabric(nic: str = "50 Gbps") -> Tables:
    return {"dumbbell": {"left": 2, "right": 2, "nic": nic, "bottleneck": nic}}


def measured(workers: int, period: str, *up: tuple[str, str, str], **keys: object) -> Tables:
    phases = [{"start": start, "duration": duration, "rate": rate} for start, duration, rate in up]
    return {"workers": workers, "period": period, "up": phases, **keys}


ONE = measured(1, "100 ms")
TWO = measured(2, "150 ms", ("60 ms", "80 ms", "20 Gbps"))
FOUR = measured(4, "180 ms", ("60 ms", "110 ms", "20 Gbps"))
LARGER = measured(2, "170 ms", ("90 ms", "60 ms", "24 Gbps"), batch_size=16)


def model(*profiles: Tables, **keys: object) -> Tables:
    given = {"profiles": list(profiles)} if profiles else {}
    return {"name": "own", "batch_size": 8, **given, **keys}


def trace(*models: Tables, nic: str = "50 Gbps", **tables: object) -> Trace:
    job = {"name": "a", "model": "own", "batch_size": 8, "workers": 2, "max_workers": 4, "iterations": 50}
    return parse_trace({"fabric": fabric(nic), "models": list(models), "jobs": [job], **tables})


def own_behind(cluster_nic: str, **keys: object) -> Model:
    (job,) = trace(model(TWO, **keys), nic=cluster_nic).jobs
    return job.definition


def phases(each: WorkloadProfile) -> list[tuple[float, float, float]]:
    return [(one.start_ps / MS, one.duration_ps / MS, one.rate_bps / GBPS) for one in each.phases]


def test_a_job_runs_on_the_numbers_of_workers_that_were_measured_as_they_were_measured() -> None:
    (job,) = trace(model(ONE, TWO, FOUR)).jobs
    assert job.sizes == (1, 2, 4)
    assert [job.profile(size).period_ps for size in job.sizes] == [100 * MS, 150 * MS, 180 * MS]
    assert phases(job.profile(2)) == [(60, 80, 20)]


def test_a_model_with_a_nic_sends_the_same_bytes_with_those_of_the_cluster() -> None:
    # 1.6 Gbit in 80 ms: 32 ms of sending at 50 Gbps, and 48 ms between; at 100 Gbps 16 ms of sending.
    assert own_behind("100 Gbps", nic="50 Gbps").profile(8, 2).period_ps == (60 + 48 + 16 + 10) * MS
    assert own_behind("50 Gbps", nic="50 Gbps").profile(8, 2) == own_behind("100 Gbps").profile(8, 2)


def test_a_warning_names_models_whose_rates_are_not_scaled() -> None:
    assert trace(model(TWO, nic="50 Gbps")).warnings == ()
    assert trace(model(TWO), nic="100 Gbps").warnings == (
        "models: 'own' keeps its measured rates on NICs of 100 Gbps; to have them scaled, set its key nic to "
        "the rate of the NIC that it was measured with",
    )


def test_faster_gpus_shorten_what_is_computed() -> None:
    # Down 60 and 10 ms and 48 ms of Up are computed, 32 ms of Up are sent.
    assert own_behind("50 Gbps", nic="50 Gbps", speed=2).profile(8, 2).period_ps == (30 + 24 + 32 + 5) * MS


@pytest.mark.parametrize(
    ("batch_size", "period_ms", "up"),
    [
        (8, 150, (60, 80, 20)),
        (16, 170, (90, 60, 24)),
        # Half way; bits too: 1.6 and 1.44 Gbit.
        (12, 160, (75, 70, 1.52e3 / 70)),
        # Down goes on, by 15 ms for 4 samples, and at the end by 5; Up stays.
        (20, 90 + 15 + 60 + 20 + 5, (105, 60, 24)),
    ],
)
def test_profiles_are_linear_between_measured_batch_sizes_and_only_compute_beyond(
    batch_size: int, period_ms: float, up: tuple[float, float, float]
) -> None:
    (job,) = trace(model(TWO, LARGER, batch_sizes=[8, 32])).jobs
    found = job.profile(2, batch_size)
    assert found.period_ps == period_ms * MS
    assert phases(found) == [pytest.approx(up)]


def test_with_one_batch_size_compute_is_in_proportion_to_the_batch() -> None:
    (job,) = trace(model(TWO, batch_sizes=[4, 16])).jobs
    assert job.profile(2, 16).period_ps == (120 + 80 + 20) * MS
    assert phases(job.profile(2, 4)) == [(30, 80, 20)]


def test_the_slowdown_of_themis_comes_from_the_profiles() -> None:
    (job,) = trace(model(ONE, TWO, FOUR)).jobs
    for span in Span:
        assert speedup(job, 2, span, "published") == pytest.approx(2 * 100 / 150)
        assert speedup(job, 4, span, "published") == pytest.approx(4 * 100 / 180)


def test_the_throughput_of_pollux_is_fitted_to_the_profiles() -> None:
    one = (measured(1, "60 ms", batch_size=8), measured(1, "110 ms", batch_size=16))
    (job,) = trace(model(*one, TWO, FOUR)).jobs
    found = fitted_throughput(job.definition, None, 8, job.sizes)
    # 10 ms, and 6.25 ms for each sample; two workers take 90 ms longer, each further one 15 ms.
    assert (found.compute_s, found.compute_per_sample_s) == pytest.approx((0.01, 0.00625))
    assert (found.across_s, found.across_per_worker_s) == pytest.approx((0.09, 0.015))


@pytest.mark.parametrize("scheduler", ["themis", "pollux", "random+cassini", "ideal"])
def test_every_scheduler_runs_own_models_beside_those_of_the_catalogue(scheduler: str) -> None:
    jobs = [
        {"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 40},
        {"name": "b", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 40},
    ]
    run = simulate_cluster(trace(model(ONE, TWO), jobs=jobs), scheduler)
    assert run.tables["jobs"]["status"].to_list() == ["done", "done"]
    assert run.tables["jobs"]["model"].to_list() == ["own", "VGG16"]


def test_own_models_are_drawn_by_their_names() -> None:
    drawn: Tables = {
        "poisson": {"load": 0.5, "jobs": 20, "workers": [1, 4], "models": ["own", "BERT"]},
        "jobs": [],
    }
    found = trace(model(ONE, TWO), **drawn)
    assert {job.model for job in found.jobs} == {"own", "BERT"}
    dynamic = {"running": [{"model": "own", "workers": 2}], "arriving": [{"model": "VGG16", "workers": 2}]}
    assert [job.model for job in trace(model(TWO), dynamic=dynamic, jobs=[]).jobs] == ["own", "VGG16"]


def test_models_of_the_catalogue_follow_the_nics_of_a_cluster() -> None:
    jobs = [{"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 1}]
    for nic, bps in (("10 Gbps", 10 * GBPS), ("50 Gbps", 50 * GBPS), ("400 Gbps", 400 * GBPS)):
        (job,) = parse_trace({"fabric": fabric(nic), "jobs": jobs}).jobs
        assert job.profile(2) == profile("VGG16", 1400, 2, nic_bps=bps)


# From a file, and from a description of the training.


def test_a_profile_may_be_a_file_of_hocket_profile(hocket: Any, tmp_path: Path) -> None:
    assert hocket("profile", RECORDED, "--name", "seen", "--out", "seen.toml").code == 0
    tables = {
        "fabric": fabric(),
        "models": [model({"workers": 2, "file": "seen.toml"})],
        "jobs": [{"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 20}],
    }
    (tmp_path / "trace.json").write_text(json.dumps(tables), encoding="utf-8")
    (job,) = load_trace(tmp_path / "trace.json").jobs
    assert len(job.profile(2).phases) == 2
    assert job.profile(2).sources[0] == "given: 'seen' of seen.toml"


def test_a_run_keeps_what_was_in_the_files(hocket: Any, tmp_path: Path) -> None:
    hocket("profile", RECORDED, "--out", "seen.json")
    tables = {"fabric": fabric(), "models": [model({"workers": 2, "file": "seen.json"})]}
    job = {"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 40}
    found = parse_trace({**tables, "jobs": [job]}, directory=tmp_path)
    run = simulate_cluster(found, "random", directory=tmp_path / "run")
    (tmp_path / "seen.json").unlink()
    again = parse_trace(run.manifest["plan"]["given"])
    assert phases(again.jobs[0].profile(2)) == phases(found.jobs[0].profile(2))
    assert replay(Run.read(tmp_path / "run"), 6, 1, engine="flow").run.tables["jobs"].height == 1


LAYERS = [
    {
        "name": name,
        "weights": "100 MB",
        "forward": "5 ms",
        "input_gradient": "5 ms",
        "weight_gradient": "5 ms",
    }
    for name in ("first", "second")
]


def test_a_model_may_be_given_by_how_it_is_trained() -> None:
    (job,) = trace(model(training={"layers": LAYERS}, workers=[1, 2, 4])).jobs
    assert job.sizes == (1, 2, 4)
    # Two layers forward, two back of which the first needs no gradient of its input.
    assert job.profile(1).period_ps == pytest.approx(25 * MS, rel=0.25)
    assert job.profile(1).phases == ()
    # Each of two workers sends 200 MB in an all-reduce, at no more than 50 Gbps: 32 ms.
    two = job.profile(2)
    assert two.size_bytes == pytest.approx(200e6, rel=0.05)
    assert 32 * MS <= two.up_ps <= 40 * MS
    # Of four, 3/2 of that.
    assert job.profile(4).size_bytes == pytest.approx(300e6, rel=0.05)


def test_a_catalogue_model_is_trained_with_the_batch_size_of_the_job_and_faster_nics_shorten_it() -> None:
    trained = model(training={"model": "ResNet50", "gpu": "A100"}, workers=[2], batch_sizes=[8, 64])
    (job,) = trace(trained).jobs
    assert job.profile(2, 64).period_ps > job.profile(2, 8).period_ps
    (faster,) = trace(trained, nic="400 Gbps").jobs
    assert faster.profile(2).period_ps < job.profile(2).period_ps


# What is refused.


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (model(TWO, name="vgg-16"), "models[0].name: 'vgg-16' is a model of the catalogue"),
        (
            model(),
            "models[0]: needs either profiles, by number of workers, or training, not both: got neither",
        ),
        (model(TWO, training={"layers": LAYERS}), "models[0]: needs either profiles, by number of"),
        (model({"workers": 2}), "models[0].profiles[0]: needs period and up, or the file of"),
        (model({**TWO, "file": "x"}), "models[0].profiles[0].period: is given as well as file"),
        (model({**TWO, "job": "x"}), "models[0].profiles[0].job: selects a job of a file, but"),
        (
            model(measured(2, "10 ms", ("5 ms", "6 ms", "1 Gbps"))),
            "models[0].profiles[0].up[0]: 5 ms + 6 ms does not fit in the period of 10 ms",
        ),
        (model(TWO, TWO), "models[0].profiles[1]: is for 2 workers at batch size 8, as is profiles[0]"),
        (
            model(TWO, measured(2, "170 ms", batch_size=16)),
            "models[0].profiles[1]: has 0 Up phases and profiles[0] has 1; profiles of equal workers need",
        ),
        (
            model(TWO, batch_sizes=[16, 32]),
            "models[0].batch_sizes: 16 to 32 excludes some of the measured batch sizes, 8",
        ),
        (model(TWO, batch_sizes=[32, 4]), "models[0].batch_sizes: must be [smallest, largest]"),
        (model(TWO, workers=[2]), "models[0].workers: belongs to training"),
        (model(TWO, nic="10 Gbps"), "models[0].profiles[0]: 20 Gbps is above the model's nic of 10 Gbps"),
        (model(TWO, memory="96 GB"), "models[0].memory: 96 GB is above the 80 GB of a GPU"),
        (model({**ONE, "workers": 25}), "models[0].profiles[0].workers: must be at most"),
        (model({"workers": 2, "file": "gone.toml"}), "models[0].profiles[0].file: gone.toml: cannot be read"),
        (model(training={"layers": LAYERS}), "models[0].training: needs the key workers"),
        (model(training={"layers": LAYERS}, workers=[2], speed=2), "models[0].training: is computed for"),
        (
            model(training={"model": "ResNet50", "batch_size": 4}, workers=[2]),
            "models[0].training.batch_size: belongs to the model",
        ),
        (
            model(training={"model": "ResNet5000"}, workers=[2]),
            "models[0].training: on 2 workers at batch size 8: 'ResNet5000' is not a model of the catalogue",
        ),
    ],
)
def test_a_mistake_in_a_model_is_named(tables: Tables, message: str) -> None:
    with pytest.raises(InputError) as refused:
        trace(tables, cluster={"gpu_memory": "80 GB"})
    lines = str(refused.value).splitlines()
    assert any(line.startswith(f"trace: {message}") for line in lines), lines


def test_jobs_outside_the_range_of_a_model_are_refused() -> None:
    for keys, message in (
        ({"workers": 3}, "jobs[0].workers: 3 is outside the given numbers of workers for own, 1 to 2"),
        ({"batch_size": 9}, "jobs[0].batch_size: 9 is outside the given batch sizes for own, 8 to 8"),
        (
            {"model": "owm"},
            "jobs[0].model: 'owm' is not a workload of the catalogue or of [[models]]; did you",
        ),
    ):
        job = {"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 1, **keys}
        with pytest.raises(InputError) as refused:
            trace(model(ONE, TWO), jobs=[job])
        assert message in str(refused.value)
    with pytest.raises(InputError, match=r"models\[1\]\.name: 'Own' is already the name of models\[0\]"):
        trace(model(TWO), model(TWO, name="Own"))


def test_a_job_of_a_file_with_several_must_be_selected(tmp_path: Path) -> None:
    jobs = [{"name": name, "period": "10 ms", "up": []} for name in "xy"]
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    asked = {"fabric": fabric(), "jobs": []}

    def refused(**keys: object) -> str:
        given = {**asked, "models": [model({"workers": 1, "file": "jobs.json", **keys})]}
        with pytest.raises(InputError) as error:
            parse_trace(given, directory=tmp_path)
        return str(error.value)

    assert "has 2 jobs; select one with job = NAME: 'x', 'y'" in refused()
    assert "has no job 'z'; it has 'x', 'y'" in refused(job="z")
    assert "models[0]" not in refused(job="y")


def test_a_warning_is_printed_before_a_run(hocket: Any, tmp_path: Path) -> None:
    job = {"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 1}
    tables = {"fabric": fabric(), "models": [model(TWO)], "jobs": [job]}
    (tmp_path / "trace.json").write_text(json.dumps(tables), encoding="utf-8")
    for command in (["trace", "trace.json"], ["cluster", "trace.json", "--scheduler", "random"]):
        done = hocket(*command)
        assert (done.code, done.err.count("warning: models: 'own' keeps its measured")) == (0, 1)
