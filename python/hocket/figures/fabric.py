"""A picture of a fabric: servers with their GPUs, tiers of switches above them, and the placement of jobs.

Servers are side by side or, if there is no room, stacked in their racks; then only racks without a job are
left out. Lines between two tiers are either all drawn or replaced by a description.
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
_FEWEST_ABREAST = 4
_WIDEST = 40.0
"""The limit for servers side by side: wider pages are unreadable."""
_WIDEST_OF_RACKS = 76.0
"""The limit for racks side by side; if more racks have a job, they are in several rows."""
_WITH_FREE_RACKS = 52.0
"""The width up to which racks without a job are drawn if not all racks have room."""
_SMALL_GPU = 0.24
_SMALL_ROW = 0.36
_SMALL_CHARACTER = 0.22
_MOST_ROWS = 32
"""The limit on servers in a column of a rack; further servers are in more columns."""
_SWITCH = 1.24
_LEAST_SWITCH = 0.3
"""Room for a switch; in a tier with less, switches are drawn as one bar."""
_LOWEST_TIER = 2.2
_TIERS_ACROSS = 13
"""The largest ratio of page width to tier height, so that lines between tiers are not too flat."""
_GAP = 1.1
_BETWEEN_RACKS = 0.5
_LEFT, _RIGHT = 3.4, 4.4
"""Room beside the drawing for the descriptions of lines and tiers."""
_WIDEST_IN, _SCALE_IN = 17.0, 0.5
_READABLE_SCALE_IN = 0.2
"""The scale below which servers in racks have no names."""
_SWITCH_IN = 0.14
"""The minimum height of a switch, which fits its name."""
_CHARACTER_IN = 0.058
"""The approximate width of a character in names of servers and switches."""
_THICKEST = ((48, 3.0), (130, 1.6), (10**9, 0.8))
"""The width of the thickest line in points, by the maximum number of lines between two tiers."""
_MOST_LINES = 600
"""The limit on lines between two tiers; more become a grey area with a description."""
_MOST_LABELLED = 12
"""Up to this number of lines between two tiers, each is labelled with its rate."""
_MOST_IN_LEGEND = 14
_LONGEST_NAME = 9
_MOST_CANDIDATES = 8
_MOST_NUMBERS = 1_000
"""Of jobs in their GPUs; more cannot be read."""
_FREE = "#ffffff"

_Ends: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
Jobs: TypeAlias = Mapping[str, Sequence[str]]
"""The hosts of each job."""


@dataclass(frozen=True)
class _Box:
    """A server: its middle, its top, the number of GPUs side by side, and the end of its lines."""

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
    """Left, right, top and bottom of racks whose servers stand below each other, and their servers."""
    switches: dict[str, tuple[float, float]] = field(default_factory=dict)
    switch_widths: dict[int, float] = field(default_factory=dict)
    """By tier; a tier without one is a bar."""
    gaps: list[tuple[float, float, str]] = field(default_factory=list)
    width: float = 0.0
    bottom: float = 0.0
    stacked: int = 1
    """Racks below each other."""
    named: bool = True
    """Whether servers of racks have names."""

    def height(self, tier: int) -> float:
        """The height at which the switches of a tier are drawn."""
        return tier * max(_LOWEST_TIER, self.width / _TIERS_ACROSS)

    @property
    def across(self) -> float:
        """The width with the descriptions on both sides."""
        return self.width + _LEFT + _RIGHT

    @property
    def scale_in(self) -> float:
        """Inches of a unit."""
        return min(_SCALE_IN, _WIDEST_IN / self.across)


def fabric_figure(topology: Topology, jobs: Jobs, title: str = "") -> Figure:
    """The fabric with each job of `jobs` on its hosts, in its own colour.

    A line represents all cables between two switches, or a server and a switch; its width shows their
    capacity. Every server with a job is drawn, however many there are.
    """
    return _figure(topology, {"": jobs}, title)


def candidates_figure(topology: Topology, candidates: Mapping[str, Jobs], title: str = "") -> Figure:
    """The fabric once for each of `candidates` by name, as in `fabric_figure`; a job keeps its colour.

    All candidates must have all jobs in the same order. Only the first eight are drawn. Raises `InputError`
    without any.
    """
    if not candidates:
        raise InputError("figure: the plan has no candidates to draw")
    shown = dict(list(candidates.items())[:_MOST_CANDIDATES])
    if len(shown) < len(candidates):
        title = f"{title}: {len(shown)} of {len(candidates)} candidates".removeprefix(": ")
    return _figure(topology, shown, title)


def _figure(topology: Topology, panels: Mapping[str, Jobs], title: str) -> Figure:
    placed = {server_of(host) for jobs in panels.values() for hosts in jobs.values() for host in hosts}
    page = _laid_out(topology, placed)
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
    # Of many GPUs, twice as many abreast as there are rows.
    return min(len(gpus), max(_FEWEST_ABREAST, ceil(sqrt(2 * len(gpus)))))


def _rows(gpus: Sequence[str]) -> int:
    return -(-len(gpus) // _columns(gpus))


def _server_width(gpus: Sequence[str]) -> float:
    return max(_columns(gpus) * _GPU + 0.4, 0.9)


def _racks(topology: Topology) -> list[list[str]]:
    """Servers one after another at the same switches."""
    racks: list[list[str]] = []
    before: set[str] | None = None
    for server, gpus in topology.servers.items():
        at = {node for gpu in gpus for node in topology.neighbours[gpu] if topology.nodes[node] == "switch"}
        if at != before:
            racks.append([])
        racks[-1].append(server)
        before = at
    return racks


def _laid_out(topology: Topology, placed: set[str]) -> _Page:
    """The page on which all servers of `placed` are."""
    racks = _racks(topology)
    page = _Page()
    across = sum(
        _BETWEEN_RACKS + sum(_server_width(topology.servers[server]) for server in rack) for rack in racks
    )
    if across <= _WIDEST:
        _place_side_by_side(page, topology, racks)
    else:
        _place_in_racks(page, topology, racks, placed)
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
    """Servers below each other in their racks; all racks that have one of `placed`, and others given room."""
    names = max(len(_short(server)) for server in topology.servers) * _SMALL_CHARACTER if page.named else 0.0
    cell = names + max(map(len, topology.servers.values())) * _SMALL_GPU + 0.2

    def width(rack: Sequence[str]) -> float:
        return ceil(len(rack) / _MOST_ROWS) * cell + 0.2

    shown = {number for number, rack in enumerate(racks) if placed.intersection(rack)}
    if sum(width(rack) + _BETWEEN_RACKS for rack in racks) <= _WIDEST_OF_RACKS:
        shown = set(range(len(racks)))
    room = _WITH_FREE_RACKS - sum(width(racks[number]) + _GAP for number in shown)
    for number in (0, len(racks) - 1, *range(len(racks))):
        if number not in shown and width(racks[number]) + _BETWEEN_RACKS <= room:
            shown.add(number)
            room -= width(racks[number]) + _BETWEEN_RACKS
    across = sum(width(racks[number]) + _BETWEEN_RACKS for number in shown)
    page.stacked = ceil(across / _WIDEST_OF_RACKS)
    x, top, before, column = 0.0, 0.0, -1, list[int]()
    for number in [*sorted(shown), len(racks)]:
        hidden = sum(map(len, racks[before + 1 : number]))
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
        before = number
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
    """A rack below and right of `corner`, each server with room for its name."""
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
    """Each tier above the one below it; a switch stands over the middle of what hangs on it, given room.

    Where a tier has no room for all switches that join servers which are drawn, it is a bar.
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
    if not page.racks and page.width < widest:
        shift = (min(widest, _WIDEST) - page.width) / 2
        page.servers = {
            server: replace(box, x=box.x + shift, lines_x=box.lines_x + shift)
            for server, box in page.servers.items()
        }
        middles = {gpu: x + shift for gpu, x in middles.items()}
        page.width += 2 * shift
    for tier, row in zip(tiers, reached, strict=True):
        crowded = page.stacked > 1 and tier is tiers[0]
        if crowded or page.width < len(row) * _LEAST_SWITCH:
            places = ((place + 0.5) * page.width / len(row) for place in range(len(row)))
            middles.update(zip(row, places, strict=True))
            continue
        over = [_mean(middles[n] for n in topology.neighbours[switch] if n in middles) for switch in row]
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
    found = list(values)
    return sum(found) / len(found)


def _draw_lines(axes: Axes, page: _Page, topology: Topology) -> None:
    """Draws the lines between servers and switches, one for all cables between two of them.

    Above the lowest tier, either all lines between two tiers are drawn or none.
    """
    tier_of = {switch: tier.number for tier in tiers_of(topology) for switch in tier.switches}
    found: dict[tuple[int, int], dict[tuple[str, str], list[int]]] = {}
    for cable in topology.cables:
        if any(topology.nodes[end] == "scale-up" for end in cable.ends):
            continue
        ends = (server_of(end) if topology.nodes[end] == "host" else end for end in cable.ends)
        low, high = sorted(ends, key=lambda end: (tier_of.get(end, 0), _at(page, end)))
        between = (tier_of.get(low, 0), tier_of.get(high, 0))
        found.setdefault(between, {}).setdefault((low, high), []).append(cable.rate_bps)
    for (low_tier, high_tier), lines in sorted(found.items()):
        shown = {
            ends: rates
            for ends, rates in lines.items()
            if all(end in page.servers or end in page.switches for end in ends)
        }
        whole = len(shown) == len(lines) <= _MOST_LINES or (low_tier == 0 and page.stacked == 1)
        totals = sorted(lines.values(), key=sum)
        least, most = rates_text(tuple(totals[0])), rates_text(tuple(totals[-1]))
        if shown and whole:
            _draw_between(
                axes,
                page,
                {(_at(page, low), _at(page, high)): sum(rates) for (low, high), rates in shown.items()},
            )
        if whole and ((least != most and len(lines) <= _MOST_LABELLED) or low_tier == high_tier):
            _label_each(axes, page, shown)
            continue
        rates = most if least == most else f"{least} to\n{most}"
        of = "each server" if low_tier == 0 and page.racks else "each line"
        text = f"{of}\n{rates}" if whole else f"{len(lines):,} lines\nof {rates},\nnot drawn"
        y = (page.height(low_tier) + page.height(high_tier)) / 2
        axes.text(-0.5, y, text, ha="right", va="center", fontsize="x-small")


def _draw_between(axes: Axes, page: _Page, lines: Mapping[_Ends, int]) -> None:
    """Lines between two tiers, by their rates; those of all servers of a rack are one."""
    most = max(lines.values())
    thickest = next(width for count, width in _THICKEST if len(lines) <= count)
    for (start, end), rate_bps in lines.items():
        # A line within a tier goes around the switches between its ends.
        beside = start[1] != end[1] or _next_to_each_other(page, start, end)
        axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-",
                connectionstyle="arc3" if beside else "arc3,rad=-0.3",
                color=LINE_COLOUR,
                alpha=0.55,
                linewidth=max(thickest * rate_bps / most, 0.4),
                shrinkA=0,
                shrinkB=0,
                zorder=1,
            )
        )


def _next_to_each_other(page: _Page, one: tuple[float, float], other: tuple[float, float]) -> bool:
    (left, y), (right, _) = sorted((one, other))
    return not any(left < x < right for x, height in page.switches.values() if height == y)


def _label_each(axes: Axes, page: _Page, lines: Mapping[tuple[str, str], Sequence[int]]) -> None:
    for number, ((low, high), rates) in enumerate(lines.items()):
        (x0, y0), (x1, y1) = _at(page, low), _at(page, high)
        level = y0 == y1
        # Labels of neighbours are at two heights, so that they do not overlap.
        part = 0.5 if level else 0.36 + 0.16 * (number % 2)
        arc = 0.0 if not level or _next_to_each_other(page, (x0, y0), (x1, y1)) else 0.15 * (x1 - x0)
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
    """Where lines of `node` end, if it is drawn."""
    if node in page.servers:
        return page.servers[node].lines_x, 0.0
    return page.switches.get(node, (0.0, 0.0))


def _draw_racks(axes: Axes, page: _Page) -> None:
    """The outlines of racks whose servers stand below each other; where these have no names, the first
    and the last of each rack.
    """
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
    painted: dict[str, list[tuple[float, float, float, float]]] = {}
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
    corner: tuple[float, float], size: float, on_it: Sequence[int]
) -> Iterator[tuple[int | None, tuple[float, float, float, float]]]:
    """The parts of a GPU, one for each job on it: left, low, width and height."""
    edge = 0.07 * size
    width = (size - 2 * edge) / max(len(on_it), 1)
    for stripe, number in enumerate(on_it or [None]):
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
    """Draws the number of the job, for when colours do not distinguish jobs."""
    left, low, width, height = stripe
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
    """The description beside a tier."""
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
