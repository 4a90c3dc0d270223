"""Runs jobs on the flow engine; their rows leave it during the run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.rows import append_empty, renamed
from hocket.engines.specs import run_spec
from hocket.plan import Plan
from hocket.results import frame
from hocket.results.sink import Memory, Sink


def run_flows(
    plan: Plan,
    network: Network,
    jobs: "Sequence[_hocket._JobSpec]",
    sink: Sink,
    progress: Callable[[int, int, int | None], object],
) -> dict[str, Any]:
    """Runs `jobs` as `plan` says, the rows going to `sink`: every table that there may be, empty ones too.

    Returns what the manifest says of the run: how it ended, what acted how often.
    """
    shown = network.display_names()
    of_jobs: dict[str, _hocket._Column] = {}

    def add(name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        if name == "jobs":
            of_jobs.update(columns)
        sink.append(name, renamed(columns, shown))

    spec = run_spec(plan)
    # They are listed in this order, whichever has rows first.
    append_empty(sink, _hocket.table_schemas("flow", _table_groups(jobs, spec)))
    ran = _hocket.simulate(network.fabric, jobs, spec, add, progress)
    summary = frame(of_jobs)
    counts = {
        **ran["counters"],
        "iterations": int(summary["iterations"].sum()),
        "share_or_priority_decided": int(summary["policy_acted"].sum()),
        "time_shift_adjustments": int(summary["adjustments"].sum()),
    }
    return {
        "status": "interrupted" if ran["interrupted"] else "complete",
        "simulated_s": ran["ended_ps"] / 1e12,
        # Of the engine alone: without the writing of tables.
        "run_s": ran["run_s"],
        "jobs_per_queue": ran["jobs_per_queue"],
        "counts": counts,
    }


def whole_table(
    name: str, network: Network, jobs: "Sequence[_hocket._JobSpec]", run: "_hocket._RunSpec"
) -> "tuple[pl.DataFrame, _hocket._Ran]":
    """All rows of table `name` of a run of `jobs`, and what the run cost.

    Raises `KeyboardInterrupt` on Ctrl-C: what is drawn from half a run would look like a whole answer.
    """
    rows = Memory()
    rows.append(name, _hocket.table_schemas("flow", _table_groups(jobs, run))[name])

    def add(table: str, columns: "Mapping[str, _hocket._Column]") -> None:
        if table == name:
            rows.append(table, columns)

    ran = _hocket.simulate(network.fabric, jobs, run, add, lambda *_: None)
    if ran["interrupted"]:
        raise KeyboardInterrupt
    return rows.take_tables()[name], ran


def _table_groups(jobs: "Sequence[_hocket._JobSpec]", run: "_hocket._RunSpec") -> "list[_hocket._TableGroup]":
    groups: list[_hocket._TableGroup] = ["jobs"]
    if any(job["training"] is not None for job in jobs):
        groups.append("training")
    if run["sample_every_ps"] is not None:
        groups.append("utilisation")
    return groups
