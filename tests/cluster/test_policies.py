"""Schedulers by name, and what is wrong with a name or with a class of one's own."""

import sys
from pathlib import Path

import pytest

from hocket.cluster.policies import SUFFIXES, check_titles, load_policy
from hocket.cluster.trace import Trace, parse_trace
from hocket.errors import InputError
from hocket.schedulers.fifo import Fifo
from hocket.schedulers.ideal import Ideal
from hocket.schedulers.pollux import Pollux
from hocket.schedulers.random_placement import RandomPlacement
from hocket.schedulers.themis import Themis


@pytest.fixture(scope="module")
def trace() -> Trace:
    job = {"name": "a", "model": "VGG16", "batch_size": 1400, "workers": 2, "iterations": 10}
    return parse_trace({"fabric": {"testbed": "cassini"}, "jobs": [job], "seed": 3})


@pytest.mark.parametrize(
    ("title", "scheduler", "cassini"),
    [
        ("themis", Themis, False),
        ("themis+cassini", Themis, True),
        ("pollux", Pollux, False),
        ("pollux-osdi21", Pollux, False),
        ("pollux-adaptdl+cassini", Pollux, True),
        ("random", RandomPlacement, False),
        ("fifo+cassini", Fifo, True),
        ("ideal", Ideal, False),
    ],
)
def test_a_name_is_a_scheduler_with_cassini_or_without(
    trace: Trace, title: str, scheduler: type, cassini: bool
) -> None:
    policy = load_policy(title, trace)
    assert isinstance(policy.scheduler, scheduler)
    assert (policy.cassini, policy.title) == (cassini, title)


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        ("fifo", set()),
        ("fifo+crux+mltcp", {"crux", "mltcp"}),
        ("themis+cassini+perfect-routing", {"cassini", "perfect_routing"}),
        ("themis+monkeytree+cassini", {"monkeytree", "cassini"}),
        ("fifo+monkeytree+crux+mltcp", {"monkeytree", "crux", "mltcp"}),
    ],
)
def test_suffixes_set_what_decides_about_traffic(trace: Trace, title: str, fields: set[str]) -> None:
    policy = load_policy(title, trace)
    assert {field for field in SUFFIXES.values() if getattr(policy, field)} == fields
    assert policy.title == title


def test_suffixes_may_be_in_any_order_and_titles_have_one(trace: Trace) -> None:
    policies = [load_policy(title, trace) for title in ("fifo+mltcp+cassini", "fifo+cassini+mltcp")]
    assert {policy.title for policy in policies} == {"fifo+cassini+mltcp"}
    with pytest.raises(InputError, match=r"scheduler 'fifo\+cassini\+mltcp': is given 2 times"):
        check_titles(policies)


def test_an_own_class_may_be_a_dataclass_with_annotations_as_text(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Mine:\n    seed: int\n    def schedule(self, state, candidates): ...\n"
    )
    assert vars(load_policy(f"{file}:Mine", trace).scheduler) == {"seed": 3}
    assert sys.modules["json"].__file__ != str(file)


def test_an_own_class_gets_the_seed(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    def __init__(self, seed):\n        self.seed = seed\n    schedule = print\n"
    )
    policy = load_policy(f"{file}:Mine+cassini", trace)
    assert (policy.title, vars(policy.scheduler)) == ("Mine+cassini", {"seed": 3})


@pytest.mark.parametrize(
    ("title", "message"),
    [
        ("themsi", "scheduler 'themsi': is not known; did you mean 'themis'?"),
        (
            "x",
            "scheduler 'x': is not known; known: themis, pollux, pollux-osdi21, pollux-adaptdl, random, "
            "fifo, ideal, and FILE.py:Class",
        ),
        (
            "ideal+cassini",
            "scheduler 'ideal+cassini': its jobs share no links, so +cassini has no effect; leave it out",
        ),
        (
            "ideal+monkeytree",
            "scheduler 'ideal+monkeytree': its jobs share no links, so +monkeytree has no effect; "
            "leave it out",
        ),
        ("themis+crx", "scheduler 'themis+crx': suffix '+crx' is not known; did you mean '+crux'?"),
        (
            "fifo+x",
            "scheduler 'fifo+x': suffix '+x' is not known; known: +monkeytree, +cassini, +crux, +mltcp, "
            "+perfect-routing",
        ),
        ("fifo+crux+crux", "scheduler 'fifo+crux+crux': suffix +crux is given 2 times"),
        (
            "fifo+cassini+crux",
            "scheduler 'fifo+cassini+crux': +cassini chooses placements for the paths of ECMP, and +crux "
            "chooses other paths; leave out one of them",
        ),
        ("nowhere.py:Mine", "scheduler 'nowhere.py:Mine': there is no file 'nowhere.py'"),
        ("mine.py:Mine", "scheduler 'mine.py:Mine': mine.py has no class 'Mine'; did you mean 'Mind'?"),
        (
            "mine.py:Mind",
            "scheduler 'mine.py:Mind': Mind(seed=3) raised TypeError: Mind() takes no arguments",
        ),
        ("mine.py:Mute", "scheduler 'mine.py:Mute': Mute has no method schedule(state, candidates)"),
        ("bad.py:Mine", "scheduler 'bad.py:Mine': bad.py raised ZeroDivisionError: division by zero"),
        (
            "mine.txt:Mine",
            "scheduler 'mine.txt:Mine': mine.txt is not a Python file: its name must end in .py",
        ),
    ],
)
def test_an_error_names_the_scheduler_and_its_file(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "class Mind: pass\nclass Mute:\n    def __init__(self, seed): pass\n", encoding="utf-8"
    )
    Path("bad.py").write_text("1 / 0\n", encoding="utf-8")
    Path("mine.txt").touch()
    with pytest.raises(InputError) as error:
        load_policy(title, trace)
    assert str(error.value) == message
