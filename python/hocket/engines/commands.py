"""The command `hocket run`: simulates a plan or an HPCC-style study."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hocket import options
from hocket.console import message_on_ctrl_c, print_json, progress_bar
from hocket.errors import InputError, located

if TYPE_CHECKING:
    from hocket.plan import Plan

_KEPT = "writing what was finished"


def run_command(
    plan: Annotated[
        Path,
        options.file("The plan to simulate, as TOML or JSON, or an HPCC-style config.txt"),
    ],
    directory: Annotated[
        Path | None, options.out_directory("Output directory; hocket-runs/NAME by default.")
    ] = None,
    force: options.Force = False,
    candidate: options.Candidate = None,
    engine: options.Engine = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="For a study: exact times and RoCEv2 frames, not its simulator's."),
    ] = False,
    figure: Annotated[
        Path | None, options.figure("Plot link use over time and iteration times, with and without shifts.")
    ] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Simulate a plan or an HPCC-style study; write Parquet tables and a manifest."""
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
                    f"{option}: works only with plans; "
                    "a study lists its own flows and runs on the packet engine"
                )
        _run_study(plan, directory, force, 1 if seed is None else seed, exact, as_json)
        return
    if exact:
        raise InputError("--exact: works only with HPCC-style studies; plans always have exact times")
    checked = _with_settings(plan, [*(settings or []), *([] if seed is None else [f"seed={seed}"])])
    directory = directory or Path("hocket-runs") / plan.stem
    # With these values the same, a run has the same tables, and may be replaced without --force.
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

        with located(plan), message_on_ctrl_c(_KEPT):
            run = simulate(checked, candidate=candidate, engine=engine, directory=directory, progress=report)
    if checked.run.perfetto:
        perfetto(run, directory / "perfetto.json")
    if as_json:
        print_json(run.manifest)
    else:
        print_run(checked.name or plan.name, run, directory)
    # Ends the command after Ctrl-C, so that nothing is simulated again for a figure.
    end_interrupted(run)
    if figure is not None:
        from hocket.engines.link_use import link_use
        from hocket.figures.run import run_figure

        with located(plan):
            uses = link_use(checked, run, candidate=candidate, engine=engine)
        options.save_figure(run_figure(run, uses, checked.name or plan.name), figure)


def _with_settings(path: Path, settings: Sequence[str]) -> "Plan":
    """The plan at `path` with the overrides in `settings`: each is a sweep axis of exactly one value."""
    from hocket.plan import as_plan
    from hocket.sweeps import parse_axis
    from hocket.sweeps.combinations import Refusal, Tables

    if not settings:
        return as_plan(path)
    axes = [parse_axis(text) for text in settings]
    for axis in axes:
        if len(axis.values) != 1:
            raise InputError(
                f"--set {axis.key}: a run needs one value: got {len(axis.values)}; "
                "use `hocket sweep` to run them all"
            )
    (combination,) = Tables.of(path).combinations(axes)
    assert not isinstance(combination.plan, Refusal), "if no combination is valid, the first one raises"
    return combination.plan


def _run_study(
    path: Path, directory: Path | None, force: bool, seed: int, exact: bool, as_json: bool
) -> None:
    from hocket.hpcc import EXACT, REFERENCE, load_study, run_study
    from hocket.hpcc.report import print_study
    from hocket.results import check_replaceable
    from hocket.results.report import end_interrupted

    study = load_study(path)
    # Studies are usually all called config.txt, so the run is named after the directory.
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
        with message_on_ctrl_c(_KEPT):
            run = run_study(study, directory, seed=seed, fidelity=fidelity, progress=report)
    if as_json:
        print_json(run.manifest)
    else:
        print_study(name, study, run, directory)
    end_interrupted(run)
