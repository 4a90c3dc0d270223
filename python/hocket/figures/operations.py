"""The operations of ranks in an iteration, which show how compute and communication overlap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hocket.errors import InputError
from hocket.figures.palette import styles, text_on
from hocket.figures.style import label, legend_below, new_figure
from hocket.results import Run
from hocket.results.lane_assignment import Lanes

_WIDTH_IN = 10.0
_LANE_IN = 0.2
# The approximate width of a letter as a share of the axes; a bar has its name only if that fits.
_LETTER = 0.009


@dataclass(frozen=True)
class _Bar:
    lane: int
    name: str
    kind: str
    start_ms: float
    end_ms: float


def operations_figure(
    run: Run, job: str, iteration: int = 0, ranks: Sequence[int] | None = None, title: str = ""
) -> Figure:
    """The operations of `ranks` of `job`, by default the first four, in one iteration.

    A rank has a lane for its compute, in grey, and below it lanes for its communication, coloured by kind;
    operations at the same time are in different lanes. Time (ms) is from the start of the iteration. Raises
    `InputError` if the run recorded no operations of `job` in `iteration`, or none of one of `ranks`.
    """
    recorded = _operations(run, job, iteration)
    present = recorded["rank"].unique().sort().to_list()
    chosen = present[:4] if ranks is None else list(ranks)
    for rank in chosen:
        if rank not in present:
            raise InputError(
                f"job {job!r}: no operations of rank {rank} were recorded in iteration {iteration}"
            )
    # Of all ranks, not of the chosen ones, so that figures of different ranks have the same origin.
    begin_s = recorded.select(pl.col("start_s").min()).item()
    lanes = [list(_bars(recorded.filter(pl.col("rank") == rank), begin_s)) for rank in chosen]
    depths = [1 + max(bar.lane for bar in bars) for bars in lanes]
    figure = new_figure(_WIDTH_IN, 1.2 + _LANE_IN * sum(depth + 0.5 for depth in depths))
    if title:
        figure.suptitle(title)
    panels = figure.subplots(len(chosen), 1, squeeze=False, sharex=True, height_ratios=depths)[:, 0]
    kinds = recorded.filter(pl.col("kind") != "compute")["kind"].unique(maintain_order=True)
    colours = {kind: style.colour for kind, style in styles(["compute", *kinds]).items()}
    end_ms = max(bar.end_ms for bars in lanes for bar in bars)
    for axes, rank, bars, depth in zip(panels, chosen, lanes, depths, strict=True):
        _draw(axes, bars, end_ms, colours)
        axes.set_ylim(depth - 0.5, -0.5)
        axes.set_yticks([])
        label(axes, "time (ms)" if axes is panels[-1] else "", f"rank {rank}")
    # Bars are labelled with the names of operations, so the legend below names their kinds.
    legend_below(figure, len(colours))
    return figure


def _operations(run: Run, job: str, iteration: int) -> pl.DataFrame:
    table = run.tables.get("operations")
    recorded = None if table is None else table.filter(pl.col("job") == job, pl.col("iteration") == iteration)
    if recorded is None or recorded.is_empty():
        raise InputError(
            f"job {job!r}: no operations of iteration {iteration} were recorded; "
            "set run.record_operations to the number of iterations to record"
        )
    # `Lanes` takes operations by start; the other keys make the order of ties the same in every run.
    return recorded.sort("rank", "start_s", "end_s", "operation")


def _bars(operations: pl.DataFrame, begin_s: float) -> Iterator[_Bar]:
    communication = Lanes()
    columns = ("name", "kind", "start_s", "end_s")
    for name, kind, start_s, end_s in operations.select(columns).iter_rows():
        lane = 0 if kind == "compute" else 1 + communication.take(start_s, end_s)
        yield _Bar(lane, name, kind, (start_s - begin_s) * 1e3, (end_s - begin_s) * 1e3)


def _draw(axes: Axes, bars: Sequence[_Bar], end_ms: float, colours: dict[str, str]) -> None:
    axes.set_xlim(0, end_ms)
    for bar in bars:
        length_ms = bar.end_ms - bar.start_ms
        axes.barh(
            bar.lane,
            length_ms,
            0.86,
            left=bar.start_ms,
            color=colours[bar.kind],
            label=bar.kind,
            edgecolor="white",
            linewidth=0.4,
        )
        if length_ms > _LETTER * end_ms * len(bar.name):
            axes.text(
                bar.start_ms + length_ms / 2,
                bar.lane,
                bar.name,
                ha="center",
                va="center",
                fontsize="xx-small",
                color=text_on(colours[bar.kind]),
                clip_on=True,
            )
