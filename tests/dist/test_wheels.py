"""What users install: the built wheels and source distributions, tried outside the checkout.

`make test-dist` runs this after `make dist`; no other run of the tests does.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.dist.conftest import ROOT, Environment, bare_environment, sdist, wheel

AGENT = """
import json, sys
from hocket_agent import Agent
agent = Agent.from_environment({})
for _ in range(3):
    with agent.iteration():
        pass
foreign = [name for name in sys.modules if name.partition(".")[0] in ("hocket", "numpy", "pydantic")]
print(json.dumps([agent.status()["iterations"], agent.status()["reason"], foreign]))
"""


def other_interpreters() -> list[str]:
    """Interpreters of this machine besides the one that runs this: PyPy, and every version that is there."""
    names = ("pypy3", *(f"python3.{minor}" for minor in range(9, 16)), "/usr/bin/python3")
    found: dict[str, str] = {}
    for path in filter(None, map(shutil.which, names)):
        asked = (
            "import sys; print(sys.implementation.name, sys.version.split()[0], sys.version_info >= (3, 9))"
        )
        said = subprocess.run([path, "-c", asked], capture_output=True, text=True)
        # Shims of version managers are there for versions that are not.
        if said.returncode == 0 and said.stdout.endswith("True\n"):
            found.setdefault(said.stdout, path)
    ours = f"{sys.implementation.name} {sys.version.split()[0]} True\n"
    return [path for version, path in found.items() if version != ours]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no glibc")
def test_the_compiled_module_asks_for_no_glibc_newer_than_2_17() -> None:
    found = wheel("hocket")
    assert "cp311-abi3-" in found.name
    assert "manylinux_2_17" in found.name
    with zipfile.ZipFile(found) as opened:
        module = opened.read("hocket/_hocket.abi3.so")
    versions = {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", module)}
    assert versions
    assert max(versions) <= (2, 17)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "hocket",
            ["export/scripts/apply.sh", "tcp/congestion.bpf.c", "_hocket.pyi", "py.typed", "cli.py"],
        ),
        ("hocket-agent", ["agent.py", "sockets.py"]),
        ("hocket-reproduce", ["targets/instances.json", "validate/report.py", "commands.py", "py.typed"]),
    ],
)
def test_a_wheel_has_the_package_with_its_data_and_nothing_else(name: str, files: list[str]) -> None:
    package = name.replace("-", "_")
    with zipfile.ZipFile(wheel(name)) as opened:
        names = opened.namelist()
    assert {path.split("/")[0].partition("-")[0] for path in names} == {package}
    assert {f"{package}/{file}" for file in files} <= set(names)
    assert not [path for path in names if "__pycache__" in path or path.endswith(".pyc")]


@pytest.mark.parametrize("name", ["hocket-agent", "hocket-reproduce"])
def test_a_source_distribution_gives_the_same_wheel(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, sdist(name)], cwd=tmp_path, env=bare_environment(), check=True)
    (built,) = tmp_path.glob("*.whl")
    assert built.name == wheel(name).name
    with zipfile.ZipFile(built) as again, zipfile.ZipFile(wheel(name)) as first:
        assert sorted(again.namelist()) == sorted(first.namelist())


def test_the_source_distribution_of_hocket_has_all_that_a_build_needs() -> None:
    with tarfile.open(sdist("hocket")) as opened:
        names = {member.name.partition("/")[2] for member in opened.getmembers()}
    crates = {f"crates/{path.parent.name}/Cargo.toml" for path in ROOT.glob("crates/*/Cargo.toml")}
    assert crates | {"Cargo.lock", "Cargo.toml", "LICENSE", "pyproject.toml"} <= names
    assert "python/hocket/cli.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_the_first_example_is_answered(alone: Environment) -> None:
    answer = json.loads(alone.run("hocket", "compat", "two_jobs.toml", "--json").stdout)
    assert (answer["score"], answer["proven_optimal"]) == (1.0, True)
    assert "written to hocket-runs/two_jobs" in alone.run("hocket", "run", "two_jobs.toml").stdout
    assert (alone.home / "hocket-runs" / "two_jobs" / "jobs.parquet").is_file()


def test_what_is_imported_is_what_was_installed(alone: Environment) -> None:
    where = alone.run(
        "python", "-c", "import hocket, hocket_agent; print(hocket.__file__, hocket_agent.__file__)"
    )
    assert all(Path(file).is_relative_to(alone.home) for file in where.stdout.split())


def test_the_version_names_the_commit_that_was_built(alone: Environment) -> None:
    said = alone.run("hocket", "--version").stdout
    version = wheel("hocket").name.split("-")[1]
    assert re.fullmatch(rf"hocket {re.escape(version)} \([0-9a-f]{{7,40}}(-dirty)?\)\n", said)


def test_the_doctor_tells_what_the_machine_lacks(alone: Environment) -> None:
    parts = json.loads(alone.run("hocket", "doctor", "--json").stdout)
    assert "hocket testbed" in [part["command"] for part in parts]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "H4"], "hocket-reproduce is not installed; pip install hocket-reproduce installs it"),
        (["validate"], "hocket-reproduce is not installed; pip install hocket-reproduce installs it"),
        (["serve"], 'pip install "hocket[service]" installs it'),
        (["sweep", "two_jobs.toml", "--ray", "local"], 'pip install "hocket[ray]" installs it'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_not_installed_is_named_with_how_to_get_it(
    alone: Environment, arguments: list[str], sentence: str
) -> None:
    assert sentence in alone.run("hocket", *arguments, code=2).stderr


def test_a_figure_of_a_paper_is_reproduced(complete: Environment) -> None:
    (target,) = json.loads(complete.run("hocket", "reproduce", "H4", "--json").stdout)
    rows = {row["quantity"]: (row["paper"], row["ours"]) for row in target["rows"]}
    assert rows["unified circle of 40 and 60 ms"] == (120, 120)
    assert (complete.home / "hocket-runs" / "reproduce" / "H4.png").is_file()


def test_data_of_the_reproductions_are_found(complete: Environment) -> None:
    listed = complete.run("hocket", "reproduce", "--list").stdout
    assert "C3" in listed
    assert json.loads(complete.run("hocket", "reproduce", "C3", "--json").stdout)[0]["id"] == "C3"
    assert "has no summary.csv" in complete.run("hocket", "validate", code=2).stderr


def test_the_service_answers(complete: Environment) -> None:
    with complete.started("hocket", "serve", "--listen", "127.0.0.1:0") as said:
        url = said.removeprefix("serving on ").partition(": ")[0]
        jobs = complete.run("hocket", "jobs", "--service", url)
    assert jobs.stdout == "no jobs are registered\n"


def test_the_installed_agent_is_the_one_that_hocket_forwards_to(alone: Environment) -> None:
    same = "import hocket.agent, hocket_agent; print(hocket.agent.Agent is hocket_agent.Agent)"
    assert alone.run("python", "-c", same).stdout == "True\n"


@pytest.mark.parametrize("interpreter", other_interpreters() or [None], ids=str)
def test_the_agent_runs_under_another_interpreter_with_nothing_else(
    interpreter: str | None, tmp_path: Path
) -> None:
    if interpreter is None:
        pytest.skip("this machine has one interpreter")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--target", tmp_path, wheel("hocket-agent")], check=True)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{AGENT}"
    # Isolated, and without the packages of its site.
    done = subprocess.run([interpreter, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [3, "no service is configured", []]
