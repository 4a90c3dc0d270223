"""Fixtures for plans: the error lines of an invalid plan."""

from collections.abc import Callable

import pytest

from hocket.errors import InputError
from hocket.plan import parse_plan

Mistakes = Callable[[object], list[str]]


@pytest.fixture
def mistakes() -> Mistakes:
    """A function that returns the error lines of a plan's tables, without the name of the file."""

    def refused(tables: object) -> list[str]:
        with pytest.raises(InputError) as raised:
            parse_plan(tables, source="plan.toml")
        lines = str(raised.value).splitlines()
        assert all(line.startswith("plan.toml: ") for line in lines)
        return [line.removeprefix("plan.toml: ") for line in lines]

    return refused
