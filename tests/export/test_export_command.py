"""The command `hocket export`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

PLAN = """
[link]
capacity = "50 Gbps"

[[jobs]]
name = "a"
period = "200 ms"
up = [{ start = "100 ms", duration = "90 ms", rate = "45 Gbps" }]
congestion = { dcqcn = { preset = "hotnets22", increase_timer = "100 us" } }

[[jobs]]
name = "b"
period = "200 ms"
up = [{ start = "100 ms", duration = "90 ms", rate = "45 Gbps" }]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def test_json_contains_the_settings(hocket: Command, plan: Path) -> None:
    answer = hocket("export", plan, "--json").json()
    assert [each["nccl_ib_tc"] for each in answer["classes"]["jobs"]] == [138, 106]
    assert answer["nics"][0]["writes"] == {"rp_time_reset": 100}
    assert hocket("export", plan, "--part", "dcqcn", "--json").json()["classes"] is None


def test_only_the_files_of_the_requested_part_are_written(
    hocket: Command, plan: Path, tmp_path: Path
) -> None:
    files = {
        "nccl": {"a/nccl.env", "b/nccl.env"},
        "switch": {"hosts.sh", "switch-nvue.sh"},
        "dcqcn": {"a/apply.sh", "a/undo.sh"},
    }
    for part, expected in files.items():
        assert hocket("export", plan, "--part", part, "--out", tmp_path / part).code == 0
        found = {str(path.relative_to(tmp_path / part)) for path in (tmp_path / part).rglob("*.*")}
        assert found == expected


def test_every_step_tells_what_it_changes_and_how_to_undo_it(hocket: Command, plan: Path) -> None:
    for part in ("nccl", "switch", "dcqcn"):
        printed = (
            hocket("export", plan, "--part", part, "--ports", "Ethernet0").out
            if part == "switch"
            else (hocket("export", plan, "--part", part).out)
        )
        changes = printed.count("changes ")
        assert changes >= 1
        assert printed.count("undo:") == printed.count("apply:") == changes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--classes", "6"), "--classes: must be classes from 1 to 5"),
        (("--ports", "swp1"), "--ports: must be ports such as Ethernet0"),
        (("--ports", "Ethernet0", "--part", "nccl"), "--ports: only for the settings of switches"),
        (("--candidate", "x"), "no candidate is called 'x'"),
        (("--out", "/dev/null/x"), "/dev/null/x"),
    ],
)
def test_bad_options_are_errors(
    hocket: Command, plan: Path, arguments: tuple[str, ...], message: str
) -> None:
    outcome = hocket("export", plan, *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert not outcome.out


def test_the_error_for_a_value_that_no_nic_supports_names_file_and_job(hocket: Command, plan: Path) -> None:
    plan.write_text(PLAN.replace("100 us", "0.5 us"), encoding="utf-8")
    outcome = hocket("export", plan)
    assert outcome.code == 2
    assert f"{plan}: job 'a': increase_timer: " in outcome.err
