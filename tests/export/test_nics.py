"""DCQCN as settings in the units of NICs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Tables
from tests.export.conftest import job

from hocket.errors import InputError
from hocket.export.nics import SETTINGS, NicSettings, nic_settings
from hocket.plan import parse_plan
from hocket.plan.congestion import Congestion

LINE_BPS, PATH_BYTES = 50 * 10**9, 10**5


def settings_of(*jobs: Tables, **network: Any) -> dict[str, NicSettings]:
    plan = parse_plan({**(network or {"link": {"capacity": "50 Gbps"}}), "jobs": list(jobs)})
    return {each.job: each for each in nic_settings(plan)}


def written(each: NicSettings) -> dict[str, int]:
    return {write.name: write.value for write in each.writes}


def parameters(table: Tables) -> dict[str, Any]:
    found = Congestion.model_validate({"dcqcn": table}).parameters(LINE_BPS, PATH_BYTES)
    return {each.name: each.value for each in found}


def test_unfair_dcqcn_of_the_paper_is_one_write_for_each_job() -> None:
    dcqcn = {"preset": "hotnets22"}
    found = settings_of(
        job("a", congestion={"dcqcn": {**dcqcn, "T": "100 us"}}), job("b", congestion={"dcqcn": dcqcn})
    )
    assert written(found["a"]) == {"rp_time_reset": 100}
    assert written(found["b"]) == {"rp_time_reset": 125}


def test_a_weight_of_two_has_the_timers_of_the_paper() -> None:
    found = settings_of(job("a", share={"weighted": 2.0}), job("b"))
    assert {name: written(each) for name, each in found.items()} == {
        "a": {"rp_time_reset": 100},
        "b": {"rp_time_reset": 125},
    }


def test_no_timer_is_invented_for_another_weight() -> None:
    found = settings_of(job("a", share={"weighted": 3.0}), job("b"))
    assert not found["a"].writes
    assert not found["b"].writes
    assert "weights 1, 3" in str(found["a"].reason)


def test_if_a_plan_gives_congestion_its_share_is_only_for_the_flow_engine() -> None:
    dcqcn = {"preset": "mlx5", "T": "80 us"}
    found = settings_of(job("a", share={"weighted": 2.0}, congestion={"dcqcn": dcqcn}), job("b"))
    assert written(found["a"]) == {"rp_time_reset": 80}
    assert written(found["b"]) == {}


def test_a_value_of_the_plan_is_written_even_if_nics_as_shipped_have_it() -> None:
    found = settings_of(job("a", congestion={"dcqcn": {"preset": "mlx5", "R_AI": "5 Mbps"}}))
    assert written(found["a"]) == {"rp_ai_rate": 5}
    assert [write.shipped for write in found["a"].writes] == [5]


def test_an_interval_between_cnps_is_written_only_with_other_parameters() -> None:
    network = {"link": {"capacity": "50 Gbps"}, "host": {"cnp_interval": "50 us"}}
    found = settings_of(
        job("a", congestion={"dcqcn": {"preset": "mlx5", "R_AI": "6 Mbps"}}), job("b"), **network
    )
    assert written(found["a"]) == {"rp_ai_rate": 6, "np_min_time_between_cnps": 50}
    assert found["b"].writes == ()


def test_other_controls_and_plans_without_congestion_change_nothing_and_give_the_reason() -> None:
    found = settings_of(job("a", congestion="hpcc"), job("b"))
    assert [each.writes for each in found.values()] == [(), ()]
    assert "hpcc" in str(found["a"].reason)
    assert "stay as they are" in str(found["b"].reason)


@pytest.mark.parametrize("preset", ["recommended", "mlx5", "hotnets22"])
def test_the_written_values_read_back_as_the_preset(preset: str) -> None:
    found = settings_of(job("a", congestion={"dcqcn": {"preset": preset}}))
    assert parameters({"preset": "mlx5", **written(found["a"])}) == parameters({"preset": preset})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "rp_time_reset": st.integers(1, 100_000),
            "rp_byte_reset": st.integers(0, 32_767),
            "rp_threshold": st.integers(0, 254),
            "rp_ai_rate": st.integers(1, 50_000),
            "rp_hai_rate": st.integers(1, 50_000),
            "rp_dce_tcp_g": st.integers(0, 1023),
            "rp_dce_tcp_rtt": st.integers(1, 131_071),
            "rp_initial_alpha_value": st.integers(1, 1023),
            "rp_rate_reduce_monitor_period": st.integers(1, 100_000),
            "rp_gd": st.integers(10, 11),
            "rp_min_dec_fac": st.integers(0, 100),
            "rp_clamp_tgt_rate": st.integers(0, 1),
            "rp_clamp_tgt_rate_ati": st.integers(0, 1),
            "rp_min_rate": st.integers(1, 50_000),
            "rp_rate_to_set_on_first_cnp": st.integers(0, 50_000),
        },
    )
)
def test_every_value_of_a_nic_survives_the_round_trip(values: dict[str, int]) -> None:
    assert set(values) <= {file.name for file in SETTINGS.values()}
    found = settings_of(job("a", congestion={"dcqcn": {"preset": "mlx5", **values}}))
    assert written(found["a"]) == values


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"T": "100.5 us"},
            "increase_timer: a NIC takes whole numbers from 1 to 4294967295 in rp_time_reset",
        ),
        ({"R_AI": "1500 kbps"}, "additive_increase.* got 1.5"),
        ({"g": 0.3}, "gain: .* rp_dce_tcp_g .* got 716.8"),
        ({"B": "100 B"}, r"byte_counter: .* rp_byte_reset \(64 B\): got 1.5625"),
        ({"cut_check": "off"}, "cut_check: .* from 1 to"),
        ({"alpha_timer": "200 ms"}, "alpha_timer: .* to 131071 .* got 200000"),
        ({"cut_divisor": 3}, "cut_divisor: .* from 10 to 11"),
        ({"preset": "sigcomm15"}, "cut_check"),
    ],
)
def test_a_value_that_a_nic_does_not_support_is_refused_with_the_limit(table: Tables, message: str) -> None:
    with pytest.raises(InputError, match=rf"^job 'a': .*{message}"):
        settings_of(job("a", congestion={"dcqcn": {"preset": "mlx5", **table}}))


def test_adaptive_settings_have_the_bytes_of_a_phase_and_the_gap_after_it() -> None:
    for policy in (
        {"congestion": {"dcqcn": {"preset": "mlx5", "adaptive": True}}},
        {"share": {"adaptive": 1.0}},
    ):
        adaptive = settings_of(job("a", **policy))["a"].adaptive
        assert adaptive is not None
        # 40 Gbps for 40 ms; 60 ms Down; a hundredth of 40 Gbps.
        assert (adaptive.total_bytes, adaptive.gap_s, adaptive.quiet_bps) == (200_000_000, 0.03, 400_000_000)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"share": {"adaptive": 2.0}}, "weight of 2"),
        (
            {
                "share": {"adaptive": 1.0},
                "up": [
                    {"start": "0 ms", "duration": "10 ms", "rate": "40 Gbps"},
                    {"start": "50 ms", "duration": "10 ms", "rate": "20 Gbps"},
                ],
            },
            "2 different",
        ),
        (
            {
                "share": {"adaptive": 1.0},
                "up": [
                    {"start": "0 ms", "duration": "10 ms", "rate": "40 Gbps"},
                    {"start": "20 ms", "duration": "10 ms", "rate": "40 Gbps"},
                ],
            },
            "leaves 10 ms",
        ),
    ],
)
def test_if_no_script_can_follow_the_phases_the_reason_is_given(others: Tables, why: str) -> None:
    found = settings_of({**job("a"), **others})["a"]
    assert found.adaptive is None
    assert why in str(found.reason)


def test_jobs_on_one_nic_must_need_the_same_settings() -> None:
    links = [{"ends": [host, "tor"], "rate": "50 Gbps", "delay": "500 ns"} for host in ("s1", "s2")]

    def placed(name: str, timer: str) -> Tables:
        dcqcn = {"preset": "mlx5", "T": timer}
        return job(name, placement=["s1", "s2"], congestion={"dcqcn": dcqcn})

    alike = settings_of(placed("a", "100 us"), placed("b", "100 us"), fabric={"links": links})
    assert written(alike["a"]) == written(alike["b"])
    with pytest.raises(InputError, match=r"^host 's1': jobs 'a' and 'b' .*rp_time_reset 100 and 125"):
        settings_of(placed("a", "100 us"), placed("b", "125 us"), fabric={"links": links})
