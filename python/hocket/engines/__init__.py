"""From a checked plan to a run: what the engines take, and what comes back."""

from hocket.engines.run import Progress, simulate

__all__ = ["Progress", "simulate"]
