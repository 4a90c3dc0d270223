"""The command `hocket compat`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hocket import options
from hocket.console import INTERRUPTED, err, print_json
from hocket.errors import InputError, located


def compat_command(
    plan: Annotated[Path, options.file("Jobs and their link or fabric, as TOML or JSON")],
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision", metavar="DEGREES", help="Step of the search over rotations; 0 searches all."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Allow one job at a time, whatever its rate.")
    ] = False,
    every_candidate: Annotated[
        bool, typer.Option("--all", help="Predict every candidate, not only the best.")
    ] = False,
    output: Annotated[
        Path | None, options.out_file("FILE.toml|json", "Write the plan with the time-shifts.")
    ] = None,
    padded: Annotated[
        bool, typer.Option("--pad", help="In the plan that --out writes, pad iterations to fit.")
    ] = False,
    force: options.Force = False,
    figure: Annotated[Path | None, options.figure("Draw the circles.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Report whether shifting jobs in time helps, by how much, and the time-shift of each."""
    from hocket.compat.answer import compatibility
    from hocket.compat.report import print_compatibility
    from hocket.plan import as_plan
    from hocket.plan.link import check_precision
    from hocket.plan.writing import check_plan_file, write_plan

    if output is None:
        for option, given in (("--force", force), ("--pad", padded)):
            if given:
                raise InputError(f"{option}: applies only to the plan that --out writes; add --out FILE.toml")
    else:
        # Before the search, which may last until its time limit.
        check_plan_file(output, replace=force)
    checked = as_plan(plan)
    if every_candidate and not checked.candidates:
        raise InputError(f"--all: {plan} has no [[candidates]]")
    if precision is not None:
        with located("--precision"):
            check_precision(precision)
    with located(plan):
        answer = compatibility(
            checked,
            strict=strict or None,
            precision_deg=precision,
            every_candidate=every_candidate,
        )
    if as_json:
        print_json(answer.to_dict())
    else:
        print_compatibility(checked.name or plan.name, answer)
    if output is not None:
        speedup = (answer.padded_speedup if padded else None) or answer.speedup
        how = f"hocket compat {plan.name}: shifting {speedup.verdict}, {speedup}"
        write_plan(answer.plan(padded=padded), output, comment=how, replace=force)
        err.print(f"plan: {escape(str(output))}")
    if figure is not None:
        from hocket.figures.circles import compatibility_figure

        options.save_figure(compatibility_figure(answer, checked.name or plan.name), figure)
    if answer.interrupted:
        err.print("interrupted: this is the best answer found so far")
        raise typer.Exit(INTERRUPTED)
