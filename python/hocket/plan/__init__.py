"""The plan: one file that says which jobs share which network, read and checked once.

`hocket compat` and `hocket run` read the same schema, from TOML or JSON. What comes out is valid: no later
stage checks it again. Times are held in picoseconds, rates in bits per second.
"""

from hocket.plan.fabric import Clos, Dumbbell, Fabric, FabricLink, FatTree, Rail, ScaleUp
from hocket.plan.job import MAX_PHASES, Job, Phase, Share
from hocket.plan.link import DEFAULT_PRECISION_DEG, Link
from hocket.plan.plan import DEFAULT_ITERATIONS, MAX_JOBS, Candidate, Change, Plan
from hocket.plan.reading import MAX_FILE_BYTES, load_plan, parse_plan, plan_schema, read_tables
from hocket.plan.run import Compat, Engine, Run, SkipAhead
from hocket.plan.training import Collectives, LayerTable, OperationTable, Parallel, Straggler, Training

__all__ = [
    "DEFAULT_ITERATIONS",
    "DEFAULT_PRECISION_DEG",
    "MAX_FILE_BYTES",
    "MAX_JOBS",
    "MAX_PHASES",
    "Candidate",
    "Change",
    "Clos",
    "Collectives",
    "Compat",
    "Dumbbell",
    "Engine",
    "Fabric",
    "FabricLink",
    "FatTree",
    "Job",
    "LayerTable",
    "Link",
    "OperationTable",
    "Parallel",
    "Phase",
    "Plan",
    "Rail",
    "Run",
    "ScaleUp",
    "Share",
    "SkipAhead",
    "Straggler",
    "Training",
    "load_plan",
    "parse_plan",
    "plan_schema",
    "read_tables",
]
