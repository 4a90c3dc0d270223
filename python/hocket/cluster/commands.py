"""The commands for clusters over time: `hocket cluster`, `explain`, `replay` and `trace`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import TaskID

from hocket.console import err, print_json, progress_bar
from hocket.errors import InputError, SelfCheckError, located
from hocket.exits import end_interrupted
from hocket.results import Run
from hocket.units import format_duration, parse_duration


def cluster_command(
    trace: Annotated[Path, typer.Argument(help="A trace of jobs and their cluster, as TOML or JSON.")],
    schedulers: Annotated[
        list[str],
        typer.Option(
            "--scheduler",
            metavar="NAME",
            help="themis, pollux, pollux-osdi21, pollux-adaptdl, random, ideal or FILE.py:Class, "
            "with +cassini or without. Given several times, all are compared with the first.",
        ),
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to write; hocket-runs if not given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A value instead of the one in the file."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="The seed instead of the one in the file.", min=0),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", metavar="FILE.svg|png", help="Draw how long iterations take, as CDFs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Run a trace of jobs under schedulers; write the tables of each and put them side by side."""
    from hocket.cluster import report
    from hocket.cluster.simulation import simulate as simulate_cluster
    from hocket.cluster.trace import load_trace
    from hocket.schedulers.loading import load_policy

    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    given = [*(settings or []), *([] if seed is None else [f"seed={seed}"])]
    checked = load_trace(trace, given)
    policies = [load_policy(title, checked) for title in dict.fromkeys(schedulers)]
    runs: dict[Path, Run] = {}
    try:
        with progress_bar() as progress:
            for policy in policies:
                where = (directory or Path("hocket-runs")) / f"{trace.stem}-{policy.title}"
                task = progress.add_task(policy.title, total=len(checked.jobs))

                def tell(
                    time_s: float, done: int, _: int, task: TaskID = task, title: str = policy.title
                ) -> None:
                    text = f"{title}: simulated {time_s:,.0f} s"
                    progress.update(task, completed=done, description=text)

                with _kept_in(where):
                    runs[where] = simulate_cluster(checked, policy, directory=where, progress=tell)
                end_interrupted(runs[where])
    finally:
        # Also after Ctrl-C or a scheduler that failed: what is done stays done.
        if as_json:
            print_json(report.as_json(runs.values()))
        elif runs:
            report.print_runs(checked.name, runs)
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.cluster import distribution_figure

        tables = {run.manifest["scheduler"]: run.tables["iterations"] for run in runs.values()}
        save(distribution_figure(tables, "iteration"), figure)
        err.print(f"figure: {figure}")


@contextmanager
def _kept_in(directory: Path) -> Iterator[None]:
    """Says of a run that fails where its tables are, if it came so far."""
    try:
        yield
    except (InputError, SelfCheckError) as error:
        if (directory / "manifest.json").exists():
            raise type(error)(f"{error}; its tables until then are in {directory}") from error
        raise


def explain_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a cluster run.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help='The decision in force then, such as "72 min".'),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE.svg|png", help="With --at: draw a link's circle.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="NAME", help="The link to draw; if not given, the lowest score's."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the decisions of a cluster run, or explain one: scores, candidates, who slows whom, how much."""
    from hocket.cluster import report
    from hocket.cluster.explain import circle_of, decisions_of, explain

    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    run = Run.read(directory)
    if at is None:
        if figure is not None or link is not None:
            raise InputError("explain: --figure and --link are for one decision; say which with --at")
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
        from hocket.figures import save

        save(circle_of(run, explanation, link), figure)
        err.print(f"figure: {figure}")


def replay_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a cluster run.")],
    at: Annotated[str, typer.Option("--at", metavar="TIME", help='When it starts, such as "72 min".')],
    length: Annotated[str, typer.Option("--for", metavar="TIME", help='How long it is, such as "2 s".')],
    engine: Annotated[Literal["flow", "packet"], typer.Option("--engine", help="What runs it.")] = "packet",
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="FILE.py:Class", help="Of a run under a class of one's own."),
    ] = None,
    out_directory: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where to write plan and run; RUN/replay-TIME if not given."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a window of a cluster run packet by packet, from the state that it was in; compare the two."""
    from hocket.cluster import report
    from hocket.cluster.replay import replay

    times_ps = []
    for option, text in (("--at", at), ("--for", length)):
        with located(option):
            times_ps.append(parse_duration(text))
    if times_ps[1] == 0:
        raise InputError(f"--for: a window must be longer than 0: got {length!r}")
    run = Run.read(directory)
    where = out_directory or directory / f"replay-{format_duration(times_ps[0]).replace(' ', '-')}"
    with progress_bar() as progress:
        task = progress.add_task("replaying", total=None)

        def tell(time_s: float, _: int, __: int | None) -> None:
            progress.update(task, description=f"replayed {time_s:,.3f} s")

        with located(directory):
            replayed = replay(
                run,
                times_ps[0],
                times_ps[1],
                engine=engine,
                scheduler=scheduler,
                directory=where,
                progress=tell,
            )
    if as_json:
        print_json(report.replay_as_json(replayed))
    else:
        report.print_replay(replayed, where)
    end_interrupted(replayed.run)


def trace_command(
    trace: Annotated[Path, typer.Argument(help="A trace of jobs and their cluster, as TOML or JSON.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A value instead of the one in the file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a trace holds: jobs by model, and the load that they bring over time."""
    from hocket.cluster import report
    from hocket.cluster.trace import load_trace

    checked = load_trace(trace, settings or [])
    if as_json:
        print_json(report.trace_as_json(checked))
    else:
        report.print_trace(checked)


COMMANDS: dict[str, Callable[..., Any]] = {
    "trace": trace_command,
    "cluster": cluster_command,
    "explain": explain_command,
    "replay": replay_command,
}
"""By name."""
