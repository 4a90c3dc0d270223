"""Real testbeds: they are created, run jobs, and leave nothing behind. Skipped where unsupported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import tomli_w
from tests.conftest import Command
from tests.testbed.conftest import two_jobs
from tests.testbed.test_layout import fabric_plan

from hocket import simulate
from hocket.compare import compare
from hocket.engines.network import build_network
from hocket.errors import InputError
from hocket.results import Run
from hocket.testbed import lifecycle, machine, state


def own(name: str) -> set[str]:
    """The existing namespaces of testbed `name`."""
    return {each for each in machine.namespaces() if each.startswith(f"hk-{name}-")}


def test_jobs_train_over_the_plans_links_and_compare_with_a_simulation(name: str, tmp_path: Path) -> None:
    plan = two_jobs()
    plan["jobs"][1]["time_shift"] = "50 ms"
    counts: list[int] = []
    with lifecycle.testbed(plan, name=name) as bed:
        assert own(name) == set(bed.layout.all_namespaces())
        run = bed.run(directory=tmp_path, progress=lambda time_s, done, total: counts.append(done))
        only = bed.run(jobs=["b"], iterations=2)
    assert own(name) == set()
    assert state.find(name) is None
    assert run.manifest["status"] == "complete", run.manifest.get("failure")
    assert run.tables["jobs"]["iterations"].to_list() == [5, 5]
    assert counts[-1] <= 10
    assert run.tables["jobs"]["time_shift_s"].round(2).to_list() == [0.0, 0.05]
    assert run.tables["iterations"].filter(job="b")["start_s"].min() >= 0.05  # type: ignore[operator]
    # 5 iterations of 800 kB each way, by each job; plus headers and greetings.
    sent = run.tables["utilisation"].group_by("link").agg(pl.col("bytes").sum())
    bytes_by_link = dict(sent.iter_rows())
    assert bytes_by_link["link left->right"] == pytest.approx(2 * 5 * 800_000, rel=0.1)
    assert bytes_by_link["a.left->left"] == pytest.approx(5 * 800_000, rel=0.1)
    # A phase is no shorter than its NIC allows, but for the bucket of 76 kB that tbf lets through at once.
    assert run.tables["phases"]["mean_rate_bps"].max() <= 160e6 * 800 / (800 - 76)  # type: ignore[operator]
    assert only.tables["jobs"].select("job", "iterations").rows() == [("b", 2)]
    assert only.manifest["plan"]["run"]["iterations"] == 2
    compared = compare({"simulated": simulate(plan), "live": Run.read(tmp_path)})
    assert compared.jobs.select("job", "run", "iterations").rows() == [
        ("a", "simulated", 5),
        ("a", "live", 5),
        ("b", "simulated", 5),
        ("b", "live", 5),
    ]
    assert compared.jobs["ratio"].null_count() == 0


def test_phases_of_one_iteration_are_buckets_one_after_another(name: str) -> None:
    plan = two_jobs()
    plan["jobs"] = plan["jobs"][:1]
    plan["jobs"][0]["up"] = [
        {"start": "0 ms", "duration": "20 ms", "rate": "100 Mbps"},
        {"start": "60 ms", "duration": "10 ms", "rate": "100 Mbps"},
    ]
    with lifecycle.testbed(plan, name=name) as bed:
        run = bed.run(iterations=3)
    assert run.manifest["status"] == "complete", run.manifest.get("failure")
    phases = run.tables["phases"]
    assert phases.select("iteration", "phase", "bytes").rows() == [
        (iteration, phase, size) for iteration in range(3) for phase, size in ((0, 250_000), (1, 125_000))
    ]
    between_s = phases.filter(phase=1)["start_s"] - phases.filter(phase=0)["end_s"]
    # To the nanosecond, the resolution of the clock.
    assert between_s.min() >= 0.04 - 1e-9  # type: ignore[operator]


def test_links_of_a_fabric_carry_the_same_flows_as_in_the_engines(name: str) -> None:
    # Two paths of this ring share a switch and diverge there, so they need routes by source.
    plan = fabric_plan(racks=3, spines=2, rings=[[0, 2, 1, 4]])
    network = build_network(plan)
    (crossed,) = network.crossings(plan, None)
    with lifecycle.testbed(plan, name=name) as bed:
        assert any(route.source is not None for route in bed.layout.routes)
        run = bed.run(iterations=3)
    assert run.manifest["status"] == "complete", run.manifest.get("failure")
    sent = dict(run.tables["utilisation"].group_by("link").agg(pl.col("bytes").sum()).iter_rows())
    # A phase of 125 kB an iteration for each flow; the rest of what is sent is acknowledgements.
    flows = {link: round(size / (3 * 125_000)) for link, size in sent.items()}
    assert {link: count for link, count in flows.items() if count} == {
        network.links[link][0]: count for link, count in crossed
    }


def test_jobs_with_agents_are_registered_with_a_service_of_their_own(name: str) -> None:
    plan = two_jobs()
    plan["jobs"][1]["iterations"] = 6
    with lifecycle.testbed(plan, name=name) as bed:
        run = bed.run(agents="shift", iterations=4)
        left = machine.processes_in(f"hk-{name}-ctl")
    assert run.manifest["status"] == "complete", run.manifest.get("failure")
    # The limit of a job overrides that of the run.
    assert run.tables["jobs"]["iterations"].to_list() == [4, 6]
    assert left == []


def test_a_lost_worker_ends_the_run_which_keeps_its_tables(name: str, tmp_path: Path) -> None:
    with lifecycle.testbed(two_jobs(), name=name) as bed:

        def lose(time_s: float, done: int, total: int | None) -> None:
            if done >= 2:
                for process in machine.processes_in(f"hk-{name}-b-right"):
                    os.kill(process, signal.SIGKILL)

        run = bed.run(iterations=1_000, directory=tmp_path, progress=lose)
        left = [machine.processes_in(namespace) for namespace in own(name)]
    assert run.manifest["status"] == "failed"
    assert "job 'b': rank 1 on host 'b.right' was ended by SIGKILL" in run.manifest["failure"]
    assert 2 <= Run.read(tmp_path).tables["iterations"].height < 2_000
    assert all(processes == [] for processes in left)


def test_a_testbed_is_created_once_and_may_be_removed_twice(name: str) -> None:
    lifecycle.bring_up(two_jobs(), name=name)
    with pytest.raises(InputError, match=f"'{name}' already exists"):
        lifecycle.bring_up(two_jobs(), name=name)
    assert lifecycle.take_down(name)
    assert not lifecycle.take_down(name)
    assert own(name) == set()


def test_an_incomplete_testbed_is_removed(name: str) -> None:
    bed = lifecycle.bring_up(two_jobs(), name=name)
    first, *_ = bed.layout.all_namespaces()
    machine.run_commands([("ip", "netns", "delete", first)])
    assert lifecycle.take_down(name)
    assert own(name) == set()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_whatever_ends_a_run_down_leaves_nothing(
    name: str, number: int, code: int, tmp_path: Path, hocket_process: Command
) -> None:
    plan = tmp_path / f"{name}.toml"
    plan.write_text(tomli_w.dumps(two_jobs()))
    assert hocket_process("testbed", "up", plan).code == 0
    command = ("testbed", "run", plan, "--iterations", "100000", "--out", tmp_path / "run")
    process = subprocess.Popen([sys.executable, "-m", "hocket", *map(str, command)], cwd=tmp_path)
    while not any(is_training(namespace) for namespace in sorted(own(name))):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait() == code
    if number == signal.SIGINT:
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
        assert manifest["status"] == "interrupted"
    status = hocket_process("testbed", "status")
    assert name in status.out
    down = hocket_process("testbed", "down", plan)
    assert (down.code, down.out) == (0, f"testbed {name} removed\n")
    assert own(name) == set()
    assert list(state.DIRECTORY.glob(f"{name}.*")) == []


def is_training(namespace: str) -> bool:
    """Whether a worker in it has an IPv4 connection, which is Gloo's; that of its store uses IPv6."""
    seen = subprocess.run(
        ("ip", "netns", "exec", namespace, "cat", "/proc/net/tcp"), capture_output=True, text=True, check=True
    )
    # proc_net_tcp: state 01 is ESTABLISHED.
    return any(line.split()[3] == "01" for line in seen.stdout.splitlines()[1:])


def test_all_commands_from_up_to_down(name: str, tmp_path: Path, hocket_process: Command) -> None:
    plan = tmp_path / f"{name}.toml"
    plan.write_text(tomli_w.dumps(two_jobs()))
    up = hocket_process("testbed", "up", plan)
    assert up.code == 0, up.err
    assert f"hk-{name}-b-right" in up.out
    (listed,) = [
        each for each in hocket_process("testbed", "status", "--json").json() if each["testbed"] == name
    ]
    assert listed["state"] == "up"
    figure = tmp_path / "live.png"
    options = ("--iterations", "3", "--out", tmp_path / "run", "--figure", figure)
    run = hocket_process("testbed", "run", plan, *options)
    assert run.code == 0, run.err
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "link left->right" in run.out
    assert "iterations (6), phases (6), adjustments (0), jobs (2)" in run.out
    again = hocket_process("testbed", "run", plan, "--iterations", "3", "--json")
    assert again.json()["status"] == "complete"
    assert hocket_process("testbed", "down", name).code == 0
    assert hocket_process("testbed", "run", plan).code == 2
    made = hocket_process("testbed", "up", plan, "--json").json()
    assert made["testbed"] == name
    assert [(each["job"], each["host"]) for each in made["workers"]][:2] == [
        ("a", "a.left"),
        ("a", "a.right"),
    ]


def test_the_commands_are_printed_and_not_run(tmp_path: Path, hocket: Command) -> None:
    plan = tmp_path / "printed.toml"
    plan.write_text(tomli_w.dumps(two_jobs()))
    outcome = hocket("testbed", "up", plan, "--dry-run")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "ip netns add hk-printed-left"
    rate = "qdisc add dev c1 root tbf rate 160000000bit"
    assert any(rate in line for line in outcome.out.splitlines())
    assert not any(each.startswith("hk-printed-") for each in machine.namespaces())


def test_down_requires_an_argument(hocket: Command) -> None:
    assert "give the name of a testbed, its plan, or --all" in hocket("testbed", "down").err
    assert hocket("testbed", "down").code == 2
