"""Labels series directly: beside lines, in areas and in bars, or else in a legend."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from hocket.figures.palette import text_like, text_on
from hocket.figures.style import legend_below, series, short

Bools = npt.NDArray[np.bool_]

# In pixels; all figures have the same resolution.
_GAP = 3.0
"""The gap between a name and anything that it must not touch."""
_GAP_TO_OTHER_LINES = 8.0
"""Wider than `_GAP`, so that it is clear which line a name belongs to."""
_PLACES_ALONG = 60
"""The number of points of a line at which its name is tried."""
_AROUND = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (1, 1), (-1, 1), (-1, -1))
"""Directions of a name from a point of its line as (right, up), best first."""
_PLACES_WITHIN = (120, 24)
"""The numbers of positions, across and up, at which the name of an area is tried in its panel."""
_POINTS_PER_INCH = 72
_FONT_SIZE = "x-small"


class _Place(NamedTuple):
    """The middle of a name in pixels, and whether the name is vertical."""

    x: float
    y: float
    vertical: bool = False


class _Stroke(NamedTuple):
    """A line in pixels: its path, and half the width of its stroke or of its markers."""

    path: Path
    half_width: float


def name_series(figure: Figure, columns: int) -> None:
    """Labels the series of `figure` directly: beside a line, within an area, or in a bar.

    A name touches no line, text or border, and is written in each panel with room for it. If no panel has
    room for the name of some series, a legend of `columns` below the panels names all series instead.
    """
    every = series(figure)
    if not every:
        return
    shown = {name: short(name) for name in every}
    # Names that differ only where they are cut stay whole.
    if len(set(shown.values())) < len(shown):
        shown = {name: name for name in every}
    # Positions are known only after layout.
    figure.draw_without_rendering()
    written: dict[str, list[Text]] = {name: [] for name in every}
    for axes in figure.axes:
        taken = [text.get_window_extent() for text in axes.texts]
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            text = _name(axes, handle, shown[name], taken)
            if text is not None:
                written[name].append(text)
                taken.append(text.get_window_extent())
    if not all(written.values()):
        for texts in written.values():
            for text in texts:
                text.remove()
        legend_below(figure, columns, {shown[name]: handle for name, handle in every.items()})


def _name(axes: Axes, handle: Artist, name: str, taken: Sequence[Bbox]) -> Text | None:
    """Writes `name` at the best position with room, if there is one."""
    text = axes.text(0, 0, name, fontsize=_FONT_SIZE, ha="center", va="center", zorder=7)
    # The name fits into the existing layout and must not change it.
    text.set_in_layout(False)
    extent = text.get_window_extent()
    places, colour = _places(axes, handle, extent.width, extent.height, taken)
    place = next(places, None)
    if place is None:
        text.remove()
        return None
    x, y = axes.transData.inverted().transform((place.x, place.y))
    text.set_position((float(x), float(y)))
    text.set_rotation(90 if place.vertical else 0)
    text.set_color(colour)
    return text


def _places(
    axes: Axes, handle: Artist, width: float, height: float, taken: Sequence[Bbox]
) -> tuple[Iterator[_Place], str]:
    """The positions with room for a name of this size in pixels, best first, and the colour of its text.

    `taken` are the extents of texts that the name must not touch.
    """
    match handle:
        case Line2D():
            return _beside(axes, handle, width, height, taken), text_like(_line_colour(handle))
        case PolyCollection():
            return _within(axes, handle, width, height, taken), text_on(_area_colour(handle))
        case BarContainer():
            return _in_bar(handle, width, height, taken), text_on(to_hex(handle.patches[0].get_facecolor()))
        case _:
            return iter(()), "black"


def _beside(axes: Axes, line: Line2D, width: float, height: float, taken: Sequence[Bbox]) -> Iterator[_Place]:
    """Positions to the right of a line's end, then around its points from the end backwards."""
    named = _stroke(line)
    # The name may be close to unnamed lines of the same series, such as its dashed 99th percentile.
    same_series = [_stroke(each) for each in axes.lines if each is line or _belongs_to(each, line)]
    others = [_stroke(each) for each in axes.lines if not (each is line or _belongs_to(each, line))]
    points = _points_along(named.path, axes.bbox)
    if not len(points):
        return
    gap = named.half_width + _GAP
    across, up = gap + width / 2, gap + height / 2
    after = _Place(points[0][0] + across, points[0][1])
    around = (_Place(x + right * across, y + above * up) for x, y in points for right, above in _AROUND)
    for place in (after, *around):
        box = _box(place, width, height)
        if (
            _is_inside(box, axes.bbox)
            and not any(box.padded(_GAP).overlaps(text) for text in taken)
            and not any(_touches(stroke, box) for stroke in same_series)
            and not any(_touches(stroke, box.padded(_GAP_TO_OTHER_LINES)) for stroke in others)
        ):
            yield place


def _within(
    axes: Axes, area: PolyCollection, width: float, height: float, taken: Sequence[Bbox]
) -> Iterator[_Place]:
    """The middle of the first part of an area with room for the name; a vertical name is the second choice.

    `width` and `height` are those of the horizontal name.
    """
    lines = [_stroke(line) for line in axes.lines]
    (outline,) = (area.get_transform().transform_path(path) for path in area.get_paths())
    for vertical in (False, True):
        wide, high = (height, width) if vertical else (width, height)
        whole = axes.bbox
        if wide >= whole.width or high >= whole.height:
            continue
        xs = np.linspace(whole.x0 + wide / 2, whole.x1 - wide / 2, _PLACES_WITHIN[0])
        ys = np.linspace(whole.y0 + high / 2, whole.y1 - high / 2, _PLACES_WITHIN[1])
        # The exact test below is slow, so it gets only the positions that pass this one.
        has_room = _covered(outline, xs, ys, (wide + 2 * _GAP, high + 2 * _GAP))
        for column, row in np.argwhere(has_room):
            box = _box(_Place(xs[column], ys[row]), wide + 2 * _GAP, high + 2 * _GAP)
            has_room[column, row] = not (
                outline.intersects_bbox(box, filled=False)
                or any(box.overlaps(text) for text in taken)
                or any(_touches(line, box) for line in lines)
            )
        if has_room.any():
            column = _middle_of_first([bool(rows.any()) for rows in has_room])
            yield _Place(xs[column], ys[_middle_of_first(has_room[column].tolist())], vertical)


def _in_bar(bars: BarContainer, width: float, height: float, taken: Sequence[Bbox]) -> Iterator[_Place]:
    """The middle of each bar that is longer than the name."""
    for bar in bars.patches:
        extent = bar.get_window_extent()
        place = _Place((extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2)
        fits = width + 2 * _GAP <= extent.width and height <= extent.height
        if fits and not any(_box(place, width, height).overlaps(text) for text in taken):
            yield place


def _belongs_to(unnamed: Line2D, line: Line2D) -> bool:
    """Whether `unnamed` has no name of its own and the colour of `line`, so that it is of the same series."""
    # Matplotlib gives lines without a name one that begins with an underscore.
    return str(unnamed.get_label()).startswith("_") and _line_colour(unnamed) == _line_colour(line)


def _area_colour(area: PolyCollection) -> str:
    red, green, blue, _ = np.asarray(area.get_facecolor())[0]
    return to_hex((red, green, blue))


def _line_colour(line: Line2D) -> str:
    colour = line.get_color()
    assert isinstance(colour, str), "lines have colours of the palette"
    return colour


def _stroke(line: Line2D) -> _Stroke:
    path = line.get_transform().transform_path(line.get_path())
    marker = line.get_markersize() if line.get_marker() not in ("", "None", None) else 0.0
    points = max(line.get_linewidth(), marker) / 2
    figure = line.get_figure(root=True)
    assert figure is not None, "it is drawn"
    return _Stroke(path, points * figure.dpi / _POINTS_PER_INCH)


def _points_along(path: Path, within: Bbox) -> npt.NDArray[np.float64]:
    """Up to `_PLACES_ALONG` points (k, 2) at equal distances along a path, the last one first; points outside
    `within` are left out.
    """
    corners = np.asarray(path.vertices, dtype=np.float64)
    # Values that were not measured are drawn as NaN.
    corners = corners[np.isfinite(corners).all(axis=1)]
    if not len(corners):
        return corners
    lengths = np.hypot(*np.diff(corners, axis=0).T)
    so_far = np.concatenate([[0.0], np.cumsum(lengths)])
    places = np.linspace(so_far[-1], 0.0, _PLACES_ALONG)
    points = np.column_stack([np.interp(places, so_far, corners[:, axis]) for axis in (0, 1)])
    # A line may run along the border, where rounding puts its points outside.
    margin = within.padded(1.0)
    return points[[margin.contains(x, y) for x, y in points]]


def _covered(
    outline: Path, xs: npt.NDArray[np.float64], ys: npt.NDArray[np.float64], size: tuple[float, float]
) -> Bools:
    """For each x and y, shape (xs, ys), whether a box of this width and height around that point has its
    middle and its corners inside `outline`: necessary for room, but not sufficient.
    """
    has_room = np.ones((xs.size, ys.size), dtype=np.bool_)
    for across, up in ((0.0, 0.0), (-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5)):
        points = np.stack(np.meshgrid(xs + across * size[0], ys + up * size[1], indexing="ij"), axis=-1)
        has_room &= outline.contains_points(points.reshape(-1, 2)).reshape(has_room.shape)
    return has_room


def _middle_of_first(flags: Sequence[bool]) -> int:
    """The index in the middle of the first run of set flags; at least one must be set.

    >>> _middle_of_first([False, True, True, True, False, True])
    2
    """
    first = flags.index(True)
    end = [*flags, False].index(False, first)
    return (first + end - 1) // 2


def _box(place: _Place, width: float, height: float) -> Bbox:
    return Bbox.from_bounds(place.x - width / 2, place.y - height / 2, width, height)


def _is_inside(box: Bbox, outer: Bbox) -> bool:
    return bool(box.x0 > outer.x0 and box.x1 < outer.x1 and box.y0 > outer.y0 and box.y1 < outer.y1)


def _touches(stroke: _Stroke, box: Bbox) -> bool:
    around = box.padded(stroke.half_width)
    # A path of a single point has no length that could cross a box.
    single = around.count_contains(np.asarray(stroke.path.vertices).reshape(-1, 2)) > 0
    return bool(single or stroke.path.intersects_bbox(around, filled=False))
