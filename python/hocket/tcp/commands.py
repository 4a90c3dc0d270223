"""The commands for adaptively unfair TCP: `hocket tcp load`, `unload`, `status` and `watch`."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from hocket import options
from hocket.console import Column, out, print_json, print_table
from hocket.errors import InputError, located
from hocket.manual import ListingGroup
from hocket.tcp import control
from hocket.tcp.compiler import Base
from hocket.tcp.diag import Connection, connections
from hocket.tcp.requirements import missing
from hocket.units import format_duration, parse_duration

app = typer.Typer(
    cls=ListingGroup,
    help="Adaptively unfair TCP for Linux, as an eBPF congestion control (HotNets'22 §4(i)).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_WATCHED = (
    *("local", "peer"),
    Column("control", spare=4, text=True),
    *(Column("phase", spare=1), "sent", "of", "factor"),
    *(Column("cwnd", spare=3), Column("rtt", spare=2)),
)


@app.command("load")
def load_command(
    base: Annotated[Base, typer.Option("--base", help="Control whose increase is multiplied.")] = "cubic",
    factor: Annotated[
        float,
        typer.Option("--factor", metavar="F", help="Factor of hocket_weighted, 1/16 to 16."),
    ] = control.DEFAULT_FACTOR,
    gap: Annotated[
        str,
        typer.Option("--gap", metavar="TIME", help="Idle time that ends a phase, 1 ms to 10 s."),
    ] = format_duration(control.DEFAULT_GAP_NS * 1000),
) -> None:
    """Load the congestion controls hocket_adaptive and hocket_weighted. Needs root, clang and libbpf."""
    with located("--gap"):
        gap_ns = parse_duration(gap) // 1000
    settings = control.load(base, factor=factor, gap_ns=gap_ns)
    out.print(f"loaded {' and '.join(control.ALGORITHMS)}: {_described(settings)}")


@app.command("unload")
def unload_command() -> None:
    """Unload both controls; sockets that use them keep them until they are closed."""
    out.print(f"unloaded {' and '.join(control.unload())}")


@app.command("status")
def status_command(
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Show whether the controls are loaded, what is missing, and the number of sockets that use them."""
    settings = control.current()
    lacking = missing()
    users = {} if settings is None else _users()
    if as_json:
        print_json({"loaded": settings and asdict(settings), "missing": lacking, "sockets": users})
        return
    if settings is None:
        out.print("not loaded" + "".join(f"\nmissing: {sentence}" for sentence in lacking))
        return
    out.print(f"loaded since {_date(settings.loaded_ns)}: {_described(settings)}")
    print_table(
        ("network namespace", *control.ALGORITHMS),
        ((name, *map(str, counts.values())) for name, counts in users.items()),
    )


@app.command("watch")
def watch_command(
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="NAME", help="Show this network namespace; may be repeated."),
    ] = None,
    seconds: Annotated[float | None, options.seconds("Stop after this time.")] = None,
    interval: Annotated[str, options.interval("Time between updates, at least 10 ms.")] = "1 s",
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Show each socket's communication phase: sent, total, factor of the increase, and window."""
    with located("--interval"):
        interval_s = parse_duration(interval) / 1e12
    if interval_s < 0.01:
        raise InputError(f"--interval: must be at least 10 ms: got {interval}")
    if seconds is not None and not seconds >= 0:
        raise InputError(f"--seconds: must be 0 or more: got {seconds:g}")
    with control.phase_map() as phases:
        end_s = None if seconds is None else time.monotonic() + seconds
        while True:
            _show(_connections(phases, namespaces), as_json)
            if end_s is not None and time.monotonic() + interval_s > end_s:
                return
            time.sleep(interval_s)


def _connections(phases: int, namespaces: Sequence[str] | None) -> list[Connection]:
    return [each for name in namespaces or (None,) for each in connections(phases, name)]


def _show(found: Sequence[Connection], as_json: bool) -> None:
    if as_json:
        line = {"time_ns": time.time_ns(), "connections": [asdict(each) for each in found]}
        out.file.write(json.dumps(line) + "\n")
        # A program at the other end of a pipe would otherwise wait for a full buffer.
        out.file.flush()
    elif found:
        print_table(_WATCHED, map(_watched, found), left=2)
    else:
        out.print("no sockets use the controls")


def _watched(connection: Connection) -> tuple[str, ...]:
    phase = connection.phase
    of_phase = ("–",) * 4
    if phase is not None:
        of_phase = (
            str(phase.number),
            _megabytes(phase.sent_bytes),
            "?" if phase.total_bytes is None else _megabytes(phase.total_bytes),
            "–" if phase.factor is None else f"{phase.factor:.2f}",
        )
    ends = (connection.local, connection.peer, connection.algorithm)
    return (*ends, *of_phase, str(connection.cwnd), f"{connection.rtt_us / 1e3:.2f} ms")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _users() -> dict[str, dict[str, int]]:
    """Number of sockets under each control, in this network namespace and in each named one that has any."""
    from hocket.profiling.watch import NAMESPACES, names_in

    users = {}
    with control.phase_map() as phases:
        for name in (None, *names_in(NAMESPACES)):
            used = [each.algorithm for each in _connections(phases, None if name is None else [name])]
            if used or name is None:
                counts = {algorithm: used.count(algorithm) for algorithm in control.ALGORITHMS}
                users[name or "this one"] = counts
    return users


def _described(settings: control.Settings) -> str:
    gap = format_duration(settings.gap_ns * 1000)
    return f"{settings.base}'s increase × (1 + sent/total), gaps from {gap}; and × {settings.factor:g}"


def _date(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).isoformat(sep=" ").replace("+00:00", " UTC")
