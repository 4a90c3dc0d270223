"""The controls on a shaped link between network namespaces."""

import fcntl
import socket
import termios
import time
from array import array
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.tcp.conftest import BUFFER_BYTES, SENDER, Network, loaded

from hocket.profiling.watch import inside
from hocket.tcp import ADAPTIVE, WEIGHTED, control, set_phase
from hocket.tcp.compiler import Base
from hocket.tcp.diag import Connection, connections

BURST_BYTES = 1_500_000
PAUSE_S = 0.4
_MOST_LOOKS = 2_000


def send_burst(sender: socket.socket, receiver: socket.socket, size: int = BURST_BYTES) -> list[Connection]:
    """Sends `size` bytes and a pause after them; what was seen of the socket on the way.

    The kernel has room for all of them on both sides, so that a slow test makes no gap in a burst.
    """
    sender.sendall(bytes(size))
    seen = []
    for _ in range(_MOST_LOOKS):
        if waiting(receiver) == size:
            break
        seen.extend(look())
        time.sleep(0.01)
    assert len(receiver.recv(size, socket.MSG_WAITALL)) == size
    time.sleep(PAUSE_S)
    return [*seen, *look()]


def waiting(receiver: socket.socket) -> int:
    """The number of bytes that have arrived but were not read."""
    count = array("i", [0])
    fcntl.ioctl(receiver, termios.FIONREAD, count)
    return count[0]


def look() -> list[Connection]:
    with control.phase_map() as phases:
        return connections(phases, SENDER)


@pytest.mark.parametrize("base", ["reno", "cubic"])
def test_phases_are_found_by_gaps_and_the_increase_grows_with_what_was_sent(
    network: Network, base: Base
) -> None:
    with loaded(base):
        sender, receiver = network.connect(ADAPTIVE)
        with sender, receiver:
            first, *later = [send_burst(sender, receiver) for _ in range(4)]
    numbers = {each.phase.number for each in first if each.phase}
    assert numbers == {1}
    assert all(each.phase.total_bytes is None for each in first if each.phase), "not known in the first"
    for number, seen in enumerate(later, start=2):
        # Looks before the first ACK of the burst still see the phase before.
        phases = [each.phase for each in seen if each.phase and each.phase.number == number]
        assert [phase.total_bytes for phase in phases] == [BURST_BYTES] * len(phases)
        assert phases[-1].sent_bytes == BURST_BYTES
        factors = [phase.factor for phase in phases if phase.factor]
        # The first look may precede any increase of this phase, and then shows the last phase's.
        assert factors[1:] == sorted(factors[1:])
        assert all(1 <= factor <= 2 for factor in factors)
        assert factors[-1] > 1.5


def test_a_small_message_between_bursts_does_not_count_as_a_phase_of_usual_size(network: Network) -> None:
    with loaded():
        sender, receiver = network.connect(ADAPTIVE)
        with sender, receiver:
            for size in (BURST_BYTES, 64, BURST_BYTES, 64):
                seen = send_burst(sender, receiver, size)
    last = seen[-1].phase
    assert last is not None
    assert (last.number, last.sent_bytes, last.total_bytes) == (4, 64, BURST_BYTES)


def test_a_job_can_declare_the_start_and_size_of_a_phase(network: Network) -> None:
    with loaded():
        sender, receiver = network.connect(ADAPTIVE)
        with sender, receiver:
            send_burst(sender, receiver)
            set_phase(sender, 3 * BURST_BYTES)
            # Pauses are part of a declared phase.
            for bursts in (1, 2, 3):
                phase = send_burst(sender, receiver)[-1].phase
                assert phase is not None
                assert (phase.number, phase.sent_bytes) == (2, bursts * BURST_BYTES)
                assert phase.total_bytes == 3 * BURST_BYTES
            set_phase(sender, 0)
            again = send_burst(sender, receiver)[-1].phase
    assert again is not None
    assert (again.number, again.sent_bytes) == (3, BURST_BYTES)


def test_four_times_the_increase_gets_more_of_the_link(network: Network) -> None:
    with loaded("reno", factor=4.0), ExitStack() as stack:
        pairs = [network.connect(name) for name in (WEIGHTED, "reno")]
        for pair in pairs:
            for sock in pair:
                stack.enter_context(sock)
        for sender, _ in pairs:
            sender.sendall(bytes(2 * BUFFER_BYTES // 3))
        # Both begin in slow start, to which the factor does not apply.
        time.sleep(0.5)
        before = [waiting(receiver) for _, receiver in pairs]
        # Short enough that neither can finish: together they need 6.8 s on this link. And not so
        # short that a loss decides: on a machine with as many busy loops as processors, the ratio after 2.5 s
        # is 1.1 to 2.4, and after 5 s 1.9 to 2.4.
        time.sleep(5)
        more, less = (waiting(receiver) - then for (_, receiver), then in zip(pairs, before, strict=True))
    assert more > 1.2 * less > 0


def test_a_default_of_a_namespace_stays_until_it_is_changed(network: Network) -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control")

    def new_socket() -> str:
        with inside(SENDER, socket.socket) as sock:
            name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        return name.rstrip(b"\0").decode()

    with loaded():
        inside(SENDER, lambda: default.write_text(ADAPTIVE))
        assert new_socket() == ADAPTIVE
    assert new_socket() == ADAPTIVE
    inside(SENDER, lambda: default.write_text("reno"))
    assert new_socket() == "reno"
