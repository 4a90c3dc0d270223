"""Every combination of the values of some axes, each a plan that has been checked before any of them runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from hocket.errors import InputError
from hocket.plan import Plan, parse_plan, read_tables
from hocket.runner import PlanLike
from hocket.sweeps.axes import MAX_VALUES, Axis, with_setting, written

SEED = "seed"
"""The axis over which results are averaged."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One value of each axis, and the plan with them."""

    settings: Mapping[str, object]
    plan: Plan


class Tables(NamedTuple):
    """A plan that is not checked yet, what messages call it, and where its relative paths start.

    That is an absolute path: workers may run elsewhere.
    """

    tables: object
    source: str
    directory: Path

    @classmethod
    def of(cls, plan: PlanLike) -> Self:
        """Raises `InputError` if `plan` is a file that cannot be read."""
        match plan:
            case Plan():
                tables = plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
                return cls(tables, "plan", plan.directory.absolute())
            case str() | Path():
                return cls(read_tables(plan), str(plan), Path(plan).parent.absolute())
            case _:
                return cls(plan, "plan", Path.cwd())

    def seeds(self, count: int) -> Axis:
        """The axis of `count` seeds, from that of the plan on. Raises `InputError` if it is not 1 to
        `MAX_VALUES`.
        """
        if not 1 <= count <= MAX_VALUES:
            raise InputError(f"seeds: a sweep has 1 to {MAX_VALUES:,} of them: got {count}")
        given = self.tables.get(SEED) if isinstance(self.tables, Mapping) else None
        first = given if isinstance(given, int) else Plan.model_fields[SEED].default
        return Axis(SEED, tuple(range(first, first + count)))

    def combinations(self, axes: Sequence[Axis]) -> list[Combination]:
        """All combinations in order, the last axis changing first.

        Raises `InputError` for a key that is an axis twice, for more than `MAX_VALUES` combinations, and for
        a combination that is no valid plan, naming it.
        """
        keys = [axis.key for axis in axes]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"{key}: is an axis twice")
        count = math.prod(len(axis.values) for axis in axes)
        if count > MAX_VALUES:
            raise InputError(f"the axes have {count:,} combinations; the limit is {MAX_VALUES:,}")
        chosen = itertools.product(*(axis.values for axis in axes))
        return [self._with(dict(zip(keys, values, strict=True))) for values in chosen]

    def _with(self, settings: Mapping[str, object]) -> Combination:
        changed = self.tables
        for key, value in settings.items():
            try:
                changed = with_setting(changed, key, value)
            except InputError as error:
                raise InputError(f"{self.source}: {key}: {error}") from None
        where = f"{self.source} with {described(settings)}" if settings else self.source
        return Combination(settings, parse_plan(changed, where, self.directory))


def described(settings: Mapping[str, object]) -> str:
    """Values of axes as messages name them.

    >>> described({"seed": 2, "jobs[0].congestion": "dcqcn"})
    'seed = 2, jobs[0].congestion = dcqcn'
    """
    return ", ".join(f"{key} = {written(value)}" for key, value in settings.items())
