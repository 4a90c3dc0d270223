"""The commands that this distribution adds to `hocket`: `hocket reproduce` and `hocket validate`."""

from pathlib import Path
from typing import Annotated

import typer

from hocket import options
from hocket.console import FAILED, err, print_json, print_table, progress_bar
from hocket.errors import InputError


def reproduce_command(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Targets such as H1 or C17.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All targets.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the targets.")] = False,
    directory: Annotated[Path, options.out_directory("Where to draw the figures.")] = Path(
        "hocket-runs/reproduce"
    ),
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="FILE.md", help="Renew this table of findings, and the pages behind it."
        ),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Rerun figures and tables of the papers.

    Prints the paper's values beside ours.
    """
    from hocket.figures import save
    from hocket_reproduce.overview import renew_overview
    from hocket_reproduce.targets import TARGETS, Reproduction, chosen, report, reproduce

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

            def show(doing: str) -> None:
                progress.update(task, completed=len(done), description=doing)

            for reproduction in reproduce([target.id for target in wanted], show):
                done.append(reproduction)
                if not as_json:
                    report.print_reproduction(reproduction)
                if reproduction.figure is not None:
                    save(reproduction.figure(), directory / f"{reproduction.id}.png")
    finally:
        # Also after Ctrl-C: targets that have ended, some after minutes, are not lost.
        if as_json:
            print_json(report.as_json(done))
        if done:
            err.print(f"figures: {directory}")
            if write is not None:
                report.write_validation(write, done)
                renew_overview(write)


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
        Path | None,
        typer.Option("--write", metavar="FILE.md", help="Renew this table of findings, and its section."),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Repeat recorded runs of an ns-3 based simulator.

    Runs them on the packet engine, and compares.
    """
    from hocket_reproduce.overview import renew_overview
    from hocket_reproduce.validate import report
    from hocket_reproduce.validate.reference import DEFAULT

    validation = report.Validation.of(reference or DEFAULT, cases or [])
    with progress_bar() as progress:
        task = progress.add_task("comparing", total=len(validation.chosen))
        for case in validation.chosen:
            progress.update(task, description=case.folder)
            # Only the page shows runs without the simulator's arithmetic.
            validation.add(case, seeds, unrounded=write is not None)
            progress.advance(task)
    if as_json:
        print_json(report.as_json(validation.comparisons))
    else:
        print_table(report.SHORT_HEADER, map(report.short_row, validation.comparisons))
    if write is not None:
        report.write_validation(write, validation)
        renew_overview(write)
    if validation.failed:
        err.print(
            f"{len(validation.failed)} of {len(validation.comparisons)} runs differ beyond their limits"
        )
        raise typer.Exit(FAILED)
