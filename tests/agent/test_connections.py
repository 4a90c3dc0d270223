"""The congestion control that an agent sets on connections opened below Python."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hocket_agent import Agent, InputError
from hocket_agent.connections import Connections
from hocket_agent.settings import Settings, settings_of

# Every Linux kernel has it and allows every user to set it.
RENO = "reno"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The ends of a TCP connection over loopback, beside sockets that are not TCP connections."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for other in socket.socketpair():
            stack.enter_context(other)
        near = stack.enter_context(socket.create_connection(listening.getsockname()))
        far, _ = listening.accept()
        stack.enter_context(far)
        yield near, far


def control_of(connection: socket.socket) -> str:
    """The congestion control that the kernel reports."""
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def test_connections_get_the_congestion_control_once_and_are_otherwise_unchanged(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    near.settimeout(7.0)
    connections = Connections(RENO)
    assert connections.configure() >= 2
    assert (control_of(near), control_of(far)) == (RENO, RENO)
    assert connections.configure() == 0
    near.sendall(b"still open")
    assert far.recv(10) == b"still open"
    assert near.gettimeout() == 7.0


def test_connections_stay_blocking_where_the_job_has_a_default_timeout(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = pair
    assert os.get_blocking(near.fileno())
    socket.setdefaulttimeout(5.0)
    try:
        assert Connections(RENO).configure() >= 2
    finally:
        socket.setdefaulttimeout(None)
    assert control_of(near) == RENO
    assert os.get_blocking(near.fileno())


def test_a_missing_congestion_control_is_named_and_tried_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    before = control_of(pair[0])
    connections = Connections("no_such")
    for _ in range(2):
        with pytest.raises(InputError, match="no_such: not loaded"):
            connections.configure()
    assert control_of(pair[0]) == before


def test_an_agent_configures_connections_and_keeps_running_where_it_cannot(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(Settings(congestion=RENO))
    agent.close()
    assert control_of(pair[0]) == RENO
    with caplog.at_level(logging.WARNING, "hocket.agent"):
        refused = Agent(Settings(congestion="no_such"))
        with refused.iteration():
            pass
        refused.close()
    assert refused.status()["iterations"] == 1
    assert sum("connections keep their congestion control" in line for line in caplog.messages) == 1


def test_a_dry_run_changes_no_connection(pair: tuple[socket.socket, socket.socket]) -> None:
    before = control_of(pair[0])
    settings = settings_of({"HOCKET_CONGESTION": RENO, "HOCKET_DRY_RUN": "1"})
    assert settings.congestion == RENO
    agent = Agent(settings)
    agent.close()
    assert before == control_of(pair[0])
