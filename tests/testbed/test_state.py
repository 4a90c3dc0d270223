"""Testbeds are recorded, whatever happens to the command that creates one."""

import sys
from pathlib import Path

import pytest
from tests.testbed.conftest import two_jobs

from hocket.errors import InputError
from hocket.plan import Job, parse_plan
from hocket.testbed import congestion, lifecycle, machine, state
from hocket.testbed.lifecycle import bring_up, fingerprint, missing, plan_testbed, take_down
from hocket.testbed.processes import find_python
from hocket.testbed.session import ignored

STATE = state.State("bed", False, ("hk-bed-a", "hk-bed-b"), "0" * 64)


def test_a_record_is_found_until_it_is_forgotten(states: Path) -> None:
    assert state.find("bed") is None
    state.keep(STATE)
    assert state.find("bed") == STATE
    assert state.all_names() == ["bed"]
    state.forget("bed")
    assert state.all_names() == []
    assert list(states.iterdir()) == []


def test_files_of_a_killed_run_are_removed_by_the_next_one_or_with_the_testbed(states: Path) -> None:
    state.keep(STATE)
    for _ in range(2):
        context = state.run_folder("bed")
        folder = context.__enter__()
        assert list(folder.iterdir()) == []
        (folder / "token").touch()
        # Killed here: the context is never left.
    state.forget("bed")
    assert list(states.iterdir()) == []


def test_a_file_that_says_nothing_of_a_testbed_is_refused(states: Path) -> None:
    states.mkdir()
    (states / "bed.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"bed\.json: does not describe a testbed"):
        state.find("bed")


def test_a_testbed_is_in_use_by_one_process(states: Path) -> None:
    again = state.held("bed")
    with state.held("bed"), pytest.raises(InputError, match="'bed' is in use by another process"):
        again.__enter__()
    with state.held("bed"):
        assert state.all_names() == []


def test_without_root_a_testbed_is_rejected(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(InputError, match="needs root"):
        bring_up(two_jobs())
    with pytest.raises(InputError, match="needs root"):
        take_down("bed")
    assert not states.exists()
    assert any("needs root" in each for each in missing())


def test_without_iproute2_a_testbed_is_rejected(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "tc" else f"/sbin/{name}")
    with pytest.raises(InputError, match="needs tc: install iproute2"):
        bring_up(two_jobs())


def test_a_foreign_namespace_is_left_alone(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "check_machine", lambda: None)
    monkeypatch.setattr(machine, "namespaces", lambda: {"hk-plan-left", "other"})
    monkeypatch.setattr(machine, "run_commands", lambda *_: pytest.fail("something was made"))
    with pytest.raises(InputError, match="'hk-plan-left' exists and does not belong to this testbed"):
        bring_up(two_jobs())
    assert state.all_names() == []


def test_an_incomplete_testbed_is_removed_when_a_command_fails(
    states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(commands: list[tuple[str, ...]], progress: object = None) -> None:
        ran.extend(commands)
        if commands[0][2] == "add":
            raise InputError("`ip netns add` failed: no space left")

    monkeypatch.setattr(machine, "check_machine", lambda: None)
    there: list[set[str]] = [set(), {"hk-plan-left", "unrelated"}]
    monkeypatch.setattr(machine, "namespaces", lambda: there.pop(0))
    monkeypatch.setattr(machine, "run_commands", run)
    monkeypatch.setattr(machine, "processes_in", lambda namespace: [])
    with pytest.raises(InputError, match="no space left"):
        bring_up(two_jobs())
    assert ran[-1] == ("ip", "netns", "delete", "hk-plan-left")
    assert state.all_names() == []


def test_a_run_needs_a_testbed_that_is_up(states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hocket.testbed.lifecycle.find_python", lambda asked: "python")
    monkeypatch.setattr(machine, "congestion_controls", lambda: {"reno"})
    bed = plan_testbed(two_jobs())
    with pytest.raises(InputError, match="'plan' is not up"):
        bed.run()
    state.keep(state.State("plan", False, (), fingerprint(bed.layout)))
    with pytest.raises(InputError, match="'plan' is not up"):
        bed.run()
    state.keep(state.State("plan", True, (), "made of another plan"))
    with pytest.raises(InputError, match="'plan' has other hosts, links or rates"):
        bed.run()


def test_a_run_needs_the_same_privileges_as_its_testbed(
    states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hocket.testbed.lifecycle.find_python", lambda asked: "python")
    monkeypatch.setattr(machine, "congestion_controls", lambda: {"reno"})
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    bed = plan_testbed(two_jobs())
    state.keep(state.State("plan", True, (), fingerprint(bed.layout)))
    with pytest.raises(InputError, match="a testbed needs root"):
        bed.run()


def test_a_plan_with_other_links_is_rejected(states: Path) -> None:
    other = two_jobs()
    other["link"]["capacity"] = "300 Mbps"
    with pytest.raises(InputError, match="other hosts, links or rates"):
        plan_testbed(two_jobs()).run(plan=other)


def test_unknown_jobs_are_rejected(states: Path) -> None:
    bed = plan_testbed(two_jobs())
    with pytest.raises(InputError, match="has no job 'c'; it has 'a', 'b'"):
        bed.run(jobs=["c"])
    with pytest.raises(InputError, match="registered: has no job 'b'"):
        bed.run(registered={**two_jobs(), "jobs": two_jobs()["jobs"][:1]})


def test_unfair_shares_need_their_congestion_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "congestion_controls", lambda: {"reno", "bbr"})
    plan = two_jobs()
    plan["jobs"][1]["share"] = {"adaptive": 1.0}
    jobs: tuple[Job, ...] = parse_plan(plan).jobs
    congestion.check_controls(jobs[:1])
    with pytest.raises(InputError, match=r"job 'b': .*'hocket_adaptive'.*`hocket tcp load` loads it"):
        congestion.check_controls(jobs)
    with pytest.raises(InputError, match=r"job 'a': .*'cubic'.*have bbr, reno"):
        congestion.check_controls(jobs[:1], "cubic")


@pytest.mark.parametrize("program", ["/no/python", "true"])
def test_a_python_without_pytorch_is_rejected_by_name(program: str) -> None:
    with pytest.raises(InputError, match=f"{program} has none"):
        find_python(program)


def test_a_run_has_an_end(states: Path) -> None:
    bed = plan_testbed(two_jobs())
    with pytest.raises(InputError, match="seconds: must be above 0: got -1"):
        bed.run(seconds=-1)
    with pytest.raises(InputError, match="iterations: must be above 0: got 0"):
        bed.run(iterations=0)


def test_ignored_keys_of_a_plan_are_listed() -> None:
    plan = two_jobs()
    plan["jobs"][0]["priority"] = 1
    plan["run"]["engine"] = "packet"
    assert [each["key"] for each in ignored(parse_plan(plan))] == ["run.engine", "jobs[0].priority"]


def test_a_testbed_is_named_after_its_plans_file() -> None:
    # Imported by name, pytest would collect it as a test.
    assert lifecycle.testbed_name(Path("examples/live/Two jobs.toml")) == "two-jobs"
    assert lifecycle.testbed_name({**two_jobs(), "name": "live: X"}) == "live-x"


@pytest.mark.parametrize("package", ["fastapi", "prometheus_client", "sqlalchemy", "uvicorn"])
def test_a_run_with_agents_needs_the_extra_of_the_service_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    planned = plan_testbed(two_jobs(), name="bed")

    with pytest.raises(InputError) as refused:
        planned.run(agents="shift")

    assert str(refused.value) == (
        f'--agents shift: {package} is missing; pip install "hocket[service]" installs it'
    )


def test_a_plan_is_checked_again_after_its_candidate_placed_the_jobs() -> None:
    plan = parse_plan(
        {
            "fabric": {"links": [{"ends": [host, "s"], "rate": "1 Gbps"} for host in ("h0", "h1", "h2")]},
            "jobs": [
                {
                    "name": "a",
                    "period": "180 ms",
                    "up": [{"start": "0 ms", "duration": "80 ms", "rate": "100 Mbps"}],
                }
            ],
            "candidates": [{"name": "near", "placement": {"a": ["h0", "h1"]}}],
        }
    )

    placed = plan_testbed(plan, name="bed", candidate="near").plan

    assert placed.jobs[0].placement == ("h0", "h1")
    assert placed.candidates == ()
    assert parse_plan(placed.to_dict()) == placed
