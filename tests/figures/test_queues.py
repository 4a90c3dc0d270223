"""Queue timelines."""

import numpy as np
import pytest

from hocket_reproduce.figures.queues import QueuePanel, queues_figure


def panel(title: str, longest_mb: float, **others: float) -> QueuePanel:
    times_ms = np.linspace(0.0, 2.0, 5)
    return QueuePanel(
        title, times_ms, {name: np.full(5, mb) for name, mb in ({"a": longest_mb} | others).items()}
    )


def test_panels_stand_in_rows_and_name_their_axes_at_the_edges() -> None:
    figure = queues_figure([panel("1", 1.0), panel("2", 4.0), panel("3", 2.0), panel("4", 3.0)], 2, "queues")
    first, second, third, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["1", "2", "3", "4"]
    assert first.get_ylabel() == "queue (MB)"
    assert second.get_ylabel() == ""
    assert third.get_xlabel() == "time (ms)"
    assert first.get_xlabel() == ""


def test_queues_of_all_panels_can_be_compared_unless_columns_are_apart() -> None:
    panels = [panel("1", 1.0), panel("2", 40.0)]
    together, apart = (queues_figure(panels, 2, "", same_queues=same).axes for same in (True, False))
    assert together[0].get_ylim() == together[1].get_ylim()
    assert apart[0].get_ylim()[1] < 2 < apart[1].get_ylim()[1]


def test_a_logarithmic_axis_reaches_from_one_packet_to_the_longest_queue() -> None:
    (axes,) = queues_figure([panel("1", 15.0)], 1, "", log=True).axes
    assert axes.get_ylim() == pytest.approx((0.001, 30.0))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.001", "0.01", "0.1", "1", "10"]


def test_a_name_has_one_colour_and_one_entry_in_the_legend() -> None:
    figure = queues_figure([panel("1", 1.0, b=2.0), panel("2", 1.0, b=3.0)], 2, "")
    colours = [{str(line.get_color()) for line in axes.lines} for axes in figure.axes]
    assert colours[0] == colours[1]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
