"""The catalogue: the paper's table, the calibration points, and plausible values in between."""

import re
from dataclasses import fields, is_dataclass
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.profiles import WorkloadProfile
from hocket.workloads import (
    CATALOGUE,
    Sourced,
    calibrated_workers,
    catalogue_frame,
    figure_3_profile,
    find_model,
    profile,
)
from hocket.workloads.strategies import LINE_RATE_BPS, ring_all_reduce_share

MS = 10**9
GBPS = 10**9

# Copied by hand from NSDI'24 Table 3: memory in MB, batch size per GPU, parallelisation.
TABLE_3 = {
    "VGG11": ((507, 507), (512, 1800), "data parallel"),
    "VGG16": ((528, 528), (512, 1800), "data parallel"),
    "VGG19": ((549, 549), (512, 1800), "data parallel"),
    "WideResNet101": ((243, 243), (256, 1200), "data parallel"),
    "ResNet50": ((98, 98), (256, 1800), "data parallel"),
    "BERT": ((450, 450), (8, 32), "data parallel"),
    "RoBERTa": ((800, 800), (8, 32), "data parallel"),
    "CamemBERT": ((266, 266), (8, 32), "data parallel"),
    "XLM": ((1116, 1116), (4, 32), "data parallel"),
    "GPT1": ((650, 9000), (32, 80), "model parallel"),
    "GPT2": ((1623, 27000), (32, 80), "model parallel"),
    "GPT3": ((1952, 155000), (16, 48), "model parallel"),
    "DLRM": ((890, 1962), (16, 1024), "model parallel"),
}

# The consistent reading of NSDI'24 Table 2 and HotNets'22 Table 1: period, Up in ms, rate in Gbps.
CONSISTENT_READING = [
    ("WideResNet101", 800, 274, 138, 29),
    ("VGG16", 1400, 274, 148, 29),
    ("VGG19", 1400, 330, 168, 33),
    ("VGG16", 1700, 330, 163, 33),
    ("ResNet50", 1600, 165, 55, 6),
    ("VGG19", 1024, 270, 166, 35),
    ("VGG16", 1200, 270, 168, 35),
    ("RoBERTa", 12, 200, 160, 32),
]


def choices() -> list[tuple[str, str, int]]:
    """Each model with each of its strategies and the most workers it runs on."""
    return [
        (model.name, strategy.name, strategy.workers.value[-1])
        for model in CATALOGUE.values()
        for strategy in model.strategies.values()
    ]


def test_the_catalogue_equals_table_3_of_the_paper() -> None:
    found = {
        model.name: (model.memory_mb.value, model.batch_sizes.value, model.parallelisation.value)
        for model in CATALOGUE.values()
    }
    assert found == TABLE_3


@pytest.mark.parametrize(("name", "batch_size", "period_ms", "up_ms", "rate_gbps"), CONSISTENT_READING)
def test_each_calibration_point_is_reproduced_on_its_number_of_workers(
    name: str, batch_size: int, period_ms: int, up_ms: int, rate_gbps: int
) -> None:
    found = profile(name, batch_size, calibrated_workers(name, batch_size))
    assert found.period_ps == period_ms * MS
    assert [(phase.duration_ps, phase.rate_bps) for phase in found.phases] == [(up_ms * MS, rate_gbps * GBPS)]


@pytest.mark.parametrize("name", ["VGG11", "VGG16", "VGG19"])
@pytest.mark.parametrize("workers", [2, 3, 4, 12, 24])
@pytest.mark.parametrize("batch_size", [512, 1024, 1200, 1400, 1700, 1800])
def test_a_data_parallel_model_sends_a_ring_all_reduce_of_its_parameters(
    name: str, workers: int, batch_size: int
) -> None:
    # The memory of these models in Table 3 is that of their parameters in 32 bits.
    parameters_mb = TABLE_3[name][0][0]
    due_mb = float(ring_all_reduce_share(workers)) * parameters_mb
    assert profile(name, batch_size, workers).size_bytes / 1e6 == pytest.approx(due_mb, rel=0.12)


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        (("WideResNet101", 800), ("VGG16", 1400), 0.99),
        (("VGG19", 1024), ("VGG16", 1200), 0.91),
        (("RoBERTa", 12), ("RoBERTa", 12), 0.83),
    ],
)
def test_pairs_of_table_2_reach_the_scores_of_the_consistent_reading(
    first: tuple[str, int], second: tuple[str, int], score: float
) -> None:
    one, other = (profile(*each, calibrated_workers(*each)) for each in (first, second))
    (a,), (b,) = one.phases, other.phases
    # With both Up phases as far apart as possible, they overlap by what does not fit in the period.
    overlap = max(a.duration_ps + b.duration_ps - one.period_ps, 0) / one.period_ps
    excess = max(a.rate_bps + b.rate_bps - LINE_RATE_BPS.value, 0) / LINE_RATE_BPS.value
    assert 1 - overlap * excess == pytest.approx(score, abs=0.01)


def test_snapshot_5_scores_near_the_papers_0_6_when_its_periods_drift_past_each_other() -> None:
    models = [("BERT", 8), ("VGG19", 1400), ("WideResNet101", 800)]
    jobs = [profile(*each, calibrated_workers(*each)) for each in models]
    mean_excess = 0.0
    for count in range(len(jobs) + 1):
        for sending in combinations(jobs, count):
            probability = 1.0
            for job in jobs:
                up = job.up_ps / job.period_ps
                probability *= up if any(job is each for each in sending) else 1 - up
            demand = sum(job.phases[0].rate_bps for job in sending)
            mean_excess += probability * max(demand / LINE_RATE_BPS.value - 1, 0)
    assert 1 - mean_excess == pytest.approx(0.6, abs=0.05)


def test_two_fairly_sharing_vgg19_jobs_slow_down_by_the_1_23_of_hotnets_figure_1() -> None:
    alone = profile("VGG19", 1024, 2)
    (up,) = alone.phases
    stretched_ps = up.duration_ps * 2 * up.rate_bps / LINE_RATE_BPS.value
    slowdown = (alone.period_ps - up.duration_ps + stretched_ps) / alone.period_ps
    assert slowdown == pytest.approx(1.23, rel=0.02)


def test_two_fairly_sharing_dlrm_jobs_take_the_1301_ms_of_hotnets_table_1() -> None:
    alone = profile("DLRM", 2000, 2)
    (up,) = alone.phases
    stretched_ps = up.duration_ps * 2 * up.rate_bps / LINE_RATE_BPS.value
    assert alone.period_ps - up.duration_ps + stretched_ps == pytest.approx(1301 * MS, rel=0.01)


@pytest.mark.parametrize(("name", "strategy", "workers"), choices())
@given(data=st.data())
def test_every_profile_is_sound_and_below_the_line_rate(
    name: str, strategy: str, workers: int, data: st.DataObject
) -> None:
    model = CATALOGUE[name]
    batch_size = data.draw(st.integers(*model.batch_size_limits()))
    allowed = model.strategies[strategy].workers.value
    found = profile(name, batch_size, data.draw(st.sampled_from(allowed)), strategy)
    ends_ps = [0, *(phase.start_ps + phase.duration_ps for phase in found.phases)]
    assert all(phase.start_ps >= end_ps for phase, end_ps in zip(found.phases, ends_ps, strict=False))
    assert all(phase.duration_ps > 0 and 0 < phase.rate_bps <= LINE_RATE_BPS.value for phase in found.phases)
    assert ends_ps[-1] <= found.period_ps
    assert found.sources


@pytest.mark.parametrize(("name", "strategy", "workers"), choices())
def test_a_larger_batch_never_shortens_an_iteration(name: str, strategy: str, workers: int) -> None:
    smallest, largest = CATALOGUE[name].batch_size_limits()
    sizes = range(smallest, largest + 1, max((largest - smallest) // 200, 1))
    periods = [profile(name, size, workers, strategy).period_ps for size in sizes]
    assert all(before < after for before, after in pairwise(periods))


def test_an_iteration_starts_with_compute_and_a_data_parallel_one_ends_with_up() -> None:
    for name, strategy, workers in choices():
        found = profile(name, CATALOGUE[name].batch_sizes.value[1], workers, strategy)
        last = found.phases[-1]
        assert found.phases[0].start_ps > 0
        assert last.start_ps + last.duration_ps == found.period_ps


def test_more_workers_send_the_bytes_of_a_ring_all_reduce() -> None:
    two, four, many = (profile("ResNet50", 1600, workers).size_bytes for workers in (2, 4, 24))
    assert four / two == pytest.approx(float(ring_all_reduce_share(4)), rel=1e-6)
    assert many / two == pytest.approx(float(ring_all_reduce_share(24)), rel=1e-6)


def test_one_worker_sends_nothing() -> None:
    alone = profile("VGG16", 1400, 1)
    assert alone.phases == ()
    assert alone.period_ps == profile("VGG16", 1400, 2).period_ps


def test_between_two_points_time_is_linear_in_the_batch_size() -> None:
    # Half way from 1200 to 1400: Down (102 + 126) / 2 ms, at (35 + 29) / 2 Gbps.
    found = profile("VGG16", 1300, 2)
    assert found.phases[0].start_ps == 114 * MS
    assert found.phases[0].rate_bps == 32 * GBPS
    lower, upper = (profile("VGG16", batch_size, 2) for batch_size in (1200, 1400))
    assert found.period_ps == pytest.approx((lower.period_ps + upper.period_ps) / 2, abs=1)


def test_gpt_2_in_a_pipeline_has_three_small_peaks_and_a_large_one() -> None:
    peaks = profile("GPT2", 48, 2).phases
    assert len(peaks) == 4
    assert all(peak.size_bytes < peaks[3].size_bytes / 2 for peak in peaks[:3])
    assert all(peak.rate_bps < peaks[3].rate_bps for peak in peaks[:3])


def test_gpt_3_in_tensor_halves_sends_25_gbps_except_for_a_short_gap() -> None:
    found = profile("GPT3", 16, 2)
    assert [phase.rate_bps for phase in found.phases] == [25 * GBPS]
    assert found.up_ps > 0.9 * found.period_ps
    # 96 layers all-reduce 16 × 512 tokens of 1344 values of 2 bytes four times.
    assert found.size_bytes == pytest.approx(4 * 96 * 16 * 512 * 1344 * 2, rel=1e-9)


def test_gpt_3_on_eight_servers_has_six_up_phases() -> None:
    assert len(profile("GPT3", 16, 8).phases) == 6


def test_the_vgg16_of_figure_3_computes_for_141_of_255_ms() -> None:
    found = figure_3_profile()
    assert (found.period_ps, found.phases[0].start_ps) == (255 * MS, 141 * MS)
    assert found.size_bytes == pytest.approx(528 * 10**6, rel=1e-9)


@pytest.mark.parametrize(
    ("requested", "name"),
    [("vgg16", "VGG16"), ("gpt-3", "GPT3"), ("WideResNet", "WideResNet101"), ("RoBERTa", "RoBERTa")],
)
def test_names_are_found_in_any_case_and_spelling(requested: str, name: str) -> None:
    assert find_model(requested).name == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("VGG61", 1400, 4), "'VGG61' is not a workload of the catalogue; did you mean"),
        (("ZZZ", 1400, 4), "known: VGG11, VGG16"),
        (("VGG16", 511, 4), "511 is outside the catalogue's batch sizes for VGG16, 512 to 1800"),
        (("DLRM", 2001, 4), "2001 is outside the catalogue's batch sizes for DLRM, 16 to 2000"),
        (("VGG16", 1400, 25), "25 is outside the catalogue's numbers of workers for VGG16, 1 to 24"),
        (("GPT3", 16, 3), "3 is outside the catalogue's numbers of workers for GPT3, 2, 8, 12, 16, 20, 24"),
        (("GPT3", 16, 8, "tensor"), "8 is outside the catalogue's numbers of workers for GPT3, 2"),
        (("VGG16", 1400, 4, "tensor"), "'tensor' is not a strategy of VGG16; known: data"),
    ],
)
def test_values_outside_the_catalogue_are_refused_with_its_limits(
    arguments: tuple[str, int, int], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        profile(*arguments)


def test_every_number_of_the_catalogue_has_a_source() -> None:
    found: list[Sourced[object]] = []

    def collect(value: object) -> None:
        if isinstance(value, Sourced):
            found.append(value)
        elif is_dataclass(value):
            for each in fields(value):
                collect(getattr(value, each.name))
        elif isinstance(value, tuple):
            for each_value in value:
                collect(each_value)

    for model in CATALOGUE.values():
        collect(model)
        for strategy in model.strategies.values():
            collect(strategy)
    assert len(found) > 4 * len(CATALOGUE)
    assert all(each.kind in ("paper", "calculation", "calibration") for each in found)
    assert all(re.search(r"NSDI'24|HotNets'22|two give", each.source) for each in found)


def test_the_table_has_a_row_for_each_model_and_strategy() -> None:
    frame = catalogue_frame()
    assert list(zip(frame["model"], frame["strategy"], strict=True)) == [choice[:2] for choice in choices()]
    assert frame.null_count().sum_horizontal().item() == 0


def test_a_profile_adds_up_its_phases() -> None:
    found = profile("GPT2", 48, 2)
    assert isinstance(found, WorkloadProfile)
    assert found.up_ps == sum(phase.duration_ps for phase in found.phases)
    assert found.size_bytes == sum(phase.size_bytes for phase in found.phases)
