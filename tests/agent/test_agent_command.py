"""The environment that `hocket agent` sets for its script, and the input it rejects."""

from pathlib import Path

import pytest
from tests.conftest import Command

TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOCKET_SERVICE", "HOCKET_JOB", "HOCKET_TOKEN", "HOCKET_DRY_RUN", "HOCKET_LOG", "RANK"):
        monkeypatch.delenv(name, raising=False)


def test_the_script_gets_the_environment_of_its_agent(hocket_process: Command, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = ["--service", "http://127.0.0.1:8765", "--job", "a b", "--token-file", "token"]
    script = (
        "import os; print(*(f'{k}={v}' for k, v in sorted(os.environ.items()) if 'HOCKET_' in k), sep='\\n')"
    )
    done = hocket_process(
        "agent", *options, "--log", "{rank}.jsonl", "--dry-run", "--", "python3", "-c", script
    )
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "HOCKET_DRY_RUN=1",
        "HOCKET_JOB=a b",
        "HOCKET_LOG={rank}.jsonl",
        "HOCKET_SERVICE=http://127.0.0.1:8765",
        f"HOCKET_TOKEN={TOKEN}",
    ]


def test_the_command_exits_with_the_code_of_the_script(hocket_process: Command) -> None:
    assert hocket_process("agent", "--", "sh", "-c", "exit 7").code == 7


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--", "no-such-program"], "no-such-program: cannot be run: No such file or directory"),
        (["--job", "a", "--", "true"], "HOCKET_SERVICE: not set, but HOCKET_JOB requires it"),
        (["--service", "here", "--job", "a", "--", "true"], "HOCKET_SERVICE: must be a URL such as"),
        (["--token-file", "nowhere", "--", "true"], "--token-file nowhere: No such file or directory"),
    ],
)
def test_invalid_input_is_rejected_before_the_script_runs(
    arguments: list[str], reason: str, hocket: Command
) -> None:
    refused = hocket("agent", *arguments)
    assert refused.code == 2
    assert reason in " ".join(refused.err.split())
