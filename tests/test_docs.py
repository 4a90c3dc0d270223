"""The documentation shows what the commands print: every `hocket` command of a console block is run, and
every program that a page asks its reader to write down.
"""

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/index.md",
    *(page.relative_to(ROOT).as_posix() for page in sorted(ROOT.glob("docs/how-to/*.md"))),
    "docs/training.md",
    "docs/python.md",
    "docs/plan-format.md",
    "docs/trace-format.md",
    "docs/cluster.md",
    "docs/export.md",
    "docs/live.md",
)
MARKDOWN = tuple(
    page.relative_to(ROOT)
    for place in (".", "agent", "docs", "docs/*", "experiments/*")
    for page in sorted(ROOT.glob(f"{place}/*.md"))
)
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# Times and memory differ from machine to machine.
MEASURED = re.compile(
    r"(solved in|simulated [\d,.]+ m?s in) [\d,.]+ m?s|[\d.]+ M/s, \d+ MB$|\b\d+ MB$|(?<=cache, )[\d.]+ s$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Shown:
    """A command of a page, the output that the page shows, the plan shown before it, and the runs that it
    reads: commands further up.
    """

    page: str
    command: str
    output: str
    plan: str | None
    reads: tuple["Shown", ...]


def shown_commands() -> Iterator[Shown]:
    for page in PAGES:
        plan = None
        above: list[Shown] = []
        for block in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
            if block["language"] == "toml":
                plan = block["text"]
            if block["language"] == "console":
                for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                    command, _, output = part.partition("\n")
                    if re.match(r"hocket |python \w+\.py$", command):
                        reads = tuple(each for each in above if reads_run_of(command, each))
                        above.append(Shown(page, command, output, plan, reads))
                        yield above[-1]


def own_modules(page: str) -> Iterator[tuple[str, str]]:
    """The Python files that a page asks its reader to write: blocks that begin with a file name."""
    for block in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        name = re.match(r"# (\w+\.py)\n", block["text"])
        if block["language"] == "python" and name is not None:
            yield name[1], block["text"]


def reads_run_of(command: str, other: Shown) -> bool:
    """Whether `command` compares, explains or replays what `other` writes."""
    directories = re.findall(r"^written to (\S+):", other.output, re.MULTILINE)
    reads = command.startswith(("hocket compare ", "hocket explain ", "hocket replay "))
    return reads and not set(directories).isdisjoint(command.split(" "))


def without_measurements(text: str) -> list[str]:
    return [line.rstrip() for line in MEASURED.sub(r"\1 ...", text).strip().splitlines()]


def test_every_page_shows_commands() -> None:
    assert len(list(shown_commands())) > 5


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Shown], str]:
    """The output of a command, run once in the directory of its page, after those whose runs it reads."""
    directories: dict[str, Path] = {}

    @cache
    def by(shown: Shown) -> str:
        for run in shown.reads:
            by(run)
        if shown.page not in directories:
            directory = tmp_path_factory.mktemp("page")
            for folder in ("examples", "experiments"):
                (directory / folder).symlink_to(ROOT / folder)
            for name, text in own_modules(shown.page):
                (directory / name).write_text(text, encoding="utf-8")
            directories[shown.page] = directory
        return printed_by(shown, directories[shown.page])

    return by


@pytest.mark.parametrize("shown", list(shown_commands()), ids=lambda shown: f"{shown.page}: {shown.command}")
def test_a_command_prints_what_its_page_shows(shown: Shown, printed: Callable[[Shown], str]) -> None:
    assert without_measurements(printed(shown)) == without_measurements(shown.output)


def printed_by(shown: Shown, directory: Path) -> str:
    # A plan that the page asks its reader to write is in the block before the command.
    written = re.match(r"hocket (?:cluster|compat|export|fabric|run|trace) (\w+\.toml)", shown.command)
    if written is not None and shown.plan is not None:
        (directory / written[1]).write_text(shown.plan, encoding="utf-8")
    words = shlex.split(shown.command)
    run = subprocess.run(
        [sys.executable, *(words[1:] if words[0] == "python" else ("-m", *words))],
        cwd=directory,
        env=os.environ | {"XDG_CACHE_HOME": mkdtemp(dir=directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.stdout


NEXT = re.findall(r'@echo "  \$\(BIN\)/(hocket .+)"$', (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_the_demo_ends_with_three_commands() -> None:
    assert len(NEXT) == 3


@pytest.mark.parametrize("command", NEXT)
def test_the_commands_that_the_demo_suggests_work(command: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of its headings as GitHub derives them; repeated ones are numbered."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return frozenset(names)


@pytest.mark.parametrize("page", MARKDOWN, ids=str)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), f"{page}: {link}: there is no such file"
        if anchor:
            assert anchor in anchors(target), f"{page}: {link}: there is no such heading"


@pytest.mark.parametrize("page", [page for page in MARKDOWN if "validation" not in page.parts], ids=str)
def test_lines_of_prose_fit_a_screen(page: Path) -> None:
    """Tables, blocks and comments may be wider, and commands write the pages of the validation."""
    text = re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [
        line for line in text.splitlines() if len(line) >= 140 and not line.lstrip().startswith(("|", "<!--"))
    ] == []
