"""A job of a plan, shared by the tests of exports."""

from tests.conftest import Tables


def job(name: str, **others: object) -> Tables:
    """A job that is Up at 40 Gbps for 40 of 100 ms."""
    up = {"start": "50 ms", "duration": "40 ms", "rate": "40 Gbps"}
    return {"name": name, "period": "100 ms", "up": [up], **others}
