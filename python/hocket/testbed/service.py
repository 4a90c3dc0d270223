"""Runs the service that assigns slots, in the control namespace, which all hosts of jobs reach."""

import ctypes
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from hocket.errors import InputError, extra
from hocket.plan import Plan
from hocket.testbed.layout import SERVICE_ADDRESS, Layout

_EXTRA_PACKAGES = ("fastapi", "prometheus_client", "sqlalchemy", "uvicorn")
_PORT = 8765
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
_ANSWERS_WITHIN_S = 30.0
# The message of `hocket register` while the service is starting; waiting does not help with other errors.
_NO_ANSWER = "does not answer"


def check_service(needed_by: str) -> None:
    """Raises `InputError` if the packages that `hocket serve` needs are not installed."""
    with extra("service", needed_by=needed_by):
        for package in _EXTRA_PACKAGES:
            import_module(package)


@contextmanager
def service(layout: Layout, plan: Plan, folder: Path) -> Iterator[Mapping[str, str]]:
    """Context manager that runs `hocket serve` with the jobs of `plan` registered. Yields the environment
    variables for agents.

    Its database and token are in `folder`. Raises `InputError` with its output if it does not start.
    """
    token = secrets.token_urlsafe()
    token_file, plan_file, log = folder / "token", folder / "plan.json", folder / "service.err"
    # Created before it is written, so that other users can read it at no time.
    token_file.touch(mode=0o600)
    token_file.write_text(token)
    plan_file.write_text(
        json.dumps(plan.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True))
    )
    url = f"http://{SERVICE_ADDRESS}:{_PORT}"
    inside = ("ip", "netns", "exec", layout.control, sys.executable, "-m", "hocket")
    serve = ("serve", "--listen", f"{SERVICE_ADDRESS}:{_PORT}", "--database", str(folder / "service.sqlite"))
    with log.open("wb") as errors:
        process = subprocess.Popen(
            (*inside, *serve, "--token-file", str(token_file)),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        register = (*inside, "register", str(plan_file), "--service", url, "--token-file", str(token_file))
        _register(register, process, log)
        yield {"HOCKET_SERVICE": url, "HOCKET_TOKEN": token}
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with_parent() -> None:
    """Ends the service if the parent is killed: see prctl(2), PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _register(command: tuple[str, ...], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Registers the jobs once the service answers."""
    until_s = time.monotonic() + _ANSWERS_WITHIN_S
    while True:
        if process.poll() is not None:
            raise InputError(f"`hocket serve` did not start: {log.read_text(errors='replace').strip()}")
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode == 0:
            return
        # The console may have broken the message over several lines.
        if _NO_ANSWER not in " ".join(ran.stderr.split()) or time.monotonic() > until_s:
            raise InputError(f"`hocket register` failed: {ran.stderr.strip()}")
        time.sleep(0.2)
