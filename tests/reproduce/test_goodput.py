"""The goodput of the papers' testbed under contention is what its experiment fits."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hocket.plan.goodput import TESTBED_GOODPUT

FOLDER = Path(__file__).parents[2] / "experiments" / "contended-goodput"


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fit", FOLDER / "fit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_experiment_shows_the_fractions_in_use() -> None:
    two, three = TESTBED_GOODPUT
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"goodput of two jobs {two:.2f}, of three {three:.2f}\n" in page


@pytest.mark.parametrize("jobs", [2, 3])
def test_no_neighbouring_fraction_fits_the_papers_better(fit: ModuleType, jobs: int) -> None:
    those = [each for each in fit.sharings() if len(each.jobs) == jobs]
    *before, fraction = TESTBED_GOODPUT[: jobs - 1]
    best = fit.total_error(those, [*before, fraction])
    for other in (fraction - 0.05, fraction + 0.05, 1.0):
        assert best < fit.total_error(those, [*before, other])
