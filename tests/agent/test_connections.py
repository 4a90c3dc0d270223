"""The congestion control that an agent gives to connections which Python's code never sees."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hocket_agent import Agent, InputError
from hocket_agent.connections import Connections
from hocket_agent.settings import Settings, settings_of

# Every Linux has it, and lets everyone use it.
RENO = "reno"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The ends of a TCP connection over loopback, beside sockets that are none."""
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
    """What the kernel says that it has."""
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def test_connections_get_the_congestion_control_once_and_stay_as_they_are_otherwise(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    near.settimeout(7.0)
    connections = Connections(RENO)
    assert connections.govern() >= 2
    assert (control_of(near), control_of(far)) == (RENO, RENO)
    assert connections.govern() == 0
    near.sendall(b"still open")
    assert far.recv(10) == b"still open"
    assert near.gettimeout() == 7.0


def test_connections_go_on_blocking_where_the_job_has_a_default_timeout(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = pair
    assert os.get_blocking(near.fileno())
    socket.setdefaulttimeout(5.0)
    try:
        assert Connections(RENO).govern() >= 2
    finally:
        socket.setdefaulttimeout(None)
    assert control_of(near) == RENO
    assert os.get_blocking(near.fileno())


def test_a_control_that_is_not_there_is_named_and_tried_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    before = control_of(pair[0])
    connections = Connections("no_such")
    for _ in range(2):
        with pytest.raises(InputError, match="no_such: not loaded"):
            connections.govern()
    assert control_of(pair[0]) == before


def test_an_agent_governs_connections_and_goes_on_where_it_cannot(
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
