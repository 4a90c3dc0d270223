"""The command `hocket sweep`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hocket import options
from hocket.console import FAILED, INTERRUPTED, err, print_json, print_warnings, progress_bar
from hocket.errors import InputError


def sweep_command(
    plan: Annotated[Path, options.file("The plan to vary, as TOML or JSON")],
    settings: options.Axes = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Run N seeds, the plan's and those after it.")
    ] = None,
    engine: options.Engine = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Runs at a time; by default one per processor."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: local, auto or its address."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Cache results here instead of in ~/.cache."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use cached results nor cache any.")
    ] = False,
    directory: Annotated[Path | None, options.out_directory("Write sweep.parquet and a manifest.")] = None,
    force: options.Force = False,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="With --out, also write all tables of each run, in DIR/runs.")
    ] = False,
    figure: Annotated[
        Path | None,
        options.figure(
            "Draw iteration times over the values of the first key and, for up to 6 combinations, who uses "
            "the link when."
        ),
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Simulate every combination of values of keys of a plan, on all processors or on a cluster."""
    from hocket.hpcc import is_study
    from hocket.results import check_replaceable
    from hocket.sweeps import parse_axis, sweep
    from hocket.sweeps.report import print_sweep

    if is_study(plan):
        raise InputError(f"{plan}: is a study of an HPCC-style simulator; a sweep varies the keys of plans")
    if no_cache and cache is not None:
        raise InputError("--no-cache: contradicts --cache; give one of them")
    if directory is not None:
        check_replaceable(directory, force)
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
    print_warnings(swept.manifest["warnings"])
    if figure is not None:
        from hocket.figures.sweep import sweep_figure
        from hocket.sweeps.link_use import uses_of_combinations

        title = swept.manifest["plan"].get("name") or plan.name
        # After Ctrl-C nothing is simulated again.
        uses = {} if swept.interrupted else uses_of_combinations(swept)
        options.save_figure(sweep_figure(swept, title, uses), figure)
    if swept.manifest["not_kept"] is not None:
        err.print(f"[yellow]warning:[/yellow] results were not cached: {escape(swept.manifest['not_kept'])}")
    if swept.interrupted:
        kept = "" if swept.manifest["cache"] is None else "; finished runs are cached and need not run again"
        err.print(f"interrupted{kept}")
        raise typer.Exit(INTERRUPTED)
    if swept.failures().height > 0:
        raise typer.Exit(FAILED)
