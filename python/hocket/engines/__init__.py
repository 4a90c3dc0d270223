"""Runs a checked plan: builds the input of the flow or packet engine and returns its results."""

from hocket.engines.run import Progress, simulate

__all__ = ["Progress", "simulate"]
