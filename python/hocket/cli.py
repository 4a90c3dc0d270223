"""The command line: reads arguments, calls the library, prints. Every mistake of a user is one message on
stderr and exit code 2; Ctrl-C is exit code 130 after what was finished has been kept; a run that proves
itself wrong, and a validation that finds a difference, are exit code 1.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.core
from rich.markup import escape

from hocket import __version__, doctor
from hocket.agent import commands as agent_commands
from hocket.cluster import commands as cluster_commands
from hocket.compat import compatibility
from hocket.console import (
    err,
    out,
    print_compatibility,
    print_json,
    print_run,
    print_study,
    print_table,
    progress_bar,
)
from hocket.errors import InputError, SelfCheckError, located
from hocket.exits import INPUT_ERROR, INTERRUPTED, WRONG, end_interrupted
from hocket.export import commands as export_commands
from hocket.hpcc import EXACT, REFERENCE, is_study, load_study, run_study
from hocket.plan import Plan
from hocket.profile import commands as profile_commands
from hocket.runner import as_plan, simulate
from hocket.service import commands as service_commands
from hocket.tcp import commands as tcp_commands
from hocket.testbed import commands as testbed_commands
from hocket.trace import perfetto


class _Commands(typer.core.TyperGroup):
    """The commands, and how each of them may end early."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            err.print(f"[red]error:[/red] {escape(str(error))}")
            raise typer.Exit(INPUT_ERROR) from None
        except SelfCheckError as error:
            err.print(f"[red]the run proved itself wrong:[/red] {escape(str(error))}")
            raise typer.Exit(WRONG) from None
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever reads our output has seen enough; nor may the interpreter's last flush fail on it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None


app = typer.Typer(
    name="hocket",
    cls=_Commands,
    help="Which training jobs can take turns on a shared network, and how far to shift each.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The `hocket` command."""
    app(prog_name="hocket")


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
    exact: Annotated[
        bool, typer.Option("--exact", help="The optimum over all shifts, not in steps.")
    ] = False,
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
    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    if precision is not None and not 0.1 <= precision <= 90:
        raise InputError(f"--precision: must be between 0.1 and 90 degrees: got {precision:g}")
    with located(plan):
        answer = compatibility(checked, exact=exact or None, strict=strict or None, precision_deg=precision)
    if as_json:
        print_json(answer.to_dict())
    else:
        print_compatibility(checked.name or plan.name, answer)
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.circles import compatibility_figure

        save(compatibility_figure(answer), figure)
        err.print(f"figure: {figure}")
    if answer.interrupted:
        err.print("interrupted: this is the best found by then")
        raise typer.Exit(INTERRUPTED)


@app.command("run")
def run_command(
    plan: Annotated[
        Path,
        typer.Argument(help="The plan to simulate, as TOML or JSON; or an HPCC-style config.txt."),
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to write; hocket-runs/NAME if not given."),
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="NAME", help="Place jobs as this candidate does.")
    ] = None,
    engine: Annotated[
        Literal["flow", "packet"] | None,
        typer.Option("--engine", help="Of a plan: the engine to use instead of the one that it names."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Of a plan: a value instead of the one in the file."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Of a study: 1 if not given.", min=0)
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Of a study: exact times and RoCEv2's frames, not its simulator's."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest instead of a table.")] = False,
) -> None:
    """Simulate a plan, or a study of the HPCC simulator; write Parquet tables and a manifest."""
    if is_study(plan):
        for option, value in (("--candidate", candidate), ("--engine", engine), ("--set", settings)):
            if value:
                raise InputError(
                    f"{option}: is for plans; a study says who sends to whom, and runs on the packet engine"
                )
        _run_study(plan, directory, 1 if seed is None else seed, exact, as_json)
        return
    if seed is not None or exact:
        raise InputError(
            f"{'--exact' if exact else '--seed'}: is for HPCC-style studies; a plan has its seed in it"
        )
    checked = _with_settings(plan, settings or [])
    directory = directory or Path("hocket-runs") / plan.stem
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=None)

        def report(time_s: float, done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, description=f"simulated {time_s:,.3f} s")

        with located(plan):
            run = simulate(checked, candidate=candidate, engine=engine, directory=directory, progress=report)
    if checked.run.trace:
        perfetto(run, directory / "trace.json")
    if as_json:
        print_json(run.manifest)
    else:
        print_run(checked.name or plan.name, run, directory)
    end_interrupted(run)


def _with_settings(path: Path, settings: Sequence[str]) -> Plan:
    """The plan with other values of some keys, each written as an axis of a sweep that has one value."""
    from hocket.sweeps import parse_axis
    from hocket.sweeps.combinations import Tables

    if not settings:
        return as_plan(path)
    axes = [parse_axis(text) for text in settings]
    for axis in axes:
        if len(axis.values) != 1:
            raise InputError(
                f"--set {axis.key}: a run has one value of each key: got {len(axis.values)}; "
                "`hocket sweep` runs them all"
            )
    (combination,) = Tables.of(path).combinations(axes)
    return combination.plan


def _run_study(path: Path, directory: Path | None, seed: int, exact: bool, as_json: bool) -> None:
    study = load_study(path)
    # They are all called config.txt; the directory tells them apart.
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    directory = directory or Path("hocket-runs") / name
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=len(study.flows))

        def report(time_s: float, done: int, total: int) -> None:
            progress.update(
                task, completed=done, total=total, description=f"simulated {time_s * 1e3:,.3f} ms"
            )

        profile = EXACT if exact else REFERENCE
        run = run_study(study, directory, seed=seed, profile=profile, progress=report)
    if as_json:
        print_json(run.manifest)
    else:
        print_study(name, study, run, directory)
    end_interrupted(run)


for part in (cluster_commands, profile_commands, export_commands, agent_commands, service_commands, doctor):
    for name, command in part.COMMANDS.items():
        app.command(name)(command)
app.add_typer(tcp_commands.app, name="tcp")
app.add_typer(testbed_commands.app, name="testbed")


@app.command("fabric")
def fabric_command(
    plan: Annotated[Path, typer.Argument(help="A plan with a [fabric], as TOML or JSON.")],
    figure: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.svg|png", help="Draw it, and where jobs run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the fabric of a plan: GPUs, tiers of switches, over-subscription, and where jobs run."""
    from hocket.fabrics import report

    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    checked = as_plan(plan)
    with located(plan):
        topology, jobs = report.placed(checked)
    if as_json:
        print_json(report.as_json(checked))
    else:
        report.print_fabric(checked.name or plan.name, checked)
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.fabric import fabric_figure

        save(fabric_figure(topology, jobs, checked.name or plan.stem), figure)
        err.print(f"figure: {figure}")


@app.command("compare")
def compare_command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Directories of runs; ratios are to the first.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.csv|parquet", help="Write all measurements as one table."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE.svg|png", help="Draw the comparison.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put runs side by side: iterations, collectives, the network, and what differs in their plans."""
    from hocket.compare import compare, read_runs, report

    if output is not None:
        report.check_table(output)
    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    comparison = compare(read_runs(directories))
    # Files first: whoever reads what is printed may stop reading.
    if output is not None:
        err.print(f"measurements: {report.write_measurements(comparison, output)}")
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.runs import runs_figure

        save(runs_figure(comparison), figure)
        err.print(f"figure: {figure}")
    if as_json:
        print_json(report.as_json(comparison))
    else:
        report.print_comparison(comparison)


@app.command("sweep")
def sweep_command(
    plan: Annotated[Path, typer.Argument(help="The plan to vary, as TOML or JSON.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=V1,V2,…", help="An axis: a key of the plan and its values."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="So many seeds, from the plan's own on.")
    ] = None,
    engine: Annotated[
        Literal["flow", "packet"] | None,
        typer.Option("--engine", help="The engine to use instead of the one that the plan names."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Runs at once; all processors if not given.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="On a cluster of Ray: local, auto or its address."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Where answers are kept, if not in ~/.cache."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither look for kept answers nor keep any.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write sweep.parquet and a manifest.")
    ] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="With --out: all tables of every run too, in DIR/runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Simulate every combination of values of keys of a plan, on all processors or on a cluster."""
    from hocket.sweeps import parse_axis, sweep
    from hocket.sweeps.report import print_sweep

    if is_study(plan):
        raise InputError(f"{plan}: is a study of an HPCC-style simulator; a sweep varies the keys of plans")
    if no_cache and cache is not None:
        raise InputError("--no-cache: is the opposite of --cache; give one of them")
    with progress_bar() as progress:
        task = progress.add_task("sweeping", total=None)
        swept = sweep(
            plan,
            [parse_axis(text) for text in settings or []],
            seeds=seeds,
            engine=engine,
            workers=workers,
            ray=ray,
            cache=cache or not no_cache,
            directory=directory,
            keep_runs=keep_runs,
            progress=lambda done, total: progress.update(
                task, completed=done, total=total, description=f"{done:,} of {total:,} runs"
            ),
        )
    if as_json:
        print_json(swept.table.to_dicts())
    else:
        print_sweep(swept.manifest["plan"].get("name") or plan.name, swept, directory)
    if swept.manifest["not_kept"] is not None:
        err.print(f"[yellow]warning:[/yellow] answers were not kept: {escape(swept.manifest['not_kept'])}")
    if swept.interrupted:
        kept = (
            "" if swept.manifest["cache"] is None else "; what was finished is kept, and need not run again"
        )
        err.print(f"interrupted{kept}")
        raise typer.Exit(INTERRUPTED)
    if swept.failures().height > 0:
        raise typer.Exit(WRONG)


@app.command("reproduce")
def reproduce_command(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Targets such as H1 or C17.")
    ] = None,
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
    from hocket.reproduce import TARGETS, Reproduction, chosen, report, reproduce

    if listing:
        listed = [(target.id, target.title) for target in TARGETS.values()]
        if as_json:
            print_json([{"id": identifier, "title": title} for identifier, title in listed])
        else:
            print_table(("id", "what"), listed, left=2)
        return
    if everything == bool(targets):
        raise InputError("reproduce: give the ids of targets, or --all, or --list")
    wanted = chosen(targets or [])
    if everything:
        for target in TARGETS.values():
            if lacking := target.missing():
                err.print(f"{target.id} is left out: {'; '.join(lacking)}")
            else:
                wanted.append(target)
    done: list[Reproduction] = []
    try:
        with progress_bar() as progress:
            task = progress.add_task("reproducing", total=len(wanted))

            def tell(doing: str) -> None:
                progress.update(task, completed=len(done), description=doing)

            for reproduction in reproduce([target.id for target in wanted], tell):
                done.append(reproduction)
                if not as_json:
                    report.print_table(reproduction, out)
                if reproduction.figure is not None:
                    save(reproduction.figure(), directory / f"{reproduction.id}.png")
    finally:
        # Also after Ctrl-C: what is done stays done.
        if as_json:
            print_json(report.as_json(done))
        if done:
            err.print(f"figures: {directory}")
            if write is not None:
                report.write_validation(write, done)


@app.command("validate")
def validate_command(
    cases: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE…", help="Such as incast8, or incast8/dcqcn; all if none is given."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option("--reference", metavar="DIR", help="The recorded runs of an ns-3 based simulator."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Runs of ours per random case.", min=1)
    ] = 10,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.md", help="Renew the section in this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repeat recorded runs of an ns-3 based simulator on the packet engine, and compare."""
    from hocket.validate import report
    from hocket.validate.reference import DEFAULT

    validation = report.Validation.of(reference or DEFAULT, cases or [])
    with progress_bar() as progress:
        task = progress.add_task("comparing", total=len(validation.chosen))
        for case in validation.chosen:
            progress.update(task, description=case.folder)
            validation.add(case, seeds, unrounded=write is not None)
            progress.advance(task)
    if as_json:
        print_json(report.as_json(validation.comparisons))
    else:
        print_table(report.SHORT_HEADER, map(report.short_row, validation.comparisons))
    if write is not None:
        report.write_validation(write, validation)
    if validation.failed:
        err.print(
            f"{len(validation.failed)} of {len(validation.comparisons)} runs differ beyond their limits"
        )
        raise typer.Exit(WRONG)
