"""Schedulers by name, built in or a user's own class, with what their suffixes add to them."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hocket.errors import InputError
from hocket.plan.table_errors import closest
from hocket.schedulers.fifo import Fifo
from hocket.schedulers.ideal import Ideal
from hocket.schedulers.pollux import Pollux
from hocket.schedulers.random_placement import RandomPlacement
from hocket.schedulers.state import Scheduler
from hocket.schedulers.themis import Themis
from hocket.units import shown

if TYPE_CHECKING:
    from hocket.cluster.trace import Trace


class Policy(NamedTuple):
    """A scheduler with its name, and what decides about the traffic of the jobs that it places.

    `SUFFIXES` has the suffix of each field after the scheduler.
    """

    name: str
    scheduler: Scheduler
    cassini: bool = False
    """Whether CASSINI chooses among its candidates and assigns slots."""
    crux: bool = False
    """Whether Crux chooses paths and priorities."""
    mltcp: bool = False
    """Whether the weights of jobs grow during an iteration, as with MLTCP."""
    perfect_routing: bool = False
    """Whether flows are divided evenly over all shortest paths."""
    monkeytree: bool = False
    """Whether MonkeyTree moves workers of running jobs to other racks."""

    @property
    def title(self) -> str:
        """The name on the command line, such as `themis+cassini`."""
        return "".join([self.name, *(suffix for suffix, field in SUFFIXES.items() if getattr(self, field))])


SUFFIXES: Mapping[str, str] = {
    "+monkeytree": "monkeytree",
    "+cassini": "cassini",
    "+crux": "crux",
    "+mltcp": "mltcp",
    "+perfect-routing": "perfect_routing",
}
"""The field of `Policy` that each suffix of a scheduler's name sets, in the order of titles."""


def _pollux(policy: str) -> Callable[["Trace"], Scheduler]:
    return lambda trace: Pollux(trace.pollux.model_copy(update={"policy": policy}), trace.seed)


_BY_NAME: Mapping[str, Callable[["Trace"], Scheduler]] = {
    "themis": lambda trace: Themis(trace.themis, trace.seed),
    # Follows the trace's own choice of a policy, which the next two override.
    "pollux": lambda trace: Pollux(trace.pollux, trace.seed),
    "pollux-osdi21": _pollux("pollux-osdi21"),
    "pollux-adaptdl": _pollux("pollux-adaptdl"),
    "random": lambda trace: RandomPlacement(trace.seed),
    "fifo": lambda trace: Fifo(trace.seed),
    "ideal": lambda trace: Ideal(),
}


def load_policy(title: str, trace: "Trace") -> Policy:
    """The policy `title` for `trace`.

    `title` is one of `themis`, `pollux`, `pollux-osdi21`, `pollux-adaptdl`, `random`, `fifo` and `ideal`, or
    `FILE.py:Class` for a user's own class, which is called as `Class(seed=…)`. Any but `ideal` may be
    followed by `SUFFIXES`, in any order; not by both `+cassini` and `+crux`.

    Raises `InputError` for an unknown name or suffix, suffixes that exclude each other, a missing file or
    class, and a file or class that raises.
    """
    try:
        name, fields = _split(title)
        if name in _BY_NAME:
            return Policy(name, _BY_NAME[name](trace), **fields)
        # The last colon, as the path of the file may contain others.
        path, colon, class_name = name.rpartition(":")
        if not colon:
            hint = closest(name, _BY_NAME)
            known = ", ".join(_BY_NAME)
            raise InputError(f"is not known{hint or f'; known: {known}, and FILE.py:Class'}")
        return Policy(class_name, _load_class(Path(path), class_name, trace.seed), **fields)
    except InputError as error:
        raise InputError(f"scheduler {shown(title)}: {error}") from None


def check_titles(policies: Sequence[Policy]) -> None:
    """Raise `InputError` if two policies have the same title, by which runs are told apart."""
    titles = [policy.title for policy in policies]
    for title in titles:
        if titles.count(title) > 1:
            raise InputError(
                f"scheduler {shown(title)}: is given {titles.count(title)} times; names must be unique"
            )


def _split(title: str) -> tuple[str, dict[str, bool]]:
    """The name without suffixes, and the fields of `Policy` that the suffixes set."""
    # A path before the class may contain any character.
    path, colon, end = title.rpartition(":")
    end, *given = end.split("+")
    name = f"{path}{colon}{end}"
    suffixes = [f"+{each}" for each in given]
    for suffix in suffixes:
        if suffix not in SUFFIXES:
            known = ", ".join(SUFFIXES)
            hint = closest(suffix, SUFFIXES) or f"; known: {known}"
            raise InputError(f"suffix {shown(suffix)} is not known{hint}")
        if suffixes.count(suffix) > 1:
            raise InputError(f"suffix {suffix} is given {suffixes.count(suffix)} times")
    if suffixes and name == "ideal":
        raise InputError(f"its jobs share no links, so {suffixes[0]} has no effect; leave it out")
    if {"+cassini", "+crux"} <= set(suffixes):
        raise InputError(
            "+cassini chooses placements for the paths of ECMP, and +crux chooses other paths; leave out one "
            "of them"
        )
    return name, {SUFFIXES[suffix]: True for suffix in suffixes}


def _load_class(path: Path, class_name: str, seed: int) -> Scheduler:
    """An object of the class `class_name` in the file at `path`."""
    if not path.is_file():
        raise InputError(f"there is no file {shown(str(path))}")
    module = _module(path)
    if class_name not in module:
        defined = [key for key, value in module.items() if isinstance(value, type)]
        raise InputError(f"{path} has no class {shown(class_name)}{closest(class_name, defined)}")
    try:
        scheduler = module[class_name](seed=seed)
    except Exception as error:
        raise InputError(f"{class_name}(seed={seed}) raised {_error_text(error)}") from error
    if not callable(getattr(scheduler, "schedule", None)):
        raise InputError(f"{class_name} has no method schedule(state, candidates)")
    return cast(Scheduler, scheduler)


def _module(path: Path) -> dict[str, Any]:
    """The definitions of the Python file at `path`, by name."""
    # No import can have this name, so the file replaces no module that happens to be called like it.
    name = f"scheduler {path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations as text are looked up in the module of their class.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{path} raised {_error_text(error)}") from error
    return vars(module)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
