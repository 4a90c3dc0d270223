"""What `hocket compat` prints."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.markup import escape

from hocket.compat import Compatibility
from hocket.compat.answer import written_bound, written_score
from hocket.compat.prediction import mean
from hocket.compat.verdict import NOISE, Verdict
from hocket.console import Column, milliseconds, out, print_table

# Two decimals: shifts and periods can be applied to about ten microseconds.
_ms = partial(milliseconds, decimals=2)


def print_compatibility(title: str, answer: Compatibility) -> None:
    """Prints verdict, score, shifts, the predicted iteration times and how long the interleaving lasts."""
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(f"[bold]{verdict(answer)}[/bold]")
    out.print(f"score {score(answer)}")
    circle = f"circle of {_ms(answer.perimeter_s)} ms"
    out.print(f"{circle}, {_searched(answer)}, solved in {answer.solve_s * 1e3:.2f} ms")
    _print_candidates(answer)
    out.print()
    _print_shifts(answer)
    out.print()
    _print_prediction(answer)
    _print_slower(answer)
    _print_fit(answer)


def verdict(answer: Compatibility) -> str:
    """Whether shifting helps and by how much; if it does not, why or what to do instead."""
    sentence = f"shifting {answer.verdict}: {answer.speedup}"
    if answer.verdict not in (Verdict.DOES_NOT_HELP, Verdict.HARMS):
        return sentence
    if len(answer.jobs) == 1:
        return f"{sentence}; there is no other job to take turns with"
    if answer.most_speedup.verdict is Verdict.DOES_NOT_HELP:
        return f"{sentence}; the jobs hardly slow each other as they are"
    padded = answer.padded_speedup
    if padded is not None and padded.verdict in (Verdict.HELPS, Verdict.HELPS_LITTLE):
        return f"{sentence}; with padded periods (see below) it {padded.verdict}"
    return f"{sentence}; use priorities or adaptive unfairness, or place the jobs apart"


def score(answer: Compatibility) -> str:
    """The score, whether it is proven optimal or else its upper bound, and the meaning of a full score."""
    written = written_score(answer.score)
    if not answer.proven_optimal:
        return f"{written} (the best found; no shifts reach more than {written_bound(answer.bound)})"
    # Rounding errors in a sum of floats may keep a full score just below 1.
    full = answer.score >= 1 - 1e-9
    return f"{written} (proven optimal){': the jobs can take turns' if full else ''}"


def _searched(answer: Compatibility) -> str:
    if answer.precision_deg > 0:
        steps = f"steps of {answer.precision_deg:.3g}°"
        return steps if answer.in_steps else f"{steps} because all shifts take too long"
    return "all shifts" if answer.proven_optimal or answer.in_steps else "not all shifts searched in time"


def _print_candidates(answer: Compatibility) -> None:
    if not answer.candidates:
        return
    if any(each.answer is not None for each in answer.candidates):
        out.print()
        _print_every_candidate(answer)
    elif len(answer.candidates) > 1:
        out.print()
        rows = (
            (each.name, "discarded" if each.score is None else written_score(each.score), each.reason or "")
            for each in answer.candidates
        )
        print_table(("placement", "score", Column("", text=True)), rows)
    if not answer.links:
        return
    links = (
        (link.name, f"{link.capacity_bps / 1e9:g}", written_score(link.score), ", ".join(link.jobs))
        for link in answer.links
    )
    out.print()
    print_table(("shared link", Column("Gbps", spare=1), "score", Column("jobs", text=True)), links)


def _print_every_candidate(answer: Compatibility) -> None:
    """Prints each candidate with mean iteration times over all jobs.

    The time alone has a column too, because another placement may change even that.
    """
    figures = ("alone_mean_s", "sharing_mean_s", "shifted_mean_s", "shifted_p99_s")
    answers = {each.name: each.answer for each in answer.candidates if each.answer is not None}
    times = {
        name: [_mean(each.predicted.times_s[figure]) for figure in figures] for name, each in answers.items()
    }
    rows = []
    for each in answer.candidates:
        if each.answer is None or each.score is None:
            rows.append((each.name, "discarded", each.reason or "", *("–" for _ in figures)))
        else:
            shown = (_ms(time_s) for time_s in times[each.name])
            rows.append((each.name, written_score(each.score), str(each.answer.verdict), *shown))
    header = (
        "placement",
        "score",
        Column("shifting", text=True),
        Column("alone (ms)", spare=2),
        Column("sharing", spare=1),
        "shifted",
        Column("p99", spare=1),
    )
    print_table(header, rows)
    fastest = min(answers, key=lambda name: times[name][2])
    # The score is about shared links only, and a placement may also change the times of jobs alone.
    if times[fastest][2] * (1 + NOISE) < times[answer.candidates[0].name][2]:
        out.print(f"Predicted to be the fastest, although not the best by score: {escape(fastest)}.")


def _mean(times_s: Sequence[float | None]) -> float:
    finished = [each for each in times_s if each is not None]
    return mean(finished) if finished else math.nan


def _print_shifts(answer: Compatibility) -> None:
    rows = (
        (
            job.name,
            _ms(job.given.period_ps / 1e12),
            str(job.rounds),
            f"{answer.rotations_deg[job.name]:.1f}",
            _ms(answer.time_shifts_s[job.name]),
            "" if job.batch_size is None else str(job.batch_size),
        )
        for job in answer.jobs
    )
    header = (
        *("job", "period (ms)", Column("per circle", spare=2), Column("rotation (°)", spare=1)),
        *("time-shift (ms)", "batch size"),
    )
    chose = any(job.batch_size is not None for job in answer.jobs)
    cut = len(header) if chose else -1
    print_table(header[:cut] if not chose else header, (row if chose else row[:-1] for row in rows))


def _print_prediction(answer: Compatibility) -> None:
    labels = ("alone", "sharing", "shifted", "padded")
    present = [label for label in labels if f"{label}_mean_s" in answer.predicted.times_s]
    figures = [(label, figure) for label in present for figure in ("mean", "p99")]
    # Mean and p99 hardly differ without contention, so p99 of these is hidden first.
    header = [
        Column(f"{label}\n{figure}", spare=int(label in ("alone", "padded") and figure == "p99"))
        for label, figure in figures
    ]
    rows = (
        (row["job"], *(_ms(row[f"{label}_{figure}_s"]) for label, figure in figures))
        for row in answer.predicted.rows()
    )
    print_table(("iteration\ntime (ms)", *header), rows)


def _print_slower(answer: Compatibility) -> None:
    """Prints the jobs that shifting makes slower."""

    def slowed(row: Mapping[str, Any]) -> float | None:
        """The factor by which shifting makes a job slower; `None` if it has no times."""
        shifted_s, sharing_s = row["shifted_mean_s"], row["sharing_mean_s"]
        return None if shifted_s is None or sharing_s is None else shifted_s / sharing_s

    rows = [(row["job"], slowed(row)) for row in answer.predicted.rows()]
    slower = ", ".join(
        f"{escape(job)} by {by - 1:.1%}" for job, by in rows if by is not None and by > 1 + NOISE
    )
    if not slower:
        return
    out.print()
    out.print(f"Slower with these shifts than without: {slower}.")


def _print_fit(answer: Compatibility) -> None:
    if answer.fit.holds_for_s is None:
        return
    out.print()
    out.print(
        f"The periods have no small common multiple: on the circle they are up to {answer.fit.error:.2%} "
        f"off, and the interleaving holds for {answer.fit.holds_for_s:.2f} s before jobs drift by 5%."
    )
    padding = ", ".join(
        f"{escape(name)} to {_ms(answer.fit.padded_periods_s[name])} ms (+{cost:.2%})"
        for name, cost in answer.fit.padding_cost.items()
        if cost > 1e-9
    )
    padded = answer.padded_speedup
    assert padded is not None, "periods that do not fit are predicted with padding too"
    out.print(f"Padded, the periods fit for ever: {padding}; then shifting {padded.verdict}: {padded}.")
