"""What tests of plans share: the lines with which a plan is refused."""

from collections.abc import Callable

import pytest

from hocket.errors import InputError
from hocket.plan import parse_plan

Mistakes = Callable[[object], list[str]]


@pytest.fixture
def mistakes() -> Mistakes:
    """Given tables of a plan, the lines with which they are refused, without the file's name."""

    def refused(tables: object) -> list[str]:
        with pytest.raises(InputError) as raised:
            parse_plan(tables, source="plan.toml")
        lines = str(raised.value).splitlines()
        assert all(line.startswith("plan.toml: ") for line in lines)
        return [line.removeprefix("plan.toml: ") for line in lines]

    return refused
