"""What `hocket fabric` says and draws of a plan's fabric."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from hocket import parse_plan
from hocket.fabrics import Cable, from_cables, tiers_of
from hocket.fabrics.report import placed, places
from hocket.figures.fabric import candidates_figure, fabric_figure
from hocket.figures.palette import JOB_COLOURS

Command = Callable[..., Any]
Tables = dict[str, Any]


def benchmark(name: str, *placement: str) -> Tables:
    job = {"name": name, "training": {"collective": "all-to-all", "bytes": "1 MB"}}
    return {**job, "placement": list(placement)} if placement else job


def drawn(fabric: Tables, *jobs: Tables) -> Figure:
    topology, on = placed(parse_plan({"fabric": fabric, "jobs": list(jobs) or [benchmark("a")]}))
    return fabric_figure(topology, on)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def gpus_of_colour(figure: Figure, colour: str, panel: int = 0) -> int:
    areas = [each for each in figure.axes[panel].collections if isinstance(each, PolyCollection)]
    # An area has one colour, an array of one row.
    own = [area for area in areas if to_hex(tuple(np.asarray(area.get_facecolor())[0])) == colour]
    return sum(len(area.get_paths()) for area in own)


def test_tiers_have_the_cables_below_and_above_each_switch() -> None:
    tors, spines = tiers_of(
        placed(parse_plan({"fabric": {"clos": {"racks": 2}}, "jobs": [benchmark("a")]}))[0]
    )
    assert (tors.names(), tors.below(), tors.above()) == ("tor0 … tor1", "16 × 200 Gbps", "16 × 200 Gbps")
    assert tors.oversubscription() == "1:1"
    assert (spines.below(), spines.above(), spines.oversubscription()) == ("4 × 200 Gbps", "", "")


def test_switches_that_differ_are_shown_as_a_range() -> None:
    ends = [("a", "t"), ("b", "t"), ("c", "u"), ("t", "u")]
    (tier,) = tiers_of(from_cables(Cable(pair, 100 * 10**9, 0) for pair in ends))
    assert tier.below() == "100 Gbps to 2 × 100 Gbps"
    assert tier.oversubscription() == "1:1 to 2:1"


def test_places_name_a_server_instead_of_all_its_gpus() -> None:
    fabric = {"clos": {"racks": 4, "gpus_per_server": 2}}
    topology, _ = placed(parse_plan({"fabric": fabric, "jobs": [benchmark("a")]}))
    assert places(topology, topology.gpus) == "s0 … s7"
    assert places(topology, ("s0:0", "s0:1", "s1:0", "s3:1", "s3:0")) == "s0, s1:0, s3:1, s3:0"
    every_other = [f"s{number}:0" for number in range(8)]
    assert places(topology, every_other) == "s0:0, s1:0, s2:0, s3:0, s4:0, s5:0, and 2 more"


def test_a_picture_shows_every_gpu_in_the_colour_of_its_job() -> None:
    figure = drawn(
        {"clos": {"racks": 8}, "scale_up": True},
        benchmark("a", *(f"s{number}" for number in range(10))),
        benchmark("b", "s9", "s10:0"),
    )
    assert gpus_of_colour(figure, JOB_COLOURS[0]) == 80
    assert gpus_of_colour(figure, JOB_COLOURS[1]) == 9
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["a, 80 GPUs", "b, 9 GPUs", "scale-up switch: 1.6 Tbps per GPU, 25 ns"]
    assert {"s0", "s15", "tor7", "spine7", "each line\n8 × 200 Gbps"} <= set(texts(figure))


def servers_in(figure: Figure) -> list[str]:
    return [text for text in texts(figure) if text.startswith("s") and text[1:].isdigit()]


def test_a_picture_of_8192_gpus_shows_how_much_it_leaves_out() -> None:
    figure = drawn({"clos": {"racks": 512}, "scale_up": True}, benchmark("a", "s0"))
    servers = servers_in(figure)
    assert servers[-2:] == ["s1022", "s1023"], "the last rack is drawn"
    found = texts(figure)
    assert f"… {1024 - len(servers):,} servers without a job" in found
    tors = [text for text in found if text.startswith("tor")]
    assert f"512 switches\n{512 - len(tors)} not drawn\nover-subscription 1:1" in found


def test_a_server_with_a_job_is_drawn_wherever_it_is() -> None:
    on = [f"s{number}" for number in (300, 301, 700)]
    figure = drawn({"clos": {"racks": 512}, "scale_up": True}, benchmark("a", *on))
    assert gpus_of_colour(figure, JOB_COLOURS[0]) == 24
    assert set(on) <= set(servers_in(figure))
    gaps = [text for text in texts(figure) if text.endswith("servers without a job")]
    left_out = sum(int(text.split()[1].replace(",", "")) for text in gaps)
    assert left_out + len(servers_in(figure)) == 1024


def test_a_job_on_every_server_leaves_none_out() -> None:
    figure = drawn(
        {"clos": {"racks": 64, "servers_per_rack": 4}}, benchmark("a", *(f"s{n}" for n in range(256)))
    )
    assert gpus_of_colour(figure, JOB_COLOURS[0]) == 256 * 8
    assert not any("without a job" in text for text in texts(figure))


@pytest.mark.parametrize(("racks", "lines"), [(16, 16 * 4), (512, 0)])
def test_lines_above_the_racks_are_drawn_whole_or_not_at_all(racks: int, lines: int) -> None:
    figure = drawn({"clos": {"racks": racks, "spines": 4}})
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    ends = [arrow._posA_posB for arrow in arrows]  # type: ignore[attr-defined]
    assert sum(low[1] > 0 for low, _ in ends) == lines
    assert any(text.startswith(f"{racks * 4:,} lines") for text in texts(figure)) == (lines == 0)


def test_candidates_have_a_panel_each_and_a_job_its_colour_in_all() -> None:
    topology, _ = placed(parse_plan({"fabric": {"clos": {"racks": 2}}, "jobs": [benchmark("a")]}))
    one, other = topology.servers["s0"], topology.servers["s3"]
    figure = candidates_figure(topology, {"left": {"a": one, "b": other}, "right": {"a": other, "b": ()}})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["left", "right"]
    counts = [[gpus_of_colour(figure, colour, panel) for colour in JOB_COLOURS[:2]] for panel in (0, 1)]
    assert counts == [[8, 8], [8, 0]]


def test_a_picture_names_each_rate_where_they_differ() -> None:
    rates = {"a": "50 Gbps", "b": "25 Gbps", "c": "100 Gbps"}
    links = [{"ends": [host, "t"], "rate": rate} for host, rate in rates.items()]
    found = texts(drawn({"links": links}))
    assert set(rates.values()) <= set(found)


def test_long_names_lose_their_middle_so_that_they_stay_in_their_boxes() -> None:
    names = ("rack-17-server-0123", "s1")
    found = texts(drawn({"links": [{"ends": [name, "leaf-switch-01"], "rate": "1 Gbps"} for name in names]}))
    assert {"rack…0123", "s1", "leaf…h-01"} <= set(found)


@pytest.mark.parametrize(
    "fabric",
    [
        {"dumbbell": {"left": 1, "right": 1}},
        {"testbed": "cassini"},
        {"fat_tree": {"k": 8}},
        {"rail": {"servers": 1024, "servers_per_unit": 32, "spines": 64}, "scale_up": True},
        {"clos": {"racks": 1, "servers_per_rack": 500, "spines": 0}},
        {"links": [{"ends": [f"t{n}", f"t{(n + 1) % 5}"], "rate": "1 Gbps"} for n in range(5)]
         + [{"ends": [f"h{n}", f"t{n}"], "rate": "1 Gbps"} for n in range(5)]},
    ],
)  # fmt: skip
def test_every_shape_can_be_drawn(fabric: Tables, tmp_path: Path) -> None:
    figure = drawn(fabric, *(benchmark(f"job {number}") for number in range(20)))
    figure.savefig(tmp_path / "fabric.png")
    width, height = figure.get_size_inches()
    assert width <= 18
    assert height <= 12


def test_the_command_prints_tiers_and_places_and_draws(hocket: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"fabric": {"testbed": "cassini"}, "jobs": [benchmark("a", "s0", "s1", "s2")]})
    )
    outcome = hocket("fabric", plan, "--figure", tmp_path / "fabric.svg")
    assert outcome.code == 0
    assert "plan.json: 24 GPUs in servers: 24 of 1" in outcome.out
    assert "tor0 … tor5    4 × 50 Gbps  2 × 50 Gbps       6                2:1" in outcome.out
    assert "s0 … s2" in outcome.out
    assert (tmp_path / "fabric.svg").read_text().startswith("<?xml")
    answer = hocket("fabric", plan, "--json").json()
    assert (answer["gpus"], answer["servers"], answer["links"]) == (24, 24, 48)
    assert answer["tiers"][0]["switches"]["tor5"] == {
        "below_bps": 200 * 10**9,
        "above_bps": 100 * 10**9,
        "below": "4 × 50 Gbps",
        "above": "2 × 50 Gbps",
    }
    assert answer["jobs"] == {"a": ["s0", "s1", "s2"]}


def test_the_command_refuses_a_plan_without_a_fabric_and_a_picture_of_an_unknown_format(
    hocket: Command, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"link": {"capacity": "1 Gbps"}, "jobs": [{"name": "a", "period": "1 s", "up": []}]})
    )
    outcome = hocket("fabric", plan)
    assert outcome.code == 2
    assert outcome.err.endswith("fabric: the plan has no [fabric], only one [link] that all jobs share\n")
    assert "a figure is one of .svg, .png, .pdf" in hocket("fabric", plan, "--figure", "fabric.txt").err
