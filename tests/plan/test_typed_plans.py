"""Plans that are built in Python: what type checkers know, that they equal plans read from files, and that
what is wrong with them is said in the same sentence.
"""

import inspect
import re
import tomllib
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from mypy import api
from pydantic import BaseModel
from tests.plan.typed_plans import changed, on_a_fabric, on_a_link, shifted, training

import hocket
from hocket.errors import InputError
from hocket.plan import (
    Candidate,
    Clos,
    Dcqcn,
    Dumbbell,
    Fabric,
    FabricLink,
    First,
    Job,
    Lingjun,
    Link,
    Plan,
    Share,
    StaticWindow,
    Switch,
    Up,
    load_plan,
    parse_plan,
)
from hocket.plan.congestion import Congestion, Control, Policy
from hocket.plan.job import IN_SECONDS
from hocket.plan.schema import Table
from hocket.plan.table_errors import tables_in
from hocket.units import Quantity, Rate, Size, gbps, kb, mb, ms, seconds, us

ROOT = Path(__file__).parents[2]
TYPED = Path(__file__).with_name("typed_plans.py")
UP = Up("0 ms", "90 ms", "40 Gbps")
HALF = Job("a", period="180 ms", up=[UP])
LINK = Link("50 Gbps")
ERROR = re.compile(r"^.*?:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
MARK = re.compile(r"  # type: ignore\[([a-z-]+)\]$")


def test_mypy_rejects_exactly_the_lines_that_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = TYPED.read_text(encoding="utf-8").splitlines()
    marks = ((number, MARK.search(line)) for number, line in enumerate(lines, start=1))
    expected = [(number, mark[1]) for number, mark in marks if mark]
    unmarked = tmp_path / "unmarked.py"
    unmarked.write_text("\n".join(MARK.sub("", line) for line in lines), encoding="utf-8")
    # With the configuration of `make lint`, and so with its cache.
    monkeypatch.chdir(ROOT)
    printed, failed, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(unmarked)])
    assert not failed
    assert [(int(number), code) for number, code in ERROR.findall(printed)] == expected


def tables(table: type[BaseModel]) -> set[type[BaseModel]]:
    """`table` and all tables in it."""
    found = {table}
    for field in table.model_fields.values():
        for below in tables_in(field.annotation):
            found |= tables(below)
    return found


@pytest.mark.parametrize("table", sorted(tables(Plan) - {Congestion}, key=str))
def test_a_constructor_takes_the_keys_of_the_file(table: type[BaseModel]) -> None:
    assert not table.__pydantic_custom_init__, "files are read without it"
    keys = [field.alias or name for name, field in table.model_fields.items()]
    # One key is given by two names.
    keys += IN_SECONDS if table is Job else ()
    parameters = inspect.signature(table.__init__).parameters
    assert sorted(parameters) == sorted(["self", *keys])
    required = [field.alias or name for name, field in table.model_fields.items() if field.is_required()]
    assert sorted(required) == sorted(
        key for key, each in parameters.items() if key != "self" and each.default is each.empty
    )


def test_names_of_congestion_controls_are_those_of_their_tables() -> None:
    fields = Congestion.model_fields
    assert list(get_args(Policy)) == [field.alias or name for name, field in fields.items()]
    assert set(get_args(Control)) == {
        table for field in fields.values() for table in tables_in(field.annotation)
    }


PLANS = [on_a_link, on_a_fabric, training]


@pytest.mark.parametrize("plan", [build() for build in PLANS], ids=[build.__name__ for build in PLANS])
def test_a_plan_equals_the_plan_read_from_its_tables(plan: Plan) -> None:
    assert parse_plan(plan.to_dict()) == plan
    assert parse_plan(tomllib.loads(plan.to_toml())) == plan
    assert parse_plan(plan.to_dict()).resolved() == plan.resolved()
    assert plan.replace() == plan
    assert plan.replace().resolved() == plan.resolved()


FILES = sorted(path for path in ROOT.glob("examples/**/*.toml") if "cluster" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plan_from_a_file_is_written_as_the_same_plan(path: Path, tmp_path: Path) -> None:
    plan = load_plan(path)
    assert parse_plan(tomllib.loads(plan.to_toml()), directory=path.parent) == plan
    assert parse_plan(plan.to_dict(), directory=path.parent).resolved() == plan.resolved()
    assert plan.replace() == plan
    assert len(repr(plan)) < 200
    assert "\n" not in f"{plan!r}{plan.jobs}{plan.fabric}"


def refusal(build: Callable[[], object]) -> list[str]:
    with pytest.raises(InputError) as raised:
        build()
    return str(raised.value).splitlines()


PHASE = UP.to_dict()
HALF_TABLE = HALF.to_dict()
WRONG: dict[str, tuple[type[Table], dict[str, object]]] = {
    "no unit": (Link, {"capacity": "50"}),
    "a number for a rate": (Link, {"capacity": 50}),
    "a number for a duration": (Link, {"capacity": "50 Gbps", "delay": 0.5}),
    "a quantity of another kind": (Link, {"capacity": ms(3)}),
    "a rate of zero": (Link, {"capacity": gbps(0)}),
    "a number above the largest": (Link, {"capacity": "1 Gbps", "precision_deg": 91}),
    "an unknown key": (Link, {"capacity": "1 Gbps", "dealy": "1 us"}),
    "a missing key": (Link, {}),
    "several mistakes": (Link, {"capacity": "0 Gbps", "delay": 3, "priority_queues": 0, "dealy": 1}),
    "a negative time": (Up, {**PHASE, "start": "-1 ms"}),
    "a flag": (Up, {**PHASE, "duration": True}),
    "a unit in the wrong case": (Up, {**PHASE, "duration": "90 MS"}),
    "a number for text": (Job, {"name": 3}),
    "a name of nothing": (Job, {"name": " "}),
    "a name with a surrogate": (Job, {"name": "\ud800"}),
    "a key with a surrogate": (Job, {"name": "a", "\ud800": 1}),
    "a number for a list": (Job, {"name": "a", "up": 3}),
    "text for a list": (Job, {"name": "a", "placement": "s0"}),
    "an empty list": (Job, {"name": "a", "placement": []}),
    "a value in a list": (Job, {"name": "a", "up": [PHASE, {**PHASE, "rate": "40"}]}),
    "an unknown key in a list": (Job, {"name": "a", "up": [{**PHASE, "rtae": 1}]}),
    "a fraction for a whole number": (Job, {"name": "a", "batch_size": 2.5}),
    "a path that is no choice": (Job, {"name": "a", "path": "ecpm"}),
    "a congestion control that is no choice": (Job, {"name": "a", "congestion": "cubic"}),
    "a share that is no choice": (Job, {"name": "a", "share": "weighted"}),
    "a share that is too heavy": (Job, {"name": "a", "share": {"weighted": 4096}}),
    "a window of nothing": (Job, {"name": "a", "window": kb(0)}),
    "a window of a rate": (Job, {"name": "a", "window": gbps(1)}),
    "headroom of a rate": (Switch, {"headroom": gbps(1)}),
    "keys in the wrong order": (
        Switch,
        {"marking": [{"rate": "1 Gbps", "minimum": kb(2), "maximum": kb(1), "probability": 1}]},
    ),
    "a control's window of nothing": (StaticWindow, {"window": "0 B"}),
    "text for a seed": (Plan, {"link": LINK.to_dict(), "jobs": [HALF_TABLE], "seed": "1"}),
    "no jobs": (Plan, {"link": LINK.to_dict(), "jobs": []}),
    "neither link nor fabric": (Plan, {"jobs": [HALF_TABLE]}),
    "mistakes between keys": (
        Plan,
        {"link": {"capacity": "30 Gbps"}, "jobs": [HALF_TABLE, {**HALF_TABLE, "period": "1 ms"}]},
    ),
    "more mistakes than are shown": (Plan, {"link": LINK.to_dict(), "jobs": [HALF_TABLE] * 30}),
}


def in_a_file(value: Any) -> Any:
    """`value` with its quantities as text."""
    match value:
        case dict():
            return {key: in_a_file(each) for key, each in value.items()}
        case list():
            return [in_a_file(each) for each in value]
        case Quantity():
            return str(value)
        case _:
            return value


def plan_with(kind: type[Table], table: dict[str, object]) -> tuple[dict[str, object], str]:
    """Tables of a plan with this one in its place, and the path to it."""
    plan: dict[str, object] = {"link": LINK.to_dict(), "jobs": [HALF_TABLE]}
    if kind is Link:
        return {**plan, "link": table}, "link"
    if kind is Switch:
        return {**plan, "switch": table}, "switch"
    if kind is Job:
        return {**plan, "jobs": [table]}, "jobs[0]"
    if kind is Up:
        return {**plan, "jobs": [{**HALF_TABLE, "up": [table]}]}, "jobs[0].up[0]"
    if kind is StaticWindow:
        path = "jobs[0].congestion.static-window"
        return {**plan, "jobs": [{**HALF_TABLE, "congestion": {"static-window": table}}]}, path
    return table, ""


@pytest.mark.parametrize(("kind", "table"), WRONG.values(), ids=WRONG)
def test_a_constructor_reports_the_same_errors_as_a_file(kind: type[Table], table: dict[str, object]) -> None:
    tables, path = plan_with(kind, in_a_file(table))
    of_file = refusal(lambda: parse_plan(tables, source="plan.toml"))
    start = re.compile(rf"plan\.toml: {re.escape(path)}[.:]? ?")
    assert refusal(lambda: kind(**table)) == [start.sub("", line, count=1) for line in of_file]


def test_a_plan_of_objects_reports_the_same_errors_as_a_file() -> None:
    jobs = [
        HALF,
        HALF.replace(period=ms(1)),
        Job("c", workload="VGG61", batch_size=1, workers=2),
        HALF.replace(name="d", up=[UP, Up("60 ms", "1 ms", gbps(51))]),
    ]
    lines = refusal(lambda: Plan(link=LINK, jobs=jobs))
    assert lines[0] == "jobs[1].name: 'a' is already the name of jobs[0]"
    assert lines[-1] == "jobs[3].up[1].start: 60 ms is before up[0] ends at 90 ms"
    tables = {"link": LINK.to_dict(), "jobs": [job.to_dict() for job in jobs]}
    assert lines == [line.removeprefix("plan: ") for line in refusal(lambda: parse_plan(tables))]


def test_a_single_table_is_not_accepted_as_a_list() -> None:
    job: Any = Job
    plan: Any = Plan
    assert refusal(lambda: job("a", up=UP)) == ["up: must be a list: got a Up"]
    assert refusal(lambda: plan(link=LINK, jobs=HALF)) == ["jobs: must be a list: got a Job"]


def test_too_many_positional_arguments_are_a_type_error() -> None:
    link: Any = Link
    job: Any = Job
    with pytest.raises(TypeError, match="Link takes 1 positional argument, capacity: got 2"):
        link("50 Gbps", "500 ns")
    with pytest.raises(TypeError, match="multiple values for keyword argument 'name'"):
        job("a", name="b")


def test_text_and_quantities_make_the_same_plan() -> None:
    assert Up(ms(0), seconds(0.09), gbps(40)) == UP
    assert Link(Rate("50 Gb/s"), delay=us(0.5)).to_dict() == {"capacity": "50 Gbps", "delay": "500 ns"}
    assert Job("a", window=kb(64)).window == 64_000
    assert Switch(headroom=Size("50 kB"), buffer=mb(16)).headroom == 50_000
    assert Dcqcn(byte_counter=mb(10), cut_check="off").to_dict() == {
        "byte_counter": "10 MB",
        "cut_check": "off",
    }
    assert parse_plan({"link": {"capacity": gbps(50)}, "jobs": [HALF.to_dict()]}).link == LINK


def test_none_leaves_a_key_out() -> None:
    job = Job("a", period="180 ms", up=[UP], time_shift=None, jitter=None)
    assert job.to_dict() == HALF.to_dict()
    later = job.replace(time_shift="90 ms")
    assert later.time_shift_ps == ms(90).ps
    assert later.replace(time_shift=None).to_dict() == HALF.to_dict()


def test_a_control_is_accepted_in_place_of_its_table() -> None:
    by_name, by_table = Job("a", congestion="static-window"), Job("a", congestion=StaticWindow())
    assert by_name.congestion == by_table.congestion
    assert by_table.to_dict() == {"name": "a", "congestion": "static-window"}


def test_one_batch_size_is_written_as_a_number() -> None:
    job = Job("a", workload="VGG19", batch_size=[1400], workers=2, time_shift="0 ms")
    assert job.to_dict() == {
        "name": "a",
        "workload": "VGG19",
        "batch_size": 1400,
        "workers": 2,
        "time_shift": "0 s",
    }
    assert Job("a", workload="VGG19", batch_size=[1200, 1400]).to_dict()["batch_size"] == [1200, 1400]


def test_a_share_out_of_range_cannot_be_made() -> None:
    share: Any = Share
    for build, message in (
        (lambda: Share("weighted", 4096), "a weight must be between 1/64 and 1024: got weighted = 4096"),
        (
            lambda: share("adaptve"),
            "must be \"fair\", { weighted = 2.0 } or { adaptive = 1.0 }: got 'adaptve'",
        ),
    ):
        assert refusal(build) == [message]


def test_replace_returns_a_new_plan_that_is_checked() -> None:
    plan = on_a_link()
    after = changed(plan)
    assert (after.seed, after.run.iterations, after.link) == (2, None, Link("40 Gbps"))
    assert [job.time_shift_ps for job in after.jobs] == [None, None]
    assert (plan.seed, plan.run.iterations, plan.link) == (1, 5, Link("50 Gbps", delay=us(1)))
    assert refusal(lambda: plan.replace(jobs=[])) == ["jobs: has too few entries: got 0, at least 1 needed"]


def test_a_shifted_plan_runs_as_predicted() -> None:
    plan = on_a_link().replace(jobs=[HALF, HALF.replace(name="b")])
    answer = hocket.compatibility(plan)
    assert [job.time_shift_ps for job in plan.shifted(answer).jobs] == [0, ms(90).ps]
    assert (
        shifted(plan).tables["jobs"]["mean_iteration_s"].to_list()
        == answer.prediction["shifted_mean_s"].to_list()
    )


def test_a_shifted_plan_has_the_chosen_placement_and_batch_sizes() -> None:
    servers = {
        "apart": {"a": ["s0", "s2"], "b": ["s1", "s3"]},
        "inside": {"a": ["s0", "s1"], "b": ["s2", "s3"]},
    }
    up = [Up("0 ms", "60 ms", "40 Gbps")]
    plan = Plan(
        fabric=Fabric(dumbbell=Dumbbell(left=2, right=2, nic="50 Gbps", bottleneck="50 Gbps")),
        jobs=[Job(name, period="100 ms", up=up) for name in "ab"],
        candidates=[Candidate(name, placement) for name, placement in servers.items()],
    )
    answer = hocket.compatibility(plan)
    best = servers[answer.candidates[0].name]
    after = plan.shifted(answer)
    assert {job.name: list(job.placement or ()) for job in after.jobs} == best
    assert after.candidates == ()
    assert "candidates" not in after.to_dict()
    for other in (plan.replace(candidates=[Candidate("other", best)]), on_a_link().replace(jobs=[HALF])):
        assert refusal(partial(other.shifted, answer))[0].startswith("the answer is about a ")

    sizes = Plan(
        link=Link("50 Gbps"),
        jobs=[Job(name, workload="VGG16", batch_size=[512, 1400], workers=2) for name in "ab"],
    )
    answer = hocket.compatibility(sizes)
    chosen = {job.name: (job.batch_size,) for job in answer.jobs}
    assert {job.name: job.batch_size for job in sizes.shifted(answer).jobs} == chosen


def test_a_replaced_plan_keeps_the_directory_of_its_relative_paths(tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text("ip,DSW,PSW,ASW\na,D1,P1,S1\nb,D1,P1,S2\n")
    (tmp_path / "plan.toml").write_text(
        """
        [fabric.lingjun]
        file = "small.csv"

        [[jobs]]
        name = "a"
        placement = ["s0:0", "s1:0"]
        period = "180 ms"
        up = [{ start = "0 ms", duration = "90 ms", rate = "40 Gbps" }]
        """
    )
    plan = load_plan(tmp_path / "plan.toml")
    for same in (plan.replace(seed=2), Plan(fabric=plan.fabric, jobs=plan.jobs)):
        assert same.files() == (tmp_path / "small.csv",)
    assert plan.replace(seed=2).directory == tmp_path
    assert plan.fabric == load_plan(tmp_path / "plan.toml").fabric
    built = Fabric(lingjun=Lingjun(file=str(tmp_path / "small.csv")))
    assert Plan(fabric=built, jobs=plan.jobs).files() == plan.files()


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (UP, "Up('0 s', '90 ms', '40 Gbps')"),
        (LINK, "Link('50 Gbps')"),
        (HALF, "Job('a', period='180 ms', 1 Up phase)"),
        (
            HALF.replace(placement=["s0", "s1"], share={"weighted": 2.0}, congestion=Dcqcn(gain=0.5)),
            "Job('a', period='180 ms', 1 Up phase, placement=['s0', 's1'], share={'weighted': 2.0}, "
            "congestion=Congestion(dcqcn=Dcqcn(gain=0.5)))",
        ),
        (
            HALF.replace(gpus=[f"s{n}:0" for n in range(100)]),
            "Job('a', period='180 ms', 1 Up phase, gpus=<100 entries>)",
        ),
        (
            Candidate("one", {name: ["s0", "s1"] for name in "abc"}),
            "Candidate('one', <3 entries>)",
        ),
        (Fabric(clos=Clos(racks=4)), "Fabric(clos=Clos(racks=4))"),
        (Fabric(links=[FabricLink(("s0", "s1"), "1 Gbps")]), "Fabric(links=<1 entry>)"),
        (Plan(link=LINK, jobs=[HALF]), "Plan(1 job on one link of 50 Gbps)"),
        (on_a_fabric(), "Plan('a name', 3 jobs on a fabric of 3 hosts)"),
        (First(period="1 ms", up=[UP, UP]), "First(period='1 ms', up=<2 entries>)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_is_shown_on_one_line(table: object, text: str) -> None:
    assert repr(table) == str(table) == text
    assert repr(copy(table)) == text
