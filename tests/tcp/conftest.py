"""A machine that can load the controls, and a shaped link between network namespaces; skipped, with the
reason, where either is not possible.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from hocket.profiling.watch import inside
from hocket.tcp import control
from hocket.tcp.compiler import Base
from hocket.tcp.requirements import missing

SENDER, SWITCH, RECEIVER = "hk-tcp-t-send", "hk-tcp-t-switch", "hk-tcp-t-recv"
RECEIVER_ADDRESS = "10.78.2.2"
PORT = 29601
GAP_NS = 100_000_000
BUFFER_BYTES = 32_000_000
# Of asm-generic/socket.h: buffers beyond what the machine allows to all.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where the controls cannot be loaded, or are already loaded by another user."""
    if lacking := missing():
        pytest.skip(f"adaptively unfair TCP cannot be loaded here: {'; '.join(lacking)}")
    if control.current() is not None:
        pytest.skip("adaptively unfair TCP is loaded already, and others may be using it")


@contextmanager
def loaded(base: Base = "reno", factor: float = 2.0) -> Iterator[control.Settings]:
    settings = control.load(base, factor=factor, gap_ns=GAP_NS)
    try:
        yield settings
    finally:
        if control.current() is not None:
            control.unload()


class Network(NamedTuple):
    """A sender and a receiver with a switch between them, whose port to the receiver is shaped."""

    listener: socket.socket

    def connect(self, algorithm: str) -> tuple[socket.socket, socket.socket]:
        """A sending socket under `algorithm`, and the receiving one."""
        sender = inside(SENDER, lambda: socket.socket())
        sender.settimeout(20)
        sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, BUFFER_BYTES)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        sender.connect((RECEIVER_ADDRESS, PORT))
        return sender, self.listener.accept()[0]


@pytest.fixture
def network(able: None) -> Iterator[Network]:
    """50 Mbps, with a queue of 8 ms."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("iproute2 is not installed")
    with ExitStack() as stack:
        for name in (SENDER, SWITCH, RECEIVER):
            if run("ip", "netns", "add", name, check=False).returncode != 0:
                pytest.skip("network namespaces cannot be made here")
            stack.callback(run, "ip", "netns", "del", name)
        within(SWITCH, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        attach(SENDER, "10.78.1.2", "to-sender", "10.78.1.1")
        attach(RECEIVER, RECEIVER_ADDRESS, "to-receiver", "10.78.2.1")
        shape = ("tbf", "rate", "50mbit", "burst", "8kb", "limit", "50000")
        within(SWITCH, "tc", "qdisc", "add", "dev", "to-receiver", "root", *shape)
        listener = inside(RECEIVER, lambda: socket.create_server((RECEIVER_ADDRESS, PORT)))
        listener.settimeout(20)
        listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        stack.callback(listener.close)
        yield Network(listener)


def attach(host: str, address: str, port: str, gateway: str) -> None:
    run("ip", "link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", port, "netns", SWITCH)
    for namespace, device, local in ((host, "eth0", address), (SWITCH, port, gateway)):
        within(namespace, "ip", "address", "add", f"{local}/24", "dev", device)
        within(namespace, "ip", "link", "set", device, "gso_max_segs", "1", "up")
    within(host, "ip", "route", "add", "default", "via", gateway, "rto_min", "10ms")


def within(namespace: str, *command: str) -> None:
    run("ip", "netns", "exec", namespace, *command)


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=check, capture_output=True, text=True)
