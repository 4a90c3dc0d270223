"""Each target is rerun once for all tests of a session."""

from collections.abc import Callable
from functools import cache

import pytest

from hocket.reproduce import Reproduction, reproduce


@cache
def _rerun(target: str) -> Reproduction:
    (reproduction,) = reproduce([target])
    return reproduction


@pytest.fixture(scope="session")
def rerun() -> Callable[[str], Reproduction]:
    return _rerun
