"""Workloads of the catalogue on a plan's hosts: their number of workers and their NICs."""

import json
from pathlib import Path
from typing import Any

import pytest

from hocket import compatibility, parse_plan, simulate
from hocket.profiles import WorkloadProfile
from hocket.workloads import LINE_RATE_BPS, profile, with_nic

from .conftest import Mistakes

Tables = dict[str, Any]

GBPS = 10**9


def workload(name: str, model: str = "VGG16", batch_size: int = 1400, **keys: object) -> Tables:
    return {"name": name, "workload": model, "batch_size": batch_size, **keys}


def six_hosts(*jobs: Tables, near: str = "50 Gbps", far: str = "50 Gbps", **changes: object) -> Tables:
    """Hosts n1 to n3 with NICs of the rate `near`, and f1 to f3 with those of the rate `far`, two racks."""
    hosts = [(f"{rack}{number}", rack) for rack in "nf" for number in (1, 2, 3)]
    links = [
        {"ends": [host, f"tor-{rack}"], "rate": near if rack == "n" else far, "delay": "1 us"}
        for host, rack in hosts
    ]
    spine = {"ends": ["tor-n", "tor-f"], "rate": "50 Gbps", "delay": "1 us", "name": "spine"}
    return {"fabric": {"links": [*links, spine]}, "jobs": list(jobs), **changes}


def candidates(**placements: dict[str, list[str]]) -> list[Tables]:
    return [{"name": name, "placement": placement} for name, placement in placements.items()]


TWO_OR_THREE = candidates(
    two={"a": ["n1", "f1"], "b": ["n2", "f2"]}, three={"a": ["n1", "n2", "f1"], "b": ["n3", "f2", "f3"]}
)
ONLY_A = candidates(two={"a": ["n1", "f1"]}, three={"a": ["n1", "n2", "f1"]})
ONLY_PLACED_BY_CANDIDATES = six_hosts(
    workload("a"), workload("b", "WideResNet101", 800), candidates=TWO_OR_THREE, run={"iterations": 5}
)


def test_a_workload_that_only_candidates_place_gets_its_number_of_workers_from_each() -> None:
    plan = parse_plan(ONLY_PLACED_BY_CANDIDATES)
    found = [plan.profiles_of(plan.jobs[0], each.placement)[0] for each in plan.candidates]
    assert found == [profile("VGG16", 1400, 2), profile("VGG16", 1400, 3)]
    assert plan.profiles_of(plan.jobs[0])[0] == found[0]


def test_compat_ranks_candidates_that_give_a_workload_different_numbers_of_workers() -> None:
    answer = compatibility(ONLY_PLACED_BY_CANDIDATES)
    assert {each.name for each in answer.candidates} == {"two", "three"}
    # Each candidate scores as in a plan of its own.
    for each in TWO_OR_THREE:
        alone = compatibility({**ONLY_PLACED_BY_CANDIDATES, "candidates": [each]})
        (scored,) = (found for found in answer.candidates if found.name == each["name"])
        assert scored.score == pytest.approx(alone.score)


def test_a_run_and_its_manifest_have_the_profile_of_the_candidate() -> None:
    for name, workers in (("two", 2), ("three", 3)):
        alone = six_hosts(workload("a"), candidates=ONLY_A, run={"iterations": 5})
        run = simulate(alone, candidate=name)
        alone_ps = profile("VGG16", 1400, workers).period_ps
        assert run.tables["jobs"]["mean_iteration_s"].to_list() == [pytest.approx(alone_ps / 1e12)]
        (written,) = run.manifest["plan"]["jobs"][0]["profiles"]
        assert float(written["period"].removesuffix(" ms")) == pytest.approx(alone_ps / 1e9)


def test_fabric_and_compat_take_a_plan_whose_workloads_only_candidates_place(
    hocket: Any, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(ONLY_PLACED_BY_CANDIDATES), encoding="utf-8")
    for command in (["fabric", path], ["compat", path], ["run", path, "--candidate", "three"]):
        assert hocket(*command).code == 0


def test_the_candidate_with_an_unsupported_number_of_workers_is_named(
    mistakes: Mistakes,
) -> None:
    placed = candidates(two={"a": ["n1", "f1"]}, three={"a": ["n1", "n2", "f1"]})
    found = mistakes(six_hosts(workload("a", "GPT2", 48), candidates=placed))
    assert found == [
        "candidates[1].placement.a: 3 is outside the catalogue's numbers of workers for GPT2, 2",
    ]


@pytest.mark.parametrize("missing", ["batch_size", "workload"])
def test_a_job_on_a_fabric_without_a_required_key_is_refused_without_an_assertion(
    missing: str, mistakes: Mistakes
) -> None:
    job = {key: value for key, value in workload("a", placement=["n1", "f1"]).items() if key != missing}
    assert any("missing" in line or "needs" in line for line in mistakes(six_hosts(job)))


def sends(each: WorkloadProfile) -> list[int]:
    return [phase.size_bytes for phase in each.phases]


@pytest.mark.parametrize(
    ("model", "batch_size", "workers"), [("VGG16", 1400, 2), ("GPT3", 16, 8), ("DLRM", 512, 4)]
)
def test_a_faster_link_shortens_the_iterations_of_a_workload_and_a_slower_one_lengthens_them(
    model: str, batch_size: int, workers: int
) -> None:
    measured = profile(model, batch_size, workers)
    found = {}
    for gbps in (10, 25, 50, 100, 400):
        plan = parse_plan(
            {
                "link": {"capacity": f"{gbps} Gbps"},
                "jobs": [workload("a", model, batch_size, workers=workers)],
            }
        )
        (found[gbps],) = plan.profiles_of(plan.jobs[0])
        assert all(phase.rate_bps <= gbps * GBPS for phase in found[gbps].phases)
        assert sends(found[gbps]) == pytest.approx(sends(measured), rel=1e-9)
    assert found[50] == measured
    periods = [each.period_ps for each in found.values()]
    assert periods == sorted(periods, reverse=True)
    assert len(set(periods)) == len(periods)


def test_compute_within_an_up_phase_takes_the_same_time_with_any_nic() -> None:
    # 148 ms at 29 Gbps are 4,292 Mbit: 85.84 ms of a NIC of 50 Gbps, and 62.16 ms of compute.
    (phase,) = profile("VGG16", 1400, 2, nic_bps=100 * GBPS).phases
    assert (phase.start_ps, phase.duration_ps) == (126 * GBPS, round((62.16 + 42.92) * GBPS))
    (phase,) = profile("VGG16", 1400, 2, nic_bps=25 * GBPS).phases
    assert (phase.start_ps, phase.duration_ps) == (126 * GBPS, round((62.16 + 171.68) * GBPS))


def test_faster_gpus_shorten_compute_but_not_sending() -> None:
    measured = profile("VGG16", 1400, 2)
    faster = with_nic(measured, LINE_RATE_BPS.value, LINE_RATE_BPS.value, speed=2)
    assert faster.period_ps == round((126 / 2 + 62.16 / 2 + 85.84) * GBPS)
    assert sends(faster) == pytest.approx(sends(measured), rel=1e-9)


def test_on_a_fabric_a_workload_sends_at_the_rate_of_the_slowest_nic_of_its_hosts() -> None:
    plan = parse_plan(
        six_hosts(
            workload("a", placement=["n1", "n2"]),
            workload("b", placement=["n3", "f3"]),
            near="100 Gbps",
            far="25 Gbps",
        )
    )
    found = [plan.profiles_of(job)[0] for job in plan.jobs]
    assert found == [
        profile("VGG16", 1400, 2, nic_bps=100 * GBPS),
        profile("VGG16", 1400, 2, nic_bps=25 * GBPS),
    ]


def test_the_key_nic_overrides_the_link() -> None:
    plan = parse_plan({"link": {"capacity": "400 Gbps"}, "jobs": [workload("a", workers=2, nic="50 Gbps")]})
    assert plan.profiles_of(plan.jobs[0]) == (profile("VGG16", 1400, 2),)


def test_a_nic_faster_than_the_hosts_and_a_nic_of_a_job_with_up_phases_are_refused(
    mistakes: Mistakes,
) -> None:
    assert mistakes(six_hosts(workload("a", placement=["n1", "f1"], nic="100 Gbps"))) == [
        "jobs[0].placement: the job's nic of 100 Gbps is above the 50 Gbps of the NIC of 'n1'"
    ]
    explicit = {"name": "a", "period": "1 s", "up": [], "nic": "50 Gbps"}
    assert mistakes({"link": {"capacity": "50 Gbps"}, "jobs": [explicit]}) == [
        "jobs[0].nic: belongs to a workload of the catalogue, and this job names none"
    ]


def test_padding_is_compared_with_the_period_on_the_nics_of_the_job(mistakes: Mistakes) -> None:
    padded = workload("a", placement=["n1", "f1"], pad_to="300 ms")
    assert parse_plan(six_hosts(padded))
    (line,) = mistakes(six_hosts(padded, far="25 Gbps"))
    assert line == "jobs[0].placement: the job's pad_to of 300 ms is shorter than the period of 359.84 ms"
