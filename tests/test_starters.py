"""`hocket init`: plans to start from, which run as they are and name every alternative."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command

from hocket.cluster.trace import trace_schema
from hocket.plan import plan_schema
from hocket.starters import NAMES, find_starter

Schema = dict[str, Any]


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_runs_with_each_command_that_it_names(hocket: Command, name: str) -> None:
    written = hocket("init", name)
    assert (written.code, written.err) == (0, f"plan: {name}.toml\n")
    first, *others = re.findall(r"^#   (hocket .+)$", find_starter(name).text, re.MULTILINE)
    assert written.out == f"Next: {first}\n"
    for command in (first, *others):
        outcome = hocket(*shlex.split(command)[1:])
        assert outcome.code == 0, outcome.err


def test_the_two_jobs_take_turns_and_get_faster(hocket: Command) -> None:
    hocket("init", "two-jobs")
    answer = hocket("compat", "two-jobs.toml", "--json").json()
    assert answer["score"] == 1.0
    assert "shifting helps: speed-up 1.15 on average" in hocket("compat", "two-jobs.toml").out


def chosen(value: object, schema: Schema, root: Schema) -> Iterator[list[str]]:
    """The alternatives of each text in `value` that `schema` offers a choice for."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from chosen(value, branch, root)
    if isinstance(value, dict):
        for key, each in value.items():
            yield from chosen(each, schema.get("properties", {}).get(key, {}), root)
    elif isinstance(value, list):
        for each in value:
            yield from chosen(each, schema.get("items", {}), root)
    elif isinstance(value, str) and value in schema.get("enum", ()):
        yield schema["enum"]


@pytest.mark.parametrize("name", NAMES)
def test_the_alternatives_of_a_choice_are_in_its_comments(name: str) -> None:
    text = find_starter(name).text
    schema = trace_schema() if name == "cluster" else plan_schema()
    comments = " ".join(line for line in text.splitlines() if line.startswith("#"))
    # A key that the starter's engine does not read is a comment itself.
    all_keys = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    choices = list(chosen(tomllib.loads(all_keys), schema, schema))
    assert choices
    for alternatives in choices:
        for alternative in alternatives:
            assert f'"{alternative}"' in comments, f"{name}: {alternative}"


def test_without_a_name_the_starters_are_listed(hocket: Command) -> None:
    lines = hocket("init").out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == list(NAMES)
    assert [each["name"] for each in hocket("init", "--json").json()] == list(NAMES)


def test_a_starter_names_its_own_file(hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    outcome = hocket("init", "two-jobs", "--out", "plans/my own.toml", "--json")
    command = "hocket compat 'plans/my own.toml'"
    assert outcome.json() == {"name": "two-jobs", "file": "plans/my own.toml", "command": command}
    assert f"#   {command}\n" in (tmp_path / "plans" / "my own.toml").read_text(encoding="utf-8")
    assert hocket(*shlex.split(command)[1:]).code == 0


def test_an_existing_file_is_replaced_only_with_force(hocket: Command, tmp_path: Path) -> None:
    (tmp_path / "two-jobs.toml").write_text("mine", encoding="utf-8")
    refused = hocket("init", "two-jobs")
    assert refused.code == 2
    assert "error: two-jobs.toml: exists; write to another file with --out, or replace it with --force" in (
        refused.err
    )
    assert (tmp_path / "two-jobs.toml").read_text(encoding="utf-8") == "mine"
    assert hocket("init", "two-jobs", "--force").code == 0
    assert (tmp_path / "two-jobs.toml").read_text(encoding="utf-8") == find_starter("two-jobs").text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("two-job",),
            "starter 'two-job': must be one of two-jobs, placements, training, cluster; "
            "did you mean 'two-jobs'?",
        ),
        (("nothing",), "starter 'nothing': must be one of two-jobs, placements, training, cluster\n"),
        (("--out", "a.toml"), "init: --out needs a NAME: two-jobs, placements, training, cluster"),
        (("--force",), "init: --force needs a NAME: two-jobs, placements, training, cluster"),
        (("cluster", "--out", "a.json"), "a.json: suffix '.json'; a starter is written as .toml"),
        (
            ("cluster", "--out", "/dev/null/b/a.toml"),
            "/dev/null/b/a.toml: cannot be written: there is no directory /dev/null/b",
        ),
    ],
)
def test_an_output_that_cannot_be_written_is_refused(
    hocket: Command, arguments: tuple[str, ...], message: str
) -> None:
    outcome = hocket("init", *arguments)
    assert outcome.code == 2
    assert f"error: {message}" in outcome.err
    assert outcome.out == ""
