"""The scripts, run by a shell on a simulated `/sys` of a host with one NIC."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hocket.export.classes import job_classes
from hocket.export.files import directory_names, job_files, nic_files, switch_files, write_files
from hocket.export.nics import nic_settings
from hocket.plan import parse_plan

NIC = "0000:c1:00.0"
SHIPPED = {
    "rp_time_reset": 300,
    "rp_ai_rate": 5,
    "rp_hai_rate": 50,
    "rp_min_rate": 1,
    "np_min_time_between_cnps": 4,
}


class Host:
    """A directory with `cc_params/` and the counter of one NIC, on which scripts are run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.params = directory / "mlx5" / NIC / "cc_params"
        self.params.mkdir(parents=True)
        for name, value in SHIPPED.items():
            (self.params / name).write_text(f"{value}\n", encoding="ascii")
        ports = directory / "pci" / NIC / "infiniband" / "mlx5_0" / "ports" / "1" / "counters"
        ports.mkdir(parents=True)
        self.counter = ports / "port_xmit_data"
        self.counter.write_text("1000\n", encoding="ascii")
        (directory / "bin").mkdir()

    def program(self, name: str, body: str) -> None:
        path = self.directory / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOCKET_MLX5": str(self.directory / "mlx5"),
            "HOCKET_PCI": str(self.directory / "pci"),
            "HOCKET_KEPT": str(self.directory / "kept"),
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
        }
        command = ["sh", str(self.directory / "out" / script), *arguments]
        return subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False
        )

    def values(self) -> dict[str, int]:
        return {name: int((self.params / name).read_text(encoding="ascii")) for name in SHIPPED}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


Export = Callable[..., dict[str, str]]


@pytest.fixture
def export(host: Host) -> Export:
    """A function that writes all files of a plan with two jobs: `a/..` with a policy, and `b`."""

    def write(**policy: Any) -> dict[str, str]:
        up = {"start": "50 ms", "duration": "40 ms", "rate": "40 Gbps"}
        jobs = [
            {"name": "a/..", "period": "100 ms", "up": [up], **policy},
            {"name": "b", "period": "100 ms", "up": [up]},
        ]
        host_table = {"cnp_interval": "50 us"}
        plan = parse_plan({"link": {"capacity": "50 Gbps"}, "host": host_table, "jobs": jobs})
        classes = job_classes(plan)
        files = {
            **job_files(classes),
            **switch_files(classes, ("Ethernet0",)),
            **nic_files(nic_settings(plan)),
        }
        write_files(files, host.directory / "out")
        return files

    return write


UNFAIR = {"congestion": {"dcqcn": {"preset": "mlx5", "T": "100 us"}}}
ADAPTIVE = {"share": {"adaptive": 1.0}}


def test_every_script_is_valid_in_both_shells(host: Host, export: Export) -> None:
    scripts = [path for path in {**export(**UNFAIR), **export(**ADAPTIVE)} if path.endswith(".sh")]
    assert len(scripts) == 5
    for shell in ("sh", "bash"):
        for path in scripts:
            subprocess.run([shell, "-n", str(host.directory / "out" / path)], check=True)


def test_undo_restores_every_value_that_apply_changed(host: Host, export: Export) -> None:
    export(**UNFAIR)
    assert host.run("a_../apply.sh", NIC).returncode == 0
    assert host.values() == {**SHIPPED, "rp_time_reset": 100, "np_min_time_between_cnps": 50}
    # Applied once more, the saved values are still those from before the first time.
    assert host.run("a_../apply.sh", NIC).returncode == 0
    assert host.run("a_../undo.sh", NIC).returncode == 0
    assert host.values() == SHIPPED
    again = host.run("a_../undo.sh", NIC)
    assert again.returncode == 2
    assert "nothing to undo" in again.stderr


def test_a_value_that_the_nic_refuses_is_detected(host: Host, export: Export) -> None:
    export(congestion={"dcqcn": {"preset": "mlx5", "R_AI": "7 Mbps"}})
    # A file that accepts a write but has another value afterwards, like debugfs of a NIC that clamps values.
    (host.params / "rp_ai_rate").unlink()
    (host.params / "rp_ai_rate").symlink_to("/dev/null")
    run = host.run("a_../apply.sh", NIC)
    assert run.returncode == 1
    assert "and not 7: the NIC refused it" in run.stderr


@pytest.mark.parametrize("script", ["a_../apply.sh", "a_../undo.sh", "a_../adaptive.sh"])
def test_a_script_without_a_nic_or_with_an_unknown_one_fails_with_a_message(
    host: Host, export: Export, script: str
) -> None:
    export(**ADAPTIVE if "adaptive" in script else UNFAIR)
    for arguments in ((), ("0000:00:00.0",)):
        run = host.run(script, *arguments)
        assert run.returncode == 2
        assert run.stderr.strip()
    assert host.values() == SHIPPED


def test_adaptive_follows_the_phase_and_restores_the_values_at_the_end(host: Host, export: Export) -> None:
    export(**ADAPTIVE)
    # A phase has 200 MB. Each sleep is one sample: it records R_AI and adds the sent MB to the counter.
    sent_mb = [40, 40, 80, 80, 0, 0, 0, 100]
    (host.directory / "samples").write_text("\n".join(map(str, sent_mb)) + "\n", encoding="ascii")
    host.program(
        "sleep",
        f"""
        cd {host.directory}
        cat mlx5/{NIC}/cc_params/rp_ai_rate >> seen
        read -r megabytes < samples || exit 1
        sed -i 1d samples
        echo $(($(cat {host.counter}) + megabytes * 250000)) > {host.counter}
        """,
    )
    run = host.run("a_../adaptive.sh", NIC)
    assert run.stderr == ""
    seen = [int(line) for line in (host.directory / "seen").read_text(encoding="ascii").split()]
    # 5 Mbps × (1 + 40/200), × (1 + 80/200), …; 30 ms of quiet end the phase, and 100 MB begin the next.
    assert seen == [5, 6, 7, 9, 10, 10, 10, 5, 7]
    assert host.values() == SHIPPED


def test_hosts_trust_dscp_until_the_change_is_undone(host: Host, export: Export) -> None:
    export(**UNFAIR)
    log = host.directory / "log"
    host.program("mlnx_qos", f'echo "$*" >> {log}\n[ $# -gt 2 ] || echo "Priority trust state: pcp"\n')
    assert host.run("hosts.sh", "apply", "eth2").returncode == 0
    assert host.run("hosts.sh", "undo", "eth2").returncode == 0
    assert log.read_text(encoding="utf-8").splitlines() == [
        "-i eth2",
        "-i eth2 --trust=dscp",
        "-i eth2 --dscp2prio=set,34,4",
        "-i eth2 --dscp2prio=set,26,3",
        "-i eth2 --dscp2prio=del,34,4",
        "-i eth2 --dscp2prio=del,26,3",
        "-i eth2 --trust=pcp",
    ]
    for arguments in ((), ("apply",), ("other", "eth2"), ("undo", "eth2")):
        assert host.run("hosts.sh", *arguments).returncode == 2


def test_a_switch_serves_cnps_first_and_keeps_settings_unrelated_to_jobs(export: Export) -> None:
    files = export()
    tables = json.loads(files["switch-sonic.json"])
    assert tables["DSCP_TO_TC_MAP"]["AZURE"] == {"26": "3", "34": "4", "48": "6"}
    assert set(tables["QUEUE"]) == {"Ethernet0|6", "Ethernet0|4", "Ethernet0|3"}
    assert tables["SCHEDULER"] == {"hocket.strict": {"type": "STRICT"}}
    text = json.dumps(tables) + files["switch-nvue.sh"]
    assert not any(word in text for word in ("pfc", "wred", "BUFFER", "congestion-control"))


def test_an_environment_has_the_variables_of_nccl(export: Export) -> None:
    assert export()["a_../nccl.env"] == "NCCL_IB_TC=138\nNCCL_IB_SL=4\n"


def test_names_of_jobs_become_unique_directories_inside_the_given_one() -> None:
    jobs = ["..", "/etc", "a b", "a_b", "A b", "-x", "é", "$(x)"]
    names = list(directory_names(jobs).values())
    assert len({name.lower() for name in names}) == len(jobs)
    assert all(Path(name).name == name and name[0].isalnum() and name.isascii() for name in names)
