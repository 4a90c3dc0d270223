"""The command `hocket fabric`: shows the fabric of a plan."""

from pathlib import Path
from typing import Annotated

from hocket import options
from hocket.console import print_json
from hocket.errors import located


def fabric_command(
    plan: Annotated[Path, options.file("A plan with a [fabric], as TOML or JSON")],
    figure: Annotated[
        Path | None, options.figure("Draw the fabric with the placement of jobs, for each candidate.")
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Show the fabric of a plan: GPUs, tiers of switches, over-subscription, and placement of jobs."""
    from hocket.fabrics import report
    from hocket.plan import as_plan

    checked = as_plan(plan)
    with located(plan):
        topology, jobs = report.placed(checked)
    if as_json:
        print_json(report.as_json(checked))
    else:
        report.print_fabric(checked.name or plan.name, checked)
    if figure is not None:
        from hocket.figures.fabric import candidates_figure, fabric_figure

        title = checked.name or plan.name
        candidates = report.placed_by_candidate(checked)
        drawn = (
            candidates_figure(topology, candidates, title)
            if candidates
            else fabric_figure(topology, jobs, title)
        )
        options.save_figure(drawn, figure)
