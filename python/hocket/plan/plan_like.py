"""What functions accept as a plan: the plan itself, its tables, its file, or an answer with a plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from hocket.plan.plan import Plan
from hocket.plan.reading import load_plan, parse_plan


# `isinstance` only checks for the attribute `plan`, which neither a path nor a mapping has.
@runtime_checkable
class HasPlan(Protocol):
    """An answer that has a plan to run, such as that of `hocket.compatibility`."""

    def plan(self) -> Plan: ...


PlanLike = Plan | Mapping[str, object] | str | Path | HasPlan
"""A plan, its tables, the file that it is in, or an answer with a plan."""


def as_plan(plan: PlanLike) -> Plan:
    """The checked plan. Raises `InputError`, as `load_plan` and `parse_plan` do."""
    match plan:
        case Plan():
            return plan
        case str() | Path():
            return load_plan(plan)
        case HasPlan():
            return plan.plan()
        case _:
            return parse_plan(plan)
