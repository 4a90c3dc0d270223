"""Each missing requirement is reported in one sentence, and the rest of Hocket works without it."""

import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hocket import InputError
from hocket.tcp import (
    compiler,
    control,
    requirements,
    set_phase,
    use,
)
from hocket.tcp.requirements import missing, rights_missing
from hocket_agent import libbpf, sockets

Command = Callable[..., Any]
CAP_NET_ADMIN, CAP_SYS_ADMIN = 1 << 12, 1 << 21


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int], None]:
    """Fakes the effective capabilities of this process in /proc/self/status."""

    def write(capabilities: int) -> None:
        path = tmp_path / "status"
        path.write_text(f"Name:\tpython\nCapInh:\t{0:016x}\nCapEff:\t{capabilities:016x}\n")
        monkeypatch.setattr(requirements, "_STATUS", path)

    return write


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: Callable[[int], None]) -> Iterator[None]:
    """A machine without BTF, clang and libbpf, and a user without privileges."""
    status(0)
    monkeypatch.setattr(requirements, "KERNEL_BTF", tmp_path / "vmlinux")
    monkeypatch.setattr(libbpf, "_SONAME", "libbpf-that-is-not-there.so.1")
    monkeypatch.setattr(sockets, "AVAILABLE", tmp_path / "available")
    monkeypatch.setenv("PATH", str(tmp_path))
    libbpf.library.cache_clear()
    yield
    libbpf.library.cache_clear()


def test_everything_that_is_missing_is_named_at_once(bare: None) -> None:
    rights, types, clang, library = missing()
    assert rights.startswith("root is required, or CAP_NET_ADMIN and CAP_SYS_ADMIN")
    assert "CONFIG_DEBUG_INFO_BTF" in types
    assert clang == "clang, which compiles for BPF, is not on the PATH (Debian: clang)"
    assert library.startswith("libbpf-that-is-not-there.so.1 is not installed")


def test_on_another_system_nothing_else_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert missing() == ["adaptively unfair TCP requires Linux: this is darwin"]


@pytest.mark.parametrize(
    ("capabilities", "lacking"),
    [
        (CAP_NET_ADMIN | CAP_SYS_ADMIN, []),
        (CAP_NET_ADMIN, ["CAP_SYS_ADMIN"]),
        (CAP_SYS_ADMIN, ["CAP_NET_ADMIN"]),
        (~(CAP_NET_ADMIN | CAP_SYS_ADMIN) % 2**40, ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
    ],
)
def test_effective_capabilities_count(
    status: Callable[[int], None], capabilities: int, lacking: list[str]
) -> None:
    status(capabilities)
    assert rights_missing() == lacking


def test_load_reports_what_is_missing(bare: None, hocket: Command) -> None:
    outcome = hocket("tcp", "load")
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: root is required")
    assert "is not on the PATH (Debian: clang)" in outcome.err


def test_status_reports_what_is_missing_without_an_error(bare: None, hocket: Command) -> None:
    outcome = hocket("tcp", "status")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "not loaded"
    assert sum(line.startswith("missing: ") for line in outcome.out.splitlines()) == 4
    assert hocket("tcp", "status", "--json").json()["loaded"] is None


def test_other_commands_work_without_it(bare: None, hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        '[link]\ncapacity = "50 Gbps"\n[[jobs]]\nname = "a"\nperiod = "100 ms"\n'
        'up = [{ start = "0 ms", duration = "40 ms", rate = "40 Gbps" }]\n'
    )
    assert hocket("compat", tmp_path / "plan.toml").code == 0


@pytest.mark.parametrize("arguments", [("unload",), ("watch",)])
def test_controls_that_are_not_loaded_can_be_neither_unloaded_nor_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hocket: Command, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sockets, "AVAILABLE", tmp_path / "available")
    outcome = hocket("tcp", *arguments)
    assert outcome.code == 2
    assert "adaptively unfair TCP is not loaded" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("load", "--gap", "20"), "--gap: "),
        (("load", "--gap", "1 us"), "gap: must be between 1 and 10000 ms: got 0.001 ms"),
        (("load", "--factor", "0"), "factor: must be between 0.0625 and 16: got 0"),
        (("load", "--factor", "nan"), "factor: must be between 0.0625 and 16: got nan"),
        (("watch", "--seconds", "nan"), "--seconds: must be 0 or more: got nan"),
        (("watch", "--seconds", "-1"), "--seconds: must be 0 or more: got -1"),
        (("watch", "--interval", "1 ms"), "--interval: must be at least 10 ms: got 1 ms"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_loaded(
    hocket: Command, arguments: tuple[str, ...], message: str
) -> None:
    outcome = hocket("tcp", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize("size", [-1, 2**47 + 1])
def test_a_phase_too_large_for_the_program_is_rejected(size: int) -> None:
    with pytest.raises(InputError, match=rf"between 0 and 140737488355328: got {size}"):
        set_phase(0, size)


def test_a_socket_keeps_its_control_if_the_requested_one_is_not_loaded() -> None:
    with socket.socket() as sock:
        before = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        with pytest.raises(
            InputError, match=r"hocket_nothing: not loaded \(hocket tcp load\); the kernel has"
        ):
            use(sock, "hocket_nothing")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) == before


def test_a_socket_without_congestion_control_is_rejected() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        pytest.raises(InputError, match="cannot be set for file"),
    ):
        use(sock, "reno")


def fake_clang(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "clang").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "clang").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


@pytest.fixture
def btf(tmp_path: Path) -> Path:
    (tmp_path / "btf").write_bytes(b"\0cwnd_event\0")
    return tmp_path / "btf"


def test_missing_headers_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, btf: Path) -> None:
    fake_clang(
        tmp_path, "echo \"x.c:9:10: error: 'bpf/bpf_helpers.h' file not found\" >&2; exit 1", monkeypatch
    )
    with pytest.raises(InputError, match=r"libbpf's headers are not installed \(Debian: libbpf-dev\)"):
        compiler.compile_program("reno", btf=btf, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, btf: Path) -> None:
    fake_clang(
        tmp_path, f'echo run >> {tmp_path}/log; for last; do :; done; echo object > "$last"', monkeypatch
    )
    first, again = (compiler.compile_program("reno", btf=btf, cache=tmp_path / "cache") for _ in range(2))
    assert first == again
    assert first.read_text() == "object\n"
    assert compiler.compile_program("cubic", btf=btf, cache=tmp_path / "cache") != first
    assert (tmp_path / "log").read_text() == "run\n" * 2


@pytest.mark.parametrize("types", [b"\0cwnd_event\0", b"\0cwnd_event\0cwnd_event_tx_start\0"])
@pytest.mark.parametrize("base", ["reno", "cubic"])
def test_the_program_compiles_for_kernels_before_and_after_7_1(
    tmp_path: Path, base: compiler.Base, types: bytes
) -> None:
    if shutil.which("clang") is None or not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("clang or libbpf's headers are not installed")
    (tmp_path / "btf").write_bytes(types)
    built = compiler.compile_program(base, btf=tmp_path / "btf", cache=tmp_path)
    asks_for_tx_start = b"cubictcp_cwnd_event_tx_start" in built.read_bytes()
    assert asks_for_tx_start == (base == "cubic" and b"tx_start" in types)


def test_packed_settings_have_the_layout_of_the_program() -> None:
    settings = control.Settings("reno", 1.5, 20_000_000, 7)
    # loaded_ns, gap_ns, weight in 1/65536, reno.
    assert settings.packed() == bytes(
        [7, *[0] * 7, 0x00, 0x2D, 0x31, 0x01, *[0] * 4, 0, 0x80, 1, 0, 1, 0, 0, 0]
    )
