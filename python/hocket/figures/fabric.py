"""A fabric as a picture: servers with their GPUs, switches above them tier by tier, and where jobs run.

Of what does not fit the page, the first are drawn and the last, and how many are not is written between them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, sqrt

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle

from hocket.fabrics import Topology, rates_text, server_of, tiers_of
from hocket.figures.style import JOB_COLOURS, LINE_COLOUR, TOTAL_COLOUR, job_colour, new_figure
from hocket.units import format_duration, format_rate

_GPU = 0.42
_FEWEST_ABREAST = 4
_CHARACTER = 0.2
_WIDEST = 40.0
"""In units of which a server of one GPU takes about one; wider pages cannot be read."""
_MOST_SWITCHES = 16
_SWITCH = 1.6
_LOWEST_TIER = 2.2
_TIERS_ACROSS = 13
"""A page is so many times as wide as a tier is high, so that lines between two tiers are not too flat."""
_GAP = 2.0
_BETWEEN_RACKS = 0.5
_LEFT, _RIGHT = 3.2, 4.2
"""Room beside the drawing for what is said about lines and tiers."""
_THICKEST = ((48, 3.0), (130, 1.6), (10**9, 0.8))
"""Of so many lines between two tiers at most, the width of the thickest in points."""
_MOST_LABELLED = 12
"""Of so many lines between two tiers, each has its rate beside it."""
_MOST_IN_LEGEND = 14
_LONGEST_NAME = 9
_FREE = "#ffffff"
_INSIDE = "#e4e8ea"
_SCALE_UP = "#7d6ba0"


@dataclass
class _Page:
    """Where things are drawn: the middle of each server and switch, and of each gap how many are left out."""

    servers: dict[str, float] = field(default_factory=dict)
    switches: dict[str, tuple[float, float]] = field(default_factory=dict)
    gaps: list[tuple[float, float, str]] = field(default_factory=list)
    width: float = 0.0

    def height(self, tier: int) -> float:
        """Of the switches of a tier."""
        return tier * max(_LOWEST_TIER, self.width / _TIERS_ACROSS)


def fabric_figure(topology: Topology, jobs: Mapping[str, Sequence[str]], title: str = "") -> Figure:
    """The fabric with each job of `jobs` on its hosts, in a colour of its own.

    A line stands for all cables between two switches or a server and a switch; the thicker, the more they
    carry.
    """
    page = _Page()
    _place_servers(page, topology)
    _place_switches(page, topology)
    top = max((y for _, y in page.switches.values()), default=0.0) + 0.7
    bottom = -max(_rows(topology.servers[server]) for server in page.servers) * _GPU - 1.0
    across = page.width + _LEFT + _RIGHT
    scale_in = min(0.5, 17 / across)
    figure = new_figure(max(across * scale_in, 6), (top - bottom) * scale_in + 1.1)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-_LEFT, page.width + _RIGHT)
    axes.set_ylim(bottom, top)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    _draw_lines(axes, page, topology)
    _draw_servers(axes, page, topology, jobs)
    _draw_switches(axes, page, topology)
    for x, y, text in page.gaps:
        axes.text(x, y, text, ha="center", va="center", fontsize="small", zorder=6)
    _draw_legend(figure, topology, jobs)
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


def _racks_that_fit(topology: Topology) -> tuple[list[list[str]], int]:
    """Racks to draw, and how many servers are left out before the last of them.

    Whole racks where the first and the last have room; if not, single servers.
    """
    racks = _racks(topology)

    def width(rack: Sequence[str]) -> float:
        return _BETWEEN_RACKS + sum(_server_width(topology.servers[server]) for server in rack)

    if sum(map(width, racks)) <= _WIDEST:
        return racks, 0
    if len(racks) == 1 or width(racks[0]) + width(racks[-1]) > _WIDEST:
        racks = [[server] for rack in racks for server in rack]
    room, count = _WIDEST - width(racks[-1]), 0
    while room >= width(racks[count]):
        room -= width(racks[count])
        count += 1
    left_out = sum(map(len, racks[count:-1]))
    return [*racks[:count], racks[-1]], left_out


def _place_servers(page: _Page, topology: Topology) -> None:
    racks, left_out = _racks_that_fit(topology)
    single = len(racks) > 1 and left_out > 0 and all(len(rack) == 1 for rack in racks)
    x = 0.0
    for number, rack in enumerate(racks):
        if left_out and number == len(racks) - 1:
            page.gaps.append((x + _GAP / 2, -0.6, f"… {left_out:,}\nmore"))
            x += _GAP
        elif number and not single:
            x += _BETWEEN_RACKS
        for server in rack:
            width = _server_width(topology.servers[server])
            page.servers[server] = x + width / 2
            x += width
    page.width = x


def _place_switches(page: _Page, topology: Topology) -> None:
    """Each tier above the one below it; a switch stands over the middle of what hangs on it, given room."""
    tiers = tiers_of(topology)
    drawn = {gpu for server in page.servers for gpu in topology.servers[server]}
    rows: list[list[str | None]] = []
    for tier in tiers:
        reached = [switch for switch in tier.switches if drawn.intersection(topology.neighbours[switch])]
        shown = reached if len(reached) <= _MOST_SWITCHES else [*reached[: _MOST_SWITCHES - 1], reached[-1]]
        rows.append(_with_gaps(shown, list(tier.switches)))
        drawn.update(shown)
    widest = max((len(row) * _SWITCH for row in rows), default=0.0)
    if widest > page.width:
        shift = (widest - page.width) / 2
        page.servers = {server: x + shift for server, x in page.servers.items()}
        page.gaps = [(x + shift, y, text) for x, y, text in page.gaps]
        page.width = widest
    middles = {gpu: x for server, x in page.servers.items() for gpu in topology.servers[server]}
    for tier, row in zip(tiers, rows, strict=True):
        y = page.height(tier.number)
        over = [
            None if switch is None else _mean(middles[n] for n in topology.neighbours[switch] if n in middles)
            for switch in row
        ]
        known = [x for x in over if x is not None]
        if any(right - left < _SWITCH for left, right in pairwise(known)):
            step = page.width / len(row)
            over = [(place + 0.5) * step for place in range(len(row))]
        for place, (switch, x) in enumerate(zip(row, over, strict=True)):
            if switch is None or x is None:
                between = [near for near in over[place - 1 : place + 2] if near is not None]
                page.gaps.append((_mean(between), y, "…"))
            else:
                page.switches[switch] = (x, y)
                middles[switch] = x


def _with_gaps(shown: Sequence[str], every: Sequence[str]) -> list[str | None]:
    """`shown` with `None` wherever others of `every` stand between two of them."""
    place = {switch: number for number, switch in enumerate(every)}
    row: list[str | None] = []
    for switch in shown:
        before = row[-1] if row else None
        if before is not None and place[switch] > place[before] + 1:
            row.append(None)
        row.append(switch)
    return row


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _draw_lines(axes: Axes, page: _Page, topology: Topology) -> None:
    """What joins servers and switches that are drawn, all cables between two as one line."""
    found: dict[tuple[str, str], list[int]] = {}
    for cable in topology.cables:
        one, other = (server_of(end) if topology.nodes[end] == "host" else end for end in cable.ends)
        if all(end in page.servers or end in page.switches for end in (one, other)):
            low, high = sorted((one, other), key=lambda end: _at(page, end)[::-1])
            found.setdefault((low, high), []).append(cable.rate_bps)
    by_height: dict[tuple[float, float], dict[tuple[str, str], list[int]]] = {}
    for (low, high), rates in found.items():
        height = (_at(page, low)[1], _at(page, high)[1])
        by_height.setdefault(height, {})[low, high] = rates
    for (low_y, high_y), lines in by_height.items():
        _draw_between(axes, page, lines)
        totals = sorted(lines.values(), key=sum)
        least, most = rates_text(tuple(totals[0])), rates_text(tuple(totals[-1]))
        if (least != most and len(lines) <= _MOST_LABELLED) or low_y == high_y:
            _label_each(axes, page, lines)
        else:
            text = f"each line\n{most}" if least == most else f"lines of\n{least} to\n{most}"
            axes.text(-0.5, (low_y + high_y) / 2, text, ha="right", va="center", fontsize="x-small")


def _draw_between(axes: Axes, page: _Page, lines: Mapping[tuple[str, str], Sequence[int]]) -> None:
    most = max(map(sum, lines.values()))
    thickest = next(width for count, width in _THICKEST if len(lines) <= count)
    for (low, high), rates in lines.items():
        start, end = _at(page, low), _at(page, high)
        # A line within a tier goes around the switches between its ends.
        beside = start[1] != end[1] or _next_to_each_other(page, low, high)
        axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-",
                connectionstyle="arc3" if beside else "arc3,rad=-0.3",
                color=LINE_COLOUR,
                alpha=0.55,
                linewidth=max(thickest * sum(rates) / most, 0.4),
                shrinkA=0,
                shrinkB=0,
                zorder=1,
            )
        )


def _next_to_each_other(page: _Page, one: str, other: str) -> bool:
    (left, y), (right, _) = sorted((page.switches[one], page.switches[other]))
    return not any(left < x < right for x, height in page.switches.values() if height == y)


def _label_each(axes: Axes, page: _Page, lines: Mapping[tuple[str, str], Sequence[int]]) -> None:
    for number, ((low, high), rates) in enumerate(lines.items()):
        (x0, y0), (x1, y1) = _at(page, low), _at(page, high)
        level = y0 == y1
        # Neighbours' labels at two heights, so that they do not meet.
        part = 0.5 if level else 0.36 + 0.16 * (number % 2)
        arc = 0.0 if not level or _next_to_each_other(page, low, high) else 0.15 * (x1 - x0)
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
    return (page.servers[node], 0.0) if node in page.servers else page.switches[node]


def _draw_servers(axes: Axes, page: _Page, topology: Topology, jobs: Mapping[str, Sequence[str]]) -> None:
    jobs_on: dict[str, list[int]] = {}
    for number, hosts in enumerate(jobs.values()):
        for host in dict.fromkeys(hosts):
            jobs_on.setdefault(host, []).append(number)
    narrowest = min(_server_width(topology.servers[server]) for server in page.servers)
    names_fit = max(len(_short(server)) for server in page.servers) * _CHARACTER <= narrowest
    for server, middle in page.servers.items():
        gpus = topology.servers[server]
        rows, columns = _rows(gpus), _columns(gpus)
        width, height = columns * _GPU, rows * _GPU
        left, low = middle - width / 2, -height - 0.16
        axes.add_patch(
            FancyBboxPatch(
                (left - 0.06, low - 0.1),
                width + 0.12,
                height + 0.26,
                boxstyle="round,pad=0.03",
                facecolor=_INSIDE,
                edgecolor=LINE_COLOUR,
                linewidth=0.8,
                zorder=3,
            )
        )
        for place, gpu in enumerate(gpus):
            row, column = divmod(place, columns)
            corner = (left + column * _GPU, low + height - (row + 1) * _GPU)
            _draw_gpu(axes, corner, jobs_on.get(gpu, []), len(jobs))
        if any(topology.nodes[other] == "scale-up" for other in topology.neighbours[gpus[0]]):
            axes.add_patch(Rectangle((left, low - 0.09), width, 0.09, color=_SCALE_UP, linewidth=0, zorder=4))
        axes.text(
            middle,
            low - 0.22,
            _short(server),
            ha="center",
            va="top",
            fontsize="x-small",
            rotation=0 if names_fit else 60,
        )


def _draw_gpu(axes: Axes, corner: tuple[float, float], on_it: Sequence[int], jobs: int) -> None:
    x, y = corner
    size = _GPU - 0.06
    axes.add_patch(
        Rectangle(
            (x + 0.03, y + 0.03), size, size, facecolor=_FREE, edgecolor=LINE_COLOUR, linewidth=0.5, zorder=4
        )
    )
    for stripe, number in enumerate(on_it):
        width = size / len(on_it)
        axes.add_patch(
            Rectangle(
                (x + 0.03 + stripe * width, y + 0.03), width, size, facecolor=job_colour(number), zorder=5
            )
        )
        if jobs > len(JOB_COLOURS):
            # The colours do not tell them apart.
            bright = sum(to_rgb(job_colour(number))) > 1.5
            axes.text(
                x + 0.03 + (stripe + 0.5) * width,
                y + _GPU / 2,
                str(number + 1),
                ha="center",
                va="center",
                fontsize=5,
                color="black" if bright else "white",
                zorder=6,
            )


def _short(name: str) -> str:
    """`name`, without its middle if it is longer than a box is wide."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:4]}…{name[5 - _LONGEST_NAME :]}"


def _draw_switches(axes: Axes, page: _Page, topology: Topology) -> None:
    for tier in tiers_of(topology):
        shown = [switch for switch in tier.switches if switch in page.switches]
        for switch in shown:
            x, y = page.switches[switch]
            axes.add_patch(
                FancyBboxPatch(
                    (x - 0.62, y - 0.2),
                    1.24,
                    0.4,
                    boxstyle="round,pad=0.04",
                    facecolor=TOTAL_COLOUR,
                    edgecolor=LINE_COLOUR,
                    linewidth=0.8,
                    zorder=3,
                )
            )
            axes.text(x, y, _short(switch), ha="center", va="center", fontsize="x-small", zorder=4)
        left_out = len(tier.switches) - len(shown)
        text = f"{len(tier.switches):,} switch{'es' if len(tier.switches) > 1 else ''}"
        if left_out:
            text += f"\n{left_out:,} not drawn"
        if tier.oversubscription():
            text += f"\nover-subscription {tier.oversubscription()}"
        axes.text(
            page.width + 0.4, page.height(tier.number), text, ha="left", va="center", fontsize="x-small"
        )


def _draw_legend(figure: Figure, topology: Topology, jobs: Mapping[str, Sequence[str]]) -> None:
    handles = [Patch(color=colour, label=text) for colour, text in _legend(topology, jobs)]
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=4,
            frameon=False,
            fontsize="small",
            handlelength=1.2,
        )


def _legend(topology: Topology, jobs: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    for number, (name, hosts) in enumerate(list(jobs.items())[:_MOST_IN_LEGEND]):
        which = f"{number + 1}: {name}" if len(jobs) > len(JOB_COLOURS) else name
        gpus = len(set(hosts))
        yield job_colour(number), f"{which}, {gpus:,} GPU{'s' if gpus > 1 else ''}"
    if len(jobs) > _MOST_IN_LEGEND:
        yield _INSIDE, f"… {len(jobs) - _MOST_IN_LEGEND:,} more jobs"
    scale_up = next((cable for cable in topology.cables if topology.nodes[cable.ends[1]] == "scale-up"), None)
    if scale_up is not None:
        text = f"{format_rate(scale_up.rate_bps)} per GPU, {format_duration(scale_up.delay_ps)}"
        yield _SCALE_UP, f"scale-up switch: {text}"
