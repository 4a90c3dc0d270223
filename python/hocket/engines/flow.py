"""Runs jobs on the flow engine and passes rows on during the run."""

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
    """Runs `jobs` with the settings of `plan` and writes every table to `sink`, including empty ones.

    Returns the manifest's entries on the outcome: status, durations and event counts.
    """
    shown = network.display_names()
    job_columns: dict[str, _hocket._Column] = {}

    def add(name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        if name == "jobs":
            job_columns.update(columns)
        sink.append(name, renamed(columns, shown))

    spec = run_spec(plan, jobs)
    # Appending every empty table first fixes their order, whichever gets rows first.
    append_empty(sink, _hocket.table_schemas("flow", _table_groups(jobs, spec)))
    ran = _hocket.simulate(network.fabric, jobs, spec, add, progress)
    summary = frame(job_columns)
    counts = {
        **ran["counters"],
        "iterations": int(summary["iterations"].sum()),
        "share_or_priority_decided": int(summary["policy_acted"].sum()),
        "time_shift_adjustments": int(summary["adjustments"].sum()),
    }
    return {
        "status": "interrupted" if ran["interrupted"] else "complete",
        "simulated_s": ran["ended_ps"] / 1e12,
        # The engine alone, without writing tables.
        "run_s": ran["run_s"],
        "jobs_per_queue": ran["jobs_per_queue"],
        "counts": counts,
    }


def whole_table(
    name: str, network: Network, jobs: "Sequence[_hocket._JobSpec]", run: "_hocket._RunSpec"
) -> "tuple[pl.DataFrame, _hocket._FlowRunResult]":
    """Runs `jobs`; returns all rows of table `name`, and the engine's statistics.

    Raises `KeyboardInterrupt` on Ctrl-C, since a picture of half a run would look complete.
    """
    rows = Memory()
    # The engine hands over no table without rows.
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
