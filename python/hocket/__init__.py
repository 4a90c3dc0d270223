"""Hocket: which training jobs can take turns on a shared network, and how far to shift each.

Public names are imported on first use, so that the testbed's workers run where only PyTorch is installed.

>>> import hocket
>>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
>>> plan = {"link": {"capacity": "50 Gbps"}, "jobs": [{"name": "a", **half}, {"name": "b", **half}]}
>>> hocket.compatibility(plan).score
1.0
>>> run = hocket.simulate(plan)
>>> run.tables["jobs"].select("job", "mean_iteration_s").rows()
[('a', 0.234), ('b', 0.234)]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.cluster.simulation import simulate_cluster
    from hocket.cluster.trace import Trace, load_trace, parse_trace
    from hocket.compat import Compatibility, compatibility
    from hocket.engines import simulate
    from hocket.errors import InputError, SelfCheckError
    from hocket.plan import Job, Link, Plan, Up, load_plan, parse_plan, plan_schema
    from hocket.profiling import JobProfile, profile
    from hocket.reproducing import reproduce
    from hocket.results import Run
    from hocket.sweeps import Sweep, sweep

    __version__: str

__all__ = [
    "Compatibility",
    "InputError",
    "Job",
    "JobProfile",
    "Link",
    "Plan",
    "Run",
    "SelfCheckError",
    "Sweep",
    "Trace",
    "Up",
    "compatibility",
    "load_plan",
    "load_trace",
    "parse_plan",
    "parse_trace",
    "plan_schema",
    "profile",
    "reproduce",
    "simulate",
    "simulate_cluster",
    "sweep",
]

# No module of the package may share its name with a public name: importing the module would set it as an
# attribute of the package and hide the public name.
_HOMES = {
    "Compatibility": "compat",
    "InputError": "errors",
    "Job": "plan",
    "JobProfile": "profiling",
    "Link": "plan",
    "Plan": "plan",
    "Run": "results",
    "SelfCheckError": "errors",
    "Sweep": "sweeps",
    "Trace": "cluster.trace",
    "Up": "plan",
    "compatibility": "compat",
    "load_plan": "plan",
    "load_trace": "cluster.trace",
    "parse_plan": "plan",
    "parse_trace": "cluster.trace",
    "plan_schema": "plan",
    "profile": "profiling",
    "reproduce": "reproducing",
    "simulate": "engines",
    "simulate_cluster": "cluster.simulation",
    "sweep": "sweeps",
}


def __getattr__(name: str) -> Any:
    """Imports the public name `name` on first use (PEP 562)."""
    if name == "__version__":
        # Not at the top: it loads the standard library's modules for mail, which few uses of Hocket need.
        from importlib.metadata import version

        value: Any = version("hocket")
    elif name in _HOMES:
        value = getattr(import_module(f"hocket.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
