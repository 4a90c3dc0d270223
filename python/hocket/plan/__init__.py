"""The plan: which jobs share which network, read from a file or built in Python, and checked once.

Every command reads plans by the same schema, as TOML or JSON. In Python each table is a class whose
constructor takes the keys of the file; quantities are text with a unit, or those of `hocket.units`. A plan is
valid by construction: no later stage checks it again. Times are held in picoseconds, rates in bits per
second.
"""

from hocket.plan.congestion import (
    Dcqcn,
    Dctcp,
    Hpcc,
    HpccPint,
    PfcOnly,
    ReceiverDriven,
    StaticWindow,
    Timely,
)
from hocket.plan.fabric import Clos, Dumbbell, Fabric, FabricLink, FatTree, Lingjun, Rail, ScaleUp
from hocket.plan.hardware import Host, Marking, Switch
from hocket.plan.job import MAX_PHASES, First, Job, Share, Up
from hocket.plan.link import Link
from hocket.plan.plan import Plan
from hocket.plan.plan_like import PlanLike, as_plan
from hocket.plan.reading import MAX_FILE_BYTES, load_plan, parse_plan, plan_schema, read_tables
from hocket.plan.run import Compat, Engine, RunSettings, SkipAhead
from hocket.plan.tables import (
    DEFAULT_ITERATIONS,
    MAX_JOBS,
    Candidate,
    Change,
)
from hocket.plan.training import (
    BucketsTable,
    Collectives,
    LayerTable,
    OperationTable,
    Parallel,
    RooflineTable,
    Straggler,
    Training,
)

__all__ = [
    "DEFAULT_ITERATIONS",
    "MAX_FILE_BYTES",
    "MAX_JOBS",
    "MAX_PHASES",
    "BucketsTable",
    "Candidate",
    "Change",
    "Clos",
    "Collectives",
    "Compat",
    "Dcqcn",
    "Dctcp",
    "Dumbbell",
    "Engine",
    "Fabric",
    "FabricLink",
    "FatTree",
    "First",
    "Host",
    "Hpcc",
    "HpccPint",
    "Job",
    "LayerTable",
    "Lingjun",
    "Link",
    "Marking",
    "OperationTable",
    "Parallel",
    "PfcOnly",
    "Plan",
    "PlanLike",
    "Rail",
    "ReceiverDriven",
    "RooflineTable",
    "RunSettings",
    "ScaleUp",
    "Share",
    "SkipAhead",
    "StaticWindow",
    "Straggler",
    "Switch",
    "Timely",
    "Training",
    "Up",
    "as_plan",
    "load_plan",
    "parse_plan",
    "plan_schema",
    "read_tables",
]
