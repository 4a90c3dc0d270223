"""The command `hocket run`: simulates a plan, or a study of the HPCC simulator."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hocket import options
from hocket.console import print_json, progress_bar, word_on_ctrl_c
from hocket.errors import InputError, located

if TYPE_CHECKING:
    from hocket.plan import Plan

_KEPT = "writing what was finished"


def run_command(
    plan: Annotated[
        Path,
        options.file("The plan to simulate, as TOML or JSON; or an HPCC-style config.txt"),
    ],
    directory: Annotated[
        Path | None, options.out_directory("Where to write; hocket-runs/NAME if not given.")
    ] = None,
    force: options.Force = False,
    candidate: options.Candidate = None,
    engine: options.Engine = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Of a study: exact times and RoCEv2's frames, not its simulator's."),
    ] = False,
    figure: Annotated[
        Path | None, options.figure("Draw who uses the link when, and iteration times; shifts beside none.")
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Simulate a plan, or a study of the HPCC simulator; write Parquet tables and a manifest."""
    from hocket.engines.run import simulate
    from hocket.hpcc import is_study
    from hocket.plan.digest import digest_of
    from hocket.results import check_replaceable
    from hocket.results.perfetto import perfetto
    from hocket.results.report import end_interrupted, print_run

    if is_study(plan):
        for option, value in (
            ("--candidate", candidate),
            ("--engine", engine),
            ("--set", settings),
            ("--figure", figure),
        ):
            if value:
                raise InputError(
                    f"{option}: is for plans; a study says who sends to whom, and runs on the packet engine"
                )
        _run_study(plan, directory, force, 1 if seed is None else seed, exact, as_json)
        return
    if exact:
        raise InputError("--exact: is for HPCC-style studies; the times of a plan are exact")
    checked = _with_settings(plan, [*(settings or []), *([] if seed is None else [f"seed={seed}"])])
    directory = directory or Path("hocket-runs") / plan.stem
    check_replaceable(
        directory,
        force,
        hocket_version=version("hocket"),
        plan_sha256=digest_of(checked),
        engine=engine or checked.run.engine,
        candidate=candidate,
    )
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=None)

        def report(time_s: float, done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, description=f"simulated {time_s:,.3f} s")

        with located(plan), word_on_ctrl_c(_KEPT):
            run = simulate(checked, candidate=candidate, engine=engine, directory=directory, progress=report)
    if checked.run.perfetto:
        perfetto(run, directory / "perfetto.json")
    if as_json:
        print_json(run.manifest)
    else:
        print_run(checked.name or plan.name, run, directory)
    end_interrupted(run)
    if figure is not None:
        from hocket.engines.link_use import link_use
        from hocket.figures.run import run_figure

        with located(plan):
            uses = link_use(checked, run, candidate=candidate, engine=engine)
        options.save_figure(run_figure(run, uses, checked.name or plan.name), figure)


def _with_settings(path: Path, settings: Sequence[str]) -> "Plan":
    """The plan with other values of some keys, each written as an axis of a sweep that has one value."""
    from hocket.plan import as_plan
    from hocket.sweeps import parse_axis
    from hocket.sweeps.combinations import Refusal, Tables

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
    assert not isinstance(combination.plan, Refusal), "where none is a valid plan, the first is an error"
    return combination.plan


def _run_study(
    path: Path, directory: Path | None, force: bool, seed: int, exact: bool, as_json: bool
) -> None:
    from hocket.hpcc import EXACT, REFERENCE, load_study, run_study
    from hocket.hpcc.report import print_study
    from hocket.results import check_replaceable
    from hocket.results.report import end_interrupted

    study = load_study(path)
    # They are all called config.txt; the directory tells them apart.
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    directory = directory or Path("hocket-runs") / name
    check_replaceable(directory, force)
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=len(study.flows))

        def report(time_s: float, done: int, total: int) -> None:
            progress.update(
                task, completed=done, total=total, description=f"simulated {time_s * 1e3:,.3f} ms"
            )

        fidelity = EXACT if exact else REFERENCE
        with word_on_ctrl_c(_KEPT):
            run = run_study(study, directory, seed=seed, fidelity=fidelity, progress=report)
    if as_json:
        print_json(run.manifest)
    else:
        print_study(name, study, run, directory)
    end_interrupted(run)
