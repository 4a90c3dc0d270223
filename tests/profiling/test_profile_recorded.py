"""Profiles of a real job against the times that its two workers recorded."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from hocket.errors import InputError
from hocket.figures.profile import evidence_figure
from hocket.profiling import JobProfile, profile_counters
from hocket.profiling.job import CounterEvidence
from hocket.units import parse_duration, parse_rate

RECORDED = Path(__file__).parents[2] / "experiments" / "recorded-allreduce"
# Ethernet, IP and TCP headers, and acknowledgements, on top of the tensor: at most this share.
HEADERS = 0.02


@pytest.fixture(scope="module", params=["one-phase", "two-phases"])
def series(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def profile(series: str) -> JobProfile:
    return profile_counters(RECORDED / f"{series}.csv")


@pytest.fixture(scope="module")
def truth(series: str) -> pl.DataFrame:
    return pl.read_csv(RECORDED / f"{series}.truth.csv")


def iteration_times_s(truth: pl.DataFrame) -> NDArray[np.float64]:
    iterations = truth.filter((pl.col("event") == "iteration") & (pl.col("rank") == 0))
    return np.diff(iterations["start_s"].to_numpy())


def all_reduce_times_s(truth: pl.DataFrame, index: int) -> NDArray[np.float64]:
    """Time from the entry of the later worker to the exit of the first one."""
    both = truth.filter(pl.col("event") == f"all_reduce_{index}").group_by("iteration")
    times = both.agg(pl.col("start_s").max(), pl.col("end_s").min())
    return (times["end_s"] - times["start_s"]).to_numpy()


def test_period_is_within_half_a_percent_of_the_workers_own_clock(
    profile: JobProfile, truth: pl.DataFrame
) -> None:
    assert profile.period_s == pytest.approx(iteration_times_s(truth).mean(), rel=0.005)


def test_each_up_phase_lasts_as_long_as_its_all_reduce(profile: JobProfile, truth: pl.DataFrame) -> None:
    found = sorted(phase.duration_s for phase in profile.phases)
    events = truth["event"].n_unique() - 1
    true = sorted(all_reduce_times_s(truth, index).mean() for index in range(events))
    assert found == pytest.approx(true, rel=0.05)


def test_bytes_per_iteration_are_the_tensors_and_their_headers(series: str, profile: JobProfile) -> None:
    tensors = {"one-phase": 6e6, "two-phases": 7.5e6}[series]
    assert tensors <= profile.bytes_per_iteration <= tensors * (1 + HEADERS)


def test_rates_stay_below_the_shaped_link(profile: JobProfile) -> None:
    assert all(0.85e9 < phase.rate_bps <= 1e9 for phase in profile.phases)


def test_nearly_all_iterations_are_seen_and_the_profile_is_confident(profile: JobProfile) -> None:
    assert isinstance(profile.evidence, CounterEvidence)
    recorded_s = profile.evidence.time_s[-1] - profile.evidence.time_s[0]
    assert profile.iterations_seen >= 0.95 * recorded_s / profile.period_s - 2
    assert profile.confidence > 0.8


def test_iterations_start_when_the_workers_recorded_the_start_of_an_all_reduce(
    series: str, profile: JobProfile, truth: pl.DataFrame
) -> None:
    first_s = pl.read_csv(RECORDED / f"{series}.csv")["time_s"][0]
    starts = (
        truth.filter(pl.col("event") == "all_reduce_0").group_by("iteration").agg(pl.col("start_s").max())
    )
    starts_s = np.sort(starts["start_s"].to_numpy())
    found_s = profile.iteration_start_s + first_s
    late_s = found_s - starts_s[np.abs(starts_s[None, :] - found_s[:, None]).argmin(axis=1)]
    assert abs(np.median(late_s)) < 0.02 * profile.period_s


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_dumped_job_reads_back_as_the_profile(profile: JobProfile, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"job.{suffix}"
    profile.dump(path, link_capacity="1 Gbps")
    text = path.read_text(encoding="utf-8")
    document = json.loads(text) if suffix == "json" else tomllib.loads(text)
    assert document["link"] == {"capacity": "1 Gbps"}
    (job,) = document["jobs"]
    assert parse_duration(job["period"]) * 1e-12 == pytest.approx(profile.period_s, abs=1e-6)
    assert [parse_rate(phase["rate"]) for phase in job["up"]] == pytest.approx(
        [phase.rate_bps for phase in profile.phases], rel=1e-5
    )
    for phase in job["up"]:
        assert parse_duration(phase["start"]) + parse_duration(phase["duration"]) <= parse_duration(
            job["period"]
        )


def test_a_link_slower_than_the_job_is_refused(profile: JobProfile, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"phase 1: a rate of 0\.9\d+ Gbps is above the link's capacity of 500 Mbps"
    ):
        profile.dump(tmp_path / "job.toml", link_capacity="500 Mbps")


def test_a_job_is_written_as_toml_or_json_only(profile: JobProfile, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"suffix '\.yaml'"):
        profile.dump(tmp_path / "job.yaml")


def test_names_with_special_characters_survive_toml(profile: JobProfile, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    frame = pl.read_csv(RECORDED / "one-phase.csv")
    profile_counters(frame, name='a "b"\\\n\x7f é').dump(path)
    assert tomllib.loads(path.read_text(encoding="utf-8"))["jobs"][0]["name"] == 'a "b"\\\n\x7f é'


def test_the_figure_shows_every_phase_of_the_fold(profile: JobProfile, tmp_path: Path) -> None:
    figure = evidence_figure(profile)
    readings, fold = figure.axes
    assert len(fold.patches) == 1 + len(profile.phases)
    assert len(readings.patches) == 1 + 5 * len(profile.phases)
    figure.savefig(tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").stat().st_size > 10_000
