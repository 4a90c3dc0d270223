"""Schedulers by name, built in or a user's own class, with CASSINI or without."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hocket.errors import InputError
from hocket.plan.table_errors import closest
from hocket.schedulers.ideal import Ideal
from hocket.schedulers.pollux import Pollux
from hocket.schedulers.random_placement import RandomPlacement
from hocket.schedulers.state import Scheduler
from hocket.schedulers.themis import Themis
from hocket.units import shown

if TYPE_CHECKING:
    from hocket.cluster.trace import Trace

WITH_CASSINI = "+cassini"
"""Suffix of a scheduler's name: CASSINI chooses among its candidates."""


class Policy(NamedTuple):
    """A scheduler with its name, and whether CASSINI chooses among its candidates."""

    name: str
    scheduler: Scheduler
    cassini: bool = False

    @property
    def title(self) -> str:
        """The name on the command line, such as `themis+cassini`."""
        return f"{self.name}{WITH_CASSINI if self.cassini else ''}"


def _pollux(policy: str) -> Callable[["Trace"], Scheduler]:
    return lambda trace: Pollux(trace.pollux.model_copy(update={"policy": policy}), trace.seed)


_BY_NAME: Mapping[str, Callable[["Trace"], Scheduler]] = {
    "themis": lambda trace: Themis(trace.themis, trace.seed),
    # Follows the trace's own choice of a policy, which the next two override.
    "pollux": lambda trace: Pollux(trace.pollux, trace.seed),
    "pollux-osdi21": _pollux("pollux-osdi21"),
    "pollux-adaptdl": _pollux("pollux-adaptdl"),
    "random": lambda trace: RandomPlacement(trace.seed),
    "ideal": lambda trace: Ideal(),
}


def load_policy(title: str, trace: "Trace") -> Policy:
    """The policy `title` for `trace`.

    `title` is one of `themis`, `pollux`, `pollux-osdi21`, `pollux-adaptdl`, `random` and `ideal`, or
    `FILE.py:Class` for a user's own class, which is called as `Class(seed=…)`. Any but `ideal` may end in
    `+cassini`.

    Raises `InputError` for an unknown name, a missing file or class, and a file or class that raises.
    """
    name = title.removesuffix(WITH_CASSINI)
    with_cassini = name != title
    if with_cassini and name == "ideal":
        raise InputError(
            f"scheduler {shown(title)}: its jobs share no links, so CASSINI has nothing to choose; leave out "
            f"{WITH_CASSINI}"
        )
    if name in _BY_NAME:
        return Policy(name, _BY_NAME[name](trace), with_cassini)
    # The last colon, as the path of the file may contain others.
    path, colon, class_name = name.rpartition(":")
    if not colon:
        hint = closest(name, _BY_NAME)
        known = ", ".join(_BY_NAME)
        raise InputError(
            f"scheduler {shown(title)}: is not known{hint or f'; known: {known}, and FILE.py:Class'}"
        )
    try:
        return Policy(class_name, _load_class(Path(path), class_name, trace.seed), with_cassini)
    except InputError as error:
        raise InputError(f"scheduler {shown(title)}: {error}") from None


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
