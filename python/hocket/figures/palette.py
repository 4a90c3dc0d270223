"""Colours and line styles by meaning, the same in all figures: jobs, schedulers, time-shifts, engines.

Jobs and series have the colours of Okabe and Ito (2008), which readers with any colour vision can tell apart;
their vermilion is reserved for demand above a limit. Greys and a violet stand for everything else.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from matplotlib.colors import to_hex, to_rgb

_BLUE, _ORANGE, _GREEN, _PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
_SKY, _YELLOW, _BLACK = "#56b4e9", "#f0e442", "#000000"

JOB_COLOURS = (_BLUE, _ORANGE, _GREEN, _PINK, _SKY, _YELLOW, _BLACK)
"""Colours of jobs, in the order of their plan."""
EXCESS_COLOUR = "#d55e00"
"""Demand above a capacity."""
TOTAL_COLOUR = "#b4bcc2"
"""Sums, computation, and anything that belongs to no job."""
LINE_COLOUR = "#3d464d"
"""Capacities, references and outlines."""
QUEUE_COLOUR = _BLUE
"""The queue in figures with a single one."""
COMMUNICATION_COLOUR = _BLUE
COMPUTATION_COLOUR = TOTAL_COLOUR
OVERLAP_COLOUR = _GREEN
"""Time in which a job computes and communicates."""
IDLE_COLOUR = "#e4e8ea"
"""Time in which a job does neither, or of which nothing is known; empty servers and racks."""
SCALE_UP_COLOUR = "#7d6ba0"
"""The network inside a server."""

# With WCAG 2.2's contrast (brighter + 0.05) ÷ (darker + 0.05) of luminances, black and white text have equal
# contrast on a background of sqrt(1.05 × 0.05) - 0.05.
_BRIGHT = 0.179
# The contrast with white is 1.05 ÷ 0.35 = 3, which WCAG 2.2 requires of graphics and of large text.
_DARK_ENOUGH = 0.3
_DARKER = tuple(percent / 100 for percent in range(100, 0, -5))

LineStyle = Literal["-", "--", ":", "-."]


@dataclass(frozen=True)
class Style:
    """How a series is drawn."""

    colour: str
    line: LineStyle = "-"


_LINES: tuple[LineStyle, ...] = ("-", "--", ":", "-.")

# A scheduler has one colour; its line is solid with CASSINI and dashed without.
_SCHEDULERS = {
    "themis": _BLUE,
    "pollux": _ORANGE,
    "pollux-osdi21": _GREEN,
    "pollux-adaptdl": _PINK,
    "random": _SKY,
    "fifo": _YELLOW,
    "ideal": _BLACK,
}
_ABBREVIATED = {"th": "themis", "po": "pollux"}
"""NSDI'24's abbreviations, as in Th+CASSINI."""
_CASSINI = "+cassini"
# Reproductions use it for CASSINI that ranks candidates by all links of the fabric.
_FABRIC = " (fabric)"

_MEANINGS = {
    # How jobs share a link.
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
    """The colour of the job at `index` of a plan; the eighth job has the same colour as the first.

    >>> job_colour(0) == job_colour(7)
    True
    """
    return JOB_COLOURS[index % len(JOB_COLOURS)]


def text_on(colour: str) -> str:
    """Black or white, whichever has more contrast with `colour`.

    >>> text_on("#0072b2"), text_on("#e69f00")
    ('white', 'black')
    """
    return "black" if _luminance(colour) > _BRIGHT else "white"


def text_like(colour: str) -> str:
    """`colour`, darkened as far as text on white needs.

    >>> text_like("#0072b2"), text_like("#f0e442")
    ('#0072b2', '#9c942b')
    """
    red, green, blue = to_rgb(colour)
    darkened = (to_hex((red * part, green * part, blue * part)) for part in _DARKER)
    return next(each for each in darkened if _luminance(each) <= _DARK_ENOUGH)


def _luminance(colour: str) -> float:
    """The relative luminance of an sRGB colour, from 0 to 1, as WCAG 2.2 defines it."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def styles(names: Iterable[str]) -> dict[str, Style]:
    """How to draw the series called `names`, each in a style of its own.

    A scheduler, a sharing policy, an engine or a source has the same style in every figure. The other series
    get the remaining colours of jobs in order, and dashes or dots when these are used up.

    >>> drawn = styles(["pollux+cassini", "Th+CASSINI", "no window", "themis"])
    >>> [style.line for style in drawn.values()]
    ['-', '-', '-', '--']
    >>> drawn["Th+CASSINI"].colour == drawn["themis"].colour == styles(["themis"])["themis"].colour
    True
    """
    every = list(dict.fromkeys(names))
    chosen = {name: style for name in every if (style := _fixed_style(name)) is not None}
    taken = {style.colour for style in chosen.values()}
    free = [colour for colour in JOB_COLOURS if colour not in taken] or list(JOB_COLOURS)
    others = [name for name in every if name not in chosen]
    for index, name in enumerate(others):
        line = _LINES[index // len(free) % len(_LINES)]
        chosen[name] = Style(free[index % len(free)], line)
    return {name: chosen[name] for name in every}


def _fixed_style(name: str) -> Style | None:
    """The style of a name that means the same in all figures; `None` for any other."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    # Case is ignored: NSDI'24 writes Th+CASSINI, the command line themis+cassini.
    plain = name.casefold().removesuffix(_FABRIC)
    scheduler = plain.removesuffix(_CASSINI)
    colour = _SCHEDULERS.get(_ABBREVIATED.get(scheduler, scheduler))
    if colour is None:
        return None
    if name.casefold().endswith(_FABRIC):
        return Style(colour, ":")
    # Ideal runs every job by itself, so there is no contention for CASSINI to avoid and no variant of it.
    return Style(colour, "-" if plain.endswith(_CASSINI) or scheduler == "ideal" else "--")
