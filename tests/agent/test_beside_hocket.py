"""Hocket re-exports the agent; the agent does not import Hocket, even where both are installed."""

import subprocess
import sys
from pathlib import Path

import hocket
import hocket.agent
import hocket.errors
import hocket.tcp
import hocket_agent

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys

before = set(sys.modules)
import hocket_agent

loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - sys.stdlib_module_names))
"""


def test_importing_the_agent_loads_nothing_else_that_is_installed() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout == "['hocket_agent']\n"


def test_hocket_re_exports_the_functions_that_a_job_calls() -> None:
    assert hocket.agent.Agent is hocket_agent.Agent
    assert hocket.agent.Settings is hocket_agent.Settings
    assert hocket.tcp.set_phase is hocket_agent.set_phase
    assert hocket.tcp.use is hocket_agent.use
    assert hocket.InputError is hocket.errors.InputError is hocket_agent.InputError


def test_the_agent_comes_with_the_licence_of_hocket() -> None:
    # A link would be broken in a source distribution.
    assert (ROOT / "agent" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
