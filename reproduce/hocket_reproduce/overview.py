"""The tables of docs/validation.md: a line per target, made from the rows on the targets' pages, and what
these rows say together about the gains of NSDI'24.

Targets are not rerun: a command that renews the section of one target changes only its line.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from hocket_reproduce.targets import TARGETS
from hocket_reproduce.targets.findings import FINDINGS, GAINS
from hocket_reproduce.targets.target import NOTABLE_DIFFERENCE
from hocket_reproduce.validate import report as validation
from hocket_reproduce.validation_pages import ENGINES, page_of, read_page, renew_section

BEGIN = (
    "<!-- overview: made by `hocket reproduce` and `hocket validate` with `--write docs/validation.md` -->"
)
END = "<!-- end of overview -->"

BEYOND = ("X1", "X2", "X3", "LIVE")
"""Targets that compare the engines with each other and with real jobs, not with a paper."""

# First columns that a value of ours is judged by. R8 has two values of ours (PFC only and static windows), so
# a difference there contradicts no claim.
_CLAIMED = ("paper", "truth", "flow engine")

_COLUMNS = 120

# A section ends at the next `## ` heading; `### ` headings belong to it.
_SECTION = re.compile(r"^## (?P<heading>(?P<id>\w+): .+)\n(?P<body>(?:(?!## ).*\n)*)", re.MULTILINE)
_QUOTED = re.compile(r"\{([±#~]?)([^}]+)\}")
_INTERVAL = re.compile(r"95%: (\S+ to [^\s;]+)")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]\d+)?")


@dataclass(frozen=True)
class ShownRow:
    """A row as printed on its page: our value with its unit, and the difference from the claimed one."""

    ours: str
    difference: str
    comment: str

    @property
    def is_compared(self) -> bool:
        """Whether there is a value to compare with."""
        return self.difference != "–"

    @property
    def differs(self) -> bool:
        """Whether the difference is notable: above 10%, or another word than the claimed one."""
        if self.difference in ("same", "differs"):
            return self.difference == "differs"
        return self.is_compared and self.relative > NOTABLE_DIFFERENCE

    @property
    def interval(self) -> str:
        """The 95% interval that the comment starts with, such as `1.1 to 1.3`."""
        found = _INTERVAL.match(self.comment)
        assert found is not None, f"{self.comment!r} starts with no interval"
        return found[1]

    @property
    def relative(self) -> float:
        """The absolute relative difference of numbers; 0 if there is none."""
        return abs(float(self.difference[:-1])) / 100 if self.difference.endswith("%") else 0.0


@dataclass(frozen=True)
class ShownSection:
    """The section of a target on its page."""

    heading: str
    claimed: str
    """The heading of the column that ours is compared with, such as `paper`."""
    rows: dict[str, ShownRow]

    def matching(self, pattern: str) -> list[ShownRow]:
        """The rows whose quantity matches `pattern`, where `*` is any text without a comma; at least one."""
        expression = re.compile("[^,]*".join(map(re.escape, pattern.split("*"))))
        rows = [row for quantity, row in self.rows.items() if expression.fullmatch(quantity)]
        assert rows, f"{self.heading}: no row matches {pattern!r}, which its finding quotes"
        return rows

    @property
    def differing(self) -> int:
        """The number of rows that differ notably."""
        return sum(row.differs for row in self.rows.values())

    @property
    def compared(self) -> int:
        """The number of rows with a value to compare with."""
        return sum(row.is_compared for row in self.rows.values())


def renew_overview(path: Path) -> None:
    """Replaces the tables in the file at `path` by those made from the pages in its folder.

    Raises `InputError` if a file cannot be read or written, or lacks a marker.
    """
    renew_section(path, BEGIN, END, lambda _: f"\n\n{markdown(path)}\n")


def markdown(path: Path) -> str:
    """The tables of `path`, made from its pages: targets of the papers, then those of `BEYOND`."""
    shown = sections(path)
    papers = [name for name in shown if name not in BEYOND]
    beyond = [name for name in shown if name in BEYOND]
    verdicts = [FINDINGS[name].verdict for name in papers]
    lines = [
        f"Of {len(papers)} targets of the papers, {verdicts.count('reproduced')} are reproduced, "
        f"{verdicts.count('same conclusion')} lead to the same conclusion, and {verdicts.count('differs')} "
        "differ.",
        "",
        *_table(("target", "the paper claims", "we find", "within 10%", "verdict")),
        *(_line(path, name, shown[name]) for name in papers),
        "",
        "Beyond the papers: both engines beside each other, real jobs and an ns-3 based simulator.",
        "",
        *_table(("comparison", "expected", "we find", "within 10%", "verdict")),
        *(_line(path, name, shown[name]) for name in beyond),
        *_validation_line(path),
        *statement(shown),
    ]
    return "\n".join(lines) + "\n"


def sections(path: Path) -> dict[str, ShownSection]:
    """The sections of all targets on the pages of `path`, in the order of `TARGETS`.

    Raises `InputError` if a page cannot be read.
    """
    texts = [read_page(page) for page in {page_of(path, name) for name in TARGETS}]
    shown = {each["id"]: _parse(each) for text in texts for each in _SECTION.finditer(text)}
    return {name: shown[name] for name in TARGETS if name in shown}


def _parse(section: re.Match[str]) -> ShownSection:
    # The line below the header, `|---|…`, does not start with `| `.
    table = [line[2:-2].split(" | ") for line in section["body"].splitlines() if line.startswith("| ")]
    header, *rows = table
    return ShownSection(section["heading"], header[1], {row[0]: ShownRow(*row[2:5]) for row in rows})


def quoted(text: str, section: ShownSection) -> str:
    """`text` with its quotes, in the syntax of `Finding`, replaced by values of the rows of `section`."""
    return _filled(text, section.matching)


def _filled(text: str, matching: Callable[[str], list[ShownRow]]) -> str:
    """`text` with its quotes replaced by values of the rows that `matching` finds for each."""

    def shown(quote: re.Match[str]) -> str:
        kind, pattern = quote.groups()
        rows = matching(pattern)
        if kind == "~":
            (row,) = rows
            return f"{row.ours} ({row.interval})"
        if kind == "±":
            return f"{max(row.relative for row in rows):.1%}"
        if kind == "#":
            return f"{sum(not row.differs for row in rows)} of {len(rows)}"
        return _span([row.ours for row in rows])

    return _QUOTED.sub(shown, text)


def statement(shown: Mapping[str, ShownSection]) -> Iterator[str]:
    """The lines of `GAINS`, with its quotes replaced by values of the rows of `shown`."""

    def matching(pattern: str) -> list[ShownRow]:
        target, _, quantity = pattern.partition(" ")
        return shown[target].matching(quantity)

    for block in GAINS:
        filled = _filled(block, matching)
        # The lines of a table stay whole, however long they are.
        yield from ("", *([filled] if block.startswith("|") else wrap(filled, _COLUMNS)))


def _span(values: Sequence[str]) -> str:
    """The lowest and the highest of values with the same unit, or the only value."""
    # Values are texts from the page: they are printed as rounded there, and never rounded again.
    if len(set(values)) == 1:
        return values[0]
    numbers = [_NUMBER.match(value) for value in values]
    ordered = sorted((number[0] for number in numbers if number is not None), key=float)
    assert len(ordered) == len(values), f"{values} are not all numbers, so they have no lowest"
    return f"{ordered[0]} to {ordered[-1]}{values[0].removeprefix(_NUMBER.findall(values[0])[0])}"


def _line(path: Path, name: str, section: ShownSection) -> str:
    finding = FINDINGS[name]
    why = f": {quoted(finding.why, section)}" if finding.why else ""
    within = f"{section.compared - section.differing} of {section.compared}"
    return _cells(
        (
            f"[{name}]({_link(path, page_of(path, name), section.heading)})",
            finding.claim,
            quoted(finding.result, section),
            within if section.claimed in _CLAIMED else "–",
            f"{finding.verdict}{why}",
        )
    )


def _validation_line(path: Path) -> Iterator[str]:
    """The line of the comparison with recorded runs, if its page has one."""
    page = path.with_suffix("") / ENGINES
    summary = validation.SUMMARY.search(read_page(page))
    if summary is not None:
        agreeing, runs = int(summary["agreeing"]), int(summary["runs"])
        differ = f"differs: {runs - agreeing} runs beyond their limits"
        yield _cells(
            (
                f"[ns-3]({_link(path, page, validation.HEADING)})",
                "The packet engine repeats the runs of an ns-3 based simulator",
                f"{agreeing} of {runs} runs agree; over one switch, {summary['equal']} of {summary['flows']} "
                "completion times to the nanosecond",
                f"{agreeing} of {runs}",
                "reproduced" if agreeing == runs else differ,
            )
        )


def _link(path: Path, page: Path, heading: str) -> str:
    """A link from `path` to a heading of `page`, with the anchor that GitHub derives from it."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"{page.relative_to(path.parent).as_posix()}#{anchor}"


def _table(header: Sequence[str]) -> tuple[str, str]:
    return _cells(header), "|---|---|---|---:|---|"


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
