"""Environments with the built wheels in them: no Rust, no checkout, nothing of the one that runs the tests.

The dependencies come from PyPI or from the cache of pip.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PLAN = ROOT / "examples" / "two_jobs.toml"
_MEASURED = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints what was measured below the results."""
    if _MEASURED in config.stash:
        terminalreporter.write_line(config.stash[_MEASURED])


def wheel(name: str) -> Path:
    """The one wheel of the distribution `name`."""
    (found,) = DIST.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return found


def sdist(name: str) -> Path:
    """The one source distribution of `name`."""
    (found,) = DIST.glob(f"{name.replace('-', '_')}-[0-9]*.tar.gz")
    return found


@dataclass(frozen=True)
class Environment:
    """A virtual environment, used from a directory outside the checkout with an empty PATH."""

    home: Path
    directory: Path | None = None
    """Where programs run; in `home` if there is none."""

    def install(self, *requirements: str) -> None:
        """Installs these and what they need, as a user would."""
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)

    def run(self, program: str, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, which has to end with `code`."""
        done = subprocess.run(
            [self.home / "bin" / program, *arguments],
            cwd=self.directory or self.home,
            env=bare_environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (
            f"{program} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done

    @contextmanager
    def started(self, program: str, *arguments: str) -> Iterator[str]:
        """Within it, a program of the environment runs; gives the first line of what it says on stderr."""
        command = [str(self.home / "bin" / program), *arguments]
        with subprocess.Popen(
            command,
            cwd=self.directory or self.home,
            env=bare_environment(),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None, "it was started with a pipe"
            try:
                yield process.stderr.readline()
            finally:
                process.terminate()


def bare_environment() -> dict[str, str]:
    """The variables of this process without those by which a compiler or the checkout is found."""
    hidden = ("CARGO", "CONDA", "HOCKET", "PYTHON", "RUST", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "PATH": "/nowhere"}


def made(home: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", home], env=bare_environment(), check=True)
    shutil.copy(PLAN, home / "two_jobs.toml")
    return Environment(home)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Environment:
    """`hocket` with what it needs, no extra and no `hocket-reproduce`."""
    environment = made(tmp_path_factory.mktemp("alone"))
    started_s = time.perf_counter()
    environment.install(str(wheel("hocket")), str(wheel("hocket-agent")))
    installed_s = time.perf_counter()
    environment.run("hocket", "compat", "two_jobs.toml")
    ended_s = time.perf_counter()
    pytestconfig.stash[_MEASURED] = (
        f"from `pip install` to the first answer: {ended_s - started_s:.1f} s, "
        f"of which {installed_s - started_s:.1f} s installing"
    )
    return environment


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """All three distributions, with what `hocket serve` needs."""
    environment = made(tmp_path_factory.mktemp("complete"))
    wheels = (f"{wheel('hocket')}[service]", str(wheel("hocket-agent")), str(wheel("hocket-reproduce")))
    environment.install(*wheels)
    return environment
