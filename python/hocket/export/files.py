"""The files of an export: environments of jobs, scripts for hosts and switches."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from hocket.errors import InputError
from hocket.export.classes import Classes, JobClass, dscp_of
from hocket.export.nics import Governed
from hocket.export.switches import nvue_commands, sonic_tables

SAMPLE_S = 0.01
"""Between two readings of a NIC's counter by `adaptive.sh`."""


def job_files(classes: Classes) -> dict[str, str]:
    """By path: an environment for each job."""
    names = directory_names(each.job for each in classes.jobs)
    return {f"{names[each.job]}/nccl.env": nccl_environment(each) for each in classes.jobs}


def switch_files(classes: Classes, ports: tuple[str, ...]) -> dict[str, str]:
    """By path: what switches and the NICs of hosts are told of classes; for SONiC, at these ports."""
    pairs = " ".join(f"{dscp_of(each)},{each}" for each in classes.used)
    files = {
        "hosts.sh": _script("hosts.sh", "classes of jobs by their DSCPs", {"pairs": pairs}),
        "switch-nvue.sh": "\n".join(("#!/bin/sh", "set -eu", *nvue_commands(classes), "")),
    }
    if ports:
        files["switch-sonic.json"] = json.dumps(sonic_tables(classes, ports), indent=2) + "\n"
    return files


def nic_files(governed: Sequence[Governed]) -> dict[str, str]:
    """By path: scripts for the hosts of each job whose NICs are told something."""
    names = directory_names([each.job for each in governed])
    files = {}
    for each in governed:
        if each.writes:
            writes = "\n".join(f"{write.name} {write.value}" for write in each.writes)
            what = f"DCQCN of job {each.job!r}"
            files[f"{names[each.job]}/apply.sh"] = _script("apply.sh", what, {"writes": writes})
            files[f"{names[each.job]}/undo.sh"] = _script("undo.sh", what, {})
        if each.adaptive is not None:
            values = {
                "total_bytes": each.adaptive.total_bytes,
                "quiet_bytes": max(1, int(each.adaptive.quiet_bps * SAMPLE_S / 8)),
                "quiet_samples": int(each.adaptive.gap_s / SAMPLE_S),
                "sample_s": SAMPLE_S,
            }
            what = f"adaptively unfair DCQCN of job {each.job!r}"
            files[f"{names[each.job]}/adaptive.sh"] = _script("adaptive.sh", what, values)
    return files


def nccl_environment(job: JobClass) -> str:
    """The variables that make NCCL mark what `job` sends, as `docker --env-file` and systemd read them."""
    return f"NCCL_IB_TC={job.nccl_ib_tc}\nNCCL_IB_SL={job.traffic_class}\n"


def directory_names(jobs: Iterable[str]) -> dict[str, str]:
    """For each job a name that is one directory everywhere, and no other's.

    >>> directory_names(["a", "A/..", "a__.."])
    {'a': 'a', 'A/..': 'A_..', 'a__..': 'a__..'}
    """
    found: dict[str, str] = {}
    # File systems may not tell capitals from others.
    taken = set[str]()
    for job in jobs:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", job)
        plain = plain if re.match(r"[A-Za-z0-9]", plain) else f"job-{plain}"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        found[job] = name
    return found


def write_files(files: Mapping[str, str], directory: Path) -> None:
    """Writes each file below `directory`, which it makes. Raises `InputError` where that cannot be done."""
    for path, text in files.items():
        where = directory / path
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{where}: cannot be written: {error.strerror}") from None


def _script(name: str, what: str, values: Mapping[str, object]) -> str:
    """A script of this package, told its values."""
    body = (resources.files("hocket.export") / "scripts" / name).read_text(encoding="utf-8")
    assigned = [f"{key}={shlex.quote(str(value))}" for key, value in values.items()]
    return "\n".join(("#!/bin/sh", f"# Hocket: {what}.", "set -eu", *assigned, body))
