"""No run is repeated unless something that its answer depends on has changed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hocket.plan import Engine, parse_plan
from hocket.sweeps import processes, running, sweep
from hocket.sweeps.build import build
from hocket.sweeps.cache import Cache, default_directory, key_of
from hocket.sweeps.task import Answer, Outcome, Task, perform

Tables = dict[str, Any]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks for which a sweep found no answer."""
    tasks: list[Task] = []
    in_processes: Callable[..., Any] = processes.in_processes

    def watched(given: Sequence[Task], workers: int) -> Any:
        tasks.extend(given)
        return in_processes(given, workers)

    monkeypatch.setattr(running, "in_processes", watched)
    return tasks


def answer(halves: Tables) -> Answer:
    outcome: Outcome = perform(Task(parse_plan(halves), "flow", build()))
    assert isinstance(outcome, Answer)
    return outcome


def key(halves: Tables, engine: Engine = "flow", version: str | None = None) -> str:
    return key_of(Task(parse_plan(halves), engine, version or build()))


def test_a_second_sweep_runs_nothing_and_gives_the_same_table(halves: Tables, computed: list[Task]) -> None:
    first = sweep(halves, {"link.capacity": ["50 Gbps", "40 Gbps"]}, seeds=2)
    assert len(computed) == 4
    second = sweep(halves, {"link.capacity": ["50 Gbps", "40 Gbps"]}, seeds=2)
    assert len(computed) == 4
    assert_frame_equal(first.table, second.table)
    assert [each["cached"] for each in first.manifest["runs"]] == [False] * 4
    assert [each["cached"] for each in second.manifest["runs"]] == [True] * 4
    assert first.manifest["runs"][0]["run_s"] == second.manifest["runs"][0]["run_s"]


def test_only_what_is_new_runs(halves: Tables, computed: list[Task]) -> None:
    sweep(halves, {"seed": [1, 2]})
    sweep(halves, {"seed": [3, 1, 2]})
    assert [task.plan.seed for task in computed] == [1, 2, 3]


def test_without_a_cache_everything_runs_and_nothing_is_kept(
    halves: Tables, computed: list[Task], own_cache: Path
) -> None:
    for _ in range(2):
        sweep(halves, {"seed": [1, 2]}, cache=False)
    assert len(computed) == 4
    assert not own_cache.exists()


def test_failed_runs_are_repeated(halves: Tables, computed: list[Task]) -> None:
    plan = {**halves, "changes": [{"at": "1 ms", "link": "link", "rate": "40 Gbps"}]}
    for _ in range(2):
        assert sweep(plan, {}).manifest["status"] == "failed"
    assert len(computed) == 2


def test_a_damaged_answer_is_computed_again(halves: Tables, computed: list[Task], own_cache: Path) -> None:
    first = sweep(halves, {"seed": [1]})
    (file,) = (path for path in own_cache.rglob("*") if path.is_file())
    content = file.read_bytes()
    for damaged in (b"", content[:-1], content[:40] + bytes([content[40] ^ 1]) + content[41:]):
        file.write_bytes(damaged)
        assert_frame_equal(sweep(halves, {"seed": [1]}).table, first.table)
    assert len(computed) == 4
    sweep(halves, {"seed": [1]})
    assert len(computed) == 4


@given(place=st.integers(0, 10**6), flipped=st.integers(1, 255))
def test_any_flipped_bit_is_detected(
    tmp_path_factory: pytest.TempPathFactory, place: int, flipped: int
) -> None:
    up = [{"start": "0 ms", "duration": "1 ms", "rate": "1 Gbps"}]
    plan = {
        "link": {"capacity": "1 Gbps"},
        "run": {"iterations": 1},
        "jobs": [{"name": "a", "period": "2 ms", "up": up}],
    }
    cache = Cache(tmp_path_factory.mktemp("cache"))
    cache.keep("ab", answer(plan))
    (file,) = (path for path in cache.directory.rglob("*") if path.is_file())
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= flipped
    file.write_bytes(content)
    assert cache.find("ab") is None


def test_an_answer_comes_back_as_it_was_and_leaves_one_file(halves: Tables, tmp_path: Path) -> None:
    cache, given = Cache(tmp_path / "cache"), answer(halves)
    for _ in range(2):
        cache.keep("ab12", given)
    found = cache.find("ab12")
    assert found is not None
    assert_frame_equal(found.jobs, given.jobs)
    assert (found.totals, found.run_s) == (given.totals, given.run_s)
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == ["ab12"]
    assert cache.find("ab13") is None


def test_an_answer_stored_under_another_key_is_not_used(halves: Tables, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.keep("ab12", answer(halves))
    (tmp_path / "ab" / "ab12").rename(tmp_path / "ab" / "ab34")
    assert cache.find("ab34") is None


def test_a_key_changes_with_everything_that_an_answer_depends_on(halves: Tables) -> None:
    keys = [
        key(halves),
        key({**halves, "seed": 2}),
        key({**halves, "link": {"capacity": "51 Gbps"}}),
        key(halves, engine="packet"),
        key(halves, version="0" * 64),
    ]
    assert len(set(keys)) == len(keys)
    assert key(dict(reversed(halves.items()))) == key(halves)


def test_a_key_changes_with_the_contents_of_files_that_the_plan_names(tmp_path: Path) -> None:
    clos = {
        "racks": 1,
        "servers_per_rack": 2,
        "gpus_per_server": 1,
        "spines": 1,
        "nic": "100 Gbps",
        "uplink": "100 Gbps",
    }
    tables = {"fabric": {"clos": clos}, "jobs": [{"name": "a", "training": {"chakra": "traces"}}]}

    def key_now() -> str:
        return key_of(Task(parse_plan(tables, directory=tmp_path), "flow", build()))

    keys = [key_now()]
    (tmp_path / "traces").mkdir()
    keys.append(key_now())
    for rank in range(2):
        (tmp_path / "traces" / f"all_reduce.{rank}.et").write_bytes(b"node")
        keys.append(key_now())
    (tmp_path / "traces" / "all_reduce.1.et").write_bytes(b"other node")
    keys.append(key_now())
    (tmp_path / "traces" / "all_reduce.1.et").rename(tmp_path / "traces" / "all_reduce.2.et")
    keys.append(key_now())
    assert len(set(keys)) == len(keys) == 6
    assert key_now() == keys[-1]


def test_the_cache_is_where_the_xdg_specification_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "hocket" / "sweep"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for ignored in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert default_directory() == tmp_path / "home" / ".cache" / "hocket" / "sweep"


def test_a_full_disk_costs_no_answers(halves: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cache, "keep", full)
    swept = sweep(halves, {"seed": [1, 2]})
    assert swept.manifest["status"] == "complete"
    assert swept.manifest["not_kept"].endswith("hocket/sweep: No space left on device")
