"""Differences between the requests of runs: keys of their plans, and the engines' parameters."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hocket.results import Run

# Entries of a manifest that describe the requested run, besides the plan.
_REQUESTED = ("hocket_version", "engine", "scheduler", "study", "fidelity", "candidate", "seed")
# Keys of a resolved plan that do not count as differences: `compat`, which another command reads; names, by
# which elements are matched; sources of defaults, which change nothing; and profiles, which follow from a
# job's model and batch size or repeat its Up phases.
_NOT_COMPARED = ("compat", "name", "defaults", "profiles")

PARAMETERS = "parameters."
"""Prefix of keys that are parameters of an engine and not keys of a plan."""


@dataclass(frozen=True)
class Difference:
    """A key and its value in each run, in the order of the runs; None if a run has no such key."""

    key: str
    values: tuple[str | None, ...]

    @property
    def is_parameter(self) -> bool:
        """Whether the key is a parameter of an engine and not a key of a plan."""
        return self.key.startswith(PARAMETERS)


@dataclass(frozen=True)
class _Setting:
    value: str | None
    """None if the key has no value to compare, but others belong to it."""
    element: str | None
    """The key that the setting belongs to: a named element, a table of the plan, or a choice."""


@dataclass(frozen=True)
class _Parameter:
    value: str
    source: str


def differences(runs: Mapping[str, Run]) -> list[Difference]:
    """The keys that differ between `runs`: first those of the plans, then the parameters.

    Elements with names are compared by name: the keys of a job `a` begin with `jobs[a]`. If a run has no such
    job, that is the only difference, without one for each key of the job. The same holds for the tables of
    plans and the settings of a congestion control. A parameter differs only if runs with the same policy
    disagree: that DCQCN has other parameters than HPCC follows from their names. A parameter that every plan
    gives is among the keys of the plans instead.
    """
    found = _differing([_settings(run) for run in runs.values()])
    return [*found, *_differing_parameters([_parameters(run) for run in runs.values()])]


def _differing(settings: list[dict[str, _Setting]]) -> Iterator[Difference]:
    # In reverse, so that a key gets the setting of the first run that has it.
    first = {key: setting for each in reversed(settings) for key, setting in each.items()}
    for key in _in_order(settings):
        element = first[key].element
        values = [each[key].value if key in each else None for each in settings]
        # A run without the element is left out: the missing element is a difference of its own.
        compared = [
            value for value, each in zip(values, settings, strict=True) if element is None or element in each
        ]
        if len(set(compared)) > 1:
            yield Difference(key, tuple(values))


def _differing_parameters(parameters: list[dict[str, _Parameter]]) -> Iterator[Difference]:
    for key in _in_order(parameters):
        policy_key = f"{key.rpartition('.')[0]}.policy".removeprefix(".")
        by_policy: dict[str | None, set[str]] = {}
        given = True
        for each in parameters:
            if key in each:
                # The parameter `policy` itself is compared among all runs.
                policy = each[policy_key].value if policy_key in each and key != policy_key else None
                by_policy.setdefault(policy, set()).add(each[key].value)
                given = given and each[key].source == "plan"
        if not given and any(len(values) > 1 for values in by_policy.values()):
            yield Difference(
                PARAMETERS + key, tuple(each[key].value if key in each else None for each in parameters)
            )


def _in_order(each_has: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for each in each_has for key in each))


def _settings(run: Run) -> dict[str, _Setting]:
    plan = dict(run.manifest.get("plan", {}))
    if "run" in plan:
        # The manifest has the engine that really ran: an option may override the plan's.
        plan["run"] = {key: value for key, value in plan["run"].items() if key != "engine"}
    requested = {key: run.manifest.get(key) for key in _REQUESTED}
    return {
        key: setting
        # Twice: the first puts these keys in front, the last overrides the plan's values.
        for name, value in {**requested, **plan, **requested}.items()
        if name not in _NOT_COMPARED
        for key, setting in _flat(name, value, None)
    }


def _flat(key: str, value: Any, element: str | None) -> Iterator[tuple[str, _Setting]]:
    """Every setting in `value`, whose key is `key` and which belongs to `element`."""
    match value:
        case dict() if (choice := _choice(value)) is not None:
            yield key, _Setting(choice, element)
            yield f"{key}.{choice}", _Setting(None, element)
            yield from _inside(f"{key}.{choice}", value[choice])
        case dict():
            yield key, _Setting("there", element)
            yield from _inside(key, value)
        case [dict(), *_]:
            names = [each.get("name") for each in value]
            named = None not in names and len(set(names)) == len(names)
            for place, each in enumerate(value):
                where = f"{key}[{names[place] if named else place}]"
                yield where, _Setting("there", element)
                yield from _inside(where, each)
        case None | []:
            # Equal to a missing key: neither requests anything.
            return
        case _:
            yield key, _Setting(_text(value), element)


def _inside(key: str, table: dict[str, Any]) -> Iterator[tuple[str, _Setting]]:
    for name, inner in table.items():
        if name not in _NOT_COMPARED:
            yield from _flat(f"{key}.{name}", inner, key)


def _choice(table: dict[str, Any]) -> str | None:
    """The name of the one table in `table`, if it contains nothing else, like a congestion control."""
    match list(table.items()):
        case [(str(name), dict())]:
            return name
        case _:
            return None


def _parameters(run: Run) -> dict[str, _Parameter]:
    def flat(key: str, value: Any) -> Iterator[tuple[str, _Parameter]]:
        if isinstance(value, dict) and "source" in value:
            yield key, _Parameter(_text(value["value"]), value["source"])
        elif isinstance(value, dict):
            for name, inner in value.items():
                yield from flat(f"{key}.{name}" if key else name, inner)

    return dict(flat("", run.manifest.get("parameters", {})))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
