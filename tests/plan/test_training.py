"""`[jobs.training]`: the six sources of what GPUs do; algorithms of collectives; stragglers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hocket import load_plan, parse_plan
from hocket.plan import Collectives, Plan

Tables = dict[str, Any]
Mistakes = Callable[[object], list[str]]

ALL_REDUCE = {"collective": "all-reduce", "bytes": "128 MB"}
LAYER = {
    "name": "fc1",
    "forward": "1 ms",
    "input_gradient": "2 ms",
    "weight_gradient": "0 ms",
    "weights": "4 MB",
}
OVERLAP: list[Tables] = [
    {"name": "f", "compute": "3 ms"},
    {"name": "ar", **ALL_REDUCE, "after": ["f"]},
    {"name": "g", "compute": "1 ms", "after": ["f"]},
]


def trained(training: Tables, **changes: object) -> Tables:
    """A plan of one job on four servers of one GPU."""
    job = {"name": "a", "training": training, **changes}
    return {"fabric": {"dumbbell": {"left": 2, "right": 2}}, "jobs": [job]}


def job_of(plan: Plan) -> Any:
    return plan.jobs[0]


@pytest.mark.parametrize(
    "training",
    [
        {"model": "DLRM (HOTI'22)"},
        {
            "model": "GPT-2",
            "batch_size": 8,
            "parallel": {"pipeline": 2, "data": 2},
            "microbatches": 4,
            "schedule": "gpipe",
            "gpu": "H100",
        },
        {"layers": [LAYER]},
        {"layers": [{**LAYER, "update": "1 us"}], "buckets": {"first": "1 MB", "others": "8 MB"}},
        {"model": "GPT-1", "loading": "40 ms"},
        ALL_REDUCE,
        {"operations": OVERLAP},
        {"chakra": "traces/all_reduce_8"},
        {"chakra": ["a.0.et", "a.1.et"]},
        {
            "chakra": "traces",
            "groups": "groups.json",
            "dimensions": [2, 2],
            "roofline": {"flops": 312e12, "memory": "2 TB/s"},
        },
        {"simai": "workload.txt"},
        {"simai": "workload.txt", "parallel": {"tensor": 2}, "microbatches": 1, "schedule": "1f1b"},
    ],
)
def test_each_source_of_training_is_written_as_it_is_read(training: Tables) -> None:
    plan = parse_plan(trained(training))
    resolved = plan.resolved()["jobs"][0]
    again = parse_plan({**trained(training), "jobs": [resolved]})
    assert job_of(again).training == job_of(plan).training
    assert "profiles" not in resolved, "a run finds them"


def test_quantities_are_held_in_picoseconds_and_bytes() -> None:
    (layer,) = job_of(parse_plan(trained({"layers": [LAYER]}))).training.layers
    assert (layer.forward_ps, layer.input_gradient_ps, layer.weight_gradient_ps) == (10**9, 2 * 10**9, 0)
    assert layer.weights_bytes == 4_000_000
    operations = job_of(parse_plan(trained({"operations": OVERLAP}))).training.operations
    assert [each.compute_ps for each in operations] == [3 * 10**9, None, 10**9]
    assert operations[1].size_bytes == 128_000_000


def test_only_training_jobs_have_defaults_of_collectives_with_sources() -> None:
    assert job_of(parse_plan(trained(ALL_REDUCE))).collectives == Collectives()
    resolved = parse_plan(trained(ALL_REDUCE)).resolved()
    defaults = {each["key"]: each for each in resolved["defaults"]}
    assert defaults["jobs[0].collectives.chunks"]["value"] == 4
    assert "HOTI'22 §III-D" in defaults["jobs[0].collectives.chunks"]["source"]
    phases = {"name": "a", "period": "1 s", "up": []}
    assert job_of(parse_plan({"link": {"capacity": "1 Gbps"}, "jobs": [phases]})).collectives is None


def test_an_algorithm_is_one_or_one_for_each_level() -> None:
    tables = trained(
        ALL_REDUCE, collectives={"all_reduce": ["direct", "ring"], "broadcast": "tree", "chunks": 8}
    )
    collectives = job_of(parse_plan(tables)).collectives
    assert collectives.all_reduce == ("direct", "ring")
    assert collectives.broadcast == ("tree",)
    assert collectives.in_flight == 8, "all chunks"


def test_relative_paths_start_from_the_directory_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        """
        [fabric]
        testbed = "cassini"
        [[jobs]]
        name = "a"
        training.chakra = ["traces/a.0.et", "/b.1.et"]
        [[jobs]]
        name = "b"
        training.simai = "w.txt"
        """
    )
    plan = load_plan(tmp_path / "plan.toml")
    assert plan.directory == tmp_path
    assert plan.files() == (tmp_path / "traces/a.0.et", Path("/b.1.et"), tmp_path / "w.txt")


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (
            trained({}),
            "jobs[0].training: needs exactly one of model, layers, collective, operations, chakra, simai: "
            "got none",
        ),
        (
            trained({**ALL_REDUCE, "model": "BERT"}),
            "jobs[0].training: needs exactly one of model, layers, collective, operations, chakra, simai: "
            "got model and collective",
        ),
        (
            trained({"model": "BERT", "bytes": "1 MB"}),
            "jobs[0].training.bytes: belongs to collective, and this job has model",
        ),
        (
            trained({**ALL_REDUCE, "microbatches": 2}),
            "jobs[0].training.microbatches: belongs to model or simai, and this job has collective",
        ),
        (
            trained({"collective": "all-reduce"}),
            "jobs[0].training.bytes: is missing; the collective 'all-reduce' needs it",
        ),
        (
            trained({"collective": "all-reduce", "bytes": "0 B"}),
            "jobs[0].training.bytes: must be at least 1: got '0 B'",
        ),
        (
            trained({"collective": "allreduce", "bytes": "1 B"}),
            "jobs[0].training.collective: must be 'all-reduce', 'reduce-scatter', 'all-gather', 'all-to-all' "
            "or 'broadcast': got 'allreduce'",
        ),
        (
            trained({"simai": "w.txt", "parallel": {"data": 2}}),
            "jobs[0].training.parallel.data: belongs to model; with simai, the number of replicas "
            "follows from the number of GPUs",
        ),
        (trained({"layers": []}), "jobs[0].training.layers: has too few entries: got 0, at least 1 needed"),
        (
            trained({"layers": [{**LAYER, "forwards": "1 ms"}]}),
            "jobs[0].training.layers[0].forwards: is not a known key; did you mean 'forward'?",
        ),
        (
            trained({"operations": [{"name": "x"}]}),
            "jobs[0].training.operations[0]: needs either a compute or a collective: got neither",
        ),
        (
            trained({"operations": [{"name": "x", "compute": "1 ms", **ALL_REDUCE}]}),
            "jobs[0].training.operations[0]: needs either a compute or a collective: got both",
        ),
        (
            trained({"operations": [{"name": "x", "compute": "1 ms", "bytes": "1 B"}]}),
            "jobs[0].training.operations[0].bytes: belongs to a collective, and this operation is a compute",
        ),
        (
            trained({"operations": [{"name": "x", "collective": "broadcast"}]}),
            "jobs[0].training.operations[0].bytes: is missing; the collective 'broadcast' needs it",
        ),
        (
            trained({"operations": [*OVERLAP, {"name": "h", "compute": "1 ms", "after": ["arr"]}]}),
            "jobs[0].training.operations[3].after[0]: 'arr' is not an operation of the job; "
            "did you mean 'ar'?",
        ),
        (
            trained({"operations": [{"name": "x", "compute": "1 ms", "after": ["y"]}, *OVERLAP, OVERLAP[0]]}),
            "jobs[0].training.operations[4].name: 'f' is already the name of operations[1]",
        ),
        (
            trained(
                {"operations": [OVERLAP[0], {**OVERLAP[1], "after": ["g"]}, {**OVERLAP[2], "after": []}]}
            ),
            "jobs[0].training.operations[1].after[0]: 'g' does not come before 'ar' in the program",
        ),
        (
            trained({"operations": [{**OVERLAP[0], "after": ["g"]}, *OVERLAP[1:]]}),
            "jobs[0].training.operations[0].after: 'f' waits for itself: 'f' → 'g' → 'f'",
        ),
        (
            trained({"operations": [{**OVERLAP[0], "after": ["f"]}]}),
            "jobs[0].training.operations[0].after: 'f' waits for itself: 'f' → 'f'",
        ),
        (
            trained({"chakra": ""}),
            "jobs[0].training.chakra[0]: must be the path of a file or a directory: got ''",
        ),
        (
            trained(ALL_REDUCE, collectives={"all_reduce": "rings"}),
            "jobs[0].collectives.all_reduce[0]: must be 'ring', 'tree', 'halving-doubling' or 'direct': "
            "got 'rings'",
        ),
        (
            trained(ALL_REDUCE, collectives={"allreduce": "ring"}),
            "jobs[0].collectives.allreduce: is not a known key; did you mean 'all_reduce'?",
        ),
        (
            trained(ALL_REDUCE, stragglers=[{"rank": 4, "slowdown": 1.5}]),
            "jobs[0].stragglers[0].rank: 4 is not a rank: the job has 4, counted from 0",
        ),
        (
            trained(ALL_REDUCE, stragglers=[{"rank": 1, "slowdown": 1.5}, {"rank": 1, "slowdown": 2}]),
            "jobs[0].stragglers[1].rank: rank 1 is named twice",
        ),
        (
            trained(ALL_REDUCE, stragglers=[{"rank": 1, "slowdown": 0.5}]),
            "jobs[0].stragglers[0].slowdown: must be at least 1: got 0.5",
        ),
        (
            trained(ALL_REDUCE, period="1 s"),
            "jobs[0].period: belongs to a job with Up phases, and this one has [jobs.training]",
        ),
        (
            trained(ALL_REDUCE, path=["left-right"]),
            'jobs[0].path: names links for a ring of hosts; a job with [jobs.training] has "ecmp" or "spray"',
        ),
        (
            {"link": {"capacity": "1 Gbps"}, "jobs": [{"name": "a", "training": ALL_REDUCE}]},
            "jobs[0].training: needs a [fabric]; on one shared [link] nothing is placed",
        ),
        (
            {
                "link": {"capacity": "1 Gbps"},
                "jobs": [
                    {"name": "a", "period": "1 s", "up": [], "stragglers": [{"rank": 0, "slowdown": 2}]}
                ],
            },
            "jobs[0].stragglers: belongs to a job with [jobs.training], and this job has none",
        ),
    ],
)
def test_a_mistake_names_its_key_value_and_limit(tables: Tables, line: str, mistakes: Mistakes) -> None:
    assert line in mistakes(tables)


def test_only_unknown_names_that_are_shown_are_compared_with_all_names(mistakes: Mistakes) -> None:
    operations = [{"name": f"o{number}", "compute": "1 ms", "after": ["o"]} for number in range(5_000)]
    found = mistakes(trained({"operations": operations}))
    assert found[0].endswith("'o' is not an operation of the job; did you mean 'o9'?")
    assert found[-1] == "and 4980 more mistakes"


def test_all_errors_of_a_training_job_are_reported_together(mistakes: Mistakes) -> None:
    found = mistakes(
        trained({**ALL_REDUCE, "gpu": "A100"}, readjust=True, stragglers=[{"rank": 9, "slowdown": 2}])
    )
    assert found == [
        "jobs[0].readjust: belongs to a job with Up phases, and this one has [jobs.training]",
        "jobs[0].training.gpu: belongs to model, and this job has collective",
        "jobs[0].stragglers[0].rank: 9 is not a rank: the job has 4, counted from 0",
    ]
