"""The lines of keys in a TOML plan, and the kinds of files."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from hocket import InputError, load_plan, load_trace
from hocket.plan.lines import Lines
from hocket.plan.table_errors import KeyPath

TEXT = '''# a comment with [brackets] and = signs
name = """
two "lines" = [
"""   # seed = 1
run.iterations = 3
[link]  # [jobs]
"capacity" = "50 Gbps"

[[jobs]]
name = 'it # is'
up = [
  # the first
  { start = "0 ms", rate = "1 Gbps" },
  { start = "9 ms", rate = [1, [2,
      3]]},
]
at = 1979-05-27 07:32:00
[jobs.training]
model = "x"
[[jobs]]
name = "b"
[[jobs.collectives]]
size = +1_000.5e3
[[jobs.collectives]]
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("run", "iterations"), 5),
        (("link",), 6),
        (("link", "capacity"), 7),
        (("link", "delay"), 6),
        (("jobs", 0), 9),
        (("jobs", 0, "name"), 10),
        (("jobs", 0, "up"), 11),
        (("jobs", 0, "up", 0, "rate"), 13),
        (("jobs", 0, "up", 1), 14),
        (("jobs", 0, "up", 1, "rate"), 14),
        (("jobs", 0, "up", 1, "rate", 1, 1), 15),
        (("jobs", 0, "at"), 17),
        (("jobs", 0, "training", "model"), 19),
        (("jobs", 1, "name"), 21),
        (("jobs", 1, "collectives", 0, "size"), 23),
        (("jobs", 1, "collectives", 1, "size"), 24),
        (("jobs", 1, "period"), 20),
        (("seed",), None),
    ],
)
def test_the_line_of_a_key_is_found(path: KeyPath, line: int | None) -> None:
    tomllib.loads(TEXT)
    assert Lines(TEXT).of(path) == line
    assert Lines(TEXT.replace("\n", "\r\n")).of(path) == line


KEYS = st.text("ab -_.\"'#[]=µ\\", min_size=1, max_size=3)
TABLES = st.recursive(
    st.integers() | st.booleans() | st.text("a\"'#[]{}=,\n\\", max_size=6) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
).flatmap(lambda value: st.dictionaries(KEYS, st.just(value), min_size=1, max_size=3))


def keys_of(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from keys_of(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from keys_of(inner, (*path, place))


@given(TABLES, st.booleans())
def test_the_line_found_for_any_key_contains_the_key(tables: dict[str, Any], multiline: bool) -> None:
    text = tomli_w.dumps(tables, multiline_strings=multiline)
    lines, written = Lines(text), text.splitlines()
    for path in keys_of(tables):
        line = lines.of(path)
        assert line is not None
        key = str(path[-1])
        assert key in written[line - 1] or json.dumps(key, ensure_ascii=False)[1:-1] in written[line - 1]


PLAN = """
[link]
capacity = "50 Gbps"
[[jobs]]
name = "a"
period = "100 ms"
up = [
  { start = "0 ms", duration = "1 ms", rate = "1 Gbps" },
  { start = "50 ms", duration = "1 ms", rate = "60 Gbps" },
]
"""


def refusal(directory: Path, text: str, name: str = "plan.toml") -> str:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_plan(path)
    return str(refused.value).replace(str(path), name)


def test_errors_between_tables_are_reported_with_their_lines_too(tmp_path: Path) -> None:
    assert refusal(tmp_path, PLAN) == (
        "plan.toml:9: jobs[0].up[1].rate: 60 Gbps is above the link's capacity of 50 Gbps"
    )
    assert refusal(tmp_path, PLAN.replace("period", "perod")) == (
        "plan.toml:6: jobs[0].perod: is not a known key; did you mean 'period'?"
    )


def test_a_misspelt_key_is_one_error_and_the_known_keys_are_listed_once(tmp_path: Path) -> None:
    message = refusal(tmp_path, f"{PLAN}colour = 1\nsmell = 2\n[[jobs]]\nname = 'b'\ntaste = 3\n")
    assert message.count("known:") == 1
    assert [line for line in message.splitlines() if "is missing" in line] == []


def test_a_cluster_trace_and_a_plan_are_told_apart(tmp_path: Path) -> None:
    trace = '[fabric]\ntestbed = "cassini"\n[poisson]\nload = 1\n'
    assert refusal(tmp_path, trace) == (
        "plan.toml: is a cluster trace (it has [poisson]), not a plan: `hocket cluster` and `hocket trace` "
        "take it"
    )
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    with pytest.raises(InputError, match=r"is a plan \(it has \[link\] and period of a job\), not a cluster"):
        load_trace(tmp_path / "plan.toml")


def test_a_run_manifest_and_a_profiler_trace_are_recognised(tmp_path: Path) -> None:
    manifest = json.dumps({"hocket_version": "1", "status": "complete"})
    assert "`hocket compare` and `hocket explain` take the directory" in refusal(
        tmp_path, manifest, "manifest.json"
    )
    assert "`hocket profile` takes it" in refusal(tmp_path, '{"traceEvents": []}', "a.json")


@pytest.mark.parametrize(("key", "load"), [("model", load_plan), ("workload", load_trace)])
def test_the_error_names_the_key_that_a_plan_calls_workload_and_a_trace_model(
    tmp_path: Path, key: str, load: Any
) -> None:
    path = tmp_path / "file.toml"
    path.write_text(
        f'[fabric]\ntestbed = "cassini"\n[[jobs]]\nname = "a"\n{key} = "VGG16"\n', encoding="utf-8"
    )
    with pytest.raises(InputError) as refused:
        load(path)
    assert (
        f"{path}:5: jobs[0].{key}: is not a known key; a plan calls it 'workload', a cluster trace 'model'"
    ) in str(refused.value).splitlines()
