"""Re-exports `hocket_agent`, the agent in a training job; has the command that runs a job with it."""

from hocket_agent import Agent, Settings

__all__ = ["Agent", "Settings"]
