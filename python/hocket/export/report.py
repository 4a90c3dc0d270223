"""The output of `hocket export`: for each remedy what it changes, how to apply it and how to undo it."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from hocket.console import Column, out, print_table
from hocket.export.classes import CNP_CLASS, CNP_DSCP, Classes, dscp_of
from hocket.export.files import directory_names, nccl_environment
from hocket.export.nics import NicSettings
from hocket.export.switches import nvue_commands, sonic_tables


def print_environments(classes: Classes) -> None:
    """Prints the classes of jobs and the settings of NCCL for them."""
    _title("jobs: one priority each (HotNets'22 §4(ii))")
    rows = [
        (job.job, *map(str, (job.priority, job.traffic_class, job.dscp, job.nccl_ib_tc, job.traffic_class)))
        for job in classes.jobs
    ]
    print_table(("job", "priority", "class", "DSCP", "NCCL_IB_TC", "NCCL_IB_SL"), rows)
    source = "from the plan" if classes.from_plan else "unique among the jobs of a link, in the plan's order"
    out.print(f"priorities: {source}; 0 goes first")
    used = " and ".join(map(str, classes.used))
    out.print(f"the fabric must already have these lossless classes: {used}; --classes names others")
    for each, jobs in classes.sharers.items():
        out.print(escape(f"class {each} is shared: {', '.join(jobs)} share links fairly in it"))
    if classes.folded:
        out.print(
            f"the plan simulates {classes.simulated_queues} queues, but the fabric has "
            f"{len(classes.lossless)} classes: set priority_queues = {len(classes.lossless)} to simulate it"
        )
    _step(
        "how NCCL marks the RoCE packets of each job, and nothing else",
        [f"export {' '.join(nccl_environment(job).split())}  # job {job.job}" for job in classes.jobs],
        ["unset NCCL_IB_TC NCCL_IB_SL"],
    )


def print_switches(classes: Classes, ports: Sequence[str], directory: Path | None) -> None:
    """Prints the settings of the classes on switches and the NICs of hosts."""
    _title("switches: strict priority of classes")
    _print_map(classes)
    _step(
        "the order of queues at every port; PFC and ECN thresholds stay",
        nvue_commands(classes),
        ["nv config history  # then `nv config apply` with the revision before"],
        "NVUE (Cumulus Linux 5)",
    )
    if ports:
        _step(
            f"the same at {', '.join(ports)}",
            ["sudo config checkpoint before-hocket", "sudo config load -y switch-sonic.json"],
            ["sudo config rollback before-hocket"],
            "SONiC",
        )
    else:
        out.print("\nSONiC: name the ports to set up, such as --ports Ethernet0,Ethernet4")
    _step(
        "how a NIC classifies packets: by their DSCP",
        _scripts(directory, ["hosts.sh apply INTERFACE"]),
        _scripts(directory, ["hosts.sh undo INTERFACE"]),
        "hosts",
    )


def _print_map(classes: Classes) -> None:
    cnps = (str(CNP_DSCP), str(CNP_CLASS), "1", "unchanged", "CNPs")
    rows = [
        (
            str(dscp_of(each)),
            str(each),
            str(place),
            "required",
            ", ".join(job.job for job in classes.jobs if job.traffic_class == each),
        )
        for place, each in enumerate(classes.used, 2)
    ]
    header = ("DSCP", "class and queue", Column("served", spare=1, text=True), "lossless", "jobs")
    print_table(header, [cnps, *rows], left=5)


def print_nics(nics: Sequence[NicSettings], directory: Path | None) -> None:
    """Prints the settings of NICs for DCQCN."""
    _title("NICs: DCQCN (HotNets'22 §2 and §4(i))")
    rows = [
        (each.job, write.name, str(write.value), str(write.shipped), write.unit)
        for each in nics
        for write in each.writes
    ]
    if rows:
        print_table(("job", "cc_params/", "write", Column("as shipped", spare=1), "unit"), rows, left=2)
    for each in nics:
        if each.reason is not None:
            out.print(escape(f"{each.job}: {each.reason}"))
    names = directory_names(each.job for each in nics)
    written = [names[each.job] for each in nics if each.writes]
    adaptive = [names[each.job] for each in nics if each.adaptive]
    if written:
        _step(
            "parameters of a NIC, for all its traffic of any job, until its driver restarts",
            _scripts(directory, [f"{name}/apply.sh PCI_ADDRESS" for name in written]),
            _scripts(directory, [f"{name}/undo.sh PCI_ADDRESS" for name in written]),
        )
    if adaptive:
        _step(
            "R_AI and R_HAI of a NIC during each phase, for all its traffic, a hundred times a second",
            _scripts(directory, [f"{name}/adaptive.sh PCI_ADDRESS" for name in adaptive]),
            ["stop it with Ctrl-C"],
        )


def as_json(
    classes: Classes | None, nics: Sequence[NicSettings] | None, ports: tuple[str, ...]
) -> dict[str, Any]:
    """All settings as a JSON object, with null for parts that were not requested."""
    return {
        "classes": None if classes is None else _classes_json(classes, ports),
        "nics": None if nics is None else [_nics_json(each) for each in nics],
    }


def _classes_json(classes: Classes, ports: tuple[str, ...]) -> dict[str, Any]:
    return {
        "jobs": [
            {
                "job": each.job,
                "priority": each.priority,
                "class": each.traffic_class,
                "dscp": each.dscp,
                "nccl_ib_tc": each.nccl_ib_tc,
                "nccl_ib_sl": each.traffic_class,
            }
            for each in classes.jobs
        ],
        "priorities_from_plan": classes.from_plan,
        "simulated_queues": classes.simulated_queues,
        "shared": {str(each): list(jobs) for each, jobs in classes.sharers.items()},
        "nvue": list(nvue_commands(classes)),
        "sonic": sonic_tables(classes, ports) if ports else None,
    }


def _nics_json(each: NicSettings) -> dict[str, Any]:
    adaptive = each.adaptive
    return {
        "job": each.job,
        "writes": {write.name: write.value for write in each.writes},
        "adaptive": None
        if adaptive is None
        else {"total_bytes": adaptive.total_bytes, "gap_s": adaptive.gap_s},
        "reason": each.reason,
    }


def _title(text: str) -> None:
    out.print(f"\n[bold]{escape(text)}[/bold]")


def _scripts(directory: Path | None, calls: Sequence[str]) -> list[str]:
    if directory is None:
        return ["a script that --out DIR writes"]
    return [f"sudo sh {shlex.quote(str(directory))}/{call}" for call in calls]


def _step(changes: str, apply: Sequence[str], undo: Sequence[str], where: str = "") -> None:
    out.print(escape(f"\n{where}{': ' if where else ''}changes {changes}"))
    for name, lines in (("apply", apply), ("undo", undo)):
        out.print(f"{name}:")
        for line in lines:
            out.print(escape(f"  {line}"))
