"""The agent in a training job: applies its time-shift, measures its iterations, and tells `hocket serve`.

Pure standard library, as it runs inside other people's training containers: it needs nothing else of Hocket.

    from hocket.agent import Agent

    agent = Agent.from_environment()
    agent.attach(model)
    for batch in batches:
        with agent.iteration():
            loss(model(batch)).backward()
            optimizer.step()
"""

from hocket.agent.agent import Agent
from hocket.agent.settings import Settings

__all__ = ["Agent", "Settings"]
