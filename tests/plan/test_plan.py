"""Plans: how they are read, and that each error is one line naming file, key, value and limit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Tables, shared_link

from hocket.errors import InputError
from hocket.plan import MAX_FILE_BYTES, MAX_PHASES, Plan, Share, load_plan, parse_plan, plan_schema
from hocket.workloads import profile

MS = 10**9
EXAMPLES = Path(__file__).parents[2] / "examples"

Mistakes = Callable[[object], list[str]]


def job(**changes: object) -> Tables:
    """A job of 180 ms with one Up phase of 60 ms, with `changes`; a key changed to `None` is left out."""
    tables = {"name": "a", "period": "180 ms", "up": [phase()], **changes}
    return {key: value for key, value in tables.items() if value is not None}


def phase(start: str = "0 ms", duration: str = "60 ms", rate: str = "30 Gbps") -> Tables:
    """An Up phase."""
    return {"start": start, "duration": duration, "rate": rate}


def vgg16(**changes: object) -> Tables:
    """A job of the catalogue."""
    workload = {"workload": "VGG16", "batch_size": 1400, "workers": 2}
    return job(**{"name": "v", "period": None, "up": None, **workload, **changes})


def two_racks(*jobs: Tables, **changes: object) -> Tables:
    """A plan of `jobs` on hosts s1 and s2 behind t1 and s3 behind t2; s9 and s10 are apart from them."""
    ends = [("s1", "t1"), ("s2", "t1"), ("s3", "t2"), ("t1", "t2"), ("s9", "s10")]
    links = [{"ends": list(pair), "rate": "50 Gbps", "delay": "1 us"} for pair in ends]
    return {"fabric": {"links": links}, "jobs": list(jobs), **changes}


# Those in cluster/ are traces.
PLANS = sorted(path for path in EXAMPLES.rglob("*.toml") if path.parent.name != "cluster")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_shipped_example_is_a_plan(path: Path) -> None:
    plan = load_plan(path)
    assert all(each.training or each.profiles()[0].period_ps > 0 for each in plan.jobs)


def test_up_phases_are_held_in_picoseconds_and_bits_per_second_in_order_of_start() -> None:
    up = [phase("100 ms", "10 ms", "5 Gbps"), phase()]
    (found,) = parse_plan(shared_link(job(up=up))).jobs[0].profiles()
    assert found.period_ps == 180 * MS
    assert [(each.start_ps, each.duration_ps, each.rate_bps) for each in found.phases] == [
        (0, 60 * MS, 30 * 10**9),
        (100 * MS, 10 * MS, 5 * 10**9),
    ]


def test_a_list_of_batch_sizes_gives_a_profile_each() -> None:
    found = parse_plan(shared_link(vgg16(batch_size=[1400, 1700], workers=3))).jobs[0].profiles()
    assert [each.period_ps for each in found] == [profile("VGG16", 1400, 3).period_ps, 330 * MS]


def test_a_placed_workload_has_one_worker_per_host() -> None:
    plan = parse_plan(two_racks(vgg16(workers=None, placement=["s1", "s3"])))
    assert plan.jobs[0].worker_count() == 2
    assert plan.jobs[0].profiles()[0].period_ps == 274 * MS


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("fair", Share("fair", 1.0)),
        ({"weighted": 2}, Share("weighted", 2.0)),
        ({"adaptive": 1.5}, Share("adaptive", 1.5)),
    ],
)
def test_a_share_is_fair_weighted_or_adaptive(written: object, read: Share) -> None:
    assert parse_plan(shared_link(job(share=written))).jobs[0].share == read


def test_the_precision_comes_from_compat_then_from_the_link_then_is_0_for_all_shifts() -> None:
    link = {"capacity": "50 Gbps", "precision_deg": 10}
    assert parse_plan(shared_link(job())).precision_deg == 0
    assert parse_plan(shared_link(job(), link=link)).precision_deg == 10
    assert parse_plan(shared_link(job(), compat={"precision_deg": 2.5})).precision_deg == 2.5


def test_keys_of_the_packet_engine_have_defaults_and_are_written_as_they_are_read() -> None:
    plan = parse_plan(shared_link(job()))
    assert (plan.run.engine, plan.jobs[0].congestion, plan.jobs[0].path) == ("flow", None, "ecmp")
    written: Tables = {
        "switch": {
            "buffer": "64 MB",
            "headroom": "50 kB",
            "scheduling": {"weighted": [1] * 8},
            "marking": [],
        },
        "host": {"mtu": "1 kB", "cnp_interval": "50 us", "notification": "acks"},
        "changes": [{"at": "1 ms", "link": "link", "down": True}],
    }
    policy = {"congestion": {"dcqcn": {"preset": "mlx5", "byte_counter": "off"}}, "window": "64 kB"}
    resolved = parse_plan(shared_link(job(**policy), **written)).resolved()
    for table in ("switch", "host"):
        assert written[table].items() <= resolved[table].items()
    assert policy.items() <= resolved["jobs"][0].items()
    assert resolved["changes"] == written["changes"]


def test_nodes_with_several_links_are_hosts_if_the_fabric_names_them(mistakes: Mistakes) -> None:
    ends = [("s1", "t1"), ("s1", "t2"), ("s2", "t1"), ("s2", "t2")]
    links = [
        {"ends": list(pair), "rate": rate}
        for pair, rate in zip(ends, ("50 Gbps", "25 Gbps") * 2, strict=True)
    ]
    placed = job(placement=["s1", "s2"], up=[phase(rate="25 Gbps")])
    plan = parse_plan({"fabric": {"links": links, "hosts": ["s1", "s2"]}, "jobs": [placed]})
    assert plan.fabric is not None
    assert plan.fabric.nic_rates_bps() == {"s1": 25 * 10**9, "s2": 25 * 10**9}
    (line, _) = mistakes({"fabric": {"links": links}, "jobs": [placed]})
    assert line.endswith("'s1' is a switch: it has 2 links, a host has 1 or is named in fabric.hosts")


def test_a_run_without_an_end_takes_1000_iterations() -> None:
    assert parse_plan(shared_link(job())).iterations == 1000
    assert parse_plan(shared_link(job(), run={"until": "5 s"})).iterations is None
    assert parse_plan(shared_link(job(), run={"until": "5 s", "iterations": 3})).iterations == 3


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (shared_link(), "jobs: has too few entries: got 0, at least 1 needed"),
        ({"link": {"capacity": "50 Gbps"}}, "jobs: is missing"),
        (shared_link(job(), jbos=[]), "jbos: is not a known key; did you mean 'jobs'?"),
        (shared_link(job(perod="1 s")), "jobs[0].perod: is not a known key; did you mean 'period'?"),
        (
            shared_link(job(up=[{**phase(), "zzz": 1}])),
            "jobs[0].up[0].zzz: is not a known key; known: start, duration, rate",
        ),
        (shared_link(job(), **{"[key]": 1}), "'[key]': is not a known key; known: name, seed"),
        (
            two_racks(job(placement=["s1"]), candidates=[{"name": "c", "placement": {"\n": ["s1"]}}]),
            "candidates[0].placement.'\\n': must be a name of printable characters: got '\\n'",
        ),
        (shared_link(job(period="180")), "jobs[0].period: a duration needs a unit such as ms: got '180'"),
        (shared_link(job(period="0 ms")), "jobs[0].period: a duration must be above 0 here: got '0 ms'"),
        (shared_link(job(period="-1 ms")), "jobs[0].period: a duration must not be negative: got '-1 ms'"),
        (
            shared_link(job(up=[phase(duration="0 ms")])),
            "jobs[0].up[0].duration: a duration must be above 0 here: got '0 ms'",
        ),
        (
            shared_link(job(up=[phase(rate="60 Gbps")])),
            "jobs[0].up[0].rate: 60 Gbps is above the link's capacity of 50 Gbps",
        ),
        (
            shared_link(job(up=[phase("150 ms")])),
            "jobs[0].up[0]: 150 ms + 60 ms does not fit in the period of 180 ms",
        ),
        (
            shared_link(job(up=[phase("50 ms"), phase()])),
            "jobs[0].up[0].start: 50 ms is before up[1] ends at 60 ms",
        ),
        (
            shared_link(job(up=[phase()] * 10_000)),
            f"jobs[0].up: has more than {MAX_PHASES} entries: got 10000",
        ),
        (shared_link(job(), job()), "jobs[1].name: 'a' is already the name of jobs[0]"),
        (shared_link(job(name="a\n")), "jobs[0].name: must be a name of printable characters: got 'a\\n'"),
        (shared_link(job(jitter=float("nan"))), "jobs[0].jitter: must be a finite number: got nan"),
        (shared_link(job(jitter=1.5)), "jobs[0].jitter: must be at most 1: got 1.5"),
        (shared_link(job(priority=True)), "jobs[0].priority: must be a whole number: got true"),
        (shared_link(job(priority=-1)), "jobs[0].priority: must be at least 0: got -1"),
        (
            shared_link(job(share={"weighted": 0})),
            "jobs[0].share: a weight must be between 1/64 and 1024: got weighted = 0",
        ),
        (
            shared_link(job(share="unfair")),
            "jobs[0].share: must be \"fair\", { weighted = 2.0 } or { adaptive = 1.0 }: got 'unfair'",
        ),
        (shared_link(job(pad_to="170 ms")), "jobs[0].pad_to: 170 ms is shorter than the period of 180 ms"),
        (
            shared_link(job(first={"period": "30 ms", "up": [phase()]})),
            "jobs[0].first.up[0]: 0 s + 60 ms does not fit in the period of 30 ms",
        ),
        (
            shared_link(job(first={"period": "90 ms", "up": [phase(rate="60 Gbps")]})),
            "jobs[0].first.up[0].rate: 60 Gbps is above the link's capacity of 50 Gbps",
        ),
        (shared_link(job(label=-1)), "jobs[0].label: must be at least 0: got -1"),
        (shared_link(job(up=None)), "jobs[0].up: is missing; a job with a period needs its Up phases"),
        (shared_link(job(period=None)), "jobs[0].period: is missing; a job with Up phases needs it"),
        (
            shared_link({"name": "a"}),
            'jobs[0]: needs period and up, a workload such as "VGG16" with its batch_size, or [jobs.',
        ),
        (
            shared_link(job(batch_size=3)),
            "jobs[0].batch_size: belongs to a workload of the catalogue, and this job names none",
        ),
        (
            shared_link(vgg16(workload="WGG16")),
            "jobs[0].workload: 'WGG16' is not a workload of the catalogue; did you mean VGG16",
        ),
        (
            shared_link(vgg16(batch_size=[1400, 1801])),
            "jobs[0].batch_size: 1801 is outside the catalogue's batch sizes for VGG16, 512 to 1800",
        ),
        (
            shared_link(vgg16(workers=25)),
            "jobs[0].workers: 25 is outside the catalogue's numbers of workers for VGG16, 1 to 24",
        ),
        (
            shared_link(vgg16(strategy="tensor")),
            "jobs[0].strategy: 'tensor' is not a strategy of VGG16; known: data",
        ),
        (shared_link(vgg16(workers=None)), "jobs[0].workers: is missing; the workload VGG16 needs it"),
        (shared_link(vgg16(batch_size=None)), "jobs[0].batch_size: is missing; the workload VGG16 needs it"),
        (
            shared_link(vgg16(period="1 s")),
            "jobs[0].period: comes from the catalogue for the workload 'VGG16'; give one of them",
        ),
        (
            shared_link(vgg16(nic="50 Gbps"), link={"capacity": "10 Gbps"}),
            "jobs[0].workload: the demand of 'VGG16', 29 Gbps, is above the link's capacity of 10 Gbps",
        ),
        ({"jobs": [job()]}, "a plan needs either a [link] or a [fabric]: got neither"),
        (
            two_racks(job(), link={"capacity": "50 Gbps"}),
            "a plan needs either a [link] or a [fabric]: got both",
        ),
        (
            shared_link(job(), link={"capacity": "50 Gbps", "precision_deg": 0.05}),
            "link.precision_deg: must be 0 for all shifts, or from 0.1 to 90 degrees: got 0.05",
        ),
        (
            shared_link(job(), link={"capacity": "1 Gbps", "precision_deg": 5}, compat={"precision_deg": 6}),
            "compat.precision_deg: 6 is not 5 as in link.precision_deg; give one of them",
        ),
        (
            shared_link(job(), link={"capacity": "50 Gbps", "contended_goodput": 0.9}),
            'link.contended_goodput: must be "testbed" or a list of fractions of the capacity, for two jobs, '
            "three and so on, such as [0.9, 0.8]: got 0.9",
        ),
        (
            shared_link(job(), link={"capacity": "50 Gbps", "contended_goodput": [0.9, 0]}),
            "link.contended_goodput: the fraction for 3 jobs must be above 0, at most 1: got 0",
        ),
        (
            shared_link(job(), link={"capacity": "50 Gbps", "contended_goodput": []}),
            "link.contended_goodput: must have 1 to 64 fractions: got 0",
        ),
        (shared_link(job(), seed=2**63), "seed: must be at most 9223372036854775807: got a number of more"),
        (
            shared_link(job(), seed=10**5000),
            "seed: must be at most 9223372036854775807: got a number of more",
        ),
        (shared_link(job(), compat={"loops": "x"}), "compat.loops: must be 'discard' or 'solve': got 'x'"),
        (shared_link(job(), run={"iterations": 0}), "run.iterations: must be at least 1: got 0"),
        (shared_link(job(placement=["s1"])), "jobs[0].placement: needs a [fabric]"),
        (
            shared_link(job(gpus=["s1"])),
            "jobs[0].gpus[0]: must be a host and a number such as \"s1:0\": got 's1'",
        ),
        (two_racks(job()), "jobs[0].placement: is missing; on a [fabric] each job needs the hosts"),
        (
            two_racks(job(placement=["s1", "s4"])),
            "jobs[0].placement[1]: 's4' is not a host of the fabric",
        ),
        (
            two_racks(job(placement=["s1", "t1"])),
            "jobs[0].placement[1]: 't1' is a switch: it has 3 links, a host has 1",
        ),
        (two_racks(job(placement=["s1", "s9"])), "jobs[0].placement[1]: 's9' has no path to 's1'"),
        (
            two_racks(vgg16(placement=["s1", "s2", "s3"])),
            "jobs[0].placement: places 3 workers, and the job has 2",
        ),
        (
            two_racks(job(placement=["s1", "s2"], up=[phase(rate="60 Gbps")])),
            "jobs[0].placement: the job's demand of 60 Gbps is above the link's capacity of 50 Gbps at 's1'",
        ),
        (
            two_racks(job(placement=["s1"], gpus=["s2:0"])),
            "jobs[0].gpus[0]: 's2' is not in the job's placement",
        ),
        (
            two_racks(job(placement=["s1"]), candidates=[{"name": "c", "placement": {"b": ["s1"]}}]),
            "candidates[0].placement.b: 'b' is not a job",
        ),
        ([], "must be a table of keys: got a list"),
        ({1: 2}, "[1]: "),
    ],
)
def test_a_mistake_names_its_key_value_and_limit(tables: object, line: str, mistakes: Mistakes) -> None:
    assert any(found.startswith(line) for found in mistakes(tables)), mistakes(tables)


def test_all_errors_are_reported_together_and_invalid_entries_do_not_count_as_missing(
    mistakes: Mistakes,
) -> None:
    assert mistakes(shared_link(job(period="1"), job(name="b", arrival="2"))) == [
        "jobs[0].period: a duration needs a unit such as ms: got '1'",
        "jobs[1].arrival: a duration needs a unit such as ms: got '2'",
    ]


def test_parallel_links_need_names(mistakes: Mistakes) -> None:
    tables = two_racks(job(placement=["s1"]))
    tables["fabric"]["links"] += [
        {"ends": ["t1", "t2"], "rate": "1 Gbps"},
        {"ends": ["x", "x"], "rate": "1 Gbps"},
    ]
    assert mistakes(tables) == [
        "fabric.links[5]: 't1-t2' already names fabric.links[3]; parallel links need a name each",
        "fabric.links[6].ends: 'x' is linked to itself",
    ]


def test_beyond_twenty_errors_the_rest_are_counted(mistakes: Mistakes) -> None:
    found = mistakes(shared_link(*(job(name=f"j{number}", jitter=9) for number in range(100))))
    assert len(found) == 21
    assert found[-1] == "and 80 more mistakes"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b"", "is empty"),
        ("a.toml", b" \n", "is empty"),
        ("a.toml", b"name = \xff", "is not UTF-8 text: byte 7 is 0xff"),
        ("a.toml", b"a = 1\nb = ", "is not valid TOML: Invalid value (at"),
        ("a.toml", b"a = 1\na = 2", "is not valid TOML: Cannot overwrite a value (at"),
        ("a.json", b'{\n"a": }', "is not valid JSON: Expecting value (at line 2, column 6)"),
        ("a.json", b'{"a": NaN}', "has the number NaN; only finite numbers are allowed"),
        ("a.json", b'{"a": 1, "a": 2}', "has the key 'a' twice in one table"),
        ("a.json", b"[" * 200_000, "is nested too deeply to be a plan"),
        ("a.toml", b"a = " + b"[" * 200_000, "is nested too deeply to be a plan"),
        ("a.json", b"[]", "must be a table of keys: got a list"),
        ("a.json", b'{"seed": ' + b"9" * 5000 + b"}", "a.json: "),
        ("a.json", b'{"\\ud800": 1}', "a.json: "),
        ("a.toml", b"#" * (MAX_FILE_BYTES + 1), "is larger than the limit of 16 MB"),
    ],
)
def test_a_file_that_cannot_be_a_plan_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load_plan(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


def test_a_missing_file_or_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path, f"{tmp_path}/\0.toml"):
        with pytest.raises(InputError, match="cannot be read"):
            load_plan(path)


def test_json_and_toml_give_the_same_plan(tmp_path: Path) -> None:
    tables = shared_link(job(), vgg16())
    (tmp_path / "a.json").write_text(json.dumps(tables), encoding="utf-8-sig")
    toml = """
        link.capacity = "50 Gbps"
        [[jobs]]
        name = "a"
        period = "180 ms"
        up = [{ start = "0 ms", duration = "60 ms", rate = "30 Gbps" }]
        [[jobs]]
        name = "v"
        workload = "VGG16"
        batch_size = 1400
        workers = 2
    """
    (tmp_path / "a.toml").write_text(toml)
    parsed = parse_plan(tables, directory=tmp_path)
    assert load_plan(tmp_path / "a.json") == load_plan(str(tmp_path / "a.toml")) == parsed


def test_the_resolved_plan_shows_profiles_and_each_default_with_its_source() -> None:
    resolved = parse_plan(shared_link(job(priority=3), vgg16())).resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    assert resolved["jobs"][1]["profiles"][0]["up"] == [
        {"start": "126 ms", "duration": "148 ms", "rate": "29 Gbps"}
    ]
    defaults = {each["key"]: each for each in resolved["defaults"]}
    assert defaults["link.precision_deg"]["value"] == 0
    assert "all shifts" in defaults["link.precision_deg"]["source"]
    assert "jobs[0].priority" not in defaults
    assert defaults["jobs[1].priority"]["value"] == 0


def test_every_default_of_a_plan_has_a_source() -> None:
    defaults = parse_plan(two_racks(job(placement=["s1", "s2"]))).resolved()["defaults"]
    assert all(each["source"] for each in defaults)
    keys = {each["key"] for each in defaults}
    assert keys >= {"compat.loops", "fabric.priority_queues", "jobs[0].share", "run.iterations", "seed"}


def test_a_plan_cannot_be_changed_once_checked() -> None:
    plan = parse_plan(shared_link(job()))
    with pytest.raises(ValueError, match="frozen"):
        plan.__setattr__("seed", 2)


def test_the_schema_names_the_keys_as_they_are_written() -> None:
    schema = plan_schema()
    assert set(schema["$defs"]["Up"]["properties"]) == {"start", "duration", "rate"}
    assert schema["$defs"]["Up"]["properties"]["rate"]["type"] == "string"


def test_the_schema_allows_one_item_for_a_list_and_true_for_a_table() -> None:
    tables = plan_schema()["$defs"]
    one, several = tables["Collectives"]["properties"]["all_reduce"]["anyOf"]
    assert one["enum"] == several["items"]["enum"] == ["ring", "tree", "halving-doubling", "direct"]
    assert {"type": "boolean"} in tables["Fabric"]["properties"]["scale_up"]["anyOf"]
    assert {"type": "boolean"} in tables["RunSettings"]["properties"]["skip_ahead"]["anyOf"]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(["50 Gbps", "180 ms", "0 ms", "VGG16", "fair", "s1", "a", "s1:0", "ring", "1 MB", "f"]),
)
KNOWN_KEYS = """
    name seed link fabric compat run jobs candidates capacity precision_deg links ends rate delay period up
    start duration workload batch_size workers placement gpus share weighted adaptive priority pad_to
    first label iterations until jitter loops clos rail fat_tree dumbbell testbed scale_up racks servers k
    left right spines training collectives stragglers operations layers chakra simai model collective bytes
    after compute rank
"""
KEYS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(KNOWN_KEYS.split()),
)
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=30,
)


def places(node: Any) -> list[tuple[Any, ...]]:
    """The path of keys to each value within `node`."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    return [path for key in keys for path in [(key,), *((key, *rest) for rest in places(node[key]))]]


def mutated(tables: Tables) -> st.SearchStrategy[Tables]:
    """`tables` with the value at one place replaced by garbage."""

    def replaced(path: tuple[Any, ...], value: object) -> Tables:
        root: Tables = json.loads(json.dumps(tables))
        node: Any = root
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return root

    return st.builds(replaced, st.sampled_from(places(tables)), GARBAGE)


VALID = [
    shared_link(job(share={"weighted": 2}, gpus=["s1:0"], jitter=0.1), vgg16(batch_size=[1200, 1400])),
    two_racks(
        vgg16(placement=["s1", "s3"], gpus=["s1:0"]),
        compat={"precision_deg": 5},
        run={"until": "1 s"},
        candidates=[{"name": "c", "placement": {"v": ["s1", "s2"]}}],
    ),
    {
        "fabric": {"clos": {"racks": 2, "spines": 1, "uplink": "1 Tbps"}, "scale_up": {"rate": "1 Tbps"}},
        "jobs": [
            {
                "name": "a",
                "placement": ["s0", "s1:0"],
                "training": {"operations": [{"name": "f", "compute": "1 ms", "after": []}]},
                "collectives": {"all_reduce": ["direct", "ring"], "chunks": 2},
                "stragglers": [{"rank": 1, "slowdown": 2}],
            },
            {"name": "b", "training": {"model": "x", "parallel": {"data": 2}}},
        ],
        "candidates": [{"name": "c", "placement": {"a": ["s1"]}}],
    },
]


def plan_or_refusal(tables: object) -> Plan | str:
    try:
        return parse_plan(tables)
    except InputError as refused:
        return str(refused)


@settings(max_examples=300)
@given(st.one_of(GARBAGE, *(mutated(tables) for tables in VALID)))
def test_anything_is_a_plan_that_resolves_or_is_refused_on_printable_lines(tables: object) -> None:
    found = plan_or_refusal(tables)
    if isinstance(found, Plan):
        assert json.dumps(found.resolved())
    else:
        assert all(line.isprintable() for line in found.splitlines())
        assert re.match("plan: ", found)


@given(st.binary(max_size=200), st.sampled_from([".toml", ".json"]))
def test_any_bytes_are_a_plan_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("plans") / f"plan{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="plan"):
        load_plan(path)
