"""A training job that cannot run is refused by one message that names rank or layer, operation and reason,
and in exit code 2, whatever the job is given as and whichever engine is asked.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.training.conftest import content, trace, whole

Command = Callable[..., Any]
Tables = Mapping[str, Any]

COMP, SEND, RECV, COLLECTIVE = 4, 5, 6, 7
ALL_REDUCE, ALL_TO_ALL = 0, 6

ALL_REDUCED = {"collective": "all-reduce", "bytes": "1 MB"}
STEP = {"name": "step", "compute": "1 ms"}
SUM = {"name": "sum", "collective": "all-reduce", "bytes": "1 MB"}


def servers(count: int, gpus: int = 1) -> Tables:
    """A fabric of `count` servers in one rack."""
    return {"clos": {"racks": 1, "servers_per_rack": count, "gpus_per_server": gpus}}


def plan(training: Tables, gpus: int = 4, *, fabric: Tables | None = None, **job: object) -> str:
    """A plan of one training job on servers of one GPU, or on `fabric`."""
    job = {"name": "dlrm", "training": training, **job}
    return json.dumps({"fabric": fabric or servers(gpus), "jobs": [job]})


@pytest.fixture(params=["flow", "packet"])
def refused(request: pytest.FixtureRequest, hocket: Command, tmp_path: Path) -> Callable[[str], str]:
    """The message with which `hocket run` refuses a plan on either engine, without the plan's path."""

    def of(text: str) -> str:
        path = tmp_path / "plan.json"
        path.write_text(text, encoding="utf-8")
        outcome = hocket("run", path, "--engine", request.param)
        assert outcome.code == 2, outcome.err
        assert not outcome.out
        message = " ".join(outcome.err.split())
        assert "Traceback" not in message
        return message.removeprefix("error: ").replace(f"{path}: ", "").replace(f"{tmp_path}/", "")

    return of


JOBS = {
    "operations that wait for each other": (
        plan({"operations": [{**STEP, "after": ["sum"]}, {**SUM, "after": ["step"]}]}),
        "jobs[0].training.operations[0].after: 'step' waits for itself: 'step' → 'sum' → 'step'",
    ),
    "an operation that waits for one after it": (
        plan({"operations": [{**STEP, "after": ["sum"]}, SUM]}),
        "jobs[0].training.operations[0].after[0]: 'sum' does not come before 'step' in the program",
    ),
    "an operation that waits for one that is not there": (
        plan({"operations": [STEP, {**SUM, "after": ["stop"]}]}),
        "jobs[0].training.operations[1].after[0]: 'stop' is not an operation of the job; "
        "did you mean 'step'?",
    ),
    "halving and doubling over six": (
        plan(ALL_REDUCED, 6, collectives={"all_reduce": "halving-doubling"}),
        'jobs[0].collectives: job "dlrm": rank 0, operation "all-reduce": halving-doubling all-reduce over '
        "6 ranks: it needs a power of two; ring and direct support any number",
    ),
    "halving and doubling over three servers": (
        plan(
            {"operations": [STEP, {**SUM, "after": ["step"]}]},
            fabric=servers(3, 4),
            collectives={"all_reduce": ["ring", "halving-doubling"]},
        ),
        'jobs[0].collectives: job "dlrm": rank 0, operation "sum": halving-doubling all-reduce over '
        "3 ranks: it needs a power of two; ring and direct support any number",
    ),
    "two levels over servers with unequal numbers of GPUs": (
        plan(
            ALL_REDUCED,
            fabric=servers(3, 4),
            placement=["s0", "s1:0", "s1:1"],
            collectives={"all_reduce": ["direct", "direct"]},
        ),
        'jobs[0].collectives: job "dlrm": rank 0, operation "all-reduce": a hierarchical collective needs '
        "the same number of members in each server (or rack); group 0 has 4 in one and 2 in another",
    ),
    "more levels than the network has": (
        plan(ALL_REDUCED, collectives={"all_reduce": ["direct", "direct", "ring", "ring"]}),
        'jobs[0].collectives: job "dlrm": rank 0, operation "all-reduce": 4 algorithms, one for each level '
        "of the network; there are at most 3",
    ),
    "a tree for all-to-all": (
        plan({"collective": "all-to-all", "bytes": "1 MB"}, collectives={"all_to_all": "tree"}),
        'jobs[0].collectives: job "dlrm": rank 0, operation "all-to-all": tree all-to-all over 4 ranks: '
        "not possible; the algorithms of all-to-all are ring, direct",
    ),
    "a tree for reduce-scatter": (
        plan({"collective": "reduce-scatter", "bytes": "1 MB"}, collectives={"reduce_scatter": "tree"}),
        'jobs[0].collectives: job "dlrm": rank 0, operation "reduce-scatter": tree reduce-scatter over '
        "4 ranks: not possible; the algorithms of reduce-scatter are ring, halving-doubling, direct",
    ),
    "a collective of one": (
        plan(ALL_REDUCED, placement=["s0"]),
        'job "dlrm": the iterations of rank 0 take no time; '
        "give it a compute above 0, a message, or a collective of several ranks",
    ),
    "a model whose heads do not divide": (
        plan({"model": "BERT", "parallel": {"tensor": 5}}, 5),
        "jobs[0].training: job 'dlrm': parallel: tensor = 5 does not divide the 12 heads of BERT",
    ),
    "a model with fewer layers than stages": (
        plan({"model": "VGG11", "parallel": {"pipeline": 12}}, 12),
        "jobs[0].training: job 'dlrm': parallel: pipeline = 12 is more than the 11 layers of VGG11",
    ),
    "degrees that are not the job's GPUs": (
        plan({"model": "BERT", "parallel": {"data": 2, "tensor": 4}}, 4),
        "jobs[0].training: job 'dlrm': parallel: data = 2 × tensor = 4 × pipeline = 1 is 8 GPUs; "
        "the job has 4",
    ),
    "a model that nobody knows": (
        plan({"model": "ResNet"}),
        "jobs[0].training: job 'dlrm': 'ResNet' is not a model of the catalogue; "
        "did you mean ResNet50 or WideResNet101 or ResNet50 (NSDI'24)?",
    ),
    "a GPU that the fabric lacks": (
        plan(ALL_REDUCED, fabric=servers(2, 4), placement=["s0", "s1:4"]),
        "jobs[0].placement[1]: 's1:4' is not a host of the fabric; 's1' has 4, 's1:0' to 's1:3'",
    ),
    "a GPU with two ranks": (
        plan(ALL_REDUCED, fabric=servers(2, 4), placement=["s0", "s0:3"]),
        "jobs[0].placement: 's0:3' has rank 3 of the job, and cannot have rank 4 too",
    ),
    "a straggler that is not there": (
        plan(ALL_REDUCED, stragglers=[{"rank": 4, "slowdown": 2}]),
        "jobs[0].stragglers[0].rank: 4 is not a rank: the job has 4, counted from 0",
    ),
}


@pytest.mark.parametrize(("text", "message"), JOBS.values(), ids=JOBS)
def test_a_job_that_cannot_run_is_refused_with_the_reason(
    text: str, message: str, refused: Callable[[str], str]
) -> None:
    assert refused(text) == message


def test_two_training_jobs_of_one_name_are_refused(refused: Callable[[str], str]) -> None:
    tables = json.loads(plan(ALL_REDUCED))
    tables["jobs"] *= 2
    assert refused(json.dumps(tables)) == "jobs[1].name: 'dlrm' is already the name of jobs[0]"


class Traces:
    """Chakra traces of a job, written byte by byte without the code under test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ranks = 0

    def rank(self, *nodes: bytes, keep: int | None = None) -> None:
        """Writes the file of the next rank, or only its first `keep` bytes."""
        (self.directory / f"job.{self.ranks}.et").write_bytes(trace(*nodes)[:keep])
        self.ranks += 1

    def plan(self) -> str:
        """A plan with a job that runs these traces."""
        return plan({"chakra": str(self.directory)}, self.ranks)


def node(number: int, kind: int, name: str, *after: int, micros: int = 0, **attributes: int) -> bytes:
    """A node of a trace that waits for the nodes numbered `after`."""
    parts = [whole(1, number), content(2, name.encode()), whole(3, kind)]
    parts += [whole(5, each) for each in after]
    parts += [whole(7, micros)] if micros else []
    # Field 9 of an attribute is a whole number of 64 bits.
    parts += [content(10, content(1, each.encode()) + whole(9, value)) for each, value in attributes.items()]
    return b"".join(parts)


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    directory = tmp_path / "traces"
    directory.mkdir()
    return Traces(directory)


def test_nodes_of_a_trace_that_wait_for_each_other_are_refused(
    traces: Traces, refused: Callable[[str], str]
) -> None:
    traces.rank(node(0, COMP, "f", micros=5))
    traces.rank(node(0, COMP, "f", 1, micros=5), node(1, COMP, "g", 0, micros=5))
    assert refused(traces.plan()) == (
        "jobs[0].training: job 'dlrm': traces/job.1.et: rank 1: node 0 'f': waits for itself: 0 → 1 → 0"
    )


def test_ranks_that_receive_before_they_send_are_refused(
    traces: Traces, refused: Callable[[str], str]
) -> None:
    for peer in (1, 0):
        traces.rank(
            node(0, RECV, "get", comm_src=peer, comm_size=8, comm_tag=0),
            node(1, SEND, "give", 0, comm_dst=peer, comm_size=8, comm_tag=0),
        )
    assert refused(traces.plan()) == (
        'jobs[0].training: job "dlrm": ranks wait for each other: '
        'rank 0 in recv "get" for rank 1, rank 1 in recv "get" for rank 0'
    )


def test_a_collective_that_waits_for_one_that_another_rank_posts_later_is_refused(
    traces: Traces, refused: Callable[[str], str]
) -> None:
    sum_first = node(0, COLLECTIVE, "sum", comm_type=ALL_REDUCE, comm_size=8)
    traces.rank(sum_first, node(1, SEND, "give", 0, comm_dst=1, comm_size=8, comm_tag=0))
    traces.rank(
        node(0, RECV, "get", comm_src=0, comm_size=8, comm_tag=0),
        node(1, COLLECTIVE, "sum", 0, comm_type=ALL_REDUCE, comm_size=8),
    )
    assert refused(traces.plan()) == (
        'jobs[0].training: job "dlrm": ranks wait for each other: '
        'rank 0 in all-reduce "sum" for rank 1, rank 1 in recv "get" for rank 0'
    )


def test_ranks_that_disagree_about_a_collective_are_refused(
    traces: Traces, refused: Callable[[str], str]
) -> None:
    traces.rank(node(0, COLLECTIVE, "sum", comm_type=ALL_REDUCE, comm_size=8))
    traces.rank(node(0, COLLECTIVE, "mix", comm_type=ALL_TO_ALL, comm_size=8))
    assert refused(traces.plan()) == (
        "jobs[0].training: job 'dlrm': traces/job.1.et: rank 1: node 0 'mix': collective 1 of ranks 0, 1 is "
        "an all-to-all of 8 bytes; for rank 0 it is an all-reduce of 8 bytes, node 0 'sum'"
    )


def test_a_send_without_a_receive_is_refused(traces: Traces, refused: Callable[[str], str]) -> None:
    traces.rank(node(0, SEND, "give", comm_dst=1, comm_size=8, comm_tag=3))
    traces.rank(node(0, COMP, "f", micros=5))
    assert refused(traces.plan()) == (
        "jobs[0].training: job 'dlrm': traces/job.0.et: rank 0: node 0 'give': "
        "send 1 from rank 0 to rank 1 with tag 3 has no receive; there are 0"
    )


def test_a_trace_cut_short_is_refused(traces: Traces, refused: Callable[[str], str]) -> None:
    step = node(0, COMP, "f", micros=5)
    traces.rank(step)
    # The metadata with its length takes 8 bytes.
    traces.rank(step, keep=8 + 1 + 4)
    assert refused(traces.plan()) == (
        "jobs[0].training: job 'dlrm': traces/job.1.et: rank 1: is cut short: "
        f"the message at byte 9 has {len(step)} bytes, but 4 are left"
    )


def test_a_rank_without_a_trace_is_refused(traces: Traces, refused: Callable[[str], str]) -> None:
    for _ in range(3):
        traces.rank(node(0, COMP, "f", micros=5))
    (traces.directory / "job.1.et").unlink()
    assert refused(traces.plan()) == (
        "jobs[0].training: job 'dlrm': traces: the file of rank 1 is missing; the highest rank is 2"
    )


def test_more_traces_than_gpus_are_refused(traces: Traces, refused: Callable[[str], str]) -> None:
    for _ in range(3):
        traces.rank(node(0, COMP, "f", micros=5))
    two = plan({"chakra": str(traces.directory)}, 2)
    assert refused(two) == "jobs[0].training: job 'dlrm': the workload is for 3 GPUs, but the job has 2"


LAYER = "mlp -1 1000 ALLREDUCE 4096 1 NONE 0 1 ALLREDUCE 4096 10"

WORKLOADS = {
    "a time that is no number": (
        LAYER.replace("1000", "soon"),
        {},
        "line 3: column 3, forward compute: must be a finite number: got 'soon'",
    ),
    "an exchange that nobody knows": (
        LAYER.replace("ALLREDUCE 4096 1 ", "ALLTOSOME 4096 1 "),
        {},
        "line 3: column 4, forward exchange: 'ALLTOSOME' is not supported; known: NONE, ALLREDUCE, "
        "ALLGATHER, REDUCESCATTER, ALLTOALL, BROADCAST, each also with _EP or _DP_EP",
    ),
    "too few columns": (
        "mlp -1 1000 ALLREDUCE",
        {},
        "line 3: has 4 columns; a layer of HYBRID_TRANSFORMER_FWD_IN_BCKWD has 12",
    ),
    "GPUs that do not divide": (
        LAYER,
        {"parallel": {"tensor": 3}},
        "4 GPUs do not divide into 1 stages of 3 ranks that share a layer (model_parallel_NPU_group × pp)",
    ),
}


@pytest.mark.parametrize(("layer", "options", "message"), WORKLOADS.values(), ids=WORKLOADS)
def test_a_bad_workload_file_is_refused_with_line_and_column(
    layer: str, options: Tables, message: str, tmp_path: Path, refused: Callable[[str], str]
) -> None:
    first = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4"
    (tmp_path / "moe.txt").write_text(f"{first} checkpoints: 0 checkpoint_initiates: 0\n1\n{layer}\n")
    assert refused(plan({"simai": str(tmp_path / "moe.txt"), **options})) == (
        f"jobs[0].training: job 'dlrm': moe.txt: {message}"
    )
