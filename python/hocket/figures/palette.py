"""Colours and lines by what they stand for, the same in all figures: jobs, schedulers, time-shifts, engines.

All are of Okabe and Ito's palette (2008), made to be told apart with any colour vision, and two greys.
Vermilion is kept for what exceeds a limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from matplotlib.colors import to_hex, to_rgb

_BLUE, _ORANGE, _GREEN, _PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
_SKY, _YELLOW, _BLACK = "#56b4e9", "#f0e442", "#000000"

JOB_COLOURS = (_BLUE, _ORANGE, _GREEN, _PINK, _SKY, _YELLOW, _BLACK)
"""Of jobs in the order of their plan."""
EXCESS_COLOUR = "#d55e00"
"""Of demand above a capacity."""
TOTAL_COLOUR = "#b4bcc2"
"""Of sums, of computation, and of what has no job."""
LINE_COLOUR = "#3d464d"
"""Of capacities, references and outlines."""
QUEUE_COLOUR = _BLUE
"""Of the queue, where there is but one."""
COMMUNICATION_COLOUR = _BLUE
COMPUTATION_COLOUR = TOTAL_COLOUR
OVERLAP_COLOUR = _GREEN
"""Of the time in which a job computes and communicates."""
IDLE_COLOUR = "#e4e8ea"
"""Of the time in which a job does neither, or in which nothing is known of it."""
SCALE_UP_COLOUR = "#7d6ba0"
"""Of the network inside a server."""

# Of relative luminance (WCAG 2.2): above the first, black text has more contrast than white; up to the
# second, a colour has a contrast of 3 with white.
_BRIGHT, _DARK_ENOUGH = 0.179, 0.3
_DARKER = tuple(percent / 100 for percent in range(100, 0, -5))

LineStyle = Literal["-", "--", ":", "-."]


@dataclass(frozen=True)
class Style:
    """How a series is drawn."""

    colour: str
    line: LineStyle = "-"


_LINES: tuple[LineStyle, ...] = ("-", "--", ":", "-.")

# A scheduler has one colour: its line is dashed without CASSINI and whole with it.
_SCHEDULERS = {
    "themis": _BLUE,
    "pollux": _ORANGE,
    "pollux-osdi21": _GREEN,
    "pollux-adaptdl": _PINK,
    "random": _SKY,
    "ideal": _BLACK,
}
_ABBREVIATED = {"th": "themis", "po": "pollux"}
"""As NSDI'24 names schedulers beside CASSINI."""
_CASSINI = "+cassini"
_FABRIC = " (fabric)"

_MEANINGS = {
    # What jobs do about each other.
    "alone": Style(TOTAL_COLOUR),
    "sharing": Style(_ORANGE),
    "shifted": Style(_BLUE),
    "padded": Style(_SKY),
    "fair": Style(_ORANGE),
    "fair sharing": Style(_ORANGE),
    "unfair": Style(_GREEN),
    "adaptive": Style(_GREEN),
    # Where numbers come from.
    "paper": Style(TOTAL_COLOUR),
    "reference": Style(LINE_COLOUR, "--"),
    "closed form": Style(LINE_COLOUR, "--"),
    "Hocket": Style(_BLUE),
    "flow": Style(_BLUE),
    "flow engine": Style(_BLUE),
    "packet": Style(_ORANGE),
    "packet engine": Style(_ORANGE),
    "live": Style(_GREEN),
    # How jobs spend their time.
    "compute": Style(COMPUTATION_COLOUR),
    "communication": Style(COMMUNICATION_COLOUR),
    "exposed communication": Style(COMMUNICATION_COLOUR),
    "waiting for its slot": Style(_ORANGE),
}


def job_colour(index: int) -> str:
    """The colour of the job at `index` of a plan; the eighth job has the first one's again.

    >>> job_colour(0) == job_colour(7)
    True
    """
    return JOB_COLOURS[index % len(JOB_COLOURS)]


def text_on(colour: str) -> str:
    """Black or white, whichever can be read better on `colour`.

    >>> text_on("#0072b2"), text_on("#e69f00")
    ('white', 'black')
    """
    return "black" if _luminance(colour) > _BRIGHT else "white"


def text_like(colour: str) -> str:
    """`colour`, as much darker as text on white needs.

    >>> text_like("#0072b2"), text_like("#f0e442")
    ('#0072b2', '#9c942b')
    """
    red, green, blue = to_rgb(colour)
    darkened = (to_hex((red * part, green * part, blue * part)) for part in _DARKER)
    return next(each for each in darkened if _luminance(each) <= _DARK_ENOUGH)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def styles(names: Iterable[str]) -> dict[str, Style]:
    """How to draw the series of these names, no two alike.

    A scheduler, a way to share, an engine or a source has the style of its meaning, whatever stands beside
    it. The others get the colours of jobs that are left, in order; where none is left, other lines.

    >>> drawn = styles(["pollux+cassini", "Th+CASSINI", "no window", "themis"])
    >>> [style.line for style in drawn.values()]
    ['-', '-', '-', '--']
    >>> drawn["Th+CASSINI"].colour == drawn["themis"].colour == styles(["themis"])["themis"].colour
    True
    """
    every = list(dict.fromkeys(names))
    found = {name: style for name in every if (style := _known(name)) is not None}
    taken = {style.colour for style in found.values()}
    free = [colour for colour in JOB_COLOURS if colour not in taken] or list(JOB_COLOURS)
    others = [name for name in every if name not in found]
    for index, name in enumerate(others):
        line = _LINES[index // len(free) % len(_LINES)]
        found[name] = Style(free[index % len(free)], line)
    return {name: found[name] for name in every}


def _known(name: str) -> Style | None:
    """The style of what `name` means, if it means the same in all figures."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    plain = name.casefold().removesuffix(_FABRIC)
    scheduler = plain.removesuffix(_CASSINI)
    colour = _SCHEDULERS.get(_ABBREVIATED.get(scheduler, scheduler))
    if colour is None:
        return None
    if name.casefold().endswith(_FABRIC):
        return Style(colour, ":")
    return Style(colour, "-" if plain.endswith(_CASSINI) or scheduler == "ideal" else "--")
