"""The public names of the package: complete, imported on first use, and what they forward to."""

import ast
import re
import sys
from pathlib import Path

import pytest

import hocket
from hocket import InputError, Trace, parse_trace, simulate_cluster
from hocket.cluster.policies import Policy
from hocket.schedulers import Candidate, Decision, State

ALONE = {
    "fabric": {"testbed": "cassini"},
    "jobs": [{"model": "VGG16", "name": "a", "batch_size": 1400, "workers": 4, "iterations": 100}],
}


class FirstGpus:
    """Places the only job on the first GPUs."""

    def schedule(self, state: State, candidates: int) -> Decision:
        first = range(state.jobs[0].job.requested)
        return Decision([Candidate({state.jobs[0].job.name: tuple(first)})])


class NotInstalled:
    """Finds no module of hocket-reproduce, and leaves the others to the next."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "hocket_reproduce":
            raise ModuleNotFoundError(name=name)


def test_every_public_name_is_there_and_listed() -> None:
    assert list(hocket.__all__) == sorted(hocket.__all__)
    assert set(hocket.__all__) <= set(dir(hocket))
    for name in hocket.__all__:
        assert getattr(hocket, name).__name__ == name


def test_type_checkers_see_the_names_that_are_imported_on_first_use() -> None:
    tree = ast.parse(Path(str(hocket.__file__)).read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    seen = {each.name: node.module for node in imports for each in node.names}
    assert {name: seen[name] for name in hocket.__all__} == {
        name: f"hocket.{home}" for name, home in hocket._HOMES.items()
    }


def test_no_module_shares_its_name_with_a_public_name() -> None:
    package = Path(str(hocket.__file__)).parent
    modules = {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert modules & set(hocket.__all__) == set()


def test_an_unknown_name_is_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulate_all'"):
        hocket.simulate_all  # noqa: B018, reading it is the test


def test_a_cluster_is_simulated_from_a_trace_its_tables_or_its_file(tmp_path: Path) -> None:
    path = tmp_path / "alone.toml"
    path.write_text(
        'fabric = { testbed = "cassini" }\n[[jobs]]\nmodel = "VGG16"\nname = "a"\nbatch_size = 1400\n'
        "workers = 4\niterations = 100\n",
        encoding="utf-8",
    )
    runs = [simulate_cluster(trace, "random") for trace in (parse_trace(ALONE), ALONE, path, str(path))]
    for run in runs:
        assert run.tables["iterations"].equals(runs[0].tables["iterations"])


def test_a_scheduler_is_a_name_an_object_or_a_policy() -> None:
    named, own, policy = (
        simulate_cluster(ALONE, each) for each in ("ideal", FirstGpus(), Policy("mine", FirstGpus()))
    )
    assert [run.manifest["scheduler"] for run in (named, own, policy)] == ["ideal", "FirstGpus", "mine"]
    with pytest.raises(InputError, match=r"must be a name, or have a method schedule.*: got 3"):
        simulate_cluster(ALONE, 3)  # type: ignore[call-overload]


def test_several_schedulers_give_runs_by_name_each_in_its_own_directory(tmp_path: Path) -> None:
    runs = simulate_cluster(ALONE, ["ideal", "themis+cassini"], directory=tmp_path)
    assert list(runs) == ["ideal", "themis+cassini"]
    for name, run in runs.items():
        assert run.manifest["scheduler"] == name
        assert hocket.Run.read(tmp_path / name).manifest == run.manifest
    with pytest.raises(InputError, match="scheduler 'ideal': is given 2 times"):
        simulate_cluster(ALONE, ["ideal", "random", "ideal"])


def test_a_target_is_reproduced_by_its_id() -> None:
    done = hocket.reproduce("h4")
    assert done.id == "H4"
    assert done.rows
    with pytest.raises(InputError, match="'H99' is not a target; known: H1, H2"):
        hocket.reproduce("h99")


def test_without_its_distribution_reproduce_explains_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "hocket_reproduce"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])
    with pytest.raises(InputError, match=re.escape("pip install hocket-reproduce installs it")):
        hocket.reproduce("H4")


def test_times_of_a_trace_are_in_seconds() -> None:
    assert parse_trace({**ALONE, "until": "90 s"}).until_s == 90.0
    trace: Trace = parse_trace(ALONE)
    assert trace.until_s is None
