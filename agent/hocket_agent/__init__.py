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

from hocket_agent.agent import Agent
from hocket_agent.errors import InputError
from hocket_agent.settings import Settings
from hocket_agent.sockets import ADAPTIVE, WEIGHTED, set_phase, use

__all__ = ["ADAPTIVE", "WEIGHTED", "Agent", "InputError", "Settings", "set_phase", "use"]
