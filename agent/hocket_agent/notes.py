"""What the agent says in the log of the process that trains."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("hocket.agent")


def note(sentence: str) -> None:
    """Says what is no problem: in the log if it takes such lines, else on stderr, where warnings go, too."""
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info("%s", sentence)
    elif sys.stderr is not None:
        print(f"hocket_agent: {sentence}", file=sys.stderr, flush=True)
