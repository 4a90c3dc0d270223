"""Names of series stand where they are drawn and touch nothing; where they have no room, in a legend."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.figures.names import name_series
from hocket.figures.palette import JOB_COLOURS, text_like, text_on
from hocket.figures.style import label, new_figure

BLUE, ORANGE, GREEN, *_ = JOB_COLOURS


def panel(figure: Figure | None = None) -> Axes:
    axes = (figure or new_figure(6.0, 3.0)).add_subplot()
    label(axes, "x", "y")
    return axes


def figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def named(axes: Axes) -> dict[str, tuple[float, float]]:
    """Where names stand, in data."""
    return {text.get_text(): text.get_position() for text in axes.texts}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def assert_nothing_touches(axes: Axes) -> None:
    """No text touches another or a line, and all are within the panel."""
    figure_of(axes).draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert boxes
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        for line in axes.lines:
            path = line.get_transform().transform_path(line.get_path())
            assert not path.intersects_bbox(box, filled=False), line.get_label()


def test_a_line_is_named_after_its_end() -> None:
    axes = panel()
    axes.plot([0, 1], [0, 1], color=BLUE, label="rising")
    axes.plot([0, 1], [1, 0], color=ORANGE, label="falling")
    axes.set_xlim(0, 2)
    name_series(figure_of(axes), 2)
    assert_nothing_touches(axes)
    places = named(axes)
    assert places["rising"] == pytest.approx((1.1, 1.0), abs=0.1)
    assert places["falling"] == pytest.approx((1.1, 0.0), abs=0.1)
    assert legend(figure_of(axes)) == []


@pytest.mark.parametrize("count", range(1, 8))
def test_names_of_lines_touch_nothing_however_many_there_are(count: int) -> None:
    axes = panel()
    xs = np.linspace(0, 1, 50)
    for number in range(count):
        axes.plot(xs, number + np.sin(9 * xs), color=JOB_COLOURS[number], label=f"job number {number}")
    name_series(figure_of(axes), 2)
    assert_nothing_touches(axes)
    assert len(axes.texts) == count


def test_a_tangle_of_lines_has_a_legend() -> None:
    figure = new_figure(6.0, 3.0)
    axes = panel(figure)
    xs = np.linspace(0, 1, 50)
    for number in range(7):
        axes.plot(xs, np.sin(3 * xs + number / 2), color=JOB_COLOURS[number], label=f"job number {number}")
    name_series(figure, 2)
    assert named(axes) == {}
    assert legend(figure) == [f"job number {number}" for number in range(7)]


def test_distributions_that_end_together_are_named_where_they_differ() -> None:
    axes = panel()
    axes.ecdf(np.linspace(1.0, 1.2, 100), color=BLUE, label="quick")
    axes.ecdf(np.linspace(1.0, 2.0, 100), color=ORANGE, label="slow")
    name_series(figure_of(axes), 2)
    assert_nothing_touches(axes)
    assert set(named(axes)) == {"quick", "slow"}


def test_lines_on_each_other_have_a_legend() -> None:
    figure = new_figure(6.0, 3.0)
    axes = panel(figure)
    for name, colour in (("a", BLUE), ("b", ORANGE)):
        axes.plot([0, 1], [1, 1], color=colour, label=name)
    name_series(figure, 2)
    assert named(axes) == {}
    assert legend(figure) == ["a", "b"]


def test_a_name_in_one_panel_is_enough() -> None:
    figure = new_figure(8.0, 3.0)
    together, apart = figure.subplots(1, 2)
    for place, (name, colour) in enumerate((("a", BLUE), ("b", ORANGE))):
        together.plot([0, 1], [1, 1], color=colour, label=name)
        apart.plot([0, 1], [place, place], color=colour, label=name)
    name_series(figure, 2)
    assert named(together) == {}
    assert set(named(apart)) == {"a", "b"}
    assert legend(figure) == []


def test_a_line_without_a_name_belongs_to_the_named_line_of_its_colour() -> None:
    axes = panel()
    axes.plot([0, 1], [1, 1], color=BLUE, label="mean")
    axes.plot([0, 1], [1.01, 1.01], "--", color=BLUE)
    axes.set_xlim(0, 2)
    name_series(figure_of(axes), 2)
    assert_nothing_touches(axes)


def test_a_name_is_within_its_area_and_off_a_line_across_it() -> None:
    axes = panel()
    axes.fill_between([0, 1, 2, 3], [0, 0, 0, 0], [0, 4, 4, 0], step="post", color=BLUE, label="below")
    axes.axhline(2.0, color="black")
    name_series(figure_of(axes), 2)
    assert_nothing_touches(axes)
    ((x, y),) = named(axes).values()
    assert x == pytest.approx(2.0, abs=0.05)
    assert 0 < y < 4
    assert axes.texts[0].get_color() == "white"


def test_a_name_is_vertical_in_a_narrow_area() -> None:
    axes = panel()
    axes.fill_between([0, 10, 11, 20], 0, [0, 4, 0, 0], step="post", color=ORANGE, label="a long name")
    axes.set_xlim(0, 20)
    name_series(figure_of(axes), 2)
    (text,) = axes.texts
    assert (text.get_rotation(), text.get_color()) == (90, "black")
    extent = text.get_window_extent()
    left, right = axes.transData.transform([(10, 0), (11, 0)])[:, 0]
    assert left < extent.x0 < extent.x1 < right


def test_an_area_without_room_has_a_legend() -> None:
    figure = new_figure(6.0, 3.0)
    axes = panel(figure)
    axes.fill_between([0, 1], 0, [0.1, 0.1], color=BLUE, label="flat")
    axes.fill_between([0, 1], 0.1, [4, 4], color=ORANGE, label="high")
    name_series(figure, 2)
    assert legend(figure) == ["flat", "high"]
    assert named(axes) == {}


def test_a_bar_is_named_if_its_name_is_shorter() -> None:
    figure = new_figure(6.0, 2.0)
    axes = panel(figure)
    axes.barh([0, 1], [1, 20], color=BLUE, label="compute")
    name_series(figure, 2)
    # The middle of the first bar that is long enough.
    assert named(axes)["compute"] == pytest.approx((10.0, 1.0))


def test_long_names_are_cut_unless_they_would_be_equal() -> None:
    one, other = panel(), panel()
    for name, colour in (("first" + "a" * 30, BLUE), ("other" + "a" * 30, ORANGE)):
        one.fill_between([0, 1], 0, [1, 1], color=colour, label=name)
    for end, colour in (("1", BLUE), ("2", ORANGE)):
        other.fill_between([0, 1], 0, [1, 1], color=colour, label="a" * 30 + end)
    name_series(figure_of(one), 2)
    name_series(figure_of(other), 2)
    assert {len(name) for name in named(one)} == {24}
    assert {len(name) for name in named(other)} == {31}


def test_a_legend_counts_what_it_leaves_out() -> None:
    figure = new_figure(6.0, 6.0)
    axes = panel(figure)
    for number in range(30):
        axes.plot([0, 1], [1, 1], color=JOB_COLOURS[number % 7], label=f"job {number}")
    name_series(figure, 3)
    shown = legend(figure)
    assert (len(shown), shown[0], shown[-1]) == (22, "job 0", "and 9 more")


def test_text_can_be_read_on_and_beside_every_colour() -> None:
    assert {text_on(colour) for colour in JOB_COLOURS} == {"black", "white"}
    assert text_like("#000000") == "#000000"
    assert all(text_like(colour) <= colour for colour in JOB_COLOURS)
