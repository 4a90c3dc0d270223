"""Hocket: which training jobs can take turns on a shared network, and how far to shift each.

Names are imported when first used, so that `hocket.agent` runs where nothing but Python is installed.

>>> import hocket
>>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
>>> plan = {"link": {"capacity": "50 Gbps"}, "jobs": [{"name": "a", **half}, {"name": "b", **half}]}
>>> hocket.compatibility(plan).score
1.0
>>> run = hocket.simulate(plan)
>>> run.tables["jobs"].select("job", "mean_iteration_s").rows()
[('a', 0.234), ('b', 0.234)]
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.compat import Compatibility, compatibility
    from hocket.errors import InputError, SelfCheckError
    from hocket.plan import Plan, load_plan, parse_plan, plan_schema
    from hocket.profile import JobProfile, profile_counters, profile_trace
    from hocket.results import Run
    from hocket.runner import simulate
    from hocket.sweeps import Sweep, sweep

    __version__: str

__all__ = [
    "Compatibility",
    "InputError",
    "JobProfile",
    "Plan",
    "Run",
    "SelfCheckError",
    "Sweep",
    "compatibility",
    "load_plan",
    "parse_plan",
    "plan_schema",
    "profile_counters",
    "profile_trace",
    "simulate",
    "sweep",
]

# No module of the package may have the name of something that it holds: importing the module would hide that.
_HOMES = {
    "Compatibility": "compat",
    "InputError": "errors",
    "JobProfile": "profile",
    "Plan": "plan",
    "Run": "results",
    "SelfCheckError": "errors",
    "Sweep": "sweeps",
    "compatibility": "compat",
    "load_plan": "plan",
    "parse_plan": "plan",
    "plan_schema": "plan",
    "profile_counters": "profile",
    "profile_trace": "profile",
    "simulate": "runner",
    "sweep": "sweeps",
}


def __getattr__(name: str) -> Any:
    """The public name `name`, imported now (PEP 562)."""
    if name == "__version__":
        value: Any = metadata.version("hocket")
    elif name in _HOMES:
        value = getattr(import_module(f"hocket.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
