"""Reads the TCP sockets of a network namespace over netlink (sock_diag(7)), each with its communication
phase.
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from hocket.errors import InputError
from hocket.tcp.control import ALGORITHMS, Phase

# From linux/netlink.h, sock_diag.h and inet_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLA_F_NESTED, _NLA_TYPE_MASK = 0x8000, 0x3FFF
_INET_DIAG_INFO, _INET_DIAG_CONG, _INET_DIAG_SK_BPF_STORAGES = 2, 4, 20
_INET_DIAG_REQ_SK_BPF_STORAGES = 2
_SK_DIAG_BPF_STORAGE_REQ_MAP_FD = 1
_SK_DIAG_BPF_STORAGE = 1
_SK_DIAG_BPF_STORAGE_MAP_VALUE = 3
# ESTABLISHED and CLOSE_WAIT of net/tcp_states.h, the states in which a socket may send.
_STATES = 1 << 1 | 1 << 8

_NLMSG = struct.Struct("=IHHII")
_NLA = struct.Struct("=HH")
_REQUEST = struct.Struct("=BBBxI48x")
# `struct inet_diag_msg`: family, ports, addresses; the rest is skipped.
_MESSAGE = struct.Struct("=Bxxx2s2s16s16s32x")
_U32 = struct.Struct("=I")
# Of `struct tcp_info`: tcpi_rtt and tcpi_snd_cwnd.
_RTT_OFFSET, _CWND_OFFSET = 68, 80
# recv(2) drops what does not fit; the kernel's messages of a dump have at most 32 kB.
_RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True)
class Connection:
    """A TCP socket that may send: its ends as "address:port", `cwnd` in segments, smoothed `rtt_us`.

    `phase` is None before its first ACK, and for a socket of a control that has been unloaded since.
    """

    local: str
    peer: str
    algorithm: str
    cwnd: int
    rtt_us: int
    phase: Phase | None


def connections(phases: int, namespace: str | None = None) -> list[Connection]:
    """The sockets of a network namespace that use a control of Hocket, sorted by their ends.

    Without a name, it is the namespace of this thread. `phases` is the file descriptor of
    `control.phase_map`.

    Raises `InputError` if there is no such namespace or it may not be entered.
    """
    with _open(namespace) as netlink:
        found = [
            connection
            for family in (socket.AF_INET, socket.AF_INET6)
            for connection in _dump(netlink, family, phases)
            if connection.algorithm in ALGORITHMS
        ]
    return sorted(found, key=lambda connection: (connection.local, connection.peer))


def _open(namespace: str | None) -> socket.socket:
    # A netlink socket belongs to the namespace of the thread that creates it.
    if namespace is None:
        return _netlink()
    from hocket.profiling.watch import inside

    return inside(namespace, _netlink)


def _netlink() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)


def _dump(netlink: socket.socket, family: int, phases: int) -> Iterator[Connection]:
    netlink.send(_request(family, phases))
    while True:
        data = netlink.recv(_RECEIVE_BYTES)
        while data:
            length, kind, *_ = _NLMSG.unpack_from(data)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -struct.unpack_from("=i", data, _NLMSG.size)[0]
                raise InputError(f"sock_diag: the kernel cannot list sockets: {os.strerror(number)}")
            yield _connection(data[_NLMSG.size : length])
            data = data[_aligned(length) :]


def _request(family: int, phases: int) -> bytes:
    # The bit n − 1 of a request stands for the attribute n.
    wanted = 1 << _INET_DIAG_INFO - 1 | 1 << _INET_DIAG_CONG - 1
    storages = _attribute(
        _INET_DIAG_REQ_SK_BPF_STORAGES | _NLA_F_NESTED,
        _attribute(_SK_DIAG_BPF_STORAGE_REQ_MAP_FD, struct.pack("=I", phases)),
    )
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, wanted, _STATES) + storages
    head = _NLMSG.pack(_NLMSG.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST | _NLM_F_DUMP, 0, 0)
    return head + body


def _connection(message: bytes) -> Connection:
    # Ports and addresses are in network byte order, all other fields in that of the host.
    family, sport, dport, source, destination = _MESSAGE.unpack_from(message)
    attributes = dict(_attributes(message[_MESSAGE.size :]))
    info = attributes[_INET_DIAG_INFO]
    return Connection(
        local=_end(family, source, sport),
        peer=_end(family, destination, dport),
        algorithm=attributes[_INET_DIAG_CONG].rstrip(b"\0").decode(),
        cwnd=_U32.unpack_from(info, _CWND_OFFSET)[0],
        rtt_us=_U32.unpack_from(info, _RTT_OFFSET)[0],
        phase=_phase(attributes.get(_INET_DIAG_SK_BPF_STORAGES, b"")),
    )


def _end(family: int, address: bytes, port: bytes) -> str:
    number = int.from_bytes(port, "big")
    if family == socket.AF_INET:
        return f"{ipaddress.IPv4Address(address[:4])}:{number}"
    return f"[{ipaddress.IPv6Address(address)}]:{number}"


def _phase(storages: bytes) -> Phase | None:
    for kind, storage in _attributes(storages):
        if kind == _SK_DIAG_BPF_STORAGE:
            phase = Phase.unpacked(dict(_attributes(storage))[_SK_DIAG_BPF_STORAGE_MAP_VALUE])
            return phase if phase.number else None
    return None


def _attribute(kind: int, value: bytes) -> bytes:
    return _NLA.pack(_NLA.size + len(value), kind) + value


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a message, or those nested in an attribute."""
    while len(data) >= _NLA.size:
        length, kind = _NLA.unpack_from(data)
        yield kind & _NLA_TYPE_MASK, data[_NLA.size : length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    """Rounds up to a multiple of 4 bytes, at which netlink's messages and attributes begin."""
    return (length + 3) & ~3
