"""Errors in a trace name the key, the value and the limit, and are all reported together."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.cluster.trace import load_trace, parse_trace
from hocket.errors import InputError

JOB = {"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 4, "iterations": 100}
TESTBED = {"testbed": "cassini"}
POISSON = {"load": 0.9, "duration": "1 min"}
SET = [{"model": "VGG16"}]


def with_job(**keys: Any) -> dict[str, Any]:
    return {"fabric": TESTBED, "jobs": [{**JOB, **keys}]}


def with_two(**keys: Any) -> dict[str, Any]:
    return {"fabric": TESTBED, "jobs": [JOB, {**JOB, "name": "b", **keys}]}


def with_poisson(**keys: Any) -> dict[str, Any]:
    return {"fabric": TESTBED, "poisson": {**POISSON, **keys}}


def with_dynamic(**keys: Any) -> dict[str, Any]:
    return {"fabric": TESTBED, "dynamic": {"running": SET, "arriving": SET, **keys}}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            with_job(workers=30, min_workers=1),
            "trace: jobs[0].workers: VGG16 on 30 workers is larger than the cluster, which has 24 GPUs",
        ),
        (
            with_job(model="VGG17"),
            "trace: jobs[0].model: 'VGG17' is not a workload of the catalogue; did you mean VGG19 or VGG16 "
            "or VGG11?",
        ),
        (with_job(arrival="-1 s"), "trace: jobs[0].arrival: a duration must not be negative: got '-1 s'"),
        (with_job(workers=0), "trace: jobs[0].workers: must be at least 1: got 0"),
        (with_job(iterations=0), "trace: jobs[0].iterations: must be at least 1: got 0"),
        (with_two(name="a"), "trace: jobs[1].name: 'a' is already the name of jobs[0]"),
        (
            with_job(placement=["s0", "s1", "s2", "s24"]),
            "trace: jobs[0].placement[3]: 's24' is not a GPU of the cluster; did you mean 's4'?",
        ),
        (
            with_job(placement=["s0", "s1", "s1", "s2"]),
            "trace: jobs[0].placement[2]: 's1' is already given to job 'a'",
        ),
        (
            {
                "fabric": TESTBED,
                "jobs": [
                    {**JOB, "workers": 1, "placement": ["s3"]},
                    {**JOB, "name": "b", "workers": 1, "placement": ["s3"]},
                ],
            },
            "trace: jobs[1].placement[0]: 's3' is already given to job 'a'",
        ),
        (
            with_job(placement=["s0"]),
            "trace: jobs[0].placement: names 1 GPUs, but the job has 4 workers",
        ),
        (
            with_job(arrival="1 s", placement=["s0", "s1", "s2", "s3"]),
            "trace: jobs[0].placement: is allowed only for jobs that arrive at 0 s; this one arrives at 1 s",
        ),
        (
            with_job(batch_size=1),
            "trace: jobs[0].batch_size: 1 is outside the catalogue's batch sizes for VGG16, 512 to 1800",
        ),
        (
            with_job(model="GPT2", batch_size=24, workers=3),
            "trace: jobs[0].workers: 3 is outside the catalogue's numbers of workers for GPT2, 2",
        ),
        (
            with_job(strategy="tensor"),
            "trace: jobs[0].strategy: 'tensor' is not a strategy of VGG16; known: data",
        ),
        (
            with_job(min_workers=5),
            "trace: jobs[0].min_workers: 5 excludes the 4 workers that the job is submitted with",
        ),
        (
            with_job(max_workers=3),
            "trace: jobs[0].max_workers: 3 excludes the 4 workers that the job is submitted with",
        ),
        (
            with_job(arrival="60 h", placemnt=1),
            "trace: jobs[0].placemnt: is not a known key; did you mean 'placement'?",
        ),
        (
            with_job(arrival="2000 h"),
            "trace: jobs[0].arrival: 7200000 s is after the latest, 4611686.018427387903 s",
        ),
        (with_poisson(load=0), "trace: poisson.load: must be above 0: got 0"),
        (with_poisson(load=-0.5), "trace: poisson.load: must be above 0: got -0.5"),
        (
            with_poisson(jobs=3),
            "trace: poisson: needs either duration or jobs, not both: got both; the load sets the other",
        ),
        (
            with_poisson(models=["VGG"]),
            "trace: poisson.models: 'VGG' is not a workload of the catalogue; did you mean VGG19 or VGG16 or "
            "VGG11?",
        ),
        (
            with_poisson(workers=[5, 4]),
            "trace: poisson.workers: must be [smallest, largest], in this order: got 5 and 4",
        ),
        (
            with_poisson(workers=[3, 6]),
            "trace: poisson.models: GPT2 cannot run on 3 to 6 workers, which the key workers and "
            "24 GPUs allow\n"
            "trace: poisson.models: GPT3 cannot run on 3 to 6 workers, which the key workers and "
            "24 GPUs allow",
        ),
        (
            with_poisson(workers=[1, 25]),
            "trace: poisson.workers: 25 workers are more than the cluster has GPUs, 24",
        ),
        (
            with_poisson(iterations=[1, 2], run_time=["1 s", "2 s"]),
            "trace: poisson.iterations: is given as well as run_time, and both set the work of a job: leave "
            "one out",
        ),
        (
            with_poisson(duration="2000 h"),
            "trace: poisson: jobs arrive over 7200000 s, but the latest arrival allowed is at "
            "4611686.018427387903 s",
        ),
        (
            with_dynamic(arriving=[{"model": "DLMR"}]),
            "trace: dynamic.arriving[0].model: 'DLMR' is not a workload of the catalogue; did you mean DLRM?",
        ),
        (
            with_dynamic(arriving=[{"model": "DLRM", "workers": 25}]),
            "trace: dynamic.arriving[0].workers: DLRM on 25 workers is larger than the cluster, which has "
            "24 GPUs",
        ),
        (
            with_dynamic(running=[{"model": "DLRM", "name": "x"}], arriving=[{"model": "BERT", "name": "x"}]),
            "trace: dynamic.arriving[0].name: 'x' is the name of another job",
        ),
        (
            with_dynamic(running=[{"model": "DLRM", "name": "x", "count": 2}]),
            "trace: dynamic.running[0].name: is one name for 2 jobs; leave it out to name them after their "
            "model",
        ),
        (
            with_dynamic(running=[{"model": "DLRM", "count": 100_000}]),
            "trace: dynamic: has 100,001 jobs, above the limit of 100,000",
        ),
        (
            with_dynamic(models="all"),
            "trace: dynamic.models: is not a known key; known: workers, max_workers, iterations, "
            "run_time, batch_sizes, running, arriving, arrival",
        ),
        (
            with_job(iterations=10**13),
            "trace: jobs[0].iterations: must be at most 1000000000000: got 10000000000000",
        ),
        (
            {**with_dynamic(running=[{"model": "DLRM", "name": "a"}]), "jobs": [JOB]},
            "trace: 'a' is the name of two jobs",
        ),
        ({"fabric": TESTBED}, "trace: has no jobs: give [[jobs]], [poisson], [dynamic] or [[import]]"),
        ({"jobs": [JOB]}, "trace: fabric: is missing"),
        (
            {**with_job(), "fabric": {"testbed": "cassini", "clos": {"racks": 2}}},
            "trace: fabric: needs exactly one of clos, rail, fat_tree, dumbbell, testbed, lingjun, links: "
            "got clos and testbed",
        ),
        (
            {
                **with_job(workers=1),
                "fabric": {
                    "links": [
                        {"ends": ["a", "t0"], "rate": "50 Gbps"},
                        {"ends": ["b", "t0"], "rate": "50 Gbps"},
                        {"ends": ["c", "t1"], "rate": "50 Gbps"},
                        {"ends": ["d", "t1"], "rate": "50 Gbps"},
                    ]
                },
            },
            "trace: fabric: 'c' has no path to 'a'; a job may be placed on both",
        ),
        (
            {
                "fabric": {"dumbbell": {"left": 2, "right": 2, "nic": "10 Gbps"}},
                "models": [
                    {
                        "name": "own",
                        "batch_size": 8,
                        "profiles": [
                            {
                                "workers": 2,
                                "period": "10 ms",
                                "up": [{"start": "5 ms", "duration": "5 ms", "rate": "29 Gbps"}],
                            }
                        ],
                    }
                ],
                "jobs": [{"name": "a", "model": "own", "batch_size": 8, "workers": 2, "iterations": 1}],
            },
            "trace: job 'a': its demand of 29 Gbps is above the 10 Gbps of the NIC of 's0'",
        ),
        (
            {**with_job(), "cluster": {"jitter": -1}},
            "trace: cluster.jitter: must be at least 0: got -1",
        ),
        ({**with_job(), "poison": {}}, "trace: poison: is not a known key; did you mean 'poisson'?"),
        ([], "trace: must be a table of keys: got a list"),
    ],
)
def test_an_error_names_key_value_and_limit(tables: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_trace(tables)
    assert str(caught.value) == message


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        parse_trace({"fabric": TESTBED, "jobs": [{**JOB, "workers": 30}, {**JOB, "model": "x"}]})
    assert [line.partition(" ")[2].partition(":")[0] for line in str(caught.value).splitlines()] == [
        "jobs[0].workers",
        "jobs[1].name",
        "jobs[1].model",
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.toml: cannot be read: No such file"):
        load_trace(tmp_path / "nothing.toml")


def test_the_error_for_an_empty_file_describes_a_trace(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.toml: is empty; a trace has at least a \[fabric\]"):
        load_trace(tmp_path / "empty.toml")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1 s", "VGG16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*JOB, "arrival", "placement", "min_workers", "max_workers", "strategy"])


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.sampled_from(["jobs", "poisson", "dynamic", "import"]),
    VALUES,
)
def test_garbage_is_a_trace_or_refused(keys: dict[str, Any], table: str, value: Any) -> None:
    tables = {"fabric": TESTBED, "jobs": [{**JOB, **keys}], **({table: value} if table != "jobs" else {})}
    message = "trace: "
    try:
        parse_trace(tables)
    except InputError as error:
        message = str(error)
    assert message.startswith("trace: ")
