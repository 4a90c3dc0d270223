"""Passes on `hocket_agent`, the agent in a training job, and holds the command that runs a job with it."""

from hocket_agent import Agent, Settings

__all__ = ["Agent", "Settings"]
