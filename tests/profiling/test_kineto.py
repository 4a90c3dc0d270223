"""Profiler traces of PyTorch: recorded ones of known jobs, generated ones, and arbitrary bytes."""

from __future__ import annotations

import gzip
import json
import math
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.figures.profile import evidence_figure
from hocket.figures.timeline_evidence import shares_of
from hocket.plan import parse_plan
from hocket.profiling.timelines import Operation, Timeline, profile_timeline, read_kineto
from hocket.profiling.timelines import kineto as kineto_module
from hocket.profiling.timelines.kineto import kineto_timeline
from hocket.profiling.timelines.timeline import covered_until, merged

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "traces" / "kineto"
OWN = Path(__file__).resolve().parents[2] / "experiments" / "recorded-trace" / "ddp.json.gz"
Event = dict[str, Any]
# The largest rate that a plan may name.
LARGEST_RATE_BPS = 10**15


def recorded(name: str) -> Path:
    """A profiler trace recorded by another project; skips the test if it is missing."""
    if not RECORDED.is_dir():
        pytest.skip(f"no {RECORDED}: profiler traces of other projects are not part of this one")
    return RECORDED / name


def communication_s(timeline: Timeline) -> tuple[float, float]:
    """Communication and exposed communication (s) in the whole profiler trace."""
    intervals = merged(np.column_stack([timeline.start_s, timeline.end_s]))
    hidden = np.diff(covered_until(timeline.compute_s, intervals), axis=1)
    total = np.diff(intervals, axis=1)
    return float(total.sum()), float((total - hidden).sum())


# Periods, communication and exposed communication, as the profilers' own tools report them.
@pytest.mark.parametrize(
    ("name", "period_s", "communicated_s", "exposed_s"),
    [
        ("hta_nccl_data.json.gz", 0.221, 0.0469, 0.0396),
        ("hta_df_index_resolver.json.gz", 0.3488, 0.3573, 0.3573),
        ("hta_trace_diff_control.json.gz", 0.077, 0.1635, 0.0879),
    ],
)
def test_recorded_traces_have_their_true_periods(
    name: str, period_s: float, communicated_s: float, exposed_s: float
) -> None:
    timeline = read_kineto(recorded(name))
    assert communication_s(timeline) == pytest.approx((communicated_s, exposed_s), rel=2e-3)
    profile = profile_timeline(timeline, rate="100 Gbps")
    assert profile.period_s == pytest.approx(period_s, rel=0.01)
    assert profile.confidence > 0.7
    unannotated = kineto_timeline(
        name, gzip.decompress(recorded(name).read_bytes()).replace(b"ProfilerStep", b"")
    )
    assert unannotated.steps_s.size == 0
    assert profile_timeline(unannotated).period_s == profile.period_s


def test_a_recorded_trace_shows_the_collectives_of_an_iteration() -> None:
    profile = profile_timeline(read_kineto(recorded("hta_nccl_data.json.gz")))
    assert {each.kind: each.count for each in profile.collectives} == {"all-reduce": 5, "broadcast": 2}
    sizes = {each.kind: each.message_bytes for each in profile.collectives}
    # ResNet-50's 25.6 million parameters in single precision, and the buffers of its normalisations.
    assert sizes == {"all-reduce": 25_557_032 * 4, "broadcast": 212_480 + 53 * 8}
    # Two ranks: each sends 2 × 1/2 of what it reduces.
    assert profile.bytes_per_iteration == pytest.approx(25_557_032 * 4 + 212_904)


def test_a_single_recorded_step_has_no_period(tmp_path: Path) -> None:
    with tarfile.open(recorded("param_dlrm_kineto.tar.gz")) as archive:
        members = [member for member in archive if member.isfile()]
        for member in members:
            (tmp_path / "step.json").write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
            profile = profile_timeline(read_kineto(tmp_path / "step.json"))
            assert profile.confidence == 0.0
            assert {each.kind: each.count for each in profile.collectives} == {
                "all-to-all": 5,
                "all-reduce": 3,
            }
    assert len(members) == 8


def span(name: str, category: str, start_us: float, length_us: float, **args: Any) -> Event:
    """A complete event."""
    tid = args.pop("tid", 1)
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": tid,
        "ts": start_us,
        "dur": length_us,
    } | ({"args": args} if args else {})


def job(all_reduce: Event | None = None, iterations: int = 8) -> list[Event]:
    """Iterations of 100 ms: 60 ms of computation, an all-reduce of 20 ms with 5 ms of computation in
    parallel, and an all-reduce of 1 ms. The all-reduces have the arguments `all_reduce`.
    """
    known = all_reduce or {}
    events = [
        span("PyTorch Profiler (0)", "Trace", 0.0, iterations * 1e5),
        {"ph": "M", "name": "process_name"},
    ]
    for number in range(iterations):
        begin_us = 1.7e15 + number * 1e5
        events += [
            span("void gemm", "kernel", begin_us, 6e4),
            span(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                "kernel",
                begin_us + 6e4,
                2e4,
                grid=[8],
                **known,
            ),
            span("void gemm", "kernel", begin_us + 6.5e4, 5e3),
            span(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                "kernel",
                begin_us + 9e4,
                1e3,
                grid=[1],
                **known,
            ),
            span("Memcpy DtoH", "gpu_memcpy", begin_us + 9.2e4, 1e3),
        ]
    return events


def written(events: list[Event], **keys: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **keys}).encode()


SIZED = {"Collective name": "allreduce", "In msg nelems": 2**20, "Out msg nelems": 2**20, "dtype": "Float"}


def test_sizes_recorded_with_kernels_give_rates() -> None:
    profile = profile_timeline(kineto_timeline("a.json", written(job(SIZED | {"Group size": 4}))))
    # 4 MiB × 2 × 3/4, once in 20 ms and once in 1 ms.
    assert [each.rate_bps for each in profile.phases] == pytest.approx(
        [2**22 * 1.5 * 8 / s for s in (0.02, 0.001)]
    )
    assert profile.compute_s == pytest.approx(0.065)
    assert profile.exposed_s == pytest.approx(0.016)
    parse_plan({"link": {"capacity": "100 Gbps"}, "jobs": [profile.to_job()]})


def test_without_sizes_there_is_no_job_until_a_rate_is_given() -> None:
    timeline = kineto_timeline("a.json", written(job()))
    profile = profile_timeline(timeline)
    assert profile.period_s == pytest.approx(0.1)
    with pytest.raises(
        InputError, match="does not give the size of every message; to write the job, give the rate"
    ):
        profile.to_job()
    rated = profile_timeline(timeline, rate="40 Gbps")
    assert [each.rate_bps for each in rated.phases] == pytest.approx([40e9, 40e9])
    assert "16 of 16 operations: they are assumed to send at 40 Gbps" in rated.notes[-1]


def test_groups_inside_a_server_are_not_on_the_network() -> None:
    group = {"Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"}
    timeline = kineto_timeline("a.json", written(job(SIZED | group)))
    assert profile_timeline(timeline, gpus_per_server=2).bytes_per_iteration == 2**22 * 1.5 * 2
    assert profile_timeline(timeline, gpus_per_server=4).phases == ()
    with pytest.raises(InputError, match="the job sends nothing"):
        profile_timeline(timeline, gpus_per_server=4).to_job()
    with pytest.raises(InputError, match="0 GPUs per server; there must be at least 1"):
        profile_timeline(timeline, gpus_per_server=0)


def test_older_profilers_record_sizes_with_the_call_that_launches_the_kernel() -> None:
    events: list[Event] = []
    for number in range(8):
        begin_us = 1e5 * number
        shapes = {"Input Dims": [[1024, 256]], "Input type": ["c10::Half"]}
        events += [
            span("record_param_comms", "cpu_op", begin_us, 90.0, **{"External id": number}),
            span("nccl:_all_gather_base", "user_annotation", begin_us + 10, 70.0, **shapes),
            span("cudaLaunchKernel", "cuda_runtime", begin_us + 20, 9.0, correlation=number),
            span("ncclKernel_AllGather_RING_LL", "kernel", begin_us + 400, 5e3, correlation=number, tid=7),
        ]
    timeline = kineto_timeline("a.json", written(events, distributedInfo={"rank": 0, "world_size": 4}))
    (operation,) = timeline.operations
    # The output of the all-gather are the parts of all four ranks.
    assert (operation.kind, operation.size_bytes, operation.group_size) == ("all-gather", 2**18 * 2 * 4, 4)


def test_a_rank_on_cpus_communicates_with_gloo() -> None:
    events = [
        event
        for number in range(8)
        for event in (
            span("aten::addmm", "cpu_op", 1e5 * number, 6e4),
            span("Optimizer.step#Adam.step", "user_annotation", 1e5 * number, 9e4),
            span("gloo:all_reduce", "user_annotation", 1e5 * number + 6e4, 2e4),
            span("gloo:all_reduce", "user_annotation", 1e5 * number + 7e4, 2e4),
        )
    ]
    # Older profilers write only the list of events.
    profile = profile_timeline(kineto_timeline("a.json", json.dumps(events).encode()), rate="1 Gbps")
    assert profile.period_s == pytest.approx(0.1)
    # The two overlap, and together send at the same rate.
    assert [each.rate_bps for each in profile.phases] == pytest.approx([1e9])
    assert profile.bytes_per_iteration == pytest.approx(0.03 * 1e9 / 8)
    assert profile.compute_s == pytest.approx(0.06)
    assert profile.exposed_s == pytest.approx(0.03)


def test_of_several_gpus_the_one_with_the_most_communication_is_profiled() -> None:
    other = [{**event, "pid": 1} for event in job(iterations=3)]
    timeline = kineto_timeline("a.json", written(job() + other))
    assert timeline.start_s.size == 16


def test_gzip_is_recognised_by_the_content(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.gz", tmp_path / "b.json"
    plain.write_bytes(written(job()))
    packed.write_bytes(gzip.compress(written(job())))
    assert read_kineto(plain).start_s.tobytes() == read_kineto(packed).start_s.tobytes()


def bad_files() -> Iterator[tuple[str, bytes, str]]:
    whole = written(job())
    yield "nothing", b"", "not a profiler trace of PyTorch"
    yield "truncated", whole[:-100], "not a profiler trace of PyTorch"
    yield "truncated gzip", gzip.compress(whole)[:-20], "gzip"
    yield "damaged gzip", b"\x1f\x8b" + bytes(50), "gzip"
    yield "other JSON", b'{"jobs": []}', "missing required field `traceEvents`"
    yield "a number", b"17", "not a profiler trace of PyTorch"
    yield "no events", written([]), "no communication in its 0 events"
    yield "no communication", written([span("gemm", "kernel", 0, 1)]), "neither kernels of NCCL"
    yield "calls alone", written([span("nccl:all_reduce", "user_annotation", 0, 1)]), "ProfilerActivity.CUDA"
    yield "no duration", whole.replace(b'"dur": 20000.0', b'"dur": null'), "must be numbers, in µs"
    yield "negative", whole.replace(b'"dur": 20000.0', b'"dur": -1'), "dur -1: times must be finite"
    yield "text", whole.replace(b'"dur": 20000.0', b'"dur": "soon"'), "dur 'soon' must be numbers"
    yield "not finite", whole.replace(b'"dur": 20000.0', b'"dur": 1e999'), "not a profiler trace|finite"
    yield "NaN", whole.replace(b'"dur": 20000.0', b'"dur": NaN'), "not a profiler trace of PyTorch"
    yield "centuries", whole.replace(b'"dur": 20000.0', b'"dur": 1e18'), "s apart; the limit"
    yield "not UTF-8", whole.replace(b"void gemm", b"void \xff\xfe"), "not a profiler trace of PyTorch"


@pytest.mark.parametrize(
    ("content", "message"),
    [pytest.param(content, message, id=name) for name, content, message in bad_files()],
)
def test_bad_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        profile_timeline(read_kineto(path))
    assert str(caught.value).startswith(str(path))


def test_missing_and_too_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_kineto(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_kineto(tmp_path)
    monkeypatch.setattr(kineto_module, "MAX_FILE_BYTES", 1_000_000)
    (tmp_path / "bomb.json").write_bytes(gzip.compress(b" " * 2_000_000))
    with pytest.raises(InputError, match="larger than the limit of 1 MB uncompressed"):
        read_kineto(tmp_path / "bomb.json")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
ARGUMENTS = (
    *SIZED,
    "Group size",
    "Process Group Ranks",
    "Input Dims",
    "Input type",
    "correlation",
    "stream",
    "grid",
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_events_yield_a_profile_or_are_refused(data: st.DataObject) -> None:
    events = job(SIZED, 4)
    for _ in range(data.draw(st.integers(0, 6))):
        event = data.draw(st.sampled_from(events))
        event[data.draw(st.sampled_from(KEYS))] = data.draw(
            JUNK | st.dictionaries(st.sampled_from(ARGUMENTS), JUNK)
        )
    profiled(json.dumps({"traceEvents": events, "distributedInfo": data.draw(JUNK)}).encode())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_bytes_yield_a_profile_or_are_refused(data: st.DataObject) -> None:
    damaged = bytearray(written(job(SIZED, 4)))
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    profiled(bytes(damaged))


def profiled(content: bytes) -> None:
    """Profiles `content`, which may be refused; a job that sends something must be valid in a plan."""
    try:
        found = profile_timeline(kineto_timeline("a.json", content), rate="10 Gbps")
        planned = found.to_job()
    except InputError:
        return
    assert 0.0 <= found.confidence <= 1.0
    if all(phase.rate_bps <= LARGEST_RATE_BPS for phase in found.phases):
        parse_plan({"link": {"capacity": f"{LARGEST_RATE_BPS} bps"}, "jobs": [planned]})


def test_the_figure_shows_phases_and_how_an_iteration_divides(tmp_path: Path) -> None:
    profile = profile_timeline(kineto_timeline("a.json", written(job())), rate="40 Gbps")
    figure = evidence_figure(profile)
    stretch, iteration, _ = figure.axes
    assert stretch.get_title(loc="left") == "4 of 8 iterations, height: share of the time"
    assert len(iteration.patches) == len(profile.phases) == 2
    assert {name: round(length_s, 6) for name, length_s, _ in shares_of(profile)} == {
        "computes": 0.06,
        "both": 0.005,
        "communicates only": 0.016,
        "neither": 0.019,
    }
    figure.savefig(tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").stat().st_size > 10_000


def test_a_figure_is_drawn_if_rates_and_computation_are_unknown() -> None:
    timeline = Timeline.of("a", [0.0, 1.0, 2.0], [0.1, 1.1, 2.1], [Operation("all-reduce")] * 3)
    figure = evidence_figure(profile_timeline(timeline))
    assert figure.axes[1].get_ylabel() == "rate not known"


def test_our_own_recording_yields_the_profile_in_its_readme() -> None:
    timeline = read_kineto(OWN)
    annotated = profile_timeline(timeline)
    assert annotated.period_s == pytest.approx(float(np.diff(timeline.steps_s).mean()), rel=1e-3)
    assert annotated.iterations_seen == 6
    assert [(each.kind, each.count) for each in annotated.collectives] == [("all-reduce", 3)]
    assert annotated.confidence == pytest.approx(0.80, abs=0.005)
    bare = profile_timeline(replace(timeline, steps_s=np.empty(0)))
    assert bare.period_s == annotated.period_s
    assert bare.confidence == pytest.approx(0.62, abs=0.005)


def test_the_group_of_all_ranks_is_known_even_if_no_collective_lists_them() -> None:
    info = {"distributedInfo": {"rank": 0, "world_size": 4}}
    everyone = kineto_timeline("a.json", written(job(SIZED | {"Group size": 4}), **info))
    assert {each.ranks for each in everyone.operations} == {(0, 1, 2, 3)}
    assert profile_timeline(everyone, gpus_per_server=4).phases == ()
    some = kineto_timeline("a.json", written(job(SIZED | {"Group size": 2}), **info))
    assert {each.ranks for each in some.operations} == {()}


def test_notes_report_the_effect_of_the_number_of_gpus_in_a_server() -> None:
    group = {"Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"}
    known = kineto_timeline("a.json", written(job(SIZED | group)))
    count = known.which.size
    for gpus, note in (
        (4, f"{count} of {count} operations stay inside a server of 4 GPUs: no NIC sends anything for them"),
        (2, f"none of {count} operations stays inside a server of 2 GPUs: all count in full"),
    ):
        assert profile_timeline(known, gpus_per_server=gpus).notes[-1] == note
    unknown = kineto_timeline("a.json", written(job(SIZED | {"Group size": 4})))
    assert profile_timeline(unknown, gpus_per_server=8).notes[-1] == (
        f"the profiler trace lacks the ranks of {count} of {count} operations: they count as if they "
        "left their server"
    )
    # Without the option, no note mentions servers.
    assert not any("server" in note for note in profile_timeline(known).notes)


def test_the_size_of_an_operation_inside_a_server_need_not_be_known() -> None:
    group = {"Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"}
    timeline = kineto_timeline("a.json", written(job(group)))
    assert math.isnan(profile_timeline(timeline).bytes_per_iteration)
    inside = profile_timeline(timeline, gpus_per_server=4)
    assert inside.bytes_per_iteration == 0
    assert not any("lacks the size" in note for note in inside.notes)


def test_a_job_inside_one_server_is_reported_to_send_nothing(hocket: Any, tmp_path: Path) -> None:
    group = {"Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"}
    (tmp_path / "a.json").write_bytes(written(job(SIZED | group)))
    shown = hocket("profile", "a.json", "--gpus-per-server", "8")
    assert "sends nothing over the network: it has no Up phase" in shown.out
    assert "Up from" not in shown.out
    assert hocket("profile", "a.json", "--gpus-per-server", "8", "--json").json()["job"] is None
