"""The first hour of somebody new: twenty tasks with what is typed and what comes, each in an empty directory,
with nothing but the wheels.
"""

import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.dist.conftest import ROOT, Environment, bare_environment


@dataclass(frozen=True)
class Typed:
    """A command line, some of the text that it prints, how it exits, and what it leaves."""

    line: str
    says: Sequence[str]
    code: int = 0
    leaves: Sequence[str] = ()


@dataclass(frozen=True)
class Task:
    """What somebody wants, the files that they bring or write, and what they type."""

    wants: str
    typed: Sequence[Typed]
    writes: dict[str, str] = field(default_factory=dict)
    brings: Sequence[str] = ()


CANDIDATES_ALONE = """
[fabric.dumbbell]
left = 2
right = 2
nic = "50 Gbps"
bottleneck = "50 Gbps"

[[jobs]]
name = "images"
workload = "VGG19"
batch_size = 1400

[[jobs]]
name = "text"
workload = "BERT"
batch_size = 8

[[candidates]]
name = "apart"
placement = { images = ["s0", "s1"], text = ["s2", "s3"] }

[[candidates]]
name = "across"
placement = { images = ["s0", "s2"], text = ["s1", "s3"] }
"""

OWN_MODEL = """
[fabric.clos]
racks = 2
servers_per_rack = 4
gpus_per_server = 1
spines = 1
cables_per_spine = 1
nic = "1 Gbps"
uplink = "1 Gbps"

[[models]]
name = "mine"
batch_size = 32
profiles = [{ workers = 3, file = "mine.toml" }]

[[jobs]]
name = "first"
model = "mine"
batch_size = 32
workers = 3
iterations = 200

[[jobs]]
name = "second"
model = "mine"
batch_size = 32
workers = 3
iterations = 200
"""

ASK = """
import hocket

answer = hocket.compatibility("two-jobs.toml")
print(answer.verdict, answer.time_shifts_s)
run = hocket.simulate(answer)
print(run.tables["jobs"]["mean_iteration_s"].to_list())
"""

TWO_JOBS = Typed("hocket init two-jobs", ["plan: two-jobs.toml", "Next: hocket compat two-jobs.toml"])
CLUSTER = Typed("hocket init cluster", ["Next: hocket cluster cluster.toml --scheduler themis"])
COUNTERS = "experiments/recorded-allreduce/one-phase.csv"

TASKS = [
    Task(
        "see what it can do",
        [
            Typed("hocket", ["Plan:", "Simulate a cluster:", "Measure and act on a real cluster:"], code=2),
            Typed("hocket --version", ["hocket 0."]),
            Typed("hocket compat -h", ["--out FILE.toml|json   Write the plan with the time-shifts."]),
            Typed("hocket man", [".TH HOCKET 1"]),
        ],
    ),
    Task(
        "know whether two jobs can take turns on a link",
        [
            TWO_JOBS,
            Typed("hocket compat two-jobs.toml", ["shifting helps: speed-up 1.15 on average, 1.15 at p99"]),
        ],
    ),
    Task(
        "ask the same for other links",
        [
            TWO_JOBS,
            Typed(
                "hocket sweep two-jobs.toml --set 'link.capacity=25 Gbps,50 Gbps,400 Gbps' --figure links.png",
                [
                    "2 of 3 runs complete, 1 refused",
                    "50 Gbps   from the catalogue         100    378.000",
                    "400 Gbps  from the catalogue         100    232.980",
                    "refused: link.capacity = 25 Gbps: jobs[0].up[0].rate: 33 Gbps is above",
                ],
                code=1,
                leaves=["links.png"],
            ),
        ],
    ),
    Task(
        "act on the answer, and see what it wins",
        [
            TWO_JOBS,
            Typed("hocket compat two-jobs.toml --out shifted.toml", ["plan: shifted.toml"]),
            Typed("hocket run two-jobs.toml", ["378.00"]),
            Typed("hocket run shifted.toml --figure shifted.png", ["330.00"], leaves=["shifted.png"]),
            Typed(
                "hocket compare hocket-runs/two-jobs hocket-runs/shifted",
                ["0.873", "jobs[from the catalogue].time_shift"],
            ),
        ],
    ),
    Task(
        "choose a placement",
        [
            Typed("hocket init placements", ["plan: placements.toml"]),
            Typed(
                "hocket compat placements.toml --all --figure circles.png",
                ["bert on the left  0.992  helps", "all across        0.652  does not help"],
                leaves=["circles.png"],
            ),
        ],
    ),
    Task(
        "compare placements of jobs of the catalogue that are placed by candidates alone",
        [
            Typed("hocket compat own.toml", ["apart"]),
            Typed("hocket fabric own.toml --figure fabric.png", ["over-subscription"], leaves=["fabric.png"]),
            Typed("hocket run own.toml", ["--candidate"], code=2),
            Typed("hocket run own.toml --candidate apart", ["images", "text"]),
        ],
        writes={"own.toml": CANDIDATES_ALONE},
    ),
    Task(
        "find the rhythm of a job in the counters of its NIC",
        [
            Typed("hocket profile one-phase.csv --out job.toml", ["period 143.44 ms", "This file is not a plan yet"]),
            Typed("hocket compat job.toml", ["neither"], code=2),
            Typed('hocket profile one-phase.csv --capacity "1 Gbps" --out plan.toml', ["jobs: plan.toml"]),
            Typed("hocket compat plan.toml", ["there is no other job to take turns with"]),
        ],
        brings=[COUNTERS],
    ),
    Task(
        "find the rhythm of a job in what its profiler left",
        [
            Typed('hocket profile ddp.json.gz --rate "1 Gbps" --figure ddp.png', ["all-reduce"], leaves=["ddp.png"]),
            Typed("hocket profile ddp.json.gz --gpus-per-server 8", ["they count as if they left their server"]),
        ],
        brings=["experiments/recorded-trace/ddp.json.gz"],
    ),
    Task(
        "see the load that a trace puts on a cluster",
        [CLUSTER, Typed("hocket trace cluster.toml", ["46 jobs on 24 GPUs", "GPU demand"])],
    ),
    Task(
        "know what CASSINI wins on a trace, and why it decided so",
        [
            CLUSTER,
            Typed(
                "hocket cluster cluster.toml --scheduler themis --scheduler themis+cassini --figure cluster.png",
                ["themis+cassini  46 of 46"],
                leaves=["cluster.png"],
            ),
            Typed("hocket explain hocket-runs/cluster-themis+cassini", ["trigger"]),
            Typed(
                'hocket explain hocket-runs/cluster-themis+cassini --at "10 min"',
                ["themis+cassini: decision", "candidates:"],
            ),
        ],
    ),
    Task(
        "look at a moment of a cluster run packet by packet",
        [
            CLUSTER,
            Typed("hocket cluster cluster.toml --scheduler themis --set 'until=400 s'", ["themis"]),
            Typed(
                'hocket replay hocket-runs/cluster-themis --at "5 min" --for "500 ms"',
                ["PAUSE frames", "written to hocket-runs/cluster-themis/replay-300-s"],
            ),
        ],
    ),
    Task(
        "put a measured job of one's own into a cluster",
        [
            Typed('hocket profile one-phase.csv --capacity "1 Gbps" --out mine.toml', ["jobs: mine.toml"]),
            Typed(
                "hocket cluster own.toml --scheduler random --scheduler random+cassini",
                ["warning: models: 'mine' keeps its measured rates", "random+cassini  2 of 2"],
            ),
        ],
        writes={"own.toml": OWN_MODEL},
        brings=[COUNTERS],
    ),
    Task(
        "run a scheduler of one's own",
        [
            CLUSTER,
            Typed(
                "hocket cluster cluster.toml --scheduler first_fit.py:FirstFit+cassini", ["FirstFit+cassini  46 of 46"]
            ),
        ],
        brings=["examples/cluster/first_fit.py"],
    ),
    Task(
        "compare congestion controls packet by packet",
        [
            TWO_JOBS,
            Typed(
                "hocket sweep two-jobs.toml --engine packet --set run.iterations=1 --set jobs.*.congestion=dcqcn,hpcc",
                ["everywhere: run.iterations = 1", "dcqcn", "hpcc", "PAUSE frames"],
            ),
        ],
    ),
    Task(
        "know how long a training job takes on a fabric",
        [
            Typed("hocket init training", ["Next: hocket run training.toml"]),
            Typed("hocket run training.toml --figure t.png", ["exposed", "busbw (GB/s)"], leaves=["t.png"]),
        ],
    ),
    Task(
        "take over a study of an HPCC-style simulator",
        [
            Typed(
                "hocket run hpcc/config.txt",
                ["mean FCT (µs)", "written to hocket-runs/hpcc: fct.txt"],
                leaves=["hocket-runs/hpcc/fct.txt"],
            )
        ],
        brings=["examples/hpcc"],
    ),
    Task(
        "get the settings for NICs and switches",
        [
            TWO_JOBS,
            Typed("hocket export two-jobs.toml", ["NCCL_IB_TC", "undo:"]),
            Typed("hocket export two-jobs.toml --out settings", ["settings"], leaves=["settings"]),
            Typed("hocket doctor", ["counters (hocket profile --watch)"]),
        ],
    ),
    Task(
        "ask from Python",
        [TWO_JOBS, Typed("python ask.py", ["helps {'measured': 0.0, 'from the catalogue': 0.174}", "[0.33, 0.33]"])],
        writes={"ask.py": ASK},
    ),
    Task(
        "make mistakes, and learn from them",
        [
            TWO_JOBS,
            CLUSTER,
            Typed("hocket compt two-jobs.toml", ["Did you mean 'compat'"], code=2),
            Typed("hocket compat cluster.toml", ["is a cluster trace", "`hocket cluster`"], code=2),
            Typed("hocket cluster cluster.toml", ["--scheduler: is missing; try --scheduler themis"], code=2),
            Typed("hocket sweep two-jobs.toml --set link.capacity=100G", ["did you mean 100 Gbps"], code=2),
            Typed("hocket run two-jobs.toml --figure nowhere/x.png", ["there is no directory nowhere"], code=2),
            Typed("hocket run two-jobs.toml", ["378.00"]),
            Typed("hocket run two-jobs.toml --set run.iterations=7", ["contains another run; --force"], code=2),
            Typed("hocket run two-jobs.toml --set run.iterations=7 --force", ["378.00"]),
        ],
    ),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.wants)
def test_somebody_new_can(task: Task, complete: Environment, tmp_path: Path) -> None:
    for name, text in task.writes.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for each in task.brings:
        copy = shutil.copytree if (ROOT / each).is_dir() else shutil.copy
        copy(ROOT / each, tmp_path / Path(each).name)
    here = replace(complete, directory=tmp_path)
    for typed in task.typed:
        program, *arguments = shlex.split(typed.line)
        done = here.run(program, *arguments, code=typed.code)
        printed = done.stdout + done.stderr
        for text in typed.says:
            assert text in printed, f"$ {typed.line}\n{printed}"
        assert not [each for each in typed.leaves if not (tmp_path / each).exists()]


AGENT = """
import sys, time
from hocket_agent import Agent

agent = Agent.from_environment()
for _ in range(int(sys.argv[1])):
    with agent.iteration():
        time.sleep(0.08)
        with agent.communication():
            time.sleep(0.07)
agent.close()
"""

SHORT_JOBS = """
[link]
capacity = "50 Gbps"

[[jobs]]
name = "a"
period = "150 ms"
up = [{ start = "80 ms", duration = "70 ms", rate = "40 Gbps" }]

[[jobs]]
name = "b"
period = "150 ms"
up = [{ start = "80 ms", duration = "70 ms", rate = "40 Gbps" }]
"""


def test_somebody_new_can_shift_jobs_that_run(complete: Environment, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(SHORT_JOBS, encoding="utf-8")
    (tmp_path / "train.py").write_text(AGENT, encoding="utf-8")
    here = replace(complete, directory=tmp_path)
    with here.started("hocket", "serve", "--listen", "127.0.0.1:0") as said:
        to = ("--service", said.removeprefix("serving on ").partition(": ")[0])
        assert "a: registered" in here.run("hocket", "register", "jobs.toml", *to).stdout
        hocket, python = (str(here.home / "bin" / program) for program in ("hocket", "python"))
        commands = [
            [hocket, "agent", *to, "--job", job, "--", python, "train.py", "2000"]
            for job in "ab"
        ]
        training = [
            subprocess.Popen(each, cwd=tmp_path, env=bare_environment(), stderr=subprocess.PIPE)
            for each in commands
        ]
        try:
            waited_until_s = time.monotonic() + 120
            while (shown := here.run("hocket", "jobs", *to).stdout).count(" is followed") < 2:
                assert time.monotonic() < waited_until_s, shown
                time.sleep(0.5)
        finally:
            for each in training:
                each.terminate()
                each.communicate()
    assert "taking turns helps, predicted speed-up" in shown
