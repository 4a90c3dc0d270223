"""Runs a sweep: checks its combinations, looks up or computes their answers, and makes one table of them."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from hocket.engines.run import ignored
from hocket.errors import InputError, check_choice
from hocket.plan import Engine, Plan, PlanLike
from hocket.results import Run, RunWriter
from hocket.sweeps.axes import Axis, json_values
from hocket.sweeps.build import build
from hocket.sweeps.cache import Cache, default_directory, key_of
from hocket.sweeps.combinations import Refusal, Tables
from hocket.sweeps.on_ray import on_ray
from hocket.sweeps.processes import in_processes
from hocket.sweeps.sweep_result import Sweep, status, status_of, table
from hocket.sweeps.task import Answer, Outcome, Task, answer_of
from hocket.units import shown

Progress = Callable[[int, int], object]
"""Called at the start and after each answer, with the number of answers so far and in total."""

_RATES_OF_LINKS = re.compile(r"link\.capacity|fabric\..*\b(nic|uplink|bottleneck|rate)")
_RUNS = "runs"
# 64 of 256 bits: with a million runs, the probability that two share a directory is below 1 in 10⁷.
_DIGITS_OF_A_DIRECTORY = 16


def sweep(
    plan: PlanLike,
    axes: Mapping[str, Sequence[object]] | Sequence[Axis],
    *,
    seeds: int | None = None,
    engine: Engine | None = None,
    workers: int | None = None,
    ray: str | None = None,
    cache: str | Path | bool = True,
    directory: str | Path | None = None,
    keep_runs: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Simulates `plan` with every combination of the values of `axes`, on `engine` or the plan's own.

    An axis is any key of the plan, such as `run.engine`, `jobs[0].congestion` or `jobs.*.priority`; a value
    of `None` leaves the key out. `seeds` adds the axis `seed` with this number of consecutive seeds,
    beginning with the plan's.

    Runs are executed in `workers` parallel processes of one thread each, by default one per processor; or,
    with `ray`, on the cluster at that address (`local` for one on this machine, `auto` for the one that this
    machine belongs to). The table does not depend on the number of workers.

    The results of complete runs are kept in `cache`, a directory or by default the user's own, and reused for
    the same plan on the same engine of the same build. With a `directory`, the sweep is written there; with
    `keep_runs`, so are all tables of each run, in `runs` inside it, which all machines of a cluster must be
    able to write; a run that is there already is not repeated.

    Ctrl-C ends the runs under way; finished ones are returned and stay in the cache. A combination that is
    not a valid plan is a row with its error, as is a run that its engine refuses, whose self-check fails or
    whose process dies; the other runs continue.

    Raises `InputError` before anything runs: for an invalid plan or axis, if no combination is a valid plan,
    and for what cannot be written or reached.

    >>> plan = {
    ...     "link": {"capacity": "50 Gbps"},
    ...     "jobs": [{"name": name, "period": "180 ms",
    ...               "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]} for name in "ab"],
    ... }
    >>> swept = sweep(plan, {"jobs[1].time_shift": [None, "90 ms"]}, cache=False)
    >>> swept.table.select("jobs[1].time_shift", "job", "mean_iteration_s").rows()
    [(None, 'a', 0.234), (None, 'b', 0.234), ('90 ms', 'a', 0.18), ('90 ms', 'b', 0.18)]
    """
    started = time.perf_counter()
    if engine is not None:
        check_choice("engine", engine, get_args(Engine))
    if workers is not None and workers < 1:
        raise InputError(f"workers: must be at least 1: got {workers}")
    if keep_runs and directory is None:
        raise InputError("keep_runs: needs a directory to keep the runs in")
    given = Tables.of(plan)
    chosen = _axes(axes)
    if seeds is not None:
        chosen.append(given.seeds(seeds))
    combinations = given.combinations(chosen)
    tasks = [
        Task(each.plan, engine or each.plan.run.engine, build()) if isinstance(each.plan, Plan) else each.plan
        for each in combinations
    ]
    # Not empty: `combinations` raises an error if no combination is a valid plan.
    valid = [task for task in tasks if isinstance(task, Task)]
    keys = [key_of(task) if isinstance(task, Task) else None for task in tasks]
    # An absolute path, because workers of a cluster run in other directories.
    runs = Path(directory).absolute() / _RUNS if keep_runs and directory is not None else None
    # Combinations with equal plans have the same key, and so run only once.
    answers = _Answers(
        {key: task for key, task in zip(keys, tasks, strict=True) if isinstance(task, Task) and key},
        _cache(cache),
        runs,
    )
    # Opened before anything runs, so that a directory that cannot be written costs no time.
    with RunWriter(directory) if directory is not None else nullcontext() as writer:
        answers.compute(workers, ray, progress or (lambda done, total: None))
        outcomes = [
            task if isinstance(task, Refusal) else answers.outcomes.get(key or "")
            for key, task in zip(keys, tasks, strict=True)
        ]
        engines = [engine if isinstance(task, Refusal) else task.engine for task in tasks]
        found = table(chosen, combinations, engines, outcomes)
        manifest = {
            "status": status(outcomes),
            "hocket_version": version("hocket"),
            "build": build(),
            "axes": {axis.key: json_values(axis.values) for axis in chosen},
            "wall_s": time.perf_counter() - started,
            "cache": None if answers.cache is None else str(answers.cache.directory),
            "not_kept": answers.not_kept,
            "runs": [answers.described(key) for key in keys],
            "ignored": _ignored(valid),
            "warnings": list(_fixed_rates(chosen, valid[0].plan)),
            "plan": valid[0].plan.resolved(),
        }
        plans = tuple(each.plan if isinstance(each.plan, Plan) else None for each in combinations)
        swept = Sweep(found, manifest, plans)
        if writer is not None:
            swept.write_with(writer)
    return swept


def _axes(axes: Mapping[str, Sequence[object]] | Sequence[Axis]) -> list[Axis]:
    if not isinstance(axes, Mapping):
        return list(axes)
    for name, values in axes.items():
        # A text is a sequence of characters, which nobody means as values.
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InputError(f"{name}: the values of an axis are a list: got {shown(values)}")
    return [Axis(name, tuple(values)) for name, values in axes.items()]


def _fixed_rates(axes: Sequence[Axis], plan: Plan) -> Iterator[str]:
    """A warning for each axis that varies rates of links while jobs keep the rates of their Up phases."""
    fixed = [shown(job.name) for job in plan.jobs if job.up is not None or job.nic_bps is not None]
    for axis in axes:
        if fixed and len(axis.values) > 1 and _RATES_OF_LINKS.fullmatch(axis.key):
            yield (
                f"{axis.key}: the Up phases of {', '.join(fixed)} keep the rates that the plan gives "
                "them, whatever links and NICs carry"
            )


def _ignored(tasks: Sequence[Task]) -> list[dict[str, str]]:
    """The keys without effect, each with the engine that does not read it and the reason."""
    found = {
        (task.engine, each["key"], each["why"]): None
        for task in tasks
        for each in ignored(task.plan, task.engine)
    }
    return [{"engine": engine, "key": key, "why": why} for engine, key, why in found]


def _cache(cache: str | Path | bool) -> Cache | None:
    if isinstance(cache, bool):
        return Cache(default_directory()) if cache else None
    return Cache(Path(cache))


class _Answers:
    """The outcomes of tasks by key: known ones, and those that are computed."""

    def __init__(self, tasks: Mapping[str, Task], cache: Cache | None, runs: Path | None) -> None:
        """Looks up known answers in `cache`; if whole runs are to be kept, in `runs` instead."""
        self.cache = cache
        self.outcomes: dict[str, Outcome] = {}
        self.not_kept: str | None = None
        self._runs = runs
        self._tasks = {key: replace(task, directory=self._place(key)) for key, task in tasks.items()}
        for key in tasks:
            answer = self._known(key)
            if answer is not None:
                self.outcomes[key] = answer
        self._known_before = frozenset(self.outcomes)

    def compute(self, workers: int | None, ray: str | None, progress: Progress) -> None:
        """Computes the missing answers, until Ctrl-C, and adds each to the cache as it arrives."""
        progress(len(self.outcomes), len(self._tasks))
        missing = [key for key in self._tasks if key not in self.outcomes]
        if not missing:
            return
        tasks = [self._tasks[key] for key in missing]
        # A process may use fewer processors than the machine has, under `taskset` for example.
        arriving = (
            in_processes(tasks, workers or len(os.sched_getaffinity(0)))
            if ray is None
            else on_ray(tasks, ray, workers)
        )
        # Closing the generator ends the runs under way.
        with suppress(KeyboardInterrupt), closing(arriving):
            for number, outcome in arriving:
                self.outcomes[missing[number]] = outcome
                self._keep(missing[number], outcome)
                progress(len(self.outcomes), len(self._tasks))

    def described(self, key: str | None) -> dict[str, Any]:
        """The manifest's entry for the run under `key`, or for a refused combination, which has none; `run_s`
        is the engine's time when it ran, even for a cached answer.
        """
        if key is None:
            return {"key": None, "status": "refused", "cached": False, "run_s": None, "directory": None}
        outcome = self.outcomes.get(key)
        run_s = outcome.run_s if isinstance(outcome, Answer) else None
        place = self._place(key)
        return {
            "key": key,
            "status": status_of(outcome),
            "cached": key in self._known_before,
            "run_s": run_s,
            "directory": str(place) if place is not None and isinstance(outcome, Answer) else None,
        }

    def _place(self, key: str) -> Path | None:
        return self._runs / key[:_DIGITS_OF_A_DIRECTORY] if self._runs is not None else None

    def _known(self, key: str) -> Answer | None:
        place = self._place(key)
        if place is None:
            return self.cache.find(key) if self.cache is not None else None
        try:
            run = Run.read(place)
        except InputError:
            return None
        # An earlier sweep may have been interrupted during this run.
        return answer_of(run) if run.manifest["status"] == "complete" else None

    def _keep(self, key: str, outcome: Outcome) -> None:
        if self.cache is None or not isinstance(outcome, Answer):
            return
        try:
            self.cache.keep(key, outcome)
        except OSError as error:
            # With a full disk the next sweep has to repeat this run, but this sweep keeps its answer.
            self.not_kept = f"{self.cache.directory}: {error.strerror or error}"
