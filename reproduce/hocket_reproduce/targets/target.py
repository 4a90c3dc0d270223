"""The parts of a reproduction: rows with the paper's value beside ours, a figure, and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from matplotlib.figure import Figure

NOTABLE_DIFFERENCE = 0.10
"""A row that differs from the paper by more than this must give the reason in its comment."""

Progress: TypeAlias = Callable[[str], object]
"""Called with a short description of each step of a reproduction as it starts."""


@dataclass(frozen=True)
class Row:
    """One quantity: the paper's value and ours.

    `paper` is `None` if the paper gives no value. `comment` explains how ours came about, and every notable
    difference.

    >>> Row("score", 0.8, 0.9).difference
    0.125
    """

    quantity: str
    paper: float | str | None
    ours: float | str
    unit: str = ""
    comment: str = ""

    @property
    def difference(self) -> float | None:
        """Ours ÷ the paper's − 1, rounded to 1/1,000; `None` for words, or if the paper's is 0."""
        if isinstance(self.paper, str) or isinstance(self.ours, str) or not self.paper:
            return None
        # Rounded as printed: a row cannot show +10.0% and count as notable.
        return round(self.ours / self.paper - 1, 3)

    @property
    def differs(self) -> bool:
        """Whether the difference is notable: above 10%, or another word than the paper's."""
        if isinstance(self.paper, str) and isinstance(self.ours, str):
            return self.paper != self.ours
        return abs(self.difference or 0.0) > NOTABLE_DIFFERENCE


@dataclass(frozen=True)
class Reproduction:
    """The results of a target; `figure` draws them, `notes` give the parameters with their sources.

    `columns` are the headings of a row's `paper` and `ours`, which targets without a paper replace.
    """

    id: str
    title: str
    rows: tuple[Row, ...]
    figure: Callable[[], Figure] | None = None
    notes: tuple[str, ...] = field(default=())
    columns: tuple[str, str] = ("paper", "ours")


Verdict: TypeAlias = Literal["reproduced", "same conclusion", "differs"]
"""*Reproduced*: no row differs notably. *Same conclusion*: our rows support the paper's conclusion, but
single values differ, or the paper gives none. *Differs*: they do not support some of it."""


@dataclass(frozen=True)
class Finding:
    """The claim, our result and the verdict: a line of the table in docs/validation.md.

    `result` and `why` quote rows in braces, which `hocket_reproduce.overview` fills in, so that they cannot
    contradict them. `{name}` is our value in the row of that name, `{~name}` the same with its 95% interval,
    `{±name}` its difference and `{#name}` the number of rows that do not differ notably. In a name `*` is any
    text without a comma; if several rows match, their lowest and highest value and their largest difference
    are given. `why` gives the reason for `differs` in about ten words, and is empty for other verdicts.
    """

    claim: str
    result: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Target:
    """A figure or a table of a paper that can be rerun; `id` is its name in docs/validation.md.

    Tests do not rerun a target that `takes_minutes`, but its parts at a smaller size.
    """

    id: str
    title: str
    run: Callable[[Progress], Reproduction]
    takes_minutes: bool = False
    missing: Callable[[], Sequence[str]] = tuple
    """Requirements that this machine lacks, as sentences."""
