"""The command `hocket agent`: runs a training script with the environment that its agent reads."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hocket.errors import InputError


def agent_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="After --: what to run, such as python train.py.")
    ],
    service: Annotated[
        str | None, typer.Option("--service", metavar="URL", help="The service; HOCKET_SERVICE if not given.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="The job; HOCKET_JOB if not given.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file with the token; HOCKET_TOKEN if not given.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="Append iterations as JSON lines; {rank} is replaced."),
    ] = None,
    congestion: Annotated[
        str | None,
        typer.Option("--congestion", metavar="NAME", help="For its TCP connections; see hocket tcp."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only measure: delay nothing.")] = False,
) -> None:
    """Run a training script whose agent follows a service; the script has to use hocket.agent."""
    from hocket.agent.client import client_of
    from hocket.agent.settings import settings_of
    from hocket.service.tokens import read_token

    given = {
        "HOCKET_SERVICE": service,
        "HOCKET_JOB": job,
        "HOCKET_TOKEN": None if token_file is None else read_token(token_file),
        "HOCKET_LOG": log,
        "HOCKET_CONGESTION": congestion,
        "HOCKET_DRY_RUN": "1" if dry_run else None,
    }
    environment = {**os.environ, **{name: value for name, value in given.items() if value is not None}}
    client_of(settings_of(environment))
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run: {error.strerror}") from None


COMMANDS: dict[str, Callable[..., Any]] = {"agent": agent_command}
"""By name."""
