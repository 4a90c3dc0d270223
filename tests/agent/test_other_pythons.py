"""The agent's tests and doctests under the other Pythons of this machine, from the oldest that it supports.

`conftest.py` leaves out the tests that need Hocket or PyTorch.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "3.9"
PYTHONS = ("pypy3", *(f"python3.{minor}" for minor in range(9, 15)))
# The others need the last two before 3.11; pip, running on a later Python, does not resolve them.
PACKAGES = ("pytest", "hypothesis", "exceptiongroup", "tomli")


@pytest.fixture(scope="module")
def packages(request: pytest.FixtureRequest) -> Path:
    """A directory with the packages that the tests need, for all Pythons; kept in pytest's cache."""
    cache = request.config.cache
    assert cache is not None, "pytest's plugin cacheprovider is not turned off"
    kept = cache.mkdir("-".join((OLDEST, *PACKAGES)))
    if not (kept / "pytest").is_dir():
        pip = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--retries", "1")
        kind = ("--python-version", OLDEST, "--platform", "any", "--only-binary", ":all:")
        fetched = subprocess.run(
            [*pip, *kind, "--target", str(kept), *PACKAGES], capture_output=True, text=True, check=False
        )
        if fetched.returncode != 0:
            pytest.skip(f"pip cannot fetch pytest for Python {OLDEST}: {fetched.stderr.splitlines()[-1]}")
    return kept


@pytest.fixture(params=PYTHONS)
def python(request: pytest.FixtureRequest) -> str:
    """Another Python, if it is here: on the path, or pyenv's."""
    name = request.param
    if name == f"python3.{sys.version_info.minor}":
        pytest.skip(f"{name} is what runs these tests")
    for candidate in candidates(name):
        asked = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"there is no {name} of {OLDEST} or newer here")


def candidates(name: str) -> Iterator[str]:
    """Paths where a Python may be. pyenv's shims on the path run only activated versions."""
    on_path = shutil.which(name)
    if on_path is not None:
        yield on_path
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    yield from map(str, sorted(versions.glob(f"*/bin/{name}")))


def test_the_agents_tests_pass_under_another_python(python: str, packages: Path, tmp_path: Path) -> None:
    package, tests = ROOT / "agent", ROOT / "tests" / "agent"
    pytest_alone = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={ROOT}")
    options = ("--doctest-modules", "--import-mode=importlib", f"--confcutdir={tests}")
    ran = subprocess.run(
        [python, "-S", *pytest_alone, *options, package, tests],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, package, packages))),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Makes Hypothesis deterministic: it sets no deadline and draws the same examples each time.
            "CI": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    print(ran.stdout, ran.stderr)
    assert ran.returncode == 0
    assert " passed" in ran.stdout.splitlines()[-1]
