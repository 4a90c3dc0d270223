"""What `hocket trace`, `hocket cluster`, `hocket explain` and `hocket replay` print."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from rich.markup import escape

from hocket.cluster.description import by_model, headline, jobs_frame, load_over_time, time_unit
from hocket.cluster.explain import Explanation
from hocket.cluster.overview import overviews
from hocket.cluster.recording import every_of
from hocket.cluster.replay import PLAN, Replay
from hocket.cluster.trace import Trace
from hocket.compat.answer import written_score
from hocket.console import Column, count, milliseconds, out, print_table
from hocket.results import Run
from hocket.units import format_duration

# A large cluster has thousands of links: those with the lowest scores, or the largest delays, are printed.
_MOST_LINKS = 24
# Smaller delays are negligible beside an iteration, and not printed.
_LEAST_DELAY_S = 1e-4
# A decision may be triggered by thousands of arrivals, and notes may have any length.
_MAX_TEXT = 100
# Runs whose mean iterations on an idle network differ by at most 1% are considered comparable.
_SAME_ITERATIONS = 1.01


def print_runs(title: str, runs: Mapping[Path, Run]) -> None:
    """Print a comparison of runs of one trace, and where their tables were written."""
    out.print(f"[bold]{escape(title)}[/bold]")
    rows = overviews(runs.values()).to_dicts()
    header = (
        *("scheduler", Column("jobs\ndone", spare=3), "slowdown\nmean", "slowdown\np99"),
        *("iteration (ms)\nmean", Column("iteration (ms)\np99", spare=1)),
        *(Column("speed-up\nmean", spare=2), Column("speed-up\np99", spare=2)),
        *(Column("completion\n(s)", spare=1), Column("restarts", spare=4)),
        *(Column("marks per\niteration", spare=5), Column("adjustments\nper minute", spare=6)),
    )
    print_table(header, map(_overview_row, rows))
    for note in (*_incomparable_times(rows), *_starved_jobs(runs.values())):
        out.print(f"note: {escape(note)}")
    out.print()
    for directory, run in runs.items():
        tables = ", ".join(f"{name} ({run.height(name):,})" for name in run.tables)
        took = f"simulated {run.manifest['simulated_s']:,.3f} s in {run.manifest['run_s']:.3f} s"
        out.print(f"{escape(run.manifest['scheduler'])}: {took}{_repeated(run)}{_recorded(run)}")
        out.print(f"written to {escape(str(directory))}: manifest.json and Parquet tables {tables}")


def _repeated(run: Run) -> str:
    """The share of iterations that were repeated instead of being simulated; empty without `skip_ahead`."""
    skipped = run.manifest.get("skip_ahead")
    if skipped is None or skipped["iterations"] == 0:
        return ""
    share = skipped["repeated"] / skipped["iterations"]
    return f"; {share:.0%} of {skipped['iterations']:,} iterations repeat simulated ones (skip_ahead)"


def _recorded(run: Run) -> str:
    """Which iterations have rows, and why; empty if all have, and all percentiles are exact."""
    record = run.manifest["record"]
    rows = {
        "all": "",
        "sampled": f"; one of {record['every']:,} iterations has a row (record: {record['why']})",
        "summary": f"; no iteration has a row (record: {record['why']})",
    }[record["iterations"]]
    error = record["percentile_error"]
    return rows + (f"; percentiles are within {error:.2%}" if error else "")


def _overview_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["scheduler"],
        f"{row['done']:,} of {row['jobs']:,}",
        _factor(row["slowdown"]),
        _factor(row["p99_slowdown"]),
        milliseconds(row["mean_iteration_s"]),
        milliseconds(row["p99_iteration_s"]),
        _factor(row["mean_factor"]),
        _factor(row["p99_factor"]),
        _number(row["mean_completion_s"], 1),
        count(row["restarts"]),
        _number(row["marks_per_iteration"], 1),
        _number(row["adjustments_per_minute"], 2),
    )


def _incomparable_times(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A note that iteration times do not compare, if the runs consist of different iterations."""
    ideals = [row["mean_ideal_s"] for row in rows if row["mean_ideal_s"] is not None]
    if ideals and max(ideals) > _SAME_ITERATIONS * min(ideals):
        yield (
            "iteration times do not compare: the runs differ even on an idle network, because jobs had "
            "different numbers of workers or made less progress; compare slowdown and completion instead"
        )


def _starved_jobs(runs: Iterable[Run]) -> Iterator[str]:
    """A note for each run that ended although jobs were still waiting for GPUs."""
    for run in runs:
        # In a run that was cut short, waiting jobs might still have received GPUs.
        if run.manifest["status"] != "complete" or "until" in run.manifest["plan"]["given"]:
            continue
        left = run.tables["jobs"].filter(pl.col("status") != "done")["job"]
        if left.len():
            yield (
                f"{run.manifest['scheduler']} leaves {left.len():,} jobs waiting for ever, starting with "
                f"{left[0]!r}: it gives them no GPUs and requests no further decision"
            )


def print_trace(trace: Trace) -> None:
    """Print the jobs of a trace by model, and their load over time."""
    out.print(f"[bold]{escape(trace.name)}[/bold]")
    out.print(headline(trace))
    for report in trace.imports:
        out.print(escape(str(report)))
    out.print()
    models = (
        (
            row["model"],
            count(row["jobs"]),
            f"{row['workers']:.1f}",
            f"{row['iterations']:,.0f}",
            milliseconds(row["iteration_s"]),
            f"{row['run_time_s'] / 60:,.1f}",
            f"{row['gpu_hours']:,.1f}",
        )
        for row in by_model(trace).to_dicts()
    )
    header = (
        *("model", "jobs", "mean per job\nworkers", Column("mean per job\niterations", spare=1)),
        *("on an idle network\niteration (ms)", Column("on an idle network\nrun time (min)", spare=2)),
        "GPU-hours\n(all jobs)",
    )
    print_table(header, models)
    out.print()
    over_time = load_over_time(trace).to_dicts()
    unit, unit_s = time_unit(over_time[-1]["until_s"])
    parts = (
        (
            f"{row['from_s'] / unit_s:,.1f} to {row['until_s'] / unit_s:,.1f}",
            count(row["arrivals"]),
            f"{row['gpus']:,.1f}",
            f"{100 * row['load']:.0f}%",
        )
        for row in over_time
    )
    print_table((f"time ({unit})", "arrivals", "GPU demand", "load"), parts)


def trace_as_json(trace: Trace) -> dict[str, Any]:
    """The content of `print_trace` and every job, ready for JSON."""
    return {
        "name": trace.name,
        "seed": trace.seed,
        "gpus": len(trace.cluster.gpus),
        "imported": [report.to_dict() for report in trace.imports],
        "models": by_model(trace).to_dicts(),
        "load": load_over_time(trace).to_dicts(),
        "jobs": jobs_frame(trace).to_dicts(),
    }


def print_decisions(decisions: pl.DataFrame) -> None:
    """Print a line for each decision."""
    rows = (
        (
            str(row["decision"]),
            f"{row['at_s']:,.1f}",
            _cut(row["reason"]),
            str(row["jobs"]),
            str(row["waiting"]),
            str(row["candidates"]),
            count(row["discarded"]),
            str(row["chosen"]),
            _score(row["own_score"]),
            _score(row["score"]),
            str(len(row["moved"])),
        )
        for row in decisions.to_dicts()
    )
    header = (
        *(
            "decision",
            "time (s)",
            Column("trigger", text=True),
            "jobs\nall",
            Column("jobs\nwaiting", spare=1),
        ),
        *(Column("candidates", spare=4), Column("discarded", spare=5), Column("chosen", spare=3)),
        *(Column("score\nown choice", spare=2), "score\nchosen", "jobs\nmoved"),
    )
    print_table(header, rows, left=0)


def print_explanation(run: Run, explanation: Explanation) -> None:
    """Print one decision: the choice and its reasons, and the iteration times while it was in force."""
    each = explanation
    out.print(
        f"[bold]{escape(run.manifest['scheduler'])}[/bold]: decision {each.decision} at {each.at_s:,.3f} s "
        f"({each.at_s / 60:,.1f} min), in force until {each.until_s:,.3f} s"
    )
    out.print(f"trigger: {escape(each.reason)}")
    out.print(_choice(each))
    for title, jobs in (("moved", each.moved), ("waiting", each.waiting)):
        if jobs:
            out.print(f"{title}: {escape(', '.join(jobs))}")
    _print_discarded(each)
    _print_links(each)
    _print_sharing(each)
    _print_jobs(each, every_of(run))
    _print_delays(each)
    _print_scheduler_notes(each.said)


def print_replay(replay: Replay, directory: Path) -> None:
    """Print a window of a cluster run beside its replay, a line for each job."""
    window, engine = replay.window, replay.run.manifest["engine"]
    for_s = window.until_s - window.at_s
    start = format_duration(round(window.at_s * 1e12))
    cut = "; cut short where the scheduler decides next" if window.ended_early else ""
    out.print(f"[bold]{for_s:,.3f} s from {start} on, replayed on the {engine} engine[/bold]{cut}")
    rows = (
        (
            row["job"],
            count(row["iterations"]),
            count(row["iterations_replayed"]),
            milliseconds(row["iteration_s"]),
            milliseconds(row["iteration_s_replayed"]),
            _number(row["marks"], 0),
            _number(row["marks_replayed"], 0),
        )
        for row in replay.comparison().to_dicts()
    )
    header = (
        *("job", Column("iterations\ncluster run", spare=2), Column("iterations\nreplay", spare=2)),
        *("mean iteration (ms)\ncluster run", "mean iteration (ms)\nreplay"),
        *(
            Column("marks per iteration\ncluster run", spare=1),
            Column("marks per iteration\nreplay", spare=1),
        ),
    )
    print_table(header, rows)
    out.print(f"PAUSE frames: {count(replay.pauses)}")
    out.print(f"written to {escape(str(directory))}: {PLAN}, and what hocket run writes")


def replay_as_json(replay: Replay) -> dict[str, Any]:
    """The content of `print_replay`, ready for JSON."""
    window = replay.window
    return {
        "at_s": window.at_s,
        "until_s": window.until_s,
        "ended_early": window.ended_early,
        "engine": replay.run.manifest["engine"],
        "jobs": replay.comparison().to_dicts(),
        "pauses": replay.pauses,
    }


def _choice(each: Explanation) -> str:
    if each.score is None:
        taken = "the scheduler's own choice was taken"
        shifts = ", without slots: all candidates were discarded" if each.discarded else ""
        return f"candidates: {each.candidates}; {taken}{shifts}"
    own = "discarded" if each.own_score is None else f"score {_score(each.own_score)}"
    what = "the scheduler's own choice" if each.chosen == 0 else f"candidate {each.chosen}"
    return (
        f"candidates: {each.candidates}, {len(each.discarded)} discarded; {what} was taken, with score "
        f"{_score(each.score)}; own choice: {own}"
    )


def _print_discarded(each: Explanation) -> None:
    reasons: dict[str, list[int]] = {}
    for number, reason in each.discarded:
        reasons.setdefault(reason, []).append(number)
    for reason, numbers in reasons.items():
        out.print(f"discarded {', '.join(map(str, numbers))}: {escape(reason)}")


def _print_links(each: Explanation) -> None:
    if not each.links:
        return
    lowest = sorted(each.links, key=lambda link: (1.0 if link.after is None else link.after, link.link))
    # Without CASSINI there are no scores.
    columns = 2 if all(link.before is None and link.after is None for link in lowest) else 4
    rows = (
        (link.link, ", ".join(link.jobs), _score(link.before), _score(link.after))[:columns]
        for link in lowest[:_MOST_LINKS]
    )
    out.print()
    print_table(("shared link", "jobs", "score\nbefore", "score\nafter")[:columns], rows, left=2)
    if len(lowest) > _MOST_LINKS:
        out.print(f"… and {len(lowest) - _MOST_LINKS} more links, with higher scores")


def _print_sharing(each: Explanation) -> None:
    if each.sharing:
        out.print()
    for group in each.sharing:
        slots = f"no slots: {group.why_no_slots}"
        if group.why_no_slots is None:
            slots = "slots" if group.gain is None else f"slots, predicted speed-up {_factor(group.gain)}"
        out.print(f"{escape(', '.join(group.jobs))}: score {_score(group.score)}, {escape(slots)}")


def _print_jobs(each: Explanation, every: int) -> None:
    rows = (
        (
            job.job,
            str(len(job.gpus)),
            f"{job.iterations:,.0f}",
            milliseconds(job.iteration_s),
            milliseconds(job.ideal_s),
            _slowdown_percent(job.iteration_s, job.ideal_s),
            milliseconds(job.slot_s),
        )
        for job in each.jobs
    )
    header = (
        *("job", Column("workers", spare=1), Column("iterations", spare=2)),
        *("iteration (ms)\nmean", "iteration (ms)\nidle network", "slowdown", "slot (ms)"),
    )
    out.print()
    print_table(header, rows)
    if every > 1:
        out.print(f"note: iterations are estimated from a sample, one of every {every:,}")


def _print_delays(each: Explanation) -> None:
    noticeable = [delay for delay in each.delays if delay.per_iteration_s >= _LEAST_DELAY_S]
    if not noticeable:
        return
    rows = (
        (delay.job, delay.other, delay.link, milliseconds(delay.per_iteration_s))
        for delay in noticeable[:_MOST_LINKS]
    )
    out.print()
    print_table(("job", "delayed by", "on link", "delay per\niteration (ms)"), rows, left=3)
    if len(noticeable) > _MOST_LINKS:
        out.print(f"… and {len(noticeable) - _MOST_LINKS} smaller delays")


def _print_scheduler_notes(notes: Mapping[str, Any]) -> None:
    """Print the scheduler's own notes on its decision, a line for each entry."""
    lines = [
        line for key, value in notes.items() if value not in ([], {}, None) for line in _lines(key, value)
    ]
    if lines:
        out.print()
        out.print("the scheduler's notes:")
    for line in lines:
        out.print(f"  {escape(line)}", style="dim")


def _lines(key: str, value: Any) -> Iterable[str]:
    """`value` as lines of text: one for each element of a table or list; a table nested in it stays on one.

    >>> list(_lines("bids", {"a": {"1 anywhere": 0.25, "2 in one rack": 0.5}}))
    ['bids.a: 1 anywhere 0.25, 2 in one rack 0.5']
    """
    match value:
        case dict() if "." in key and not any(isinstance(inner, dict | list) for inner in value.values()):
            yield f"{key}: {', '.join(f'{name} {_value_text(inner)}' for name, inner in value.items())}"
        case dict() if value:
            for name, inner in value.items():
                yield from _lines(f"{key}.{name}", inner)
        case [dict(), *_]:
            for place, inner in enumerate(value):
                yield from _lines(f"{key}[{place}]", inner)
        case _:
            yield f"{key}: {_value_text(value)}"


def _value_text(value: Any) -> str:
    """
    >>> [_value_text(value) for value in (None, True, 1 / 3, "4 racks")]
    ['–', 'yes', '0.333333', '4 racks']
    """
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case _:
            return _cut(str(value))


def as_json(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """The content of `print_runs`, ready for JSON."""
    return overviews(runs).to_dicts()


def _slowdown_percent(iteration_s: float | None, ideal_s: float | None) -> str:
    # Jitter may make a job slightly faster than on an idle network; `z` prints that without "-0.0%".
    return "–" if iteration_s is None or not ideal_s else f"{100 * (iteration_s / ideal_s - 1):+z.1f}%"


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _score(value: float | None) -> str:
    return "–" if value is None else written_score(value)


def _number(value: float | None, decimals: int) -> str:
    return "–" if value is None else f"{value:,.{decimals}f}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
