"""The command `hocket compare`: runs side by side."""

from pathlib import Path
from typing import Annotated

import typer

from hocket import options
from hocket.console import err, print_json


def compare_command(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Directories of runs; ratios are relative to the first."),
    ],
    output: Annotated[
        Path | None, options.out_file("FILE.csv|parquet", "Write all measurements as one table.")
    ] = None,
    figure: Annotated[Path | None, options.figure("Draw the comparison.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Put runs side by side: iterations, collectives, the network, and the differences of their plans."""
    from hocket.compare import compare, read_runs, report

    if output is not None:
        report.check_table(output)
    comparison = compare(read_runs(directories))
    # Files first: whoever reads the output may close the pipe, which ends the command.
    if output is not None:
        err.print(f"measurements: {report.write_measurements(comparison, output)}")
    if figure is not None:
        from hocket.figures.runs import runs_figure

        options.save_figure(runs_figure(comparison), figure)
    if as_json:
        print_json(report.as_json(comparison))
    else:
        report.print_comparison(comparison)
