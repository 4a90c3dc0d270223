"""The agent in a training job: applies its time-shift, measures iterations, and reports to `hocket serve`.

It uses only the standard library, since it runs inside other people's training containers, and needs nothing
else from Hocket.

    from hocket_agent import Agent

    agent = Agent.from_environment()
    agent.attach(model)
    for batch in batches:
        with agent.iteration():
            loss(model(batch)).backward()
            optimizer.step()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket_agent.agent import Agent
    from hocket_agent.errors import InputError
    from hocket_agent.settings import Settings
    from hocket_agent.sockets import ADAPTIVE, WEIGHTED, set_phase, use

__all__ = ["ADAPTIVE", "WEIGHTED", "Agent", "InputError", "Settings", "set_phase", "use"]

# Imported on first use: every command of Hocket needs `InputError`, and few of them HTTP, TLS and logging.
_HOMES = {
    "ADAPTIVE": "sockets",
    "WEIGHTED": "sockets",
    "Agent": "agent",
    "InputError": "errors",
    "Settings": "settings",
    "set_phase": "sockets",
    "use": "sockets",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
