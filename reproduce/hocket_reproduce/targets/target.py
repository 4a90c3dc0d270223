"""What a reproduction consists of: rows that hold the paper's value beside ours, a figure, and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from matplotlib.figure import Figure

NOTABLE_DIFFERENCE = 0.10
"""A row that differs from the paper by more than this says why."""

Progress: TypeAlias = Callable[[str], object]
"""Called with a sentence whenever a reproduction starts on something."""


@dataclass(frozen=True)
class Row:
    """One quantity as the paper gives it, and as we find it.

    `paper` is `None` where the paper gives no value. `comment` says what ours rests on, and why it differs
    where it differs notably.

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
        """Ours relative to the paper's, minus 1, rounded to 1/1,000; `None` unless both are numbers."""
        if isinstance(self.paper, str) or isinstance(self.ours, str) or not self.paper:
            return None
        return round(self.ours / self.paper - 1, 3)

    @property
    def differs(self) -> bool:
        """Whether ours is more than 10% away from the paper's, or another word than the paper's."""
        if isinstance(self.paper, str) and isinstance(self.ours, str):
            return self.paper != self.ours
        return abs(self.difference or 0.0) > NOTABLE_DIFFERENCE


@dataclass(frozen=True)
class Reproduction:
    """A target that was rerun; `figure` draws it, `notes` say which parameters were used and from where.

    `columns` are what a row's `paper` and `ours` are, where they are something else.
    """

    id: str
    title: str
    rows: tuple[Row, ...]
    figure: Callable[[], Figure] | None = None
    notes: tuple[str, ...] = field(default=())
    columns: tuple[str, str] = ("paper", "ours")


Verdict: TypeAlias = Literal["reproduced", "same conclusion", "differs"]
"""*Reproduced*: no row differs notably. *Same conclusion*: our rows show what the paper concludes, but single
values differ, or the paper gives none. *Differs*: they do not show some of what it concludes."""


@dataclass(frozen=True)
class Finding:
    """What is claimed, what we find, and the verdict: a line of the table in docs/validation.md.

    `found` and `why` quote rows, so that they cannot contradict them: `hocket_reproduce.overview` replaces
    what stands in braces. `{name}` is our value in the row of that name, `{±name}` its difference and
    `{#name}` how many rows do not differ notably. In a name `*` is any text without a comma; of several rows
    that fit, the lowest and the highest value and the largest difference are given. `why` says in about ten
    words why a target differs; other verdicts have none.
    """

    claim: str
    found: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Target:
    """A figure or a table of a paper that can be rerun; `id` is its name in docs/validation.md.

    One that `takes_minutes` is not among those that tests rerun: they run its parts at a smaller size.
    """

    id: str
    title: str
    run: Callable[[Progress], Reproduction]
    takes_minutes: bool = False
    missing: Callable[[], Sequence[str]] = tuple
    """What this machine lacks for it, as sentences."""
