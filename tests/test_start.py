"""Start-up: a command loads only the parts that it uses; a missing part is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = str(ROOT / "examples" / "two_jobs.toml")
HEAVY = ("fastapi", "matplotlib", "prometheus_client", "ray", "sqlalchemy", "starlette", "torch", "uvicorn")
_RUN = """
import sys
sys.argv = ["hocket", *{arguments!r}]
from hocket.cli import main
try:
    main()
except SystemExit as ended:
    code = ended.code
import json
print(json.dumps({{"code": code, "loaded": sorted(sys.modules)}}))
"""


def loaded_by(program: str) -> list[str]:
    """The heavy packages that are loaded after `program` in an interpreter of its own."""
    program = f"{program}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("module", ["hocket", "hocket.cli", "hocket.agent", "hocket.service.commands"])
def test_importing_hocket_loads_no_service_and_no_pictures(module: str) -> None:
    assert loaded_by(f"import {module}") == []


@pytest.mark.parametrize(
    "names", ["compatibility", "simulate", "profile, simulate_cluster", "Plan, load_plan, sweep"]
)
def test_using_a_name_of_the_package_loads_no_service_and_no_pictures(names: str) -> None:
    assert loaded_by(f"from hocket import {names}") == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["compat", EXAMPLE], ["serve", "--help"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_loads_only_what_it_uses(arguments: list[str]) -> None:
    program = _RUN.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["code"] == 0
    assert "hocket" in ended["loaded"]
    assert [name for name in HEAVY if name in ended["loaded"]] == []
    # Help lists the commands of other distributions, which may load no more than their options.
    assert "hocket_reproduce.targets" not in ended["loaded"]


TABLES = ("numpy", "polars", "pyarrow")
FILES = ("google.protobuf", "hocket.training.chakra", "hocket.training.simai", "hocket.training.catalogue")
NETWORK = ("asyncio", "http.client", "ssl", "hocket_agent.agent")
SCREEN = ("rich.live", "rich.progress")


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--help"], (*TABLES, *FILES, *NETWORK, *SCREEN, "hocket.plan", "hocket._hocket")),
        (["--version"], (*TABLES, *FILES, *NETWORK, *SCREEN, "hocket.plan")),
        (["compat", EXAMPLE], (*TABLES, *FILES, *NETWORK, *SCREEN, "hocket.results", "hocket.engines.run")),
        (["compat", EXAMPLE, "--json"], (*TABLES, *FILES, *NETWORK, *SCREEN)),
        (["run", EXAMPLE, "--out", "run"], (*FILES, "http.client", "hocket_agent.agent", "hocket.compat")),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, list) else "",
)
def test_a_command_does_not_load_the_libraries_of_other_commands(
    arguments: list[str], unused: tuple[str, ...], tmp_path: Path
) -> None:
    program = _RUN.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["code"] == 0
    assert [name for name in unused if name in ended["loaded"]] == []


@pytest.mark.parametrize("package", ["fastapi", "prometheus_client", "sqlalchemy", "uvicorn"])
def test_without_its_extra_the_service_explains_how_to_install_it(package: str) -> None:
    program = f"import sys\nsys.modules[{package!r}] = None\n" + _RUN.format(arguments=["serve"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["code"] == 2
    assert done.stderr == (
        f'error: hocket serve: {package} is missing; pip install "hocket[service]" installs it\n'
    )
