"""The command line: reads arguments, calls the library, prints. Every mistake of a user is one message on
stderr and exit code 2; Ctrl-C is exit code 130 after what was finished has been kept.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hocket import __version__
from hocket.compatibility import Compatibility, compatibility
from hocket.errors import InputError
from hocket.results import Run
from hocket.runner import as_plan, simulate

INPUT_ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    name="hocket",
    help="Which training jobs can take turns on a shared network, and how far to shift each.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# A terminal has its own width; what goes into a file or a pipe is never cut to a guess of 80 columns.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> None:
    """The `hocket` command."""
    try:
        app()
    except InputError as error:
        err.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(INPUT_ERROR)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever reads our output has seen enough.
        sys.stderr.close()
        sys.exit(0)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"hocket {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("compat")
def compat_command(
    plan: Annotated[Path, typer.Argument(help="Jobs and their link or fabric, as TOML or JSON.")],
    exact: Annotated[bool, typer.Option("--exact", help="The optimum over all shifts, not in steps.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="One job at a time, whatever its rate.")] = False,
    precision: Annotated[
        float | None, typer.Option("--precision", metavar="DEGREES", help="The step between rotations.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE.svg|png", help="Draw the circles.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether jobs can take turns, which time-shift each needs, and what it wins."""
    checked = as_plan(plan)
    if precision is not None and not 0.1 <= precision <= 90:
        raise InputError(f"--precision: must be between 0.1 and 90 degrees: got {precision:g}")
    answer = compatibility(checked, exact=exact or None, strict=strict or None, precision_deg=precision)
    if as_json:
        print_json(answer.to_dict())
    else:
        _print_compatibility(checked.name or plan.name, answer)
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.circles import compatibility_figure

        save(compatibility_figure(answer), figure)
        err.print(f"figure: {figure}")
    if answer.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command("run")
def run_command(
    plan: Annotated[Path, typer.Argument(help="The plan to simulate, as TOML or JSON.")],
    directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write; hocket-runs/NAME if not given.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="NAME", help="Place jobs as this candidate does.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest instead of a table.")] = False,
) -> None:
    """Simulate a plan; write Parquet tables and a manifest."""
    checked = as_plan(plan)
    directory = directory or Path("hocket-runs") / plan.stem
    with _progress() as progress:
        task = progress.add_task("simulating", total=None)

        def report(time_s: float, done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, description=f"simulated {time_s:,.1f} s")

        run = simulate(checked, candidate=candidate, progress=report)
    run.write(directory)
    if as_json:
        print_json(run.manifest)
    else:
        _print_run(checked.name or plan.name, run, directory)
    if run.interrupted:
        err.print(f"interrupted at {run.manifest['simulated_s']:.3f} s of simulated time; kept what was finished")
        raise typer.Exit(INTERRUPTED)


@app.command("profile")
def profile_command(
    counters: Annotated[Path, typer.Argument(help="A CSV time series of a NIC's byte counter.")],
    column: Annotated[str | None, typer.Option("--column", help="The counter, if there are several.")] = None,
    interface: Annotated[str | None, typer.Option("--interface", help="The NIC, if there are several.")] = None,
    unit: Annotated[
        Literal["bytes", "words4"] | None,
        typer.Option("--unit", help="What it counts, if its name does not say: bytes or 4-byte words."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The job's name.")] = None,
    link: Annotated[
        str | None, typer.Option("--link", metavar="RATE", help='Add a [link], such as "50 Gbps".')
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.toml|json", help="Write the job for `hocket compat`.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE.svg|png", help="Draw the evidence.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the period and the Up phases of a job in a NIC's byte counter."""
    from hocket.profile import profile_counters

    job = profile_counters(counters, column=column, interface=interface, unit=unit, name=name)
    if output is not None:
        job.dump(output, link)
    if as_json:
        described = {
            "job": job.to_job(),
            "confidence": job.confidence,
            "period_s": job.period_s,
            "bytes_per_iteration": job.bytes_per_iteration,
            "iterations_seen": job.iterations_seen,
            "jitter_s": job.jitter_s,
        }
        print_json(described)
    else:
        out.print(f"[bold]{escape(job.name)}[/bold]: period {job.period_s * 1e3:.2f} ms, confidence {job.confidence:.2f}")
        out.print(
            f"{job.bytes_per_iteration / 1e6:,.2f} MB per iteration, {job.iterations_seen} iterations seen, "
            f"jitter {job.jitter_s * 1e3:.2f} ms"
        )
        rows = (
            (f"{p.start_s * 1e3:.2f}", f"{p.duration_s * 1e3:.2f}", f"{p.rate_bps / 1e9:.3f}") for p in job.phases
        )
        _print_table(("Up from (ms)", "for (ms)", "at (Gbps)"), rows, left=0)
    if job.confidence < 0.5:
        err.print(
            f"[yellow]warning:[/yellow] confidence {job.confidence:.2f} is below 0.5: the series does not show "
            "a clear period; do not shift jobs by it"
        )
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.profile import evidence_figure

        save(evidence_figure(job), figure)
        err.print(f"figure: {figure}")
    if output is not None:
        err.print(f"job: {output}")


@app.command("reproduce")
def reproduce_command(
    targets: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Targets such as H1 or C17.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All targets.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the targets.")] = False,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to draw the figures.")
    ] = Path("hocket-runs/reproduce"),
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.md", help="Renew the results table in this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rerun figures and tables of the papers and print the paper's values beside ours."""
    from hocket.figures import save
    from hocket.reproduce import TARGETS, report, reproduce

    if listing:
        listed = [(target.id, target.title) for target in TARGETS.values()]
        if as_json:
            print_json([{"id": identifier, "title": title} for identifier, title in listed])
        else:
            _print_table(("id", "what"), listed, left=2)
        return
    if everything == bool(targets):
        raise InputError("reproduce: give the ids of targets, or --all, or --list")
    with _progress() as progress:
        task = progress.add_task("reproducing", total=None)

        def tell(identifier: str, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, description=f"reproducing {identifier}")

        reproductions = reproduce(None if everything else targets or [], tell)
    for reproduction in reproductions:
        if not as_json:
            report.print_table(reproduction, out)
        if reproduction.figure is not None:
            save(reproduction.figure(), directory / f"{reproduction.id}.png")
    if as_json:
        print_json(report.as_json(reproductions))
    err.print(f"figures: {directory}")
    if write is not None:
        report.write_validation(write, reproductions)


def print_json(value: Any) -> None:
    """Prints `value` as JSON, readable and never wrapped."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _print_table(header: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> None:
    """A plain table; the first `left` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(header):
        table.add_column(title, justify="left" if number < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)


def _print_compatibility(title: str, answer: Compatibility) -> None:
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(f"score {_score(answer)}: {_verdict(answer)}")
    step = "all shifts" if answer.precision_deg == 0 else f"steps of {answer.precision_deg:.3g}°"
    out.print(f"circle of {_ms(answer.perimeter_s)} ms, {step}, solved in {answer.solve_s * 1e3:.2f} ms")
    _print_candidates(answer)
    out.print()
    _print_shifts(answer)
    out.print()
    _print_prediction(answer)
    _print_fit(answer)


def _score(answer: Compatibility) -> str:
    # Cut, not rounded: 0.9996 is not full compatibility.
    shown = f"{int(answer.score * 1000) / 1000:.3f}"
    if answer.proven_optimal:
        return f"{shown} (proven optimal)"
    return f"{shown} (the best found; no shifts reach more than {answer.bound:.3f})"


def _verdict(answer: Compatibility) -> str:
    if answer.score >= 1 - 1e-9:
        return "fully compatible, the jobs can take turns"
    if answer.worth_shifting:
        return "partly compatible, shifting them helps"
    return "incompatible, shifting wins nothing; use priorities or adaptive unfairness, or place them apart"


def _print_candidates(answer: Compatibility) -> None:
    if not answer.candidates:
        return
    out.print()
    rows = (
        (each.name, "discarded" if each.score is None else f"{each.score:.3f}", each.reason or "")
        for each in answer.candidates
    )
    _print_table(("placement", "score", ""), rows)
    links = ((link.name, f"{link.capacity_bps / 1e9:g}", f"{link.score:.3f}", ", ".join(link.jobs)) for link in answer.links)
    out.print()
    _print_table(("shared link", "Gbps", "score", "jobs"), links)


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
    _print_table(header[:cut] if not chose else header, (row if chose else row[:-1] for row in rows))


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


def _print_fit(answer: Compatibility) -> None:
    if answer.fit.holds_for_s is None:
        return
    out.print()
    out.print(
        f"The periods have no small common multiple: on the circle they are up to {answer.fit.error:.2%} off, and "
        f"the interleaving holds for {answer.fit.holds_for_s:.2f} s before jobs drift by 5%."
    )
    padding = ", ".join(
        f"{escape(name)} to {_ms(answer.fit.padded_periods_s[name])} ms (+{cost:.2%})"
        for name, cost in answer.fit.padding_cost.items()
        if cost > 1e-9
    )
    out.print(f"It holds for ever if iterations are padded: {padding}.")


def _print_run(title: str, run: Run, directory: Path) -> None:
    manifest = run.manifest
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(
        f"simulated {manifest['simulated_s']:,.3f} s in {manifest['run_s']:.3f} s, "
        f"{manifest['counts']['events']:,} events, {manifest['peak_rss_mb']:.0f} MB"
    )
    out.print()
    rows = (
        (
            row["job"],
            f"{row['iterations']:,}",
            *(_ms(row[f"{name}_s"]) for name in ("mean_iteration", "p50_iteration", "p99_iteration", "mean_communication")),
            _ms(row["mean_delayed_s"]),
            f"{row['adjustments']:,}",
        )
        for row in run.tables["jobs"].to_dicts()
    )
    header = ("job", "iterations", "mean (ms)", "p50", "p99", "communication", "waited", "adjustments")
    _print_table(header, rows)
    out.print()
    tables = ", ".join(f"{name} ({table.height:,})" for name, table in run.tables.items())
    out.print(f"written to {escape(str(directory))}: manifest.json and Parquet tables {tables}")


def _ms(seconds: float | None) -> str:
    """Milliseconds with two decimals; a dash where a job finished no iteration."""
    return "–" if seconds is None or seconds != seconds else f"{seconds * 1e3:,.2f}"
