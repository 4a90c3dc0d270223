"""The commands that run a plan on one machine: `hocket testbed up`, `run`, `down` and `status`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from hocket import options
from hocket.console import FAILED, INTERRUPTED, Column, err, out, print_json, print_table, progress_bar
from hocket.errors import InputError, located
from hocket.manual import ListingGroup
from hocket.testbed.congestion import FAIR

app = typer.Typer(
    cls=ListingGroup,
    help="A plan's hosts and links as network namespaces, its jobs as PyTorch processes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_PlanFile = Annotated[Path, options.file("Jobs and their link or fabric", metavar="PLAN")]
_Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the testbed; default: the plan's file.")
]


@app.command("up")
def up_command(
    plan: _PlanFile,
    name: _Name = None,
    candidate: options.Candidate = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands without running them.")
    ] = False,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Create the hosts and links of a plan. Needs root and iproute2."""
    from hocket.plan import load_plan
    from hocket.testbed import lifecycle, steps
    from hocket.testbed.layout import warnings

    loaded, name = load_plan(plan), name or plan.stem
    with located(plan):
        planned = lifecycle.plan_testbed(loaded, name=name, candidate=candidate)
    if dry_run:
        commands = [list(command) for command in steps.up(planned.layout)]
        if as_json:
            print_json(commands)
        else:
            # No argument contains a blank, so a shell can run the lines as they are.
            typer.echo("\n".join(map(" ".join, commands)))
        return
    with progress_bar() as progress, located(plan):
        task = progress.add_task("creating namespaces and links", total=None)
        made = lifecycle.bring_up(
            loaded,
            name=name,
            candidate=candidate,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    for warning in warnings(made.layout):
        err.print(f"[yellow]warning:[/yellow] {escape(warning)}")
    header = ("host", "job", "namespace", "interface", "address")
    columns = [Column(title, spare=int(title == "interface"), text=True) for title in header]
    rows = [
        (worker.host, job.name, worker.namespace, worker.interface, worker.address)
        for job in made.layout.jobs
        for worker in job.workers
    ]
    if as_json:
        print_json({"testbed": made.name, "workers": [dict(zip(header, row, strict=True)) for row in rows]})
        return
    print_table(columns, rows)
    out.print(f"testbed {made.name} is up; `hocket testbed down {made.name}` removes it")


@app.command("run")
def run_command(
    plan: _PlanFile,
    name: _Name = None,
    candidate: options.Candidate = None,
    directory: Annotated[
        Path | None, options.out_directory("Directory of the run; default: hocket-runs/NAME-live.")
    ] = None,
    force: options.Force = False,
    jobs: Annotated[
        list[str] | None, typer.Option("--job", metavar="NAME", help="Run only this job; may be repeated.")
    ] = None,
    agents: Annotated[
        Literal["none", "dry-run", "shift"],
        typer.Option("--agents", help="Agents in the jobs: none, measuring only, or shifting."),
    ] = "none",
    registered: Annotated[
        Path | None,
        typer.Option(
            "--registered", metavar="PLAN", help="Plan with the profiles to register; default: PLAN."
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", metavar="N", help="Iterations of each job; overrides the plan."),
    ] = None,
    seconds: Annotated[float | None, options.seconds("Stop all jobs after this time.")] = None,
    congestion: Annotated[
        str, typer.Option("--congestion", metavar="NAME", help="TCP congestion control of fair jobs.")
    ] = FAIR,
    python: Annotated[
        str | None, typer.Option("--python", metavar="FILE", help="Python interpreter with PyTorch.")
    ] = None,
    figure: Annotated[
        Path | None,
        options.figure("Draw the use of a link by each job, from the counters of NICs, and iteration times."),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Run the jobs of a plan on its testbed; write the same tables as `hocket run`."""
    from hocket.plan import load_plan
    from hocket.results import check_replaceable
    from hocket.testbed import lifecycle
    from hocket.testbed.report import print_live

    loaded, measured = load_plan(plan), None if registered is None else load_plan(registered)
    with located(plan):
        planned = lifecycle.plan_testbed(loaded, name=name or plan.stem, candidate=candidate)
    directory = directory or Path("hocket-runs") / f"{plan.stem}-live"
    # Before the run: afterwards, a directory that may not be replaced would cost all its results.
    check_replaceable(directory, force)
    with progress_bar() as progress, located(plan):
        task = progress.add_task("starting workers", total=None)

        def report(time_s: float, done: int, total: int | None) -> None:
            doing = f"running for {time_s:,.0f} s" if time_s > 0 else "starting workers"
            progress.update(task, completed=done, total=total, description=doing)

        run = planned.run(
            jobs=jobs,
            agents=agents,
            registered=measured,
            iterations=iterations,
            seconds=seconds,
            fair=congestion,
            python=python,
            directory=directory,
            progress=report,
        )
    if as_json:
        print_json(run.manifest)
    else:
        print_live(planned.plan.name or plan.name, run, directory)
    if run.interrupted:
        err.print(f"interrupted after {run.manifest['measured_s']:.1f} s; kept what was finished")
        raise typer.Exit(INTERRUPTED)
    if run.manifest["status"] == "failed":
        err.print(f"[red]workers were lost:[/red] {escape(run.manifest['failure'])}; kept what was finished")
        raise typer.Exit(FAILED)
    if figure is not None:
        from hocket.figures.run import run_figure
        from hocket.testbed.link_use import measured_use

        with located(directory):
            use = measured_use(planned.layout, run)
        options.save_figure(run_figure(run, {"measured": use}, planned.plan.name or plan.name), figure)


@app.command("down")
def down_command(
    testbed: Annotated[
        str | None, typer.Argument(metavar="NAME|PLAN", help="The testbed, or the plan of the testbed.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All testbeds of this machine.")] = False,
) -> None:
    """Remove a testbed, complete or not, and kill its processes."""
    from hocket.testbed import lifecycle, state

    if (testbed is None) != everything:
        raise InputError("down: give the name of a testbed, its plan, or --all")
    names = state.all_names() if testbed is None else [lifecycle.testbed_name(testbed)]
    if not names:
        out.print("there are no testbeds")
    failures = []
    for name in names:
        try:
            existed = lifecycle.take_down(name)
        except InputError as error:
            # One testbed that is in use must not keep the others from being removed.
            failures.append(str(error))
            continue
        out.print(f"testbed {name} removed" if existed else f"there is no testbed {name}")
    if failures:
        raise InputError("\n".join(failures))


@app.command("status")
def status_command(as_json: options.AsJson = False, wide: options.Wide = False) -> None:
    """List the testbeds of this machine."""
    from hocket.testbed import machine, state

    header = ("testbed", "state", "namespaces", "processes")
    rows = []
    for name in state.all_names():
        found = state.find(name)
        if found is not None:
            there = machine.namespaces().intersection(found.namespaces)
            running = sum(len(machine.processes_in(namespace)) for namespace in there)
            condition = "up" if found.made and len(there) == len(found.namespaces) else "incomplete"
            rows.append((name, condition, len(there), running))
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    elif rows:
        print_table(header, (map(str, row) for row in rows), left=2)
    else:
        out.print("there are no testbeds")
