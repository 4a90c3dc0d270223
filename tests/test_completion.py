"""Completion in a shell: the script that `--show-completion` prints, and the completions it gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def typed_in_bash(line: str, home: Path) -> str:
    """What bash prints for `line`, in which `hocket` is ours, as a user whose home is `home`."""
    programs = home / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "hocket").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hocket "$@"\n')
    (programs / "hocket").chmod(0o755)
    environment = {**os.environ, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    # Hocket recognises the shell by its parent process, so bash must not replace itself with Hocket.
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{line}\n:"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def completed(words: list[str], home: Path) -> list[str]:
    """The completions of the last of `words`, by the script that Hocket prints for bash."""
    line = " ".join(f"'{word}'" for word in words)
    asked = (
        "source <(hocket --show-completion bash)",
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}",
        "_hocket_completion hocket",
        """printf '%s\\n' "${COMPREPLY[@]}" """,
    )
    return typed_in_bash("\n".join(asked), home).split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["comp"], ["compat", "compare"]),
        (["testbed", "st"], ["status"]),
        (["compat", "--fi"], ["--figure"]),
        (["run", "--engine", "p"], ["packet"]),
        (["init", "t"], ["two-jobs", "training"]),
    ],
    ids=" ".join,
)
def test_a_partial_word_is_completed(typed: list[str], offered: list[str], tmp_path: Path) -> None:
    assert completed(["hocket", *typed], tmp_path) == offered


def test_the_script_is_installed_where_bash_finds_it(tmp_path: Path) -> None:
    assert "bash completion installed" in typed_in_bash("hocket --install-completion", tmp_path)
    script = tmp_path / ".bash_completions" / "hocket.sh"
    assert "complete -o default -F _hocket_completion hocket" in script.read_text(encoding="utf-8")
    assert f"source '{script}'" in (tmp_path / ".bashrc").read_text(encoding="utf-8")
