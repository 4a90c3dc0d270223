"""The controls at work on a shaped link between network namespaces."""

import socket
import threading
import time
from pathlib import Path

import pytest
from tests.tcp.conftest import SENDER, Network, loaded

from hocket.profile.watch import inside
from hocket.tcp import ADAPTIVE, WEIGHTED, control, set_phase
from hocket.tcp.compiler import Base
from hocket.tcp.diag import Connection, connections

BURST_BYTES = 1_500_000
# Well beyond the gap of 20 ms.
PAUSE_S = 0.15


def send_burst(sender: socket.socket, receiver: socket.socket, size: int = BURST_BYTES) -> list[Connection]:
    """Sends `size` bytes and a pause after them; what was seen of the socket on the way."""
    reading = threading.Thread(target=read, args=(receiver, size))
    writing = threading.Thread(target=sender.sendall, args=(bytes(size),))
    reading.start()
    writing.start()
    seen = []
    while reading.is_alive():
        seen.extend(look())
        time.sleep(0.01)
    writing.join()
    time.sleep(PAUSE_S)
    return [*seen, *look()]


def read(receiver: socket.socket, size: int) -> None:
    buffer = bytearray(1 << 16)
    while size:
        got = receiver.recv_into(buffer, min(size, len(buffer)))
        assert got, "the sender keeps its end open"
        size -= got


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
        # The first look may come before an increase of this phase, and then tells of the last one.
        assert factors[1:] == sorted(factors[1:])
        assert all(1 <= factor <= 2 for factor in factors)
        assert factors[-1] > 1.5


def test_a_small_message_between_bursts_does_not_pass_for_a_phase_of_usual_size(network: Network) -> None:
    with loaded():
        sender, receiver = network.connect(ADAPTIVE)
        with sender, receiver:
            for size in (BURST_BYTES, 64, BURST_BYTES, 64):
                seen = send_burst(sender, receiver, size)
    last = seen[-1].phase
    assert last is not None
    assert (last.number, last.sent_bytes, last.total_bytes) == (4, 64, BURST_BYTES)


def test_a_job_can_say_when_a_phase_begins_and_how_large_it_is(network: Network) -> None:
    with loaded():
        sender, receiver = network.connect(ADAPTIVE)
        with sender, receiver:
            send_burst(sender, receiver)
            set_phase(sender, 3 * BURST_BYTES)
            # Of a phase that was declared, pauses are a part.
            for bursts in (1, 2, 3):
                phase = send_burst(sender, receiver)[-1].phase
                assert phase is not None
                assert (phase.number, phase.sent_bytes) == (2, bursts * BURST_BYTES)
                assert phase.total_bytes == 3 * BURST_BYTES
            set_phase(sender, 0)
            again = send_burst(sender, receiver)[-1].phase
    assert again is not None
    assert (again.number, again.sent_bytes) == (3, BURST_BYTES)


def test_twice_the_increase_gets_more_of_the_link(network: Network) -> None:
    with loaded("reno", factor=4.0):
        pairs = [network.connect(name) for name in (WEIGHTED, "reno")]
        counts = [0, 0]
        stop = threading.Event()

        def count(place: int) -> None:
            buffer = bytearray(1 << 16)
            while got := pairs[place][1].recv_into(buffer):
                counts[place] += got

        def write(place: int) -> None:
            while not stop.is_set():
                pairs[place][0].send(bytes(1 << 16))
            pairs[place][0].close()

        threads = [
            threading.Thread(target=each, args=(place,)) for each in (count, write) for place in (0, 1)
        ]
        for thread in threads:
            thread.start()
        time.sleep(4)
        stop.set()
        for thread in threads:
            thread.join()
        for _, receiver in pairs:
            receiver.close()
    assert counts[0] > 1.2 * counts[1], counts


def test_a_namespace_may_make_a_control_its_default(network: Network) -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    with loaded():
        inside(SENDER, lambda: default.write_text(ADAPTIVE))
        with inside(SENDER, socket.socket) as sock:
            name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert name.rstrip(b"\0").decode() == ADAPTIVE
