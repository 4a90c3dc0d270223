"""The service as a process: its address, its token and its end."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from hocket.errors import InputError
from hocket.service.app import create_app
from hocket.service.service import Service
from hocket.service.solver import Solver
from hocket.service.store import Store
from hocket.service.tokens import TOKEN_VARIABLE
from hocket.units import shown

# Agents ask every second, or every 30 s after failures; connections stay open in between.
_KEEP_ALIVE_S = 75
# uvicorn's default.
_BACKLOG = 2_048


@dataclass(frozen=True)
class Address:
    """The address to listen on."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> "Address":
        """Parses `HOST:PORT`, with IPv6 hosts in brackets. Raises `InputError` for anything else.

        >>> Address.parse("[::1]:8765")
        Address(host='::1', port=8765)
        """
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not host or (":" in host and not bracketed):
            raise InputError(f"--listen: must be HOST:PORT, such as 127.0.0.1:8765: got {shown(text)}")
        if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise InputError(f"--listen: the port must be a number from 0 to 65535: got {shown(port)}")
        return Address(host[1:-1] if bracketed else host, int(port))

    def bind(self, token: str | None) -> socket.socket:
        """A socket that listens on the address.

        Raises `InputError` if it cannot listen there, or if other machines could connect without a `token`.
        """
        try:
            resolved = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            if token is None and not all(_is_loopback(str(address[0])) for *_, address in resolved):
                raise InputError(
                    f"--listen {self.host}: other machines can reach it, so it requires a token: "
                    f"pass --token-file or set {TOKEN_VARIABLE}"
                )
            family, kind, protocol, _, address = resolved[0]
            # Nagle's algorithm costs 40 ms an answer; asyncio disables it if the socket's protocol is given.
            listening = socket.socket(family, kind, protocol)
            # ip(7), tcp(7): otherwise the port stays taken while connections of the last service time out.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            raise InputError(f"--listen {self.host}:{self.port}: {error.strerror or error}") from None
        return listening


@dataclass(frozen=True)
class Settings:
    """Settings of a service."""

    address: Address
    database: Path
    token: str | None
    expire_ns: int
    jitter: float


def serve(settings: Settings, ready: Callable[[str, int], None]) -> None:
    """Runs the service until a signal stops it; calls `ready` with its URL and the number of jobs once it
    listens.

    Raises `InputError` if it cannot listen or cannot use the database, and `KeyboardInterrupt` after Ctrl-C,
    once everything is closed.
    """
    with Store(settings.database) as store, settings.address.bind(settings.token) as listening:
        asyncio.run(_serve(settings, store, listening, ready))


async def _serve(
    settings: Settings, store: Store, listening: socket.socket, ready: Callable[[str, int], None]
) -> None:
    service = Service(store, Solver(), time.time_ns, jitter=settings.jitter, expire_ns=settings.expire_ns)
    config = uvicorn.Config(
        create_app(service, settings.token),
        log_level="warning",
        # A line for each report would be thousands a second.
        access_log=False,
        # With "auto", an error of the lifespan would count as an application that has none.
        lifespan="on",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        # Agents keep their connections open and would delay the end.
        timeout_graceful_shutdown=1,
    )
    host, port = listening.getsockname()[:2]
    # The socket listens already, so a client that connects from now on waits and is not refused.
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}", len(service.jobs()))
    await uvicorn.Server(config).serve(sockets=[listening])


def _is_loopback(address: str) -> bool:
    # An IPv6 address may end with its zone, as in fe80::1%eth0.
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
