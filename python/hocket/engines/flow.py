"""Runs jobs on the flow engine and passes rows on during the run."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hocket import _hocket
from hocket.engines.network import Network
from hocket.engines.rows import append_empty, renamed, values
from hocket.engines.specs import run_spec
from hocket.plan import Plan

if TYPE_CHECKING:
    from hocket.results.sink import Sink


def run_flows(
    plan: Plan,
    network: Network,
    jobs: "Sequence[_hocket._JobSpec]",
    sink: "Sink",
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
    counts = {
        **ran["counters"],
        "iterations": sum(values(job_columns["iterations"])),
        "share_or_priority_decided": sum(values(job_columns["policy_acted"])),
        "time_shift_adjustments": sum(values(job_columns["adjustments"])),
    }
    return {
        "status": "interrupted" if ran["interrupted"] else "complete",
        "simulated_s": ran["ended_ps"] / 1e12,
        # The engine alone, without writing tables.
        "run_s": ran["run_s"],
        "jobs_per_queue": ran["jobs_per_queue"],
        "counts": counts,
    }


def run_for_table(
    name: str,
    network: Network,
    jobs: "Sequence[_hocket._JobSpec]",
    run: "_hocket._RunSpec",
    add: "Callable[[Mapping[str, _hocket._Column]], object]",
) -> "_hocket._FlowRunResult":
    """Runs `jobs` and calls `add` with each batch of rows of table `name`; returns the engine's statistics.

    Raises `KeyboardInterrupt` on Ctrl-C, since a picture of half a run would look complete.
    """
    # The engine hands over no table without rows: a batch without rows declares its columns.
    add(_hocket.table_schemas("flow", _table_groups(jobs, run))[name])

    def add_if_wanted(table: str, columns: "Mapping[str, _hocket._Column]") -> None:
        if table == name:
            add(columns)

    ran = _hocket.simulate(network.fabric, jobs, run, add_if_wanted, lambda *_: None)
    if ran["interrupted"]:
        raise KeyboardInterrupt
    return ran


def _table_groups(jobs: "Sequence[_hocket._JobSpec]", run: "_hocket._RunSpec") -> "list[_hocket._TableGroup]":
    groups: list[_hocket._TableGroup] = ["jobs"]
    if any(job["training"] is not None for job in jobs):
        groups.append("training")
    if run["sample_every_ps"] is not None:
        groups.append("utilisation")
    return groups
