"""The files of an export: environments of jobs, and scripts for hosts and switches."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from hocket.errors import InputError
from hocket.export.classes import Classes, JobClass, dscp_of
from hocket.export.nics import NicSettings
from hocket.export.switches import nvue_commands, sonic_tables

SAMPLE_S = 0.01
"""Time between two readings of a NIC's counter by `adaptive.sh`."""


def job_files(classes: Classes) -> dict[str, str]:
    """The environment of each job, by the path of its file."""
    names = directory_names(each.job for each in classes.jobs)
    return {f"{names[each.job]}/nccl.env": nccl_environment(each) for each in classes.jobs}


def switch_files(classes: Classes, ports: tuple[str, ...]) -> dict[str, str]:
    """The settings of classes on switches and the NICs of hosts, by path; for SONiC, at these ports."""
    pairs = " ".join(f"{dscp_of(each)},{each}" for each in classes.used)
    files = {
        "hosts.sh": _script("hosts.sh", "classes of jobs by their DSCPs", {"pairs": pairs}),
        "switch-nvue.sh": "\n".join(("#!/bin/sh", "set -eu", *nvue_commands(classes), "")),
    }
    if ports:
        files["switch-sonic.json"] = json.dumps(sonic_tables(classes, ports), indent=2) + "\n"
    return files


def nic_files(nics: Sequence[NicSettings]) -> dict[str, str]:
    """Scripts for the hosts of each job whose NICs need settings, by path."""
    names = directory_names([each.job for each in nics])
    files = {}
    for each in nics:
        if each.writes:
            writes = "\n".join(f"{write.name} {write.value}" for write in each.writes)
            what = f"DCQCN of job {each.job!r}"
            files[f"{names[each.job]}/apply.sh"] = _script("apply.sh", what, {"writes": writes})
            files[f"{names[each.job]}/undo.sh"] = _script("undo.sh", what, {})
        if each.adaptive is not None:
            values = {
                "total_bytes": each.adaptive.total_bytes,
                # At least 1: a sample is quiet if it has fewer bytes, and one without any must be.
                "quiet_bytes": max(1, int(each.adaptive.quiet_bps * SAMPLE_S / 8)),
                "quiet_samples": int(each.adaptive.gap_s / SAMPLE_S),
                "sample_s": SAMPLE_S,
            }
            what = f"adaptively unfair DCQCN of job {each.job!r}"
            files[f"{names[each.job]}/adaptive.sh"] = _script("adaptive.sh", what, values)
    return files


def nccl_environment(job: JobClass) -> str:
    """Variables that make NCCL mark the packets of `job`, as `docker --env-file` and systemd read them."""
    return f"NCCL_IB_TC={job.nccl_ib_tc}\nNCCL_IB_SL={job.traffic_class}\n"


def directory_names(jobs: Iterable[str]) -> dict[str, str]:
    """For each job a unique name of one directory, without characters that file systems treat specially.

    >>> directory_names(["a", "A/..", "a__.."])
    {'a': 'a', 'A/..': 'A_..', 'a__..': 'a__..'}
    """
    found: dict[str, str] = {}
    # Some file systems ignore case, so names must differ in more than that.
    taken = set[str]()
    for job in jobs:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", job)
        # A leading dot hides a directory, and commands take a leading hyphen for an option.
        plain = plain if re.match(r"[A-Za-z0-9]", plain) else f"job-{plain}"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        found[job] = name
    return found


def write_files(files: Mapping[str, str], directory: Path) -> None:
    """Writes the files below `directory`, which is created. Raises `InputError` if that fails."""
    for path, text in files.items():
        where = directory / path
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{where}: cannot be written: {error.strerror}") from None


def _script(name: str, what: str, values: Mapping[str, object]) -> str:
    """A script of this package, with assignments of `values` to its variables."""
    body = (resources.files("hocket.export") / "scripts" / name).read_text(encoding="utf-8")
    assigned = [f"{key}={shlex.quote(str(value))}" for key, value in values.items()]
    return "\n".join(("#!/bin/sh", f"# Hocket: {what}.", "set -eu", *assigned, body))
