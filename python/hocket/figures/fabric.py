"""A picture of a fabric: servers with their GPUs, tiers of switches above them, and the placement of jobs.

Servers are side by side or, if there is no room, stacked in their racks; racks without a job are then left
out as needed. Lines between two tiers are either all drawn or replaced by a description.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, sqrt
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle

from hocket.errors import InputError
from hocket.fabrics import Tier, Topology, rates_text, server_of, tiers_of
from hocket.figures.palette import (
    IDLE_COLOUR,
    JOB_COLOURS,
    LINE_COLOUR,
    SCALE_UP_COLOUR,
    TOTAL_COLOUR,
    job_colour,
    text_on,
)
from hocket.figures.style import legend_below, new_figure
from hocket.units import format_duration, format_rate

# Lengths are in units; a server with one GPU is about one unit wide.
_GPU = 0.42
_LEAST_COLUMNS = 4
"""Up to this number, all GPUs of a server are in one row."""
_WIDEST = 40.0
"""The limit for servers side by side: wider pages are unreadable."""
_WIDEST_RACKS = 76.0
"""The limit for racks side by side; if racks with a job need more, they are in several rows."""
_WIDEST_WITH_FREE_RACKS = 52.0
"""The width up to which racks without a job are drawn if not all racks have room."""
_SMALL_GPU = 0.24
_SMALL_ROW = 0.36
"""The height of a server in a rack."""
_SMALL_CHARACTER = 0.22
"""The width of a character of 5 points at `_READABLE_SCALE_IN`, the smallest scale with names in racks."""
_MOST_ROWS = 32
"""The limit on servers in a column of a rack; further servers are in more columns."""
_SWITCH = 1.24
"""The width of a switch that has room, which fits a name of `_LONGEST_NAME` characters at full scale."""
_LEAST_SWITCH = 0.3
"""The least room for a switch; in a tier with less, all switches are drawn as one bar."""
_LOWEST_TIER = 2.2
_TIERS_ACROSS = 13
"""The largest ratio of page width to tier height, so that lines between tiers are not too flat."""
_GAP = 1.1
"""The room for the vertical text that counts servers left out."""
_BETWEEN_RACKS = 0.5
_LEFT, _RIGHT = 3.4, 4.4
"""Room beside the drawing for the descriptions of lines and tiers."""
_WIDEST_IN, _SCALE_IN = 17.0, 0.5
"""The limits on the width of a page and on the length of a unit."""
_READABLE_SCALE_IN = 0.2
"""The scale below which servers in racks have no names: `_SMALL_ROW` would be lower than 5 points."""
_SWITCH_IN = 0.14
"""The minimum height of a switch, which fits its name."""
_CHARACTER_IN = 0.058
"""The approximate width of a character of "x-small" text: 0.6 times its size of 6.9 points."""
_THICKEST = ((48, 3.0), (130, 1.6), (10**9, 0.8))
"""The width of the thickest line in points, by the maximum number of lines between two tiers."""
_MOST_LINES = 600
"""The limit on lines between two tiers; more would become a grey area, so a description replaces them."""
_MOST_LABELLED = 12
"""Up to this number of lines between two tiers, each is labelled with its rate."""
_MOST_IN_LEGEND = 14
_LONGEST_NAME = 9
_MOST_CANDIDATES = 8
_MOST_NUMBERS = 1_000
"""The limit on GPUs that show the number of their job; in more, numbers would be too small to read."""
_FREE = "#ffffff"

_Ends: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
Jobs: TypeAlias = Mapping[str, Sequence[str]]
"""The hosts of each job."""


@dataclass(frozen=True)
class _Box:
    """A server: its middle, its top, the number of GPUs side by side, and where its lines end."""

    x: float
    top: float
    columns: int
    lines_x: float
    in_rack: bool


@dataclass
class _Page:
    """The positions of everything in the drawing."""

    servers: dict[str, _Box] = field(default_factory=dict)
    racks: list[tuple[float, float, float, float, Sequence[str]]] = field(default_factory=list)
    """Racks of stacked servers: left, right, top, bottom, and the servers."""
    switches: dict[str, tuple[float, float]] = field(default_factory=dict)
    switch_widths: dict[int, float] = field(default_factory=dict)
    """By number of the tier; a tier without a width is drawn as one bar."""
    gaps: list[tuple[float, float, str]] = field(default_factory=list)
    """Where servers are left out: the middle of the text that counts them, and the text."""
    width: float = 0.0
    bottom: float = 0.0
    stacked: int = 1
    """The number of rows of racks."""
    named: bool = True
    """Whether servers in racks have names."""

    def height(self, tier: int) -> float:
        """The height at which the switches of a tier are drawn."""
        return tier * max(_LOWEST_TIER, self.width / _TIERS_ACROSS)

    @property
    def across(self) -> float:
        """The width including the descriptions on both sides."""
        return self.width + _LEFT + _RIGHT

    @property
    def scale_in(self) -> float:
        """The length of a unit in inches."""
        return min(_SCALE_IN, _WIDEST_IN / self.across)


def fabric_figure(topology: Topology, jobs: Jobs, title: str = "") -> Figure:
    """The fabric with each job of `jobs` on its hosts, in its own colour.

    A line represents all cables between two switches, or between a server and a switch; its width shows their
    total rate. Every server with a job is drawn, however many there are.
    """
    return _figure(topology, {"": jobs}, title)


def candidates_figure(topology: Topology, candidates: Mapping[str, Jobs], title: str = "") -> Figure:
    """The fabric once for each of `candidates` by name, as in `fabric_figure`; a job keeps its colour.

    All candidates must have all jobs in the same order. Only the first eight are drawn. Raises `InputError`
    if there are none.
    """
    if not candidates:
        raise InputError("figure: the plan has no candidates to draw")
    shown = dict(list(candidates.items())[:_MOST_CANDIDATES])
    if len(shown) < len(candidates):
        title = f"{title}: {len(shown)} of {len(candidates)} candidates".removeprefix(": ")
    return _figure(topology, shown, title)


def _figure(topology: Topology, panels: Mapping[str, Jobs], title: str) -> Figure:
    placed = {server_of(host) for jobs in panels.values() for hosts in jobs.values() for host in hosts}
    # All panels share one layout, so that a server has the same position in each.
    page = _layout(topology, placed)
    top = max((y for _, y in page.switches.values()), default=0.0)
    top = max(top, page.height(len(tiers_of(topology)))) + 0.7
    width_in, height_in = page.across * page.scale_in, (top - page.bottom) * page.scale_in
    abreast = 2 if len(panels) > 1 and 2 * width_in <= _WIDEST_IN else 1
    rows = -(-len(panels) // abreast)
    figure = new_figure(max(width_in * abreast, 6), (height_in + 0.3) * rows + 1.0)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    for place, (name, jobs) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, abreast, place + 1)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-_LEFT, page.width + _RIGHT)
        axes.set_ylim(page.bottom, top)
        axes.set_title(name, loc="left", fontsize="medium", fontweight="bold")
        _draw_lines(axes, page, topology)
        _draw_racks(axes, page)
        _draw_servers(axes, page, topology, jobs)
        _draw_switches(axes, page, topology)
        for x, y, text in page.gaps:
            axes.text(x, y, text, ha="center", va="center", fontsize="x-small", rotation=90, zorder=6)
    _draw_legend(figure, topology, next(iter(panels.values())))
    return figure


def _columns(gpus: Sequence[str]) -> int:
    # sqrt(2 n) columns of n GPUs make a server about twice as wide as high.
    return min(len(gpus), max(_LEAST_COLUMNS, ceil(sqrt(2 * len(gpus)))))


def _rows(gpus: Sequence[str]) -> int:
    return -(-len(gpus) // _columns(gpus))


def _server_width(gpus: Sequence[str]) -> float:
    return max(_columns(gpus) * _GPU + 0.4, 0.9)


def _racks(topology: Topology) -> list[list[str]]:
    """Groups of consecutive servers that are linked to the same switches."""
    racks: list[list[str]] = []
    previous: set[str] | None = None
    for server, gpus in topology.servers.items():
        linked = {
            node for gpu in gpus for node in topology.neighbours[gpu] if topology.nodes[node] == "switch"
        }
        if linked != previous:
            racks.append([])
        racks[-1].append(server)
        previous = linked
    return racks


def _layout(topology: Topology, placed: set[str]) -> _Page:
    """The positions of everything drawn; servers with a job, `placed`, are never left out."""
    racks = _racks(topology)
    page = _Page()
    across = sum(
        _BETWEEN_RACKS + sum(_server_width(topology.servers[server]) for server in rack) for rack in racks
    )
    if across <= _WIDEST:
        _place_side_by_side(page, topology, racks)
    else:
        _place_in_racks(page, topology, racks, placed)
        # Without names, racks are narrower and the scale is larger.
        if page.scale_in < _READABLE_SCALE_IN:
            page = _Page(named=False)
            _place_in_racks(page, topology, racks, placed)
    _place_switches(page, topology)
    return page


def _place_side_by_side(page: _Page, topology: Topology, racks: Sequence[Sequence[str]]) -> None:
    x = 0.0
    for number, rack in enumerate(racks):
        x += _BETWEEN_RACKS if number else 0.0
        for server in rack:
            gpus = topology.servers[server]
            width = _server_width(gpus)
            page.servers[server] = _Box(x + width / 2, -0.16, _columns(gpus), x + width / 2, in_rack=False)
            x += width
    page.width = x
    page.bottom = -max(_rows(gpus) for gpus in topology.servers.values()) * _GPU - 1.0


def _place_in_racks(
    page: _Page, topology: Topology, racks: Sequence[Sequence[str]], placed: set[str]
) -> None:
    """Places servers below each other in their racks: all racks with one of `placed`, others if they fit."""
    names = max(len(_short(server)) for server in topology.servers) * _SMALL_CHARACTER if page.named else 0.0
    cell = names + max(map(len, topology.servers.values())) * _SMALL_GPU + 0.2

    def width(rack: Sequence[str]) -> float:
        return ceil(len(rack) / _MOST_ROWS) * cell + 0.2

    shown = {number for number, rack in enumerate(racks) if placed.intersection(rack)}
    if sum(width(rack) + _BETWEEN_RACKS for rack in racks) <= _WIDEST_RACKS:
        shown = set(range(len(racks)))
    # Racks between each two of those with a job may be left out, hence a gap beside each.
    room = _WIDEST_WITH_FREE_RACKS - sum(width(racks[number]) + _GAP for number in shown)
    # The first and the last rack come first: they show where the names of servers begin and end.
    for number in (0, len(racks) - 1, *range(len(racks))):
        if number not in shown and width(racks[number]) + _BETWEEN_RACKS <= room:
            shown.add(number)
            room -= width(racks[number]) + _BETWEEN_RACKS
    across = sum(width(racks[number]) + _BETWEEN_RACKS for number in shown)
    page.stacked = ceil(across / _WIDEST_RACKS)
    x, top, previous, column = 0.0, 0.0, -1, list[int]()
    # The number after the last rack completes the last column and the last gap.
    for number in [*sorted(shown), len(racks)]:
        hidden = sum(map(len, racks[previous + 1 : number]))
        if column and (hidden or len(column) == page.stacked or number == len(racks)):
            x += max(width(racks[each]) for each in column)
            x += 0.0 if hidden or number == len(racks) else _BETWEEN_RACKS
            top, column = 0.0, []
        if hidden:
            text = f"… {hidden:,} {'servers without a job' if placed else 'more'}"
            page.gaps.append((x + _GAP / 2, -3.0, text))
            x += _GAP
        if number < len(racks):
            _place_rack(page, topology, racks[number], (x, top), names, cell)
            top = page.racks[-1][3] - _BETWEEN_RACKS / 2
            column.append(number)
        previous = number
    page.width = x
    page.bottom = min(bottom for _, _, _, bottom, _ in page.racks) - 0.9
    page.bottom = min(page.bottom, -6.0) if page.gaps else page.bottom


def _place_rack(
    page: _Page,
    topology: Topology,
    rack: Sequence[str],
    corner: tuple[float, float],
    names: float,
    cell: float,
) -> None:
    """Places a rack below and to the right of `corner`; `names` is the width of a name, `cell` that of a
    server with its name.
    """
    left, top = corner
    columns = ceil(len(rack) / _MOST_ROWS)
    rows = ceil(len(rack) / columns)
    right = left + columns * cell + 0.2
    for place, server in enumerate(rack):
        column, row = divmod(place, rows)
        gpus = len(topology.servers[server])
        x = left + 0.15 + column * cell + names + gpus * _SMALL_GPU / 2
        at = top - 0.2 - row * _SMALL_ROW
        page.servers[server] = _Box(x, at, gpus, (left + right) / 2, in_rack=True)
    page.racks.append((left, right, top, top - 0.2 - rows * _SMALL_ROW, rack))


def _place_switches(page: _Page, topology: Topology) -> None:
    """Places the switches of each tier, each over the middle of its neighbours below if there is room.

    A tier without room for all switches above the drawn servers becomes one bar.
    """
    drawn = {gpu for server in page.servers for gpu in topology.servers[server]}
    middles = {gpu: box.lines_x for server, box in page.servers.items() for gpu in topology.servers[server]}
    tiers = tiers_of(topology)
    reached: list[list[str]] = []
    for tier in tiers:
        reached.append(
            [switch for switch in tier.switches if drawn.intersection(topology.neighbours[switch])]
        )
        drawn.update(reached[-1])
    widest = max((len(row) * (_SWITCH + 0.36) for row in reached), default=0.0)
    # A tier may need more room than the servers: the page then grows on both sides of them.
    if not page.racks and page.width < widest:
        shift = (min(widest, _WIDEST) - page.width) / 2
        page.servers = {
            server: replace(box, x=box.x + shift, lines_x=box.lines_x + shift)
            for server, box in page.servers.items()
        }
        middles = {gpu: x + shift for gpu, x in middles.items()}
        page.width += 2 * shift
    for tier, row in zip(tiers, reached, strict=True):
        # Above several rows of racks, a switch over its rack would also be over the racks of other switches.
        crowded = page.stacked > 1 and tier is tiers[0]
        if crowded or page.width < len(row) * _LEAST_SWITCH:
            # Switches in a bar are not drawn, but those above them still stand over their middle.
            places = ((place + 0.5) * page.width / len(row) for place in range(len(row)))
            middles.update(zip(row, places, strict=True))
            continue
        over = [_mean(middles[n] for n in topology.neighbours[switch] if n in middles) for switch in row]
        # Spines linked to all ToRs have the same middle; they are spread evenly instead.
        room = min((right - left for left, right in pairwise(over)), default=page.width)
        if room < min(_SWITCH + 0.2, 0.9 * page.width / len(row)):
            room = page.width / len(row)
            over = [(place + 0.5) * room for place in range(len(row))]
        longest = max(len(_short(switch)) for switch in row) * _CHARACTER_IN / page.scale_in
        page.switch_widths[tier.number] = min(max(_SWITCH, longest), 0.85 * room)
        for switch, x in zip(row, over, strict=True):
            page.switches[switch] = (x, page.height(tier.number))
            middles[switch] = x


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _draw_lines(axes: Axes, page: _Page, topology: Topology) -> None:
    """Draws one line for all cables between two switches, or between a server and a switch.

    Between two tiers of switches, either all lines are drawn or none.
    """
    tier_of = {switch: tier.number for tier in tiers_of(topology) for switch in tier.switches}
    by_tiers: dict[tuple[int, int], dict[tuple[str, str], list[int]]] = {}
    for cable in topology.cables:
        if any(topology.nodes[end] == "scale-up" for end in cable.ends):
            continue
        ends = (server_of(end) if topology.nodes[end] == "host" else end for end in cable.ends)
        # Within a tier the left end comes first, so that the direction of a cable makes no difference.
        low, high = sorted(ends, key=lambda end: (tier_of.get(end, 0), _at(page, end)))
        between = (tier_of.get(low, 0), tier_of.get(high, 0))
        by_tiers.setdefault(between, {}).setdefault((low, high), []).append(cable.rate_bps)
    for (low_tier, high_tier), lines in sorted(by_tiers.items()):
        shown = {
            ends: rates
            for ends, rates in lines.items()
            if all(end in page.servers or end in page.switches for end in ends)
        }
        # Lines of servers merge at their racks, so they are few and drawn even if some racks are left out.
        # Over several rows of racks, the lowest tier is a bar, which has no ends for lines.
        drawn = len(shown) == len(lines) <= _MOST_LINES or (low_tier == 0 and page.stacked == 1)
        totals = sorted(lines.values(), key=sum)
        least, most = rates_text(tuple(totals[0])), rates_text(tuple(totals[-1]))
        if shown and drawn:
            _draw_between(
                axes,
                page,
                {(_at(page, low), _at(page, high)): sum(rates) for (low, high), rates in shown.items()},
            )
        # A description of lines within a tier would be level with the switches, so each line has a label.
        if drawn and ((least != most and len(lines) <= _MOST_LABELLED) or low_tier == high_tier):
            _label_each(axes, page, shown)
            continue
        rates = most if least == most else f"{least} to\n{most}"
        subject = "each server" if low_tier == 0 and page.racks else "each line"
        text = f"{subject}\n{rates}" if drawn else f"{len(lines):,} lines\nof {rates},\nnot drawn"
        y = (page.height(low_tier) + page.height(high_tier)) / 2
        axes.text(-0.5, y, text, ha="right", va="center", fontsize="x-small")


def _draw_between(axes: Axes, page: _Page, lines: Mapping[_Ends, int]) -> None:
    """Draws lines between two tiers, with widths in proportion to their rates."""
    most = max(lines.values())
    thickest = next(width for count, width in _THICKEST if len(lines) <= count)
    for (start, end), rate_bps in lines.items():
        # A line within a tier curves around the switches between its ends.
        straight = start[1] != end[1] or _adjacent(page, start, end)
        axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-",
                connectionstyle="arc3" if straight else "arc3,rad=-0.3",
                color=LINE_COLOUR,
                alpha=0.55,
                linewidth=max(thickest * rate_bps / most, 0.4),
                shrinkA=0,
                shrinkB=0,
                zorder=1,
            )
        )


def _adjacent(page: _Page, one: tuple[float, float], other: tuple[float, float]) -> bool:
    (left, y), (right, _) = sorted((one, other))
    return not any(left < x < right for x, height in page.switches.values() if height == y)


def _label_each(axes: Axes, page: _Page, lines: Mapping[tuple[str, str], Sequence[int]]) -> None:
    for number, ((low, high), rates) in enumerate(lines.items()):
        (x0, y0), (x1, y1) = _at(page, low), _at(page, high)
        level = y0 == y1
        # Labels of neighbours are at two heights, so that they do not overlap.
        part = 0.5 if level else 0.36 + 0.16 * (number % 2)
        # The middle of an "arc3" curve is half of `rad`, 0.3, times its length away from the straight line.
        arc = 0.0 if not level or _adjacent(page, (x0, y0), (x1, y1)) else 0.15 * (x1 - x0)
        axes.text(
            x0 + part * (x1 - x0),
            y0 + part * (y1 - y0) + (0.42 + arc if level else 0.0),
            rates_text(tuple(rates)),
            ha="center",
            va="center",
            fontsize="x-small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
            zorder=2,
        )


def _at(page: _Page, node: str) -> tuple[float, float]:
    """Where lines of `node` end; the origin if it is not drawn."""
    if node in page.servers:
        return page.servers[node].lines_x, 0.0
    return page.switches.get(node, (0.0, 0.0))


def _draw_racks(axes: Axes, page: _Page) -> None:
    """Draws the outlines of racks; below a rack without names, those of its first and its last server."""
    for left, right, top, bottom, rack in page.racks:
        box = (left, bottom), right - left, top - bottom
        axes.add_patch(Rectangle(*box, facecolor=IDLE_COLOUR, edgecolor=LINE_COLOUR, linewidth=0.6, zorder=2))
        ends = f"{_short(rack[0])} …\n{_short(rack[-1])}" if len(rack) > 1 else _short(rack[0])
        if not page.named and page.stacked == 1 and (right - left) * page.scale_in >= 5 * _CHARACTER_IN:
            axes.text((left + right) / 2, bottom - 0.1, ends, ha="center", va="top", fontsize=5)


def _draw_servers(axes: Axes, page: _Page, topology: Topology, jobs: Jobs) -> None:
    jobs_on: dict[str, list[int]] = {}
    for number, hosts in enumerate(jobs.values()):
        for host in dict.fromkeys(hosts):
            jobs_on.setdefault(host, []).append(number)
    # One collection for each colour: thousands of GPUs as patches would take several times as long.
    painted: dict[str, list[tuple[float, float, float, float]]] = {}
    # Beyond the number of colours, several jobs have the same one.
    numbered = len(JOB_COLOURS) < len(jobs) and sum(map(len, jobs_on.values())) <= _MOST_NUMBERS
    longest = max(len(_short(server)) for server in page.servers) * _CHARACTER_IN / page.scale_in
    names_fit = longest <= min(_server_width(topology.servers[server]) for server in page.servers)
    for server, box in page.servers.items():
        gpus = topology.servers[server]
        size = _SMALL_GPU if box.in_rack else _GPU
        rows = -(-len(gpus) // box.columns)
        left, low = box.x - box.columns * size / 2, box.top - rows * size
        if not box.in_rack:
            _draw_server(axes, (left, low), box.columns * size, rows * size)
            axes.text(
                box.x,
                low - 0.22,
                _short(server),
                ha="center",
                va="top",
                fontsize="x-small",
                rotation=0 if names_fit else 60,
            )
        elif page.named:
            axes.text(left - 0.08, (low + box.top) / 2, _short(server), ha="right", va="center", fontsize=5)
        if any(topology.nodes[other] == "scale-up" for other in topology.neighbours[gpus[0]]):
            bar = (left, low - 0.09, box.columns * size, 0.06 if box.in_rack else 0.09)
            painted.setdefault(SCALE_UP_COLOUR, []).append(bar)
        for place, gpu in enumerate(gpus):
            row, column = divmod(place, box.columns)
            corner = (left + column * size, low + (rows - row - 1) * size)
            for job, stripe in _stripes(corner, size, jobs_on.get(gpu, [])):
                painted.setdefault(_FREE if job is None else job_colour(job), []).append(stripe)
                if job is not None and numbered:
                    _number_gpu(axes, stripe, job, page.scale_in)
    for colour, boxes in painted.items():
        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
        edge = "none" if colour == SCALE_UP_COLOUR else LINE_COLOUR
        axes.add_collection(
            PolyCollection(corners, facecolor=colour, edgecolor=edge, linewidth=0.4, zorder=4), autolim=False
        )


def _stripes(
    corner: tuple[float, float], size: float, jobs: Sequence[int]
) -> Iterator[tuple[int | None, tuple[float, float, float, float]]]:
    """A stripe (left, low, width, height) of a GPU for each of its jobs; without a job, one for `None`."""
    edge = 0.07 * size
    width = (size - 2 * edge) / max(len(jobs), 1)
    for stripe, number in enumerate(jobs or [None]):
        yield number, (corner[0] + edge + stripe * width, corner[1] + edge, width, size - 2 * edge)


def _draw_server(axes: Axes, corner: tuple[float, float], width: float, height: float) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (corner[0] - 0.06, corner[1] - 0.1),
            width + 0.12,
            height + 0.26,
            boxstyle="round,pad=0.03",
            facecolor=IDLE_COLOUR,
            edgecolor=LINE_COLOUR,
            linewidth=0.8,
            zorder=3,
        )
    )


def _number_gpu(axes: Axes, stripe: tuple[float, float, float, float], number: int, scale_in: float) -> None:
    """Draws the number of the job, counted from 1 as in the legend."""
    left, low, width, height = stripe
    # A digit is about 1/1.6 times as wide as its font size, and a GPU 72 × `scale_in` points per unit.
    points = min(5.0, 72 * scale_in * min(width / len(str(number + 1)) * 1.6, height))
    axes.text(
        left + width / 2,
        low + height / 2,
        str(number + 1),
        ha="center",
        va="center_baseline",
        fontsize=points,
        color=text_on(job_colour(number)),
        zorder=6,
    )


def _short(name: str) -> str:
    """`name`, without its middle if it is longer than a box is wide."""
    # The end stays, because names of servers and switches differ in their numbers.
    return name if len(name) <= _LONGEST_NAME else f"{name[:4]}…{name[5 - _LONGEST_NAME :]}"


def _draw_switches(axes: Axes, page: _Page, topology: Topology) -> None:
    for tier in tiers_of(topology):
        shown = [switch for switch in tier.switches if switch in page.switches]
        if shown:
            width = page.switch_widths[tier.number]
            names = [_short(switch) for switch in shown]
            named = max(map(len, names)) * _CHARACTER_IN / page.scale_in <= width + 0.1
            for switch, name in zip(shown, names, strict=True):
                _draw_switch(axes, page, page.switches[switch], width, name if named else "")
        else:
            named = True
            _draw_switch(axes, page, (page.width / 2, page.height(tier.number)), page.width, tier.names())
        text = _described(tier, len(tier.switches) - len(shown) if shown else 0, named=named)
        at = (page.width + 0.4, page.height(tier.number))
        axes.text(*at, text, ha="left", va="center", fontsize="x-small")


def _draw_switch(axes: Axes, page: _Page, middle: tuple[float, float], width: float, name: str) -> None:
    height = max(0.4, _SWITCH_IN / page.scale_in)
    axes.add_patch(
        FancyBboxPatch(
            (middle[0] - width / 2, middle[1] - height / 2),
            width,
            height,
            boxstyle="round,pad=0.04",
            facecolor=TOTAL_COLOUR,
            edgecolor=LINE_COLOUR,
            linewidth=0.8,
            zorder=3,
        )
    )
    axes.text(*middle, name, ha="center", va="center", fontsize="x-small", zorder=4)


def _described(tier: Tier, hidden: int, *, named: bool) -> str:
    """The description beside a tier; it contains the names if the switches show none (`named`)."""
    count = len(tier.switches)
    lines = [f"{count:,} switch{'es' if count > 1 else ''}"]
    if not named:
        lines.append(tier.names())
    if hidden:
        lines.append(f"{hidden:,} not drawn")
    if tier.oversubscription():
        lines.append(f"over-subscription {tier.oversubscription()}")
    return "\n".join(lines)


def _draw_legend(figure: Figure, topology: Topology, jobs: Jobs) -> None:
    wide = figure.get_size_inches()[0] >= 9
    entries = {text: Patch(color=colour) for colour, text in _legend(topology, jobs)}
    legend_below(figure, 4 if wide else 2, entries)


def _legend(topology: Topology, jobs: Jobs) -> Iterator[tuple[str, str]]:
    for number, (name, hosts) in enumerate(list(jobs.items())[:_MOST_IN_LEGEND]):
        which = f"{number + 1}: {name}" if len(jobs) > len(JOB_COLOURS) else name
        gpus = len(set(hosts))
        yield job_colour(number), f"{which}, {gpus:,} GPU{'s' if gpus > 1 else ''}"
    if len(jobs) > _MOST_IN_LEGEND:
        yield IDLE_COLOUR, f"… {len(jobs) - _MOST_IN_LEGEND:,} more jobs"
    scale_up = next((cable for cable in topology.cables if topology.nodes[cable.ends[1]] == "scale-up"), None)
    if scale_up is not None:
        text = f"{format_rate(scale_up.rate_bps)} per GPU, {format_duration(scale_up.delay_ps)}"
        yield SCALE_UP_COLOUR, f"scale-up switch: {text}"
