"""The commands on clusters over time: `hocket cluster`, `explain`, `replay` and `trace`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import TaskID

from hocket import options
from hocket.console import message_on_ctrl_c, print_json, print_warnings, progress_bar
from hocket.errors import InputError, located
from hocket.units import format_duration, parse_duration

if TYPE_CHECKING:
    from hocket.results import Run

_KEPT = "finishing the step and writing what was finished"


def cluster_command(
    trace: Annotated[Path, options.file("A trace of jobs and their cluster, as TOML or JSON")],
    schedulers: Annotated[
        list[str] | None,
        typer.Option(
            "--scheduler",
            metavar="NAME",
            help="themis, pollux, pollux-osdi21, pollux-adaptdl, random, fifo, ideal or FILE.py:Class; "
            "required. All but ideal take +monkeytree, +cassini, +crux, +mltcp and +perfect-routing. Repeat "
            "the option to compare schedulers with the first one.",
        ),
    ] = None,
    directory: Annotated[
        Path | None, options.out_directory("Where to write; hocket-runs if not given.")
    ] = None,
    force: options.Force = False,
    settings: options.Settings = None,
    seed: options.Seed = None,
    figure: Annotated[Path | None, options.figure("Draw slowdowns, over time and as a CDF.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Run a trace of jobs under one or more schedulers, write the tables of each run and compare them."""
    from hocket.cluster import report
    from hocket.cluster.policies import check_titles, load_policy
    from hocket.cluster.recording import recording_of
    from hocket.cluster.simulation import simulate_cluster
    from hocket.cluster.trace import load_trace
    from hocket.results import check_replaceable
    from hocket.results.report import end_interrupted

    given = [*(settings or []), *([] if seed is None else [f"seed={seed}"])]
    checked = load_trace(trace, given)
    print_warnings(checked.warnings)
    if not schedulers:
        raise InputError(
            "--scheduler: is missing; try --scheduler themis --scheduler themis+cassini to compare these two"
        )
    if figure is not None and recording_of(checked).kind == "summary":
        raise InputError(
            '--figure: draws iterations, but record is "summary" in [cluster]; set it to "all" or "sampled"'
        )
    policies = [load_policy(title, checked) for title in dict.fromkeys(schedulers)]
    check_titles(policies)
    directories = [(directory or Path("hocket-runs")) / f"{trace.stem}-{each.title}" for each in policies]
    for where, title in zip(directories, dict.fromkeys(schedulers), strict=True):
        # The manifest does not record the content of an imported trace or of a scheduler's own file, so an
        # earlier run with the same manifest may still be another one.
        comparable = not checked.file.imports and ".py:" not in title
        check_replaceable(where, force, **({"plan": checked.resolved()} if comparable else {}))
    runs: dict[Path, Run] = {}
    try:
        with progress_bar() as progress:
            for policy, where in zip(policies, directories, strict=True):
                task = progress.add_task(policy.title, total=len(checked.jobs))

                def show_progress(
                    time_s: float, done: int, _: int, task: TaskID = task, title: str = policy.title
                ) -> None:
                    text = f"{title}: simulated {time_s:,.0f} s"
                    progress.update(task, completed=done, description=text)

                with message_on_ctrl_c(_KEPT):
                    runs[where] = simulate_cluster(checked, policy, directory=where, progress=show_progress)
                end_interrupted(runs[where])
    finally:
        # Runs that finished before Ctrl-C or an error are still reported.
        if as_json:
            print_json(report.as_json(runs.values()))
        elif runs:
            report.print_runs(checked.name, runs)
    if figure is not None:
        from hocket.figures.cluster import schedulers_figure

        tables = {run.manifest["scheduler"]: run.tables["iterations"] for run in runs.values()}
        options.save_figure(schedulers_figure(tables, checked.name or trace.stem), figure)


def explain_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a cluster run.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help='Explain the decision in force at this time: "72 min".'),
    ] = None,
    figure: Annotated[Path | None, options.figure("With --at: draw a link's circle.")] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link", metavar="NAME", help="The link to draw; by default that with the lowest score."
        ),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """List the decisions of a cluster run, or explain one: candidates, scores, contention between jobs."""
    from hocket.cluster import report
    from hocket.cluster.explain import circles_of, decisions_of, explain
    from hocket.results import Run

    run = Run.read(directory)
    if at is None:
        if figure is not None or link is not None:
            raise InputError("explain: --figure and --link are for one decision; select it with --at")
        if as_json:
            print_json(decisions_of(run).to_dicts())
        else:
            report.print_decisions(decisions_of(run))
        return
    with located("--at"):
        time_s = parse_duration(at) / 1e12
    explanation = explain(run, time_s)
    if as_json:
        print_json(asdict(explanation))
    else:
        report.print_explanation(run, explanation)
    if figure is not None:
        from hocket.figures.cluster import link_circle_figure

        circles = circles_of(run, explanation)
        title = f"{run.manifest['plan'].get('name') or directory.name} at {at}"
        drawn = link_circle_figure(circles.cassini, circles.profiles, circles.rates_bps, link, title)
        options.save_figure(drawn, figure)


def replay_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a cluster run.")],
    at: Annotated[str, typer.Option("--at", metavar="TIME", help='Start of the window, such as "72 min".')],
    length: Annotated[
        str, typer.Option("--for", metavar="TIME", help='Length of the window, such as "2 s".')
    ],
    engine: options.Engine = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="FILE.py:Class",
            help="The scheduler of the run; needed only if it was a class of your own.",
        ),
    ] = None,
    out_directory: Annotated[
        Path | None, options.out_directory("Where to write the plan and its run; default RUN/replay-TIME.")
    ] = None,
    force: options.Force = False,
    figure: Annotated[
        Path | None,
        options.figure(
            "Draw the use of the busiest shared link over up to 6 iterations, and the iteration times."
        ),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Replay a window of a cluster run packet by packet, from the state at its start; compare the two."""
    from hocket.cluster import report
    from hocket.cluster.replay import replay
    from hocket.results import Run, check_replaceable
    from hocket.results.report import end_interrupted

    times_ps = []
    for option, text in (("--at", at), ("--for", length)):
        with located(option):
            times_ps.append(parse_duration(text))
    if times_ps[1] == 0:
        raise InputError(f"--for: a window must be longer than 0: got {length!r}")
    run = Run.read(directory)
    where = out_directory or directory / f"replay-{format_duration(times_ps[0]).replace(' ', '-')}"
    check_replaceable(where, force)
    with progress_bar() as progress:
        task = progress.add_task("replaying", total=None)

        def show_progress(time_s: float, _: int, __: int | None) -> None:
            progress.update(task, description=f"replayed {time_s:,.3f} s")

        with located(directory), message_on_ctrl_c(_KEPT):
            replayed = replay(
                run,
                times_ps[0] / 1e12,
                times_ps[1] / 1e12,
                engine=engine or "packet",
                scheduler=scheduler,
                directory=where,
                progress=show_progress,
            )
    if as_json:
        print_json(report.replay_as_json(replayed))
    else:
        report.print_replay(replayed, where)
    end_interrupted(replayed.run)
    if figure is not None:
        from hocket.figures.cluster import replay_figure

        with located(directory):
            use = replayed.link_use()
        options.save_figure(replay_figure(replayed, use, replayed.window.plan["name"]), figure)


def trace_command(
    trace: Annotated[Path, options.file("A trace of jobs and their cluster, as TOML or JSON")],
    settings: options.Settings = None,
    figure: Annotated[
        Path | None, options.figure("Draw the GPU demand over time, by model, and the arrivals.")
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Show the jobs of a trace by model, and their load over time."""
    from hocket.cluster import report
    from hocket.cluster.trace import load_trace

    checked = load_trace(trace, settings or [])
    print_warnings(checked.warnings)
    if as_json:
        print_json(report.trace_as_json(checked))
    else:
        report.print_trace(checked)
    if figure is not None:
        from hocket.figures.trace import trace_figure

        options.save_figure(trace_figure(checked), figure)
