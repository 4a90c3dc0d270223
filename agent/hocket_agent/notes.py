"""The agent's messages in the log of the training process."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("hocket.agent")


def note(sentence: str) -> None:
    """Reports something that is not a problem: in the log if it accepts level INFO, else on stderr, which is
    where Python sends warnings without a configured log.
    """
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info("%s", sentence)
    elif sys.stderr is not None:
        print(f"hocket_agent: {sentence}", file=sys.stderr, flush=True)
