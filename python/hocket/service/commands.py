"""The commands of the service: `hocket serve`, `register`, `jobs` and `unregister`."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hocket import options
from hocket.errors import InputError, extra, located
from hocket.units import format_duration, parse_duration, shown

_Service = Annotated[
    str | None, options.service("The service; default HOCKET_SERVICE, or else http://127.0.0.1:8765.")
]
_PS_PER_NS = 1_000
_MIN_EXPIRE_PS = 10 * 10**12
"""Hocket: agents report every second, and a slow network must not count as silence."""


def serve_command(
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address to listen on; other than loopback requires a token.",
        ),
    ] = "127.0.0.1:8765",
    database: Annotated[
        Path, typer.Option("--database", metavar="FILE", help="SQLite file; created if it does not exist.")
    ] = Path("hocket.sqlite"),
    token_file: options.TokenFile = None,
    expire: Annotated[
        str, typer.Option("--expire", metavar="TIME", help="Leave out jobs that are silent for longer.")
    ] = "10 min",
    jitter: Annotated[
        float,
        typer.Option("--jitter", metavar="SHARE", help="Variation of compute times: deviation ÷ mean."),
    ] = 0.01,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the API's schema and exit.")] = False,
) -> None:
    """Serve slots to running jobs, which register, report and learn when they may communicate."""
    from hocket.console import err, print_json
    from hocket.service.tokens import read_token

    with extra("service", needed_by="hocket serve"):
        from hocket.service.app import published_schema
        from hocket.service.serve import Address, Settings, serve

    if openapi:
        print_json(published_schema())
        return
    expire_ps = _expiry(expire)
    if not 0 <= jitter <= 0.5:
        raise InputError(f"--jitter: must be from 0 to 0.5: got {jitter:g}")

    def ready(url: str, jobs: int) -> None:
        noun = "job" if jobs == 1 else "jobs"
        err.print(f"serving on {escape(url)}: {jobs} {noun} in {escape(str(database))}; Ctrl-C stops it")

    settings = Settings(
        Address.parse(listen), database, read_token(token_file), expire_ps // _PS_PER_NS, jitter
    )
    serve(settings, ready)


def register_command(
    plan: Annotated[Path, options.file("A plan whose jobs run, as TOML or JSON")],
    service: _Service = None,
    token_file: options.TokenFile = None,
    candidate: options.Candidate = None,
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="NAME", help="Name of the plan's [link] in the service."),
    ] = None,
) -> None:
    """Register the jobs of a plan with the service: profile, workers and links."""
    from hocket.console import out
    from hocket.plan import as_plan
    from hocket.service.models import JOB_NAME_PATTERN
    from hocket.service.registrations import registrations

    checked = as_plan(plan)
    with located(plan):
        found = registrations(checked, candidate=candidate, link=link)
        # All names are checked before the first request, so that no plan is registered in part.
        for name in found:
            if not re.fullmatch(JOB_NAME_PATTERN, name):
                raise InputError(
                    f"job {shown(name)}: the service requires names without '/' that do not start with '.'"
                )
    client = _client(service, token_file)
    for name, registration in found.items():
        view = client.put(name, registration)
        out.print(f"{escape(name)}: registered; {escape(view['reason'])}")


def jobs_command(
    service: _Service = None,
    token_file: options.TokenFile = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Show the service's jobs: predicted and measured iterations, and their slots."""
    from hocket.console import Column, out, print_json, print_table
    from hocket.service import overview

    jobs = _client(service, token_file).jobs()
    if as_json:
        print_json(jobs)
        return
    if not jobs:
        out.print("no jobs are registered")
        return
    views = overview.views(jobs)
    header = (
        *("job", Column("ranks", spare=4), Column("iterations", spare=3), Column("alone (ms)", spare=2)),
        Column("predicted (ms)\nwithout slot", spare=1),
        *(Column("predicted (ms)\nin slot"), Column("predicted (ms)\nverdict", text=True)),
        *(Column("measured (ms)\nwithout slot"), Column("measured (ms)\nin slot")),
        Column("measured (ms)\nverdict", text=True),
    )
    print_table(header, (overview.row(view, overview.mean) for view in views))
    for view in views:
        out.print(f"\n[bold]{escape(view.job)}[/bold]")
        for sentence in overview.sentences(view):
            out.print(f"  {escape(sentence)}")


def unregister_command(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs that have ended.")],
    service: _Service = None,
    token_file: options.TokenFile = None,
) -> None:
    """Unregister jobs from the service; it solves the remaining jobs again."""
    from hocket.console import out

    client = _client(service, token_file)
    for name in jobs:
        client.delete(name)
        out.print(f"{escape(name)}: unregistered")


def _expiry(text: str) -> int:
    try:
        expire_ps = parse_duration(text)
    except InputError as error:
        raise InputError(f"--expire: {error}") from None
    if expire_ps < _MIN_EXPIRE_PS:
        least = format_duration(_MIN_EXPIRE_PS)
        raise InputError(
            f"--expire: must be at least {least}, as agents report every second: got {shown(text)}"
        )
    return expire_ps


def _client(url: str | None, token_file: Path | None) -> Any:
    from hocket.service.client import DEFAULT_URL, URL_VARIABLE, Client
    from hocket.service.tokens import read_token

    return Client(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL, read_token(token_file))
