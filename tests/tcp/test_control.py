"""Loads and unloads the controls in this machine's kernel."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tcp.conftest import GAP_NS, loaded

from hocket import InputError
from hocket.tcp import (
    ADAPTIVE,
    WEIGHTED,
    control,
    diag,
    set_phase,
    use,
)
from hocket.tcp.compiler import Base, compile_program
from hocket.tcp.requirements import KERNEL_BTF
from hocket_agent import sockets
from hocket_agent.sockets import available, is_loaded

Command = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("able")


def algorithm_of(sock: socket.socket) -> str:
    name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


@pytest.mark.parametrize("base", ["reno", "cubic"])
def test_the_settings_are_reported_until_the_controls_are_unloaded(base: Base) -> None:
    with loaded(base, factor=1.5) as settings:
        assert {ADAPTIVE, WEIGHTED} <= set(available())
        assert control.current() == settings
        assert (settings.base, settings.factor, settings.gap_ns) == (base, 1.5, GAP_NS)
    assert control.current() is None
    assert not {ADAPTIVE, WEIGHTED} & set(available())


def test_a_second_load_is_rejected() -> None:
    with loaded() as settings:
        with pytest.raises(InputError, match="is already loaded; run hocket tcp unload first"):
            control.load("cubic")
        assert control.current() == settings


def test_sockets_keep_an_unloaded_control_and_the_next_load_is_independent() -> None:
    with socket.socket() as old, socket.socket() as new:
        with loaded():
            use(old, WEIGHTED)
        assert algorithm_of(old) == WEIGHTED
        with pytest.raises(InputError, match="not loaded"):
            use(new, WEIGHTED)
        with loaded("cubic"):
            use(new, WEIGHTED)
            set_phase(new, 1)
            assert algorithm_of(new) == WEIGHTED


def test_a_name_that_another_program_registered_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded():
        with monkeypatch.context() as patch:
            # Hocket's own check is patched to miss that the name is used, so that the kernel has to reject
            # it.
            patch.setattr(control, "is_loaded", lambda: False)
            with pytest.raises(InputError, match="the name is used by a congestion control that is not"):
                control.load()
        assert {ADAPTIVE, WEIGHTED} <= set(available())


def test_a_program_for_a_kernel_with_other_functions_is_rejected_with_a_reason(tmp_path: Path) -> None:
    has_tx_start = b"\0cwnd_event_tx_start\0" in KERNEL_BTF.read_bytes()
    # The program for the other kind of kernel.
    (tmp_path / "btf").write_bytes(b"" if has_tx_start else b"\0cwnd_event_tx_start\0")
    program = compile_program("cubic", btf=tmp_path / "btf", cache=tmp_path)
    with pytest.raises(InputError, match=r"rejects the program on top of cubic (?s:.*)cwnd_event"):
        control._register(program, control.Settings("cubic", 2.0, 20_000_000, 0))
    assert not is_loaded()


def test_nothing_stays_registered_if_the_second_control_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    # A map of the program that the kernel cannot register.
    monkeypatch.setattr(control, "ALGORITHMS", (ADAPTIVE, "hocket_phase"))
    with pytest.raises(InputError, match="rejects the program"):
        control.load()
    assert not is_loaded()


def test_unloading_leaves_other_controls_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sockets, "AVAILABLE", tmp_path / "available")
    (tmp_path / "available").write_text("reno hocket_adaptive\n")
    with pytest.raises(InputError, match="the registered control is not Hocket"):
        control.unload()


def test_the_commands_load_show_and_unload(hocket: Command) -> None:
    assert hocket("tcp", "load", "--base", "reno", "--gap", "30 ms", "--factor", "3").out == (
        "loaded hocket_adaptive and hocket_weighted: "
        "reno's increase × (1 + sent/total), gaps from 30 ms; and × 3\n"
    )
    try:
        assert "reno's increase" in hocket("tcp", "status").out
        status = hocket("tcp", "status", "--json").json()
        assert status["loaded"]["gap_ns"] == 30_000_000
        assert status["sockets"]["this one"] == {ADAPTIVE: 0, WEIGHTED: 0}
        assert hocket("tcp", "watch", "--seconds", "0").out == "no sockets use the controls\n"
    finally:
        assert hocket("tcp", "unload").out == "unloaded hocket_adaptive and hocket_weighted\n"
    assert hocket("tcp", "unload").code == 2


def test_only_connections_under_a_control_of_hocket_are_listed() -> None:
    with loaded(), socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as mine, listener.accept()[0]:
            use(mine, ADAPTIVE)
            with control.phase_map() as phases:
                (connection,) = diag.connections(phases)
            host, port = mine.getsockname()
        assert connection.local == f"{host}:{port}"
        assert connection.peer == "{}:{}".format(*listener.getsockname())
        assert connection.algorithm == ADAPTIVE
        assert connection.cwnd >= 1
        assert connection.phase is None, "nothing has been sent yet"
