"""The command `hocket agent`: runs a training script with the environment that its agent reads."""

import os
from typing import Annotated

import typer

from hocket import options
from hocket.errors import InputError


def agent_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="After --: what to run, such as python train.py.")
    ],
    service: Annotated[str | None, options.service("The service; HOCKET_SERVICE if not given.")] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="The job; HOCKET_JOB if not given.")
    ] = None,
    token_file: options.TokenFile = None,
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
    """Run a training script whose agent follows a service; the script has to use hocket_agent."""
    from hocket.service.tokens import read_token
    from hocket_agent.client import client_of
    from hocket_agent.settings import settings_of

    given = {
        "HOCKET_SERVICE": service,
        "HOCKET_JOB": job,
        "HOCKET_TOKEN": None if token_file is None else read_token(token_file),
        "HOCKET_LOG": log,
        "HOCKET_CONGESTION": congestion,
        "HOCKET_DRY_RUN": "1" if dry_run else None,
    }
    environment = {**os.environ, **{name: value for name, value in given.items() if value is not None}}
    # Only to report errors: in the job, the agent merely logs an invalid setting, and measures.
    client_of(settings_of(environment))
    # The script replaces this process, so that signals reach it and its exit code is the command's.
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run: {error.strerror}") from None
