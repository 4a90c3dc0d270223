"""Hocket: which training jobs can take turns on a shared network, and how far to shift each.

>>> import hocket
>>> half = {"period": "180 ms", "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}]}
>>> plan = {"link": {"capacity": "50 Gbps"}, "jobs": [{"name": "a", **half}, {"name": "b", **half}]}
>>> hocket.compatibility(plan).score
1.0
>>> run = hocket.simulate(plan)
>>> run.tables["jobs"].select("job", "mean_iteration_s").rows()
[('a', 0.234), ('b', 0.234)]
"""

from importlib.metadata import version

from hocket.compatibility import Compatibility, compatibility
from hocket.errors import InputError, SelfCheckError
from hocket.plan import Plan, load_plan, parse_plan, plan_schema
from hocket.profile import JobProfile, profile_counters
from hocket.results import Run
from hocket.runner import simulate
from hocket.sweep import Sweep, sweep

__version__ = version("hocket")

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
    "simulate",
    "sweep",
]
