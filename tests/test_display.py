"""Results on one line and as HTML for notebooks: small, self-contained, and with names escaped."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.conftest import half, shared_link

import hocket
from hocket import Compatibility, JobProfile, Run, Sweep, Trace
from hocket.display import MOST_CHARACTERS
from hocket.profiling.job import CounterEvidence, TimelineEvidence

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "examples" / "cluster" / "snapshot.toml"
MARKUP = "<script>&"


def plan(*names: str, **tables: Any) -> dict[str, Any]:
    """Jobs with these names on one link of 50 Gbps, for 20 iterations."""
    return shared_link(*map(half, names), **{"name": "two jobs", "run": {"iterations": 20}, **tables})


@pytest.fixture(scope="module")
def trace() -> Trace:
    return hocket.load_trace(SNAPSHOT)


@pytest.fixture(scope="module")
def cluster_run(trace: Trace) -> Run:
    return hocket.simulate_cluster(trace, "themis+cassini")


@pytest.fixture(scope="module")
def profile() -> JobProfile:
    return hocket.profile(ROOT / "experiments" / "recorded-allreduce" / "two-phases.csv")


def swept(**tables: Any) -> Sweep:
    return hocket.sweep(plan("a", "b", **tables), {"seed": [1, 2]}, workers=1, cache=False)


class Whole(HTMLParser):
    """Fails on a tag that is not closed; collects the text between tags and the values of `src`, `href`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.references += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href")]
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("br", "img"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(result: Compatibility | Run | JobProfile) -> Whole:
    """Its HTML, which is small and needs no other file."""
    page = result._repr_html_()
    assert len(page) < 200_000
    whole = Whole(page)
    assert all(each.startswith(("#", "data:image/png;base64,")) for each in whole.references)
    assert "script" not in whole.tags
    return whole


def test_a_result_is_one_line(trace: Trace, cluster_run: Run, profile: JobProfile, tmp_path: Path) -> None:
    run = hocket.simulate(plan("a", "b"))
    lines = [
        (run, "<Run of 'two jobs' on the flow engine: complete, 2 jobs, 40 iterations, 6 tables>"),
        (
            Run.read(run.write(tmp_path)),
            "<Run of 'two jobs' on the flow engine: complete, 2 jobs, 40 iterations, 6 tables>",
        ),
        (
            cluster_run,
            "<Run of 'snapshot' under themis+cassini on the flow engine: "
            "complete, 3 jobs, 3,000 iterations, 9 tables>",
        ),
        (trace, "<Trace 'snapshot': 3 jobs on 8 GPUs, until all are done, seed 1>"),
        (
            profile,
            "<JobProfile of 'two-phases': period 198.26 ms, 2 Up phases, confidence 0.89, "
            "99 iterations seen>",
        ),
        (swept(), "<Sweep of 'two jobs': complete, 2 runs, 4 rows, over seed>"),
        (
            hocket.compatibility(plan("a", "b")),
            "<Compatibility of 2 jobs on 1 shared link: shifting helps, score 1.000, proven optimal, "
            "circle of 180 ms>",
        ),
    ]
    for result, line in lines:
        assert repr(result) == line
        assert len(line) < 120


def test_names_of_any_length_and_kind_leave_it_one_line(
    trace: Trace, cluster_run: Run, profile: JobProfile
) -> None:
    name = "a\n'\x1b\U0001f3b5" * 15
    given = {**cluster_run.manifest, "scheduler": "s" * 200, "plan": {"name": name}}
    wide = swept()
    results = (
        Run(cluster_run.tables, given),
        replace(trace, name=name),
        replace(profile, name=name),
        replace(wide, manifest={**wide.manifest, "axes": ["jobs.*.congestion"] * 40, "plan": {"name": name}}),
    )
    for result in results:
        line = repr(result)
        assert line.isprintable()
        assert len(line) <= MOST_CHARACTERS < 120
        assert (line[0], line[-1]) == ("<", ">")


def test_the_repr_of_a_run_that_is_read_needs_none_of_its_tables(tmp_path: Path) -> None:
    run = Run.read(hocket.simulate(plan("a")).write(tmp_path))
    (tmp_path / "iterations.parquet").unlink()
    assert "1 job, 20 iterations" in repr(run)


def test_an_answer_shows_shifts_and_circles() -> None:
    page = page_of(hocket.compatibility(plan("a", MARKUP)))
    assert {"table", "svg"} <= page.tags
    for shown in ("Score 1.000 (proven optimal)", MARKUP, "90.00", "234.00", "sharing", "shifted"):
        assert shown in page.text


def test_an_answer_without_a_shared_link_has_no_picture() -> None:
    fabric = ROOT / "examples" / "two_racks.toml"
    answer = hocket.compatibility(fabric)
    assert "svg" in page_of(answer).tags
    assert "svg" not in page_of(replace(answer, links=())).tags


def test_a_run_shows_its_jobs_and_their_iterations(cluster_run: Run) -> None:
    page = page_of(hocket.simulate(plan("a", MARKUP)))
    assert {"table", "svg"} <= page.tags
    for shown in (MARKUP, "mean (ms)", "234.00", "when each job communicates"):
        assert shown in page.text
    page = page_of(cluster_run)
    for shown in ("under themis+cassini", "ResNet50", "slowdown", "iteration times"):
        assert shown in page.text


def test_a_run_of_a_training_job_shows_what_its_ranks_did() -> None:
    page = page_of(hocket.simulate(ROOT / "examples" / "training" / "straggler.toml", engine="flow"))
    assert "svg" in page.tags
    assert "rank 3" in page.text


def test_a_run_of_many_jobs_shows_the_first_and_counts_the_others() -> None:
    names = [f"job {number}" for number in range(30)]
    page = page_of(hocket.simulate(plan(*names)))
    assert "and 10 more" in page.text
    assert "7 of 30 jobs" in page.text


def test_a_run_without_jobs_is_shown_without_table_and_picture() -> None:
    flows = pl.DataFrame({"flow": [1, 2]})
    page = page_of(Run({"flows": flows}, {"status": "complete", "engine": "packet", "study": "a/config.txt"}))
    assert "Run of 'a/config.txt' on the packet engine" in page.text
    assert page.tags & {"table", "svg", "img"} == set()


def test_a_profile_shows_its_phases_and_the_evidence(profile: JobProfile) -> None:
    assert isinstance(profile.evidence, CounterEvidence)
    page = page_of(replace(profile, name=MARKUP, notes=(MARKUP,)))
    assert {"table", "svg"} <= page.tags
    for shown in (MARKUP, "confidence 0.89", "at (Gbps)", "folded readings"):
        assert shown in page.text


def test_a_profile_from_a_profiler_trace_shows_its_collectives() -> None:
    profile = hocket.profile(ROOT / "experiments" / "recorded-trace" / "ddp.json.gz")
    assert isinstance(profile.evidence, TimelineEvidence)
    assert math.isnan(profile.bytes_per_iteration)
    page = page_of(profile)
    assert "all-reduce" in page.text
    assert "nan" not in re.findall(r"\w+", page.text)


def test_a_large_drawing_is_embedded_as_pixels() -> None:
    jobs = [f"job {number}" for number in range(24)]
    page = page_of(hocket.compatibility(plan(*jobs, link={"capacity": "400 Gbps"})))
    assert "img" in page.tags
    assert "svg" not in page.tags


def test_the_same_result_gives_the_same_html() -> None:
    pages = [hocket.simulate(plan("a", "b"))._repr_html_() for _ in range(2)]
    assert pages[0] == pages[1]
