"""The command `hocket schema`: the JSON Schema of plans and of cluster traces, for editors."""

from typing import Annotated

import typer

from hocket.console import print_json


def schema_command(
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the schema of cluster traces instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of plans, with which editors complete keys and explain them."""
    from hocket.cluster.trace import trace_schema
    from hocket.plan.reading import plan_schema

    print_json(trace_schema() if trace else plan_schema())
