"""The page of the experiment with adaptively unfair TCP agrees with its files."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments" / "adaptive-tcp"
COMMAND = re.compile(r"`python (measure\.py --read [^`]+)`.*?```text\n(.*?)```", re.DOTALL)
LINE = re.compile(
    r"(?P<name>[\w-]+) +\d +\d+ +\d+ ms +\d+% +(?P<a>\d+) +(?P<b>\d+) ms +(?P<overlap>\d+)% +.*"
)


def shown() -> tuple[str, str]:
    found = COMMAND.search((FOLDER / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "the page shows a command and its output"
    return found[1], found[2]


def test_the_page_shows_the_output_of_its_command() -> None:
    command, output = shown()
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    assert done.stdout == output


def test_compatible_jobs_take_turns_under_adaptive_control_in_every_run() -> None:
    lines = [LINE.fullmatch(line) for line in shown()[1].splitlines()]
    late = {
        name: [
            (int(line["overlap"]), int(line["a"]), int(line["b"]))
            for line in lines
            if line and line["name"] == name
        ]
        for name in ("reno", "reno-adaptive", "cubic", "cubic-adaptive")
    }
    for base in ("reno", "cubic"):
        assert len(late[base]) == len(late[f"{base}-adaptive"]) == 3
        # 509 ms alone: 209 ms of burst and 300 ms of compute.
        assert all(overlap <= 8 and max(a, b) <= 525 for overlap, a, b in late[f"{base}-adaptive"])
        assert sum(overlap >= 38 and min(a, b) >= 565 for overlap, a, b in late[base]) == 2
