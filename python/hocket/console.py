"""What the command line prints: answers as aligned text for people, JSON for programs."""

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hocket.compat import Compatibility
from hocket.hpcc import Study, peak_queue_bytes
from hocket.results import Run
from hocket.summary import collective_summary, job_summary

# A terminal has its own width; what goes into a file or a pipe is never cut to a guess of 80 columns.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False, soft_wrap=True)

# Compute times of the same work vary by about a percent.
_BALANCED = 1.02


def print_json(value: Any) -> None:
    """`value` as JSON, readable and never wrapped."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def progress_bar() -> Progress:
    """A bar on stderr that goes away at its end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> None:
    """A plain table; the first `left` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(header):
        table.add_column(title, justify="left" if number < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)


def print_compatibility(title: str, answer: Compatibility) -> None:
    """Score, shifts, what they win, and for how long."""
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(f"score {_score(answer)}: {_verdict(answer)}")
    step = "all shifts" if answer.precision_deg == 0 else f"steps of {answer.precision_deg:.3g}°"
    out.print(f"circle of {_ms(answer.perimeter_s)} ms, {step}, solved in {answer.solve_s * 1e3:.2f} ms")
    _print_candidates(answer)
    out.print()
    _print_shifts(answer)
    out.print()
    _print_prediction(answer)
    _print_gain(answer)
    _print_fit(answer)


def _score(answer: Compatibility) -> str:
    if answer.proven_optimal:
        return f"{_cut(answer.score)} (proven optimal)"
    return f"{_cut(answer.score)} (the best found; no shifts reach more than {answer.bound:.3f})"


def _cut(score: float) -> str:
    """Three decimals, rounded down: 0.9996 is not full compatibility."""
    return f"{math.floor(score * 1000 + 1e-9) / 1000:.3f}"


def _verdict(answer: Compatibility) -> str:
    if answer.score >= 1 - 1e-9:
        return "fully compatible, the jobs can take turns"
    if not answer.worth_shifting:
        return (
            "incompatible, shifting wins nothing; use priorities or adaptive unfairness, or place them apart"
        )
    # Below one part in a hundred, a gain is within what iteration times vary by anyway.
    if _gain(answer, "mean") < 1.01:
        return "partly compatible, but shifting them wins little here"
    return "partly compatible, shifting them helps"


def _gain(answer: Compatibility, figure: str) -> float:
    """How many times faster iterations are shifted than sharing, on average over jobs."""
    ratio = answer.prediction[f"sharing_{figure}_s"] / answer.prediction[f"shifted_{figure}_s"]
    return float(ratio.to_numpy().mean())


def _print_candidates(answer: Compatibility) -> None:
    if not answer.candidates:
        return
    out.print()
    rows = (
        (each.name, "discarded" if each.score is None else _cut(each.score), each.reason or "")
        for each in answer.candidates
    )
    print_table(("placement", "score", ""), rows)
    if not answer.links:
        return
    links = (
        (link.name, f"{link.capacity_bps / 1e9:g}", _cut(link.score), ", ".join(link.jobs))
        for link in answer.links
    )
    out.print()
    print_table(("shared link", "Gbps", "score", "jobs"), links)


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
    header = ("job", "period (ms)", "per circle", "rotation (°)", "time-shift (ms)", "batch size")
    chose = any(job.batch_size is not None for job in answer.jobs)
    cut = len(header) if chose else -1
    print_table(header[:cut] if not chose else header, (row if chose else row[:-1] for row in rows))


def _print_prediction(answer: Compatibility) -> None:
    labels = ("alone", "sharing", "shifted", "padded")
    present = [label for label in labels if f"{label}_mean_s" in answer.prediction.columns]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("iteration\ntime (ms)", no_wrap=True)
    for label in present:
        table.add_column(f"{label}\nmean", justify="right", no_wrap=True)
        table.add_column("\np99", justify="right", no_wrap=True)
    for row in answer.prediction.to_dicts():
        cells = [_ms(row[f"{label}_{figure}_s"]) for label in present for figure in ("mean", "p99")]
        table.add_row(escape(row["job"]), *cells)
    out.print(table)


def _print_gain(answer: Compatibility) -> None:
    if len(answer.jobs) == 1:
        return
    out.print()
    out.print(
        f"Shifted, iterations are {_gain(answer, 'mean'):.2f} times faster on average than sharing, "
        f"and {_gain(answer, 'p99'):.2f} times at p99."
    )


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
    out.print(f"Padded, the periods fit for ever: {padding}.")


def print_run(title: str, run: Run, directory: Path) -> None:
    """A row per job, and where the tables are."""
    manifest, counts = run.manifest, run.manifest["counts"]
    by_packets = manifest["engine"] == "packet"
    done = f"{manifest['packet_hops']:,} packet-hops" if by_packets else f"{counts['events']:,} events"
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"simulated {_simulated(manifest['simulated_s'])} in {manifest['run_s']:.3f} s, {done}, "
        f"{manifest['peak_rss_mb']:.0f} MB"
    )
    out.print()
    summary = job_summary(run)
    _print_profiles(run, summary.filter(~pl.col("training"))["job"])
    _print_training(summary.filter("training"))
    _print_collectives(run)
    if by_packets:
        _print_packets(run)
        out.print()
        _print_skipped(run)
    elif summary["training"].any() and (summary["policy_acted"] > 0).any():
        _print_shares(summary)
        out.print()
    _print_ignored((each["key"], each["why"]) for each in manifest["ignored"])
    tables = ", ".join(f"{name} ({table.height:,})" for name, table in run.tables.items())
    out.print(f"written to {escape(str(directory))}: manifest.json and Parquet tables {tables}")


def _print_profiles(run: Run, jobs: pl.Series) -> None:
    """The jobs that are profiles of Up phases."""
    if jobs.is_empty():
        return
    rows = (
        (
            row["job"],
            f"{row['iterations']:,}",
            *(
                _ms(row[f"{name}_s"])
                for name in ("mean_iteration", "p50_iteration", "p99_iteration", "mean_communication")
            ),
            _ms(row["mean_delayed_s"]),
            f"{row['adjustments']:,}",
        )
        for row in run.tables["jobs"].filter(pl.col("job").is_in(jobs.implode())).to_dicts()
    )
    header = ("job", "iterations", "mean (ms)", "p50", "p99", "communication", "waited", "adjustments")
    print_table(header, rows)
    out.print()


def _print_training(jobs: pl.DataFrame) -> None:
    """The jobs that are programs of operations, and how much of their communication is exposed."""
    if jobs.is_empty():
        return
    rows = (
        (
            row["job"],
            count(row["ranks"]),
            count(row["iterations"]),
            *(
                milliseconds(row[f"{name}_s"])
                for name in ("mean_iteration", "p50_iteration", "p99_iteration", "compute", "communication")
            ),
            percent(row["communication_s"], row["mean_iteration_s"]),
            milliseconds(row["delayed_s"]),
        )
        for row in jobs.to_dicts()
    )
    header = ("job", "ranks", "iterations", "mean (ms)", "p50", "p99", "compute", "exposed", "exposed %")
    print_table((*header, "waited"), rows)
    for row in jobs.filter(pl.col("imbalance") > _BALANCED).to_dicts():
        out.print(
            f"{escape(row['job'])}: rank {escape(row['slowest_rank'])} computes {row['imbalance']:.2f} times "
            "as long as the ranks do on average"
        )
    out.print()


def _print_collectives(run: Run) -> None:
    """Collectives by size, in the columns of nccl-tests."""
    collectives = collective_summary(run)
    if collectives.is_empty():
        return
    rows = (
        (
            row["job"],
            row["kind"],
            row["algorithm"],
            f"{row['bytes']:,}",
            count(row["count"]),
            count(row["ranks"]),
            microseconds(row["time_s"]),
            gigabytes_per_s(row["algbw_bps"]),
            gigabytes_per_s(row["busbw_bps"]),
        )
        for row in collectives.to_dicts()
    )
    header = (
        "job",
        "type",
        "algorithm",
        "size (B)",
        "count",
        "ranks",
        "time (µs)",
        "algbw (GB/s)",
        "busbw (GB/s)",
    )
    print_table(header, rows, left=3)
    out.print()


def _print_shares(jobs: pl.DataFrame) -> None:
    """What decided on full links of the flow engine."""
    rows = ((row["job"], row["policy"] or "–", count(row["policy_acted"])) for row in jobs.to_dicts())
    print_table(("job", "share", "decided on a full link"), rows, left=2)


def _print_packets(run: Run) -> None:
    """What congestion controls and switches did, by job and in all."""
    counts, governed = run.manifest["counts"], run.manifest["parameters"]["jobs"]
    signals = run.tables["flows"].group_by("job").agg(pl.col("marks", "cnps").sum())
    signalled = {row["job"]: row for row in signals.to_dicts()}
    none = {"marks": 0, "cnps": 0}
    rows = (
        (
            row["job"],
            governed[row["job"]]["policy"]["value"],
            f"{signalled.get(row['job'], none)['marks']:,}",
            f"{signalled.get(row['job'], none)['cnps']:,}",
            f"{row['policy_acted']:,}",
        )
        for row in run.tables["jobs"].to_dicts()
    )
    print_table(("job", "congestion control", "marks", "CNPs", "rate cuts"), rows, left=2)
    ports = run.tables["ports"].sort("peak_bytes", descending=True, maintain_order=True)
    out.print()
    queue = ""
    if ports.height > 0:
        fullest = ports.row(0, named=True)
        queue = f", longest queue {fullest['peak_bytes'] / 1e3:,.1f} kB at {escape(fullest['link'])}"
    out.print(f"{counts['pauses']:,} PAUSE frames, {counts['losses']:,} packets lost{queue}")


def _print_skipped(run: Run) -> None:
    """What was repeated instead of simulated, and how far it may be off."""
    skipping = run.manifest["skip_ahead"]
    if skipping is None:
        return
    if skipping["obstacle"] is not None:
        out.print(f"skipped nothing: {escape(skipping['obstacle'])}")
    for row in run.tables["repeated"].to_dicts():
        last = row["first_iteration"] + row["iterations"] - 1
        error = (
            "exactly"
            if row["exact"]
            else f"within {row['deviation']:.1e} of an iteration each, {row['drift_bound']:.1e} in all"
        )
        out.print(
            f"{escape(row['job'])}: iterations {row['first_iteration']:,} to {last:,} repeat those before "
            f"instead of being simulated, {error}"
        )
    out.print()


def _print_ignored(ignored: Iterable[tuple[str, str]]) -> None:
    """Keys without effect, those with one reason on one line."""
    reasons: dict[str, list[str]] = {}
    for key, why in ignored:
        reasons.setdefault(why, []).append(key)
    if reasons:
        out.print("without effect:")
    for why, keys in reasons.items():
        out.print(f"  {escape(', '.join(keys))}: {escape(why)}", style="dim")


def print_study(title: str, study: Study, run: Run, directory: Path) -> None:
    """How flows fared, what had no effect, and where files and tables are."""
    manifest, counts, flows = run.manifest, run.manifest["counts"], run.tables["flows"]
    done = (
        f"{flows.height:,}"
        if flows.height == len(study.flows)
        else f"{flows.height:,} of {len(study.flows):,}"
    )
    peak_bytes = peak_queue_bytes(study, run)
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"{manifest['parameters']['policy']['value']}, profile {manifest['profile']}, "
        f"seed {manifest['seed']}: {manifest['status']}"
    )
    out.print()
    header = ("flows", "mean FCT (µs)", "p99", "max", "PAUSE frames", "marked packets", "peak queue (kB)")
    rank = pl.col("fct_s").quantile(0.99, interpolation="higher")
    fct = flows.select(
        pl.col("fct_s").mean().alias("mean"), rank.alias("p99"), pl.col("fct_s").max().alias("max")
    )
    times = (f"{seconds * 1e6:,.2f}" if seconds is not None else "–" for seconds in fct.row(0))
    row = (done, *times, f"{counts['pauses']:,}", f"{flows['marks'].sum():,}", f"{peak_bytes / 1e3:,.1f}")
    print_table(header, [row], left=0)
    out.print()
    out.print(
        f"simulated {manifest['simulated_s'] * 1e3:,.3f} ms in {manifest['run_s']:.3f} s: "
        f"{manifest['packet_hops']:,} packet-hops, "
        f"{manifest['packet_hops'] / manifest['run_s'] / 1e6:.2f} M/s, {manifest['peak_rss_mb']:.0f} MB"
    )
    if not study.ignored:
        out.print("every key has an effect")
    _print_ignored((each.key, each.why) for each in study.ignored)
    files = f"{study.config.fct_file}, {study.config.pfc_file}"
    tables = ", ".join(run.tables)
    out.print(
        f"written to {escape(str(directory))}: {escape(files)}, manifest.json and Parquet tables {tables}"
    )


def count(number: int | None) -> str:
    """A number of things, or a dash.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    return "–" if number is None else f"{number:,}"


def milliseconds(seconds: float | None) -> str:
    """Seconds in milliseconds with three decimals, or a dash.

    >>> milliseconds(1.2345678)
    '1,234.568'
    """
    return "–" if seconds is None else f"{seconds * 1e3:,.3f}"


def microseconds(seconds: float | None) -> str:
    """Seconds in microseconds with two decimals, or a dash.

    >>> microseconds(1.23456e-3)
    '1,234.56'
    """
    return "–" if seconds is None else f"{seconds * 1e6:,.2f}"


def gigabytes_per_s(rate_bps: float | None) -> str:
    """Bits per second in gigabytes per second with two decimals, or a dash.

    >>> gigabytes_per_s(200e9)
    '25.00'
    """
    return "–" if rate_bps is None else f"{rate_bps / 8e9:,.2f}"


def percent(part: float | None, whole: float | None) -> str:
    """A share of a whole with one decimal, or a dash.

    >>> percent(1.0, 8.0), percent(0.0, 0.0)
    ('12.5', '–')
    """
    return "–" if part is None or not whole else f"{100 * part / whole:.1f}"


def ratio(value: float | None) -> str:
    """A ratio with three decimals, or a dash.

    >>> ratio(0.98765)
    '0.988'
    """
    return "–" if value is None else f"{value:.3f}"


def _simulated(seconds: float) -> str:
    """How far a run got: in milliseconds below a second.

    >>> _simulated(0.0123456), _simulated(385.9444)
    ('12.346 ms', '385.944 s')
    """
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:,.3f} s"


def _ms(seconds: float | None) -> str:
    """Milliseconds with two decimals; a dash where a job finished no iteration."""
    return "–" if seconds is None or seconds != seconds else f"{seconds * 1e3:,.2f}"
