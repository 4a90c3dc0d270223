"""`hocket doctor`: the live features that a machine supports."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hocket import doctor
from hocket.doctor import dcqcn_nics, findings, rdma_devices, shaping_missing

Command = Callable[..., Any]


def test_every_part_either_works_or_says_what_is_missing(hocket: Command) -> None:
    answers = hocket("doctor", "--json").json()
    assert {each["command"] for each in answers} == {
        "hocket profile --watch",
        "hocket testbed",
        "hocket tcp",
        "hocket export",
    }
    for each in answers:
        assert each["works"] == (not each["missing"])
        assert each["found"] or each["missing"]


def test_the_text_lists_what_is_missing(hocket: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = doctor.Finding("testbed", "hocket testbed", (), ("iproute2 [Debian]",))
    monkeypatch.setattr(doctor, "findings", lambda: [lacking])
    outcome = hocket("doctor")
    assert outcome.code == 0
    assert "testbed (hocket testbed): not available" in outcome.out
    assert "  missing: iproute2 [Debian]" in outcome.out


def test_devices_are_those_in_sysfs(tmp_path: Path) -> None:
    assert rdma_devices(tmp_path / "infiniband") == []
    for name in ("mlx5_1", "mlx5_0"):
        (tmp_path / "infiniband" / name).mkdir(parents=True)
    assert rdma_devices(tmp_path / "infiniband") == ["mlx5_0", "mlx5_1"]


def test_nics_are_those_with_parameters(tmp_path: Path) -> None:
    assert dcqcn_nics(tmp_path) == []
    (tmp_path / "mlx5" / "0000:c1:00.0" / "cc_params").mkdir(parents=True)
    (tmp_path / "mlx5" / "0000:c1:00.2").mkdir()
    assert dcqcn_nics(tmp_path) == ["0000:c1:00.0"]
    with pytest.raises(OSError, match="nowhere"):
        dcqcn_nics(tmp_path / "nowhere")


def test_without_root_the_nics_part_asks_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "dcqcn_nics", refused)
    (nics,) = (each for each in findings() if each.command == "hocket export")
    assert "cannot be read: Permission denied; run as root" in nics.missing[0]


def test_shaping_that_fails_says_why() -> None:
    assert "is not on the PATH" in str(shaping_missing(("no-such-program",)))
    assert shaping_missing((shutil.which("true") or "true",)) is None
    assert str(shaping_missing(("sh", "-c", "echo Unknown qdisc >&2; exit 2"))).endswith("Unknown qdisc")


def test_the_namespace_of_the_check_is_removed() -> None:
    namespaces = Path("/proc/self/ns/net").readlink()
    assert findings()
    assert Path("/proc/self/ns/net").readlink() == namespaces
