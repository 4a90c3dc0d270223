"""The command for what jobs leave behind: `hocket profile`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from hocket.console import describe_profile, err, print_json, print_profile
from hocket.errors import InputError


def profile_command(
    counters: Annotated[
        list[Path], typer.Argument(help="CSV time series of NICs' byte counters, one for each job.")
    ],
    column: Annotated[str | None, typer.Option("--column", help="The counter, if there are several.")] = None,
    interface: Annotated[
        str | None, typer.Option("--interface", help="The NIC, if there are several.")
    ] = None,
    unit: Annotated[
        Literal["bytes", "words4"] | None,
        typer.Option("--unit", help="What it counts, if its name does not say: bytes or 4-byte words."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The job's name.")] = None,
    link: Annotated[
        str | None, typer.Option("--link", metavar="RATE", help='Add a [link], such as "50 Gbps".')
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.toml|json", help="Write the jobs for `hocket compat`."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE.svg|png", help="Draw the evidence.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the period and the Up phases of jobs in NICs' byte counters."""
    from hocket.profile import dump_jobs, profile_counters

    if len(counters) > 1 and (name is not None or figure is not None):
        raise InputError(f"profile: --name and --figure are for one series: got {len(counters)}")
    if figure is not None:
        from hocket.figures import check_format

        check_format(figure)
    jobs = [
        profile_counters(series, column=column, interface=interface, unit=unit, name=name)
        for series in counters
    ]
    if output is not None:
        dump_jobs(jobs, output, link)
    if as_json:
        described = [describe_profile(job) for job in jobs]
        print_json(described if len(jobs) > 1 else described[0])
    for job in jobs:
        if not as_json:
            print_profile(job)
        if job.confidence < 0.5:
            err.print(
                f"[yellow]warning:[/yellow] {escape(job.name)}: confidence {job.confidence:.2f} is below "
                "0.5: the series does not show a clear period; do not shift jobs by it"
            )
    if figure is not None:
        from hocket.figures import save
        from hocket.figures.profile import evidence_figure

        save(evidence_figure(jobs[0]), figure)
        err.print(f"figure: {figure}")
    if output is not None:
        err.print(f"jobs: {output}")


COMMANDS: dict[str, Callable[..., None]] = {"profile": profile_command}
"""The commands by their names."""
