"""Parsing axes, and the changes that they make to plans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.sweeps import Axis, parse_axis
from hocket.sweeps.axes import with_setting

JOBS: dict[str, list[dict[str, object]]] = {
    "jobs": [{"name": "a", "priority": 0}, {"name": "b"}, {"name": "c d"}]
}


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("jobs[0].congestion=dcqcn,dctcp", "jobs[0].congestion", ("dcqcn", "dctcp")),
        ("seed=1..5", "seed", (1, 2, 3, 4, 5)),
        ("seed=7,1..2,9", "seed", (7, 1, 2, 9)),
        ("jobs.*.jitter=0,0.01", "jobs.*.jitter", (0, 0.01)),
        ("link.capacity=50 Gbps, 100 Gbps", "link.capacity", ("50 Gbps", "100 Gbps")),
        ("jobs[0].readjust=true,false", "jobs[0].readjust", (True, False)),
        ("jobs[0].time_shift=,90 ms", "jobs[0].time_shift", (None, "90 ms")),
        (
            "jobs[0].congestion={ dcqcn = { g = 0.5, T = '55 us' } },dctcp",
            "jobs[0].congestion",
            ({"dcqcn": {"g": 0.5, "T": "55 us"}}, "dctcp"),
        ),
        ('jobs.*.collectives.all_reduce=ring,["direct", "ring"]', "jobs.*.collectives.all_reduce", None),
        ('jobs.0.training.model=DLRM (HOTI\'22),"a,b"', "jobs.0.training.model", ("DLRM (HOTI'22)", "a,b")),
        ("name=5,'5'", "name", (5, "5")),
    ],
)
def test_an_axis_is_a_key_and_its_values(text: str, key: str, values: tuple[object, ...] | None) -> None:
    assert parse_axis(text) == Axis(key, values or ("ring", ["direct", "ring"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed", "'seed' is not an axis; write it as KEY=V1,V2,…"),
        ("=1", "'' is not a key; write it as"),
        ("jobs[0=1", r"'jobs\[0' is not a key"),
        ("jobs..name=1", "is not a key"),
        ("seed=1,2,1", "seed: has the value 1 twice"),
        ("seed=5..1", r"seed: 5\.\.1 is not a range of 1 to 100000 whole numbers, upwards"),
        ("seed=1..1000000", r"1\.\.1000000 is not a range"),
        ("a={ b = ", r"a: '\{ b =' is not a value of TOML"),
        (".".join("a" * 40) + "=1", "is not a key"),
    ],
)
def test_an_invalid_axis_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_axis(text)


@given(st.text() | st.text(alphabet="ab=.,[]{}'\"* 10\\").map(lambda text: f"a={text}"))
def test_any_text_is_an_axis_or_refused(text: str) -> None:
    try:
        axis = parse_axis(text)
    except InputError:
        return
    assert len(axis.values) >= 1


def test_a_key_selects_entries_of_a_list_by_position_by_name_or_all_by_a_star() -> None:
    for key in ("jobs[1].priority", "jobs.1.priority", "jobs[b].priority", "jobs.b.priority"):
        assert with_setting(JOBS, key, 7) == {
            "jobs": [JOBS["jobs"][0], {"name": "b", "priority": 7}, *JOBS["jobs"][2:]]
        }
    for key in ("jobs.*.priority", "jobs[*].priority"):
        assert with_setting(JOBS, key, 7) == {"jobs": [{**job, "priority": 7} for job in JOBS["jobs"]]}
    assert with_setting(JOBS, "jobs[c d].priority", 7) != JOBS


def test_missing_tables_on_the_path_of_a_key_are_created() -> None:
    assert with_setting({}, "run.skip_ahead.cycles", 4) == {"run": {"skip_ahead": {"cycles": 4}}}


def test_a_value_of_none_leaves_the_key_out() -> None:
    assert with_setting({"seed": 3, "name": "x"}, "seed", None) == {"name": "x"}
    assert with_setting({"name": "x"}, "seed", None) == {"name": "x"}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("jobs[3].priority", r"jobs has 3 entries, 0 to 2: got jobs\[3\]"),
        ("jobs[x].priority", "jobs has no entry named 'x'; known: 'a', 'b', 'c d'"),
        ("jobs[0].name.first", r"jobs\[0\]\.name is 'a' and has no key 'first'"),
        ("*.seed", r"the plan is a table; \* stands for everything in a list"),
    ],
)
def test_a_key_that_leads_nowhere_is_refused_and_located(key: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_setting(JOBS, key, 1)


@given(
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.integers())),
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
    st.integers(),
)
def test_a_setting_changes_its_key_and_nothing_else(
    tables: dict[str, dict[str, int]], table: str, key: str, value: int
) -> None:
    before = {name: dict(inner) for name, inner in tables.items()}
    changed = with_setting(tables, f"{table}.{key}", value)
    assert tables == before
    assert isinstance(changed, dict)
    assert changed.pop(table) == {**before.get(table, {}), key: value}
    assert changed == {name: inner for name, inner in before.items() if name != table}


def test_an_axis_needs_a_value_and_has_none_twice() -> None:
    with pytest.raises(InputError, match="seed: has 0 values"):
        Axis("seed", ())
    with pytest.raises(InputError, match=r'a: has the value \{"y": 2, "x": 1\} twice'):
        Axis("a", ({"x": 1, "y": 2}, {"y": 2, "x": 1}))
