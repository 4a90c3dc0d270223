"""The workloads of training jobs, derived from plans."""

from pathlib import Path
from typing import Any

import pytest

from hocket import InputError, load_plan, parse_plan
from hocket.engines.workload import workload_of
from hocket.training.workload import Operation, Workload

MS = 10**9
EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
SHARED = Path(__file__).parents[3] / "shared" / "traces"

Tables = dict[str, Any]


def workload(training: Tables, *, gpus: int = 4, **job: object) -> Workload:
    """The workload of a job on `gpus` servers with one GPU each."""
    fabric = {"clos": {"racks": 1, "servers_per_rack": gpus, "gpus_per_server": 1}}
    return workload_of(
        parse_plan({"fabric": fabric, "jobs": [{"name": "a", "training": training, **job}]}), 0
    )


def test_a_collective_is_one_operation_of_all_gpus() -> None:
    found = workload({"collective": "all-gather", "bytes": "64 MB"})
    assert found.programs == ((Operation("all-gather", "all-gather", bytes=64_000_000),),)
    assert found.groups == ((0, 1, 2, 3),)
    assert len(found.ranks) == 4


def test_operations_wait_for_the_operations_in_their_after_key() -> None:
    operations = [
        {"name": "f", "compute": "3 ms"},
        {"name": "g", "compute": "1 ms"},
        {"name": "ar", "collective": "all-reduce", "bytes": "1 kB", "after": ["g", "f"]},
    ]
    (program,) = workload({"operations": operations}).programs
    assert program == (
        Operation("f", "compute", duration_ps=3 * MS),
        Operation("g", "compute", duration_ps=MS),
        Operation("ar", "all-reduce", (0, 1), bytes=1000),
    )


def test_layers_run_forward_and_backward_and_exchange_their_gradients() -> None:
    times = {"forward": "1 ms", "input_gradient": "2 ms", "weight_gradient": "3 ms"}
    layers = [{"name": "one", **times, "weights": "4 MB"}, {"name": "two", **times, "weights": "0 B"}]
    (program,) = workload({"layers": layers}).programs
    assert sum(each.duration_ps for each in program) == 12 * MS
    assert [each.bytes for each in program if each.kind == "all-reduce"] == [4_000_000]


def test_gradients_of_several_layers_share_a_bucket() -> None:
    times = {"forward": "1 ms", "input_gradient": "1 ms", "weight_gradient": "1 ms", "update": "1 ms"}
    layers = [{"name": str(number), **times, "weights": "4 MB"} for number in range(6)]
    (program,) = workload({"layers": layers, "buckets": {"first": "1 MB", "others": "8 MB"}}).programs
    sizes = [each.bytes // 10**6 for each in program if each.kind == "all-reduce"]
    assert sizes == [4, 8, 8, 4], "the first, then as soon as 8 MB are there"
    assert sum(each.duration_ps for each in program) == 6 * 4 * MS


def test_a_model_is_split_by_the_parallelism_of_the_plan() -> None:
    training = {
        "model": "GPT-3",
        "batch_size": 16,
        "parallel": {"tensor": 4, "pipeline": 2},
        "microbatches": 4,
        "schedule": "gpipe",
    }
    found = workload(training, gpus=16)
    assert len(found.programs) == 2, "one for each stage"
    assert found.groups[0] == (0, 1, 2, 3)


def test_ranks_are_where_a_candidate_puts_them() -> None:
    fabric = {"clos": {"racks": 2, "gpus_per_server": 4}}
    job = {"name": "a", "placement": ["s0"], "training": {"collective": "all-to-all", "bytes": "1 MB"}}
    plan = parse_plan({"fabric": fabric, "jobs": [job]})
    assert len(workload_of(plan, 0).ranks) == 4
    assert len(workload_of(plan, 0, {"a": ("s1", "s2")}).ranks) == 8


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_jobs_of_every_shipped_example_have_a_rank_on_each_of_their_gpus(path: Path) -> None:
    plan = load_plan(path)
    for number, job in enumerate(plan.jobs):
        assert len(workload_of(plan, number).ranks) == len(plan.hosts_of(job))


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"model": "GTP-3"}, "jobs[0].training: job 'a': 'GTP-3'"),
        ({"model": "VGG16", "parallel": {"data": 3}}, "jobs[0].training: job 'a': parallel"),
        ({"chakra": "nowhere"}, "jobs[0].training: job 'a': nowhere"),
        ({"simai": "nowhere.txt"}, "jobs[0].training: job 'a': nowhere.txt"),
    ],
)
def test_an_unknown_or_impossible_value_is_refused_with_its_key(training: Tables, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        workload(training)
    assert str(refused.value).startswith(reason)


needs_traces = pytest.mark.skipif(
    not SHARED.exists(), reason=f"{SHARED} with other projects' files is absent"
)


@needs_traces
def test_traces_need_one_file_for_each_gpu() -> None:
    traces = {"chakra": str(SHARED / "chakra" / "all_reduce_8")}
    assert len(workload(traces, gpus=8).ranks) == 8
    with pytest.raises(
        InputError, match=r"jobs\[0\].training: job 'a': the workload is for 8 GPUs, but the job has 4"
    ):
        workload(traces, gpus=4)


@needs_traces
def test_a_simai_file_runs_on_the_number_of_gpus_of_the_job() -> None:
    path = str(SHARED / "simai" / "microAllReduce.txt")
    assert len(workload({"simai": path}, gpus=8).ranks) == 8


def test_a_model_may_wait_for_its_input_at_the_start_of_an_iteration() -> None:
    (program,) = workload({"model": "ResNet50", "loading": "30 ms"}).programs
    assert (program[0].name, program[0].duration_ps) == ("data loading", 30 * MS)
    assert program[1].after == (0,)
