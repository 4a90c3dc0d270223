"""Makes a plan for every combination of the values of axes, and checks them all before any of them runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from hocket.errors import InputError
from hocket.plan import Plan, PlanLike, parse_plan, read_tables
from hocket.plan.lines import Lines
from hocket.plan.plan_like import HasPlan
from hocket.sweeps.axes import MAX_VALUES, Axis, with_setting, written

SEED = "seed"
"""The axis over which results are averaged."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a combination is not a valid plan."""

    error: str


@dataclass(frozen=True, slots=True)
class Combination:
    """One value of each axis, and the plan with these values or the reason why it is not valid."""

    settings: Mapping[str, object]
    plan: Plan | Refusal


class Tables(NamedTuple):
    """A plan that is not checked yet: its tables, its name in messages, the directory that its relative paths
    start from, and the lines of its keys.

    The directory is absolute, because workers may run in another one.
    """

    tables: object
    source: str
    directory: Path
    lines: Lines | None = None

    @classmethod
    def of(cls, plan: PlanLike) -> Self:
        """The tables of `plan`. Raises `InputError` if it is a file that cannot be read."""
        match plan:
            case Plan():
                # Without defaults, because some follow from other keys, which an axis may change.
                tables = plan.model_dump(mode="json", by_alias=True, exclude_unset=True)
                return cls(tables, "plan", plan.directory.absolute())
            case HasPlan():
                return cls.of(plan.plan())
            case str() | Path():
                file = read_tables(plan)
                return cls(file.tables, file.source, file.directory.absolute(), file.lines)
            case _:
                return cls(plan, "plan", Path.cwd())

    def seeds(self, count: int) -> Axis:
        """The axis of `count` consecutive seeds, beginning with the plan's. Raises `InputError` if `count` is
        not from 1 to `MAX_VALUES`.
        """
        if not 1 <= count <= MAX_VALUES:
            raise InputError(f"seeds: a sweep has 1 to {MAX_VALUES:,} of them: got {count}")
        given = self.tables.get(SEED) if isinstance(self.tables, Mapping) else None
        # A seed that is not an integer is replaced here: the axis gives every combination another one.
        first = given if isinstance(given, int) else Plan.model_fields[SEED].default
        return Axis(SEED, tuple(range(first, first + count)))

    def combinations(self, axes: Sequence[Axis]) -> list[Combination]:
        """All combinations in order, the last axis varying fastest; some of them may be refusals.

        Raises `InputError` if a key is given twice or leads nowhere, for more than `MAX_VALUES` combinations,
        and if none of them is a valid plan, with the errors of the first.
        """
        keys = [axis.key for axis in axes]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"{key}: is given as an axis twice")
        # Counted before any is made: two axes of 100,000 values have 10^10 combinations.
        count = math.prod(len(axis.values) for axis in axes)
        if count > MAX_VALUES:
            raise InputError(f"the axes have {count:,} combinations; the limit is {MAX_VALUES:,}")
        chosen = itertools.product(*(axis.values for axis in axes))
        found = [self._with(dict(zip(keys, values, strict=True))) for values in chosen]
        first = found[0]
        if isinstance(first.plan, Refusal) and all(isinstance(each.plan, Refusal) for each in found):
            where = f"{self.source} with {described(first.settings)}" if first.settings else self.source
            raise InputError("\n".join(f"{where}: {line}" for line in first.plan.error.splitlines()))
        return found

    def _with(self, settings: Mapping[str, object]) -> Combination:
        changed = self.tables
        for key, value in settings.items():
            try:
                changed = with_setting(changed, key, value)
            # A key that leads nowhere is a mistake of the axis, not of one combination: nothing runs.
            except InputError as error:
                raise InputError(f"{self.source}: {key}: {error}") from None
        # With other values, an error may be in one of them and not on a line of the file.
        lines = None if settings else self.lines
        try:
            return Combination(settings, parse_plan(changed, self.source, self.directory, lines))
        except InputError as error:
            lines_of_error = str(error).splitlines()
            return Combination(
                settings, Refusal("\n".join(line.removeprefix(f"{self.source}: ") for line in lines_of_error))
            )


def described(settings: Mapping[str, object]) -> str:
    """Values of axes as text for messages.

    >>> described({"seed": 2, "jobs[0].congestion": "dcqcn"})
    'seed = 2, jobs[0].congestion = dcqcn'
    """
    return ", ".join(f"{key} = {written(value)}" for key, value in settings.items())
