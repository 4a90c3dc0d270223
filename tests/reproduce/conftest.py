"""Fixtures for reproductions: each target is rerun once for all tests of a session."""

from collections.abc import Callable
from functools import cache

import pytest

from hocket_reproduce.targets import Reproduction, reproduce


def quiet(doing: str) -> None:
    """A `Progress` that shows nothing."""


@cache
def _rerun(target: str) -> Reproduction:
    (reproduction,) = reproduce([target])
    return reproduction


@pytest.fixture(scope="session")
def rerun() -> Callable[[str], Reproduction]:
    return _rerun
