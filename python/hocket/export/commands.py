"""The command `hocket export`: settings for remedies without time-shifts."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from hocket import options
from hocket.console import out, print_json
from hocket.errors import InputError, located


def export_command(
    plan: Annotated[Path, options.file("Jobs and their link or fabric, as TOML or JSON")],
    part: Annotated[
        Literal["nccl", "switch", "dcqcn", "all"],
        typer.Option("--part", help="Only the settings of jobs, switches or NICs."),
    ] = "all",
    candidate: options.Candidate = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", metavar="C1,C2,…", help="Lossless classes for the jobs; default: 3,4."),
    ] = None,
    ports: Annotated[
        str | None,
        typer.Option("--ports", metavar="P1,P2,…", help="SONiC switch ports; adds switch-sonic.json."),
    ] = None,
    directory: Annotated[Path | None, options.out_directory("Write environments and scripts.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Print a plan's priorities and DCQCN as settings of NCCL, switches and NICs, and how to undo them."""
    from hocket.engines.specs import placement_of
    from hocket.export import files, report
    from hocket.export.classes import DEFAULT_CLASSES, job_classes, parse_classes
    from hocket.export.nics import nic_settings
    from hocket.export.switches import parse_ports
    from hocket.plan import as_plan

    if ports is not None and part not in ("switch", "all"):
        raise InputError(f"--ports: only for the settings of switches: got --part {part}")
    switch_ports = () if ports is None else parse_ports(ports)
    lossless = DEFAULT_CLASSES if classes is None else parse_classes(classes)
    checked = as_plan(plan)
    with located(plan):
        placement = placement_of(checked, candidate)
        # Only what `--part` selects, so that one remedy stays available where another is not.
        assigned = None if part == "dcqcn" else job_classes(checked, placement, lossless)
        nics = nic_settings(checked, placement) if part in ("dcqcn", "all") else None
    wanted = {
        "nccl": {} if assigned is None else files.job_files(assigned),
        "switch": {} if assigned is None else files.switch_files(assigned, switch_ports),
        "dcqcn": {} if nics is None else files.nic_files(nics),
    }
    written = {
        path: text for name, each in wanted.items() if part in (name, "all") for path, text in each.items()
    }
    # Files first: whoever reads the output may close the pipe, which ends the command.
    if directory is not None:
        files.write_files(written, directory)
    if as_json:
        print_json(report.as_json(assigned, nics, switch_ports))
        return
    out.print(f"[bold]{escape(checked.name or plan.name)}[/bold]")
    if assigned is not None and part in ("nccl", "all"):
        report.print_environments(assigned)
    if assigned is not None and part in ("switch", "all"):
        report.print_switches(assigned, switch_ports, directory)
    if nics is not None:
        report.print_nics(nics, directory)
    if directory is not None:
        out.print(
            escape(f"\nwritten to {directory}: {', '.join(written) or 'nothing, since nothing changes'}")
        )
