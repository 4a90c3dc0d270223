"""Public traces become jobs of the catalogue; what cannot run is counted, what is no trace is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.cluster.trace import Trace, parse_trace
from hocket.errors import InputError
from hocket.profiles import PS_PER_S

TESTBED = {"testbed": "cassini"}
FORMATS = ("philly", "helios", "pai", "pollux", "gavel")

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
10,u1,v1,4,16,1,COMPLETED,2020-04-01 00:10:00,2020-04-01 00:11:00,2020-04-01 00:21:00,600,60
11,u1,v1,0,16,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:10:00,600,0
12,u2,v1,64,16,8,COMPLETED,2020-04-01 00:01:00,2020-04-01 00:01:00,2020-04-01 00:11:00,600,0
13,u2,v1,1,16,1,FAILED,2020-04-01 00:02:00,2020-04-01 00:02:00,2020-04-01 00:12:00,600,0
14,u2,v1,1,16,1,CANCELLED,2020-04-01 00:03:00,2020-04-01 00:03:00,2020-04-01 00:04:00,60,0
15,u2,v1,1,16,1,COMPLETED,2020-04-01 00:04:00,2020-04-01 00:04:00,2020-04-01 00:04:00,0,0
"""

PAI = """\
j1,ps,1.0,Terminated,1000.0,1600.0,600.0,29.3,,
j1,worker,3.0,Terminated,1010.0,1610.0,600.0,29.3,150.0,V100
j2,tensorflow,1.0,Failed,1020.0,1040.0,600.0,29.3,50.0,MISC
j3,tensorflow,1.0,Running,1030.0,,600.0,29.3,50.0,MISC
j4,tensorflow,1.0,Terminated,1100.0,1160.0,600.0,29.3,25.0,MISC
j5,tensorflow,1.0,Waiting,,,600.0,29.3,25.0,MISC
"""

POLLUX = """\
name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
imagenet-1,110,imagenet,8,1600
ncf-2,135,ncf,1,32768
"""

GAVEL = (
    "ResNet-50\tcd a && python3 main.py -b 64\t--num_minibatches\t147\t0\t1\n"
    "LM (batch size 80)\tpython3 main.py\tlm\t--steps\t6791\t179.5\t2\n"
    'Recommendation (batch size 8192)\tpython3 "train.py\trec\t-n\t0\t29\t4\t1\t-1.0\t779\n'
    "A3C\tpython3 main.py\t--max-steps\t0\t800\t1\n"
)

PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1",
        "attempts": [
            {
                "start_time": "2017-10-07 01:12:00",
                "end_time": "2017-10-07 01:13:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}],
            },
            {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:04:00", "detail": []},
        ],
        "submitted_time": "2017-10-07 01:11:06",
        "user": "ce2f4d",
    },
    {"status": "Failed", "jobid": "application_2", "attempts": [], "submitted_time": "2017-10-07 01:10:06"},
    {
        "status": "Killed",
        "jobid": "application_3",
        "attempts": [{"start_time": "2017-10-07 01:20:00", "end_time": None, "detail": []}],
        "submitted_time": "2017-10-07 01:15:06",
    },
]


def imported(path: Path, form: str, text: str, **keys: Any) -> Trace:
    (path / "jobs").write_text(text, encoding="utf-8")
    table = {"file": "jobs", "format": form, **keys}
    return parse_trace({"fabric": TESTBED, "import": [table]}, directory=path)


def run_s(trace: Trace, number: int) -> float:
    job = trace.jobs[number]
    return job.iterations(job.samples, job.requested) * job.profile(job.requested).period_ps / PS_PER_S


def test_jobs_of_helios_keep_their_gpus_times_and_names(tmp_path: Path) -> None:
    trace = imported(tmp_path, "helios", HELIOS)
    assert [(job.name, job.requested, job.arrival_ps // PS_PER_S) for job in trace.jobs] == [
        ("14", 1, 180),
        ("10", 4, 600),
    ]
    assert run_s(trace, 1) == pytest.approx(600, abs=trace.jobs[1].profile(4).period_ps / PS_PER_S)
    assert trace.jobs[1].sizes == (1, 2, 3, 4)


def test_jobs_that_cannot_run_are_counted_with_the_reason(tmp_path: Path) -> None:
    (report,) = imported(tmp_path, "helios", HELIOS).imports
    assert (report.jobs, report.taken, report.outside) == (6, 2, 0)
    assert report.skipped == {
        "requests no GPU": 1,
        "requests more GPUs than the 24 of the cluster": 1,
        "failed": 1,
        "did not run": 1,
    }
    assert imported(tmp_path, "helios", HELIOS).resolved()["imported"][0]["taken"] == 2


@pytest.mark.parametrize("header", [True, False])
def test_tasks_of_pai_are_one_job(tmp_path: Path, header: bool) -> None:
    columns = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    trace = imported(tmp_path, "pai", (columns if header else "") + PAI)
    # 3 instances of 150% of a GPU have 2 each; the parameter server has none.
    assert [(job.name, job.requested, job.arrival_ps // PS_PER_S) for job in trace.jobs] == [
        ("j1", 6, 0),
        ("j4", 1, 100),
    ]
    assert run_s(trace, 0) == pytest.approx(610, rel=0.05)
    assert trace.imports[0].skipped == {"did not start": 1, "failed": 1, "did not end": 1}


def test_applications_of_pollux_have_their_models_and_their_gpu_time(tmp_path: Path) -> None:
    trace = imported(tmp_path, "pollux", POLLUX)
    assert [(job.model, job.requested) for job in trace.jobs] == [
        ("ResNet50", 6),
        ("ResNet50", 8),
        ("DLRM", 1),
    ]
    hours = [run_s(trace, number) * job.requested / 3_600 for number, job in enumerate(trace.jobs)]
    assert 0.1 <= hours[0] <= 1.01
    assert 99.9 <= hours[1] <= 1_000.1


def test_steps_of_gavel_are_iterations_in_all_its_layouts(tmp_path: Path) -> None:
    trace = imported(tmp_path, "gavel", GAVEL)
    assert [(j.name, j.model, j.requested, j.iterations(j.samples, j.requested)) for j in trace.jobs] == [
        ("line-1", "ResNet50", 1, 147),
        ("line-2", "CamemBERT", 2, 6791),
        ("line-3", "DLRM", 4, 29),
    ]
    assert trace.jobs[1].arrival_ps == 1795 * PS_PER_S // 10
    assert trace.imports[0].skipped == {"did not run": 1}


def test_a_job_of_philly_has_the_gpus_of_its_first_attempt_and_the_time_of_all(tmp_path: Path) -> None:
    trace = imported(tmp_path, "philly", json.dumps(PHILLY))
    (job,) = trace.jobs
    assert (job.name, job.requested, job.arrival_ps) == ("application_1", 3, 60 * PS_PER_S)
    assert run_s(trace, 0) == pytest.approx(300, abs=job.profile(3).period_ps / PS_PER_S)
    assert trace.imports[0].skipped == {"did not start": 1, "has no times": 1}


def test_a_window_takes_jobs_by_their_time_since_the_first(tmp_path: Path) -> None:
    keys = {"from": "3 min", "until": "10 min"}
    trace = imported(tmp_path, "helios", HELIOS, **keys)
    assert [(job.name, job.arrival_ps) for job in trace.jobs] == [("14", 0)]
    assert trace.imports[0].outside == 4
    assert [job.name for job in imported(tmp_path, "helios", HELIOS, limit=1).jobs] == ["14"]


def test_a_time_scale_shortens_waits_and_work_alike(tmp_path: Path) -> None:
    trace = imported(tmp_path, "helios", HELIOS, time_scale=0.5)
    assert [job.arrival_ps // PS_PER_S for job in trace.jobs] == [90, 300]
    assert run_s(trace, 1) == pytest.approx(300, abs=trace.jobs[1].profile(4).period_ps / PS_PER_S)


def test_unnamed_models_are_drawn_by_seed_from_those_that_run_on_the_gpus(
    tmp_path: Path,
) -> None:
    lines = "".join(f"{n},u,v,8,1,1,COMPLETED,2020-04-01 00:00:00,,,600,0\n" for n in range(100, 200))
    text = HELIOS.splitlines()[0] + "\n" + lines
    trace = imported(tmp_path, "helios", text)
    assert {job.model for job in trace.jobs}.isdisjoint({"GPT2"})
    assert len({job.model for job in trace.jobs}) == 12
    assert trace.jobs == imported(tmp_path, "helios", text).jobs
    assert {job.model for job in imported(tmp_path, "helios", text, models="BERT").jobs} == {"BERT"}


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (
            "helios",
            HELIOS.replace("600,60", "x,60"),
            "line 2: duration must be a number from 0 to 10^12: got 'x'",
        ),
        ("helios", HELIOS.replace("1,4,16", "1,4.5,16"), "line 2: gpu_num must be a whole number: got '4.5'"),
        (
            "helios",
            HELIOS.replace("2020-04-01 00:10:00", "April"),
            "line 2: submit_time must be a time such as 2020-04-01 00:00:00: got 'April'",
        ),
        ("helios", HELIOS.replace(",vc,", ",state,"), "line 1: has the column 'state' twice"),
        (
            "helios",
            HELIOS.replace("gpu_num", "gpus"),
            "line 1: has no column 'gpu_num'; needed are job_id, gpu_num, state, submit_time, duration",
        ),
        ("helios", HELIOS.replace(",60\n", "\n"), "line 2: has 11 values, but the table has 12 columns"),
        ("helios", "", "has no job that can be run: it is empty"),
        (
            "helios",
            "\n".join(HELIOS.splitlines()[:1] + HELIOS.splitlines()[2:5]),
            "has no job that can be run: 1 × requests no GPU; 1 × requests more GPUs than the 24 of the "
            "cluster; 1 × failed",
        ),
        ("pai", PAI.replace("3.0", "-3.0"), "line 2: inst_num must be a number from 0 to 10^12: got '-3.0'"),
        (
            "pollux",
            POLLUX.replace("ncf,1", "nfc,1"),
            "job 'ncf-2': 'nfc' is not a known application; known: imagenet, cifar10, yolov3, bert, "
            "deepspeech2, ncf, ResNet-50, ResNet-18, CycleGAN, A3C, Transformer, LM, Recommendation",
        ),
        ("gavel", "a\tb\n", "line 1: has 2 tab-separated values; a job of Gavel has 6, 7, 10"),
        ("philly", "{}", "the file: must be a list: got a table"),
        ("philly", "[1]", "[0]: must be a table: got 1"),
        ("philly", "[", "line 1: is not valid JSON: Expecting value"),
        ("philly", "[{}]", "[0].jobid: must be text: got null"),
        (
            "philly",
            json.dumps(PHILLY).replace("2017-10-07 01:11:06", "now"),
            "[0].submitted_time: must be a time such as 2017-10-07 01:12:09: got 'now'",
        ),
    ],
)
def test_an_error_in_a_file_names_the_place_and_the_value(
    tmp_path: Path, form: str, text: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, form, text)
    assert str(caught.value) == f"trace: import[0]: {tmp_path / 'jobs'}: {message}"


def test_a_duplicate_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs: names the job '10' twice"):
        imported(tmp_path, "helios", HELIOS.replace("\n14,", "\n10,"))


def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs: a job is named by 1 to 100 printable characters: got ''"):
        imported(tmp_path, "helios", HELIOS.replace("\n14,", "\n,"))


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_is_not_there_is_named(tmp_path: Path, form: str) -> None:
    tables = {"fabric": TESTBED, "import": [{"file": "nowhere", "format": form}]}
    with pytest.raises(InputError, match="nowhere: cannot be read: No such file"):
        parse_trace(tables, directory=tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_a_binary_file_is_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "jobs").write_bytes(b"\xff\xfe\x00\x01" * 10)
    with pytest.raises(InputError, match="is not UTF-8 text"):
        parse_trace({"fabric": TESTBED, "import": [{"file": "jobs", "format": form}]}, directory=tmp_path)


GOOD = {
    "philly": json.dumps(PHILLY),
    "helios": HELIOS,
    "pai": PAI,
    "pollux": POLLUX,
    "gavel": GAVEL,
}


def edited(text: str) -> st.SearchStrategy[str]:
    """`text` with a part of it replaced by something else."""
    pieces = st.text(max_size=6) | st.sampled_from(
        [",", "\t", '"', "\n", "-1", "1e99", "9" * 30, "None", "{", "[]"]
    )

    def with_edit(edit: tuple[int, int, str]) -> str:
        start, length, piece = edit
        return text[:start] + piece + text[start + length :]

    return st.tuples(st.integers(0, len(text)), st.integers(0, 12), pieces).map(with_edit)


@pytest.mark.parametrize("form", FORMATS)
def test_garbage_is_jobs_or_refused_naming_the_file(tmp_path: Path, form: str) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(edited(GOOD[form]) | st.text(max_size=50))
    def check(text: str) -> None:
        message = str(tmp_path / "jobs")
        (tmp_path / "jobs").write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            trace = parse_trace(
                {"fabric": TESTBED, "import": [{"file": "jobs", "format": form}]}, directory=tmp_path
            )
            assert all(0 < job.requested <= 24 and job.samples > 0 for job in trace.jobs)
        except InputError as error:
            message = str(error)
        assert str(tmp_path / "jobs") in message

    check()
