"""The agent works with Python alone, without other packages."""

import os
import subprocess
import sys
from pathlib import Path

import hocket_agent

SCRIPT = """
import pkgutil
from importlib import import_module

import hocket_agent

for module in pkgutil.iter_modules(hocket_agent.__path__, "hocket_agent."):
    import_module(module.name)
with hocket_agent.Agent.from_environment().iteration():
    pass
"""


def test_every_module_loads_and_an_iteration_runs_without_site_packages(tmp_path: Path) -> None:
    (tmp_path / "hocket_agent").symlink_to(Path(hocket_agent.__file__).parent)
    ran = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", SCRIPT],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = (
        "hocket_agent: no service is configured (HOCKET_SERVICE is not set): "
        "training continues without slots\n"
    )
    assert (ran.returncode, ran.stderr) == (0, said)
