"""Results as HTML for notebooks: a headline, tables and a picture, self-contained.

Tables use the notebook's own colours. Pictures have a white background, in light and dark notebooks alike.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from hocket.compat import Compatibility
from hocket.compat.report import score, verdict
from hocket.console import milliseconds
from hocket.profiling import JobProfile
from hocket.profiling.report import number, times
from hocket.results import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_ROWS = 20
# Larger drawings become PNGs, because a notebook file contains every output that it shows.
_MAX_SVG_BYTES = 160_000
_PIXELS_PER_INCH = 100
_COLOURS = 64
_SIZE = re.compile(r' width="[\d.]+pt" height="[\d.]+pt"')
_PATH = re.compile(r'\bd="[^"]*"')
_DECIMALS = re.compile(r"\b\d+\.\d{2,}\b")


def html_of(result: Compatibility | Run | JobProfile) -> str:
    """The HTML of a result: one `div` that refers to no other file."""
    match result:
        case Compatibility():
            return _compatibility(result)
        case Run():
            return _run(result)
        case JobProfile():
            return _profile(result)


def _compatibility(answer: Compatibility) -> str:
    labels = [label for label in ("alone", "sharing", "shifted", "padded") if _predicts(answer, label)]
    header = ["job", "period (ms)", "rotation (°)", "time-shift (ms)", *(f"{label} (ms)" for label in labels)]
    predicted = {row["job"]: row for row in answer.prediction.to_dicts()}
    rows = (
        (
            job.name,
            milliseconds(job.given.period_ps / 1e12, decimals=2),
            f"{answer.rotations_deg[job.name]:.1f}",
            milliseconds(answer.time_shifts_s[job.name], decimals=2),
            *(milliseconds(predicted[job.name][f"{label}_mean_s"], decimals=2) for label in labels),
        )
        for job in answer.jobs
    )
    parts = [_headline(f"Score {score(answer)}", verdict(answer)), _table(header, rows, len(answer.jobs))]
    if answer.links:
        from hocket.figures.circles import compatibility_figure

        parts.append(_picture(compatibility_figure(answer)))
    return _page(parts)


def _predicts(answer: Compatibility, label: str) -> bool:
    return f"{label}_mean_s" in answer.prediction.columns


def _run(run: Run) -> str:
    # The one-line text in angle brackets; details follow the last colon, since a name may contain others.
    headline, _, details = repr(run)[1:-1].rpartition(": ")
    parts = [_headline(headline, details)]
    jobs = run.tables.get("jobs")
    if jobs is not None and not jobs.is_empty():
        columns = _CLUSTER_COLUMNS if "scheduler" in run.manifest else _JOB_COLUMNS
        present = {name: header for name, header in columns.items() if name in jobs.columns}
        cells = (
            tuple(_cell(name, value) for name, value in row.items())
            for row in jobs.select([*present]).iter_rows(named=True)
        )
        parts.append(_table([*present.values()], cells, jobs.height))
    figure = _run_figure(run)
    if figure is not None:
        parts.append(_picture(figure))
    return _page(parts)


_JOB_COLUMNS = {
    "job": "job",
    "iterations": "iterations",
    "mean_iteration_s": "mean (ms)",
    "p50_iteration_s": "p50 (ms)",
    "p99_iteration_s": "p99 (ms)",
    "mean_communication_s": "communication (ms)",
    "mean_delayed_s": "delayed (ms)",
    "time_shift_s": "time-shift (ms)",
}
_CLUSTER_COLUMNS = {
    "job": "job",
    "model": "model",
    "workers": "workers",
    "status": "status",
    "iterations": "iterations",
    "mean_iteration_s": "mean (ms)",
    "p99_iteration_s": "p99 (ms)",
    "mean_ideal_s": "idle network (ms)",
    "slowdown": "slowdown",
}


def _cell(name: str, value: Any) -> str:
    match value:
        case None:
            return "–"
        case float() if name.endswith("_s"):
            return milliseconds(value, decimals=2)
        case float():
            return number(value, ".3f")
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _run_figure(run: Run) -> Figure | None:
    """The operations of a training job in its first recorded iteration, else the iterations of all jobs."""
    operations, iterations = run.tables.get("operations"), run.tables.get("iterations")
    if operations is not None and not operations.is_empty():
        from hocket.figures.operations import operations_figure

        job, iteration = operations.sort("iteration").select("job", "iteration").row(0)
        return operations_figure(run, job, iteration, title=f"{job}, iteration {iteration}")
    if iterations is not None and not iterations.is_empty():
        from hocket.figures.iterations import iterations_figure

        return iterations_figure(run)
    return None


def _profile(profile: JobProfile) -> str:
    from hocket.figures.profile import evidence_figure

    size = number(profile.bytes_per_iteration / 1e6, ",.2f")
    seen = f"{profile.iterations_seen:,} iterations seen, jitter {profile.jitter_s * 1e3:.2f} ms"
    period = f"period {profile.period_s * 1e3:,.2f} ms, confidence {profile.confidence:.2f}"
    sentences = (f"{period}; {size} MB per iteration, {seen}", *times(profile), *profile.notes)
    phases = (
        (
            f"{phase.start_s * 1e3:,.2f}",
            f"{phase.duration_s * 1e3:,.2f}",
            number(phase.rate_bps / 1e9, ",.3f"),
        )
        for phase in profile.phases
    )
    parts = [
        _headline(profile.name, *sentences),
        _table(("Up from (ms)", "for (ms)", "at (Gbps)"), phases, len(profile.phases)),
    ]
    if profile.collectives:
        uses = (
            (
                use.kind,
                f"{use.count:.4g}",
                number(use.message_bytes / 1e6, ",.2f"),
                f"{use.time_s * 1e3:,.2f}",
            )
            for use in profile.collectives
        )
        header = ("collective", "per iteration", "MB", "ms")
        parts.append(_table(header, uses, len(profile.collectives)))
    return _page([*parts, _picture(evidence_figure(profile))])


def _page(parts: Iterable[str]) -> str:
    return f'<div class="hocket">{"".join(parts)}</div>'


def _headline(title: str, *sentences: str) -> str:
    lines = "".join(f"<br>{escape(sentence)}" for sentence in sentences)
    return f"<p><strong>{escape(title)}</strong>{lines}</p>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], height: int) -> str:
    """A table of the first `_MAX_ROWS` of `rows`, and the number of the others; there are `height` in all."""
    head = "".join(_row("th", header))
    shown = [cells for cells, _ in zip(rows, range(_MAX_ROWS), strict=False)]
    body = "".join(f"<tr>{''.join(_row('td', cells))}</tr>" for cells in shown)
    more = f"<p>and {height - len(shown):,} more</p>" if height > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _row(tag: str, cells: Sequence[str]) -> Iterable[str]:
    for place, cell in enumerate(cells):
        side = "left" if place == 0 else "right"
        yield f'<{tag} style="text-align:{side};padding:2px 8px">{escape(cell)}</{tag}>'


def _picture(figure: Figure) -> str:
    """The figure as an inline SVG, or as a PNG if the SVG is large."""
    from matplotlib import rc_context

    width_in, height_in = figure.get_size_inches()
    # Text stays text, so that it can be searched and copied; with a fixed salt and no date, the same figure
    # gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hocket"}):
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    # The XML declaration and the document type before it are invalid within HTML.
    svg = _PATH.sub(_coarser, svg[svg.index("<svg") :])
    size = f"width:{width_in * _PIXELS_PER_INCH:.0f}px;max-width:100%;height:auto"
    style = f"{size};aspect-ratio:{width_in:g}/{height_in:g}"
    if len(svg.encode()) <= _MAX_SVG_BYTES:
        # Width and height in points would override the aspect ratio of the style.
        picture = _SIZE.sub(f' style="{style}"', svg, count=1)
    else:
        content = base64.b64encode(_pixels(figure)).decode()
        picture = f'<img alt="" style="{style}" src="data:image/png;base64,{content}">'
    card = "display:inline-block;max-width:100%;box-sizing:border-box;padding:8px;border-radius:6px"
    return f'<div style="{card};background:#fff;color:#000">{picture}</div>'


def _coarser(path: re.Match[str]) -> str:
    """The path with numbers rounded to a tenth of a point, finer than a screen can show."""
    return _DECIMALS.sub(lambda digits: f"{float(digits[0]):.1f}", path[0])


def _pixels(figure: Figure) -> bytes:
    """The figure as a PNG with 64 colours: its areas have one colour each, and only their edges are mixed."""
    from PIL import Image

    drawn, reduced = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_PIXELS_PER_INCH)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(_COLOURS).save(reduced, format="png", optimize=True)
    return reduced.getvalue()
