"""What differs in what was asked of runs: keys of their plans, and parameters that follow from them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hocket.results import Run

# Of a manifest, what says which run was asked for besides the plan.
_ASKED = ("hocket_version", "engine", "study", "profile", "candidate", "seed")
# Of a resolved plan: what another command reads; names, which place things; where defaults are from, which
# changes nothing; and profiles, which follow from a job's model and batch size or repeat its Up phases.
_NOT_COMPARED = ("compat", "name", "defaults", "profiles")

PARAMETERS = "parameters."
"""Begins the keys of what is not a key of a plan but a parameter of an engine."""


@dataclass(frozen=True)
class Difference:
    """A key and its value in each run, in their order; None where a run has no such key."""

    key: str
    values: tuple[str | None, ...]

    @property
    def is_parameter(self) -> bool:
        """Whether the key is a parameter of an engine, and not one of a plan."""
        return self.key.startswith(PARAMETERS)


@dataclass(frozen=True)
class _Setting:
    value: str
    element: str | None
    """The key of the element or the table that the setting is of, such as `jobs[a]` or `link`."""


def differences(runs: Mapping[str, Run]) -> list[Difference]:
    """The keys that differ between `runs`: first of the plans, then of the parameters.

    Elements that have names are compared by name: the keys of a job `a` begin with `jobs[a]`, and where a run
    has no such job, that is the one difference; so with the tables of plans. A parameter differs only where
    runs that have it disagree: that DCQCN has others than HPCC follows from their names. One that a plan
    gives in every run is among the keys of the plan.
    """
    found = _differing([_settings(run) for run in runs.values()])
    return [*found, *_differing_parameters([_parameters(run) for run in runs.values()])]


def _differing(settings: list[dict[str, _Setting]]) -> Iterator[Difference]:
    first = {key: setting for each in reversed(settings) for key, setting in each.items()}
    for key in _in_order(settings):
        element = first[key].element
        values = [each[key].value if key in each else None for each in settings]
        asked = [
            value for value, each in zip(values, settings, strict=True) if element is None or element in each
        ]
        if len(set(asked)) > 1:
            yield Difference(key, tuple(values))


def _differing_parameters(parameters: list[dict[str, tuple[str, str]]]) -> Iterator[Difference]:
    for key in _in_order(parameters):
        having = [each[key] for each in parameters if key in each]
        if len({value for value, _ in having}) > 1 and any(source != "plan" for _, source in having):
            values = (each[key][0] if key in each else None for each in parameters)
            yield Difference(PARAMETERS + key, tuple(values))


def _in_order(each_has: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for each in each_has for key in each))


def _settings(run: Run) -> dict[str, _Setting]:
    plan = dict(run.manifest.get("plan", {}))
    if "run" in plan:
        # The engine that ran stands in the manifest: an option may have named another than the plan.
        plan["run"] = {key: value for key, value in plan["run"].items() if key != "engine"}
    asked = {key: run.manifest.get(key) for key in _ASKED}
    return dict(_flat("", {**asked, **plan, **asked}, None))


def _flat(key: str, value: Any, element: str | None) -> Iterator[tuple[str, _Setting]]:
    match value:
        case dict():
            for name, inner in value.items():
                if name in _NOT_COMPARED:
                    continue
                if not key and isinstance(inner, dict):
                    yield name, _Setting("there", None)
                    yield from _flat(name, inner, name)
                else:
                    yield from _flat(f"{key}.{name}" if key else name, inner, element)
        case [dict(), *_]:
            names = [each.get("name") for each in value]
            named = None not in names and len(set(names)) == len(names)
            for place, each in enumerate(value):
                where = f"{key}[{names[place] if named else place}]"
                yield where, _Setting("there", element)
                yield from _flat(where, each, where)
        case None | []:
            # As if it were not there: a run that was asked for nothing is not asked for otherwise.
            return
        case _:
            yield key, _Setting(_text(value), element)


def _parameters(run: Run) -> dict[str, tuple[str, str]]:
    """Value and source of each parameter."""

    def flat(key: str, value: Any) -> Iterator[tuple[str, tuple[str, str]]]:
        if isinstance(value, dict) and "source" in value:
            yield key, (_text(value["value"]), value["source"])
        elif isinstance(value, dict):
            for name, inner in value.items():
                yield from flat(f"{key}.{name}" if key else name, inner)

    return dict(flat("", run.manifest.get("parameters", {})))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
