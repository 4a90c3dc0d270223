"""How commands end: their exit codes, and the end of a run that was interrupted."""

import typer

from hocket.console import err
from hocket.results import Run

WRONG = 1
INPUT_ERROR = 2
INTERRUPTED = 130


def end_interrupted(run: Run) -> None:
    """Ends the command if `run` was interrupted, and says how far it came."""
    if run.interrupted:
        err.print(
            f"interrupted at {run.manifest['simulated_s']:.3f} s of simulated time; kept what was finished"
        )
        raise typer.Exit(INTERRUPTED)
