"""Schedulers by name: those that there are, and classes of the user's own; with CASSINI or without."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hocket.errors import InputError
from hocket.plan.mistakes import closest
from hocket.schedulers.ideal import Ideal
from hocket.schedulers.pollux import Pollux
from hocket.schedulers.random_placement import RandomPlacement
from hocket.schedulers.state import Scheduler
from hocket.schedulers.themis import Themis
from hocket.units import shown

if TYPE_CHECKING:
    from hocket.cluster.trace import Trace

WITH_CASSINI = "+cassini"
"""Ends the name of a scheduler among whose candidates CASSINI chooses."""


class Policy(NamedTuple):
    """A scheduler under a name, and whether CASSINI chooses among its candidates."""

    name: str
    scheduler: Scheduler
    cassini: bool = False

    @property
    def title(self) -> str:
        """As the command line takes it: `themis+cassini`."""
        return f"{self.name}{WITH_CASSINI if self.cassini else ''}"


def _pollux(policy: str) -> Callable[["Trace"], Scheduler]:
    return lambda trace: Pollux(trace.pollux.model_copy(update={"policy": policy}), trace.seed)


_BY_NAME: Mapping[str, Callable[["Trace"], Scheduler]] = {
    "themis": lambda trace: Themis(trace.themis, trace.seed),
    "pollux": lambda trace: Pollux(trace.pollux, trace.seed),
    "pollux-osdi21": _pollux("pollux-osdi21"),
    "pollux-adaptdl": _pollux("pollux-adaptdl"),
    "random": lambda trace: RandomPlacement(trace.seed),
    "ideal": lambda trace: Ideal(),
}


def load_policy(title: str, trace: "Trace") -> Policy:
    """The policy `title` for `trace`.

    One of `themis`, `pollux`, `pollux-osdi21`, `pollux-adaptdl`, `random` and `ideal`, or `FILE.py:Class` for
    a class of one's own, which is called as `Class(seed=…)`; after any but `ideal` may come `+cassini`.

    Raises `InputError` for another name, for a file or a class that is not there, and for one that raises.
    """
    name = title.removesuffix(WITH_CASSINI)
    with_cassini = name != title
    if with_cassini and name == "ideal":
        raise InputError(
            f"scheduler {shown(title)}: its jobs share no link, so CASSINI has nothing to choose"
        )
    if name in _BY_NAME:
        return Policy(name, _BY_NAME[name](trace), with_cassini)
    path, colon, class_name = name.rpartition(":")
    if not colon:
        hint = closest(name, _BY_NAME)
        known = ", ".join(_BY_NAME)
        raise InputError(
            f"scheduler {shown(title)}: is not known{hint or f'; known are {known}, and FILE.py:Class'}"
        )
    try:
        return Policy(class_name, _own(Path(path), class_name, trace.seed), with_cassini)
    except InputError as error:
        raise InputError(f"scheduler {shown(title)}: {error}") from None


def _own(path: Path, class_name: str, seed: int) -> Scheduler:
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
        raise InputError(f"{class_name}(seed={seed}) raised {_told(error)}") from error
    if not callable(getattr(scheduler, "schedule", None)):
        raise InputError(f"{class_name} has no method schedule(state, candidates)")
    return cast(Scheduler, scheduler)


def _module(path: Path) -> dict[str, Any]:
    """What the file at `path` defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} raised {_told(error)}") from error
    return vars(module)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
