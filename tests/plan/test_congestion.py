"""Congestion controls in plans, and the parameters that flows get from them."""

from typing import Any

import pytest
from pydantic import ValidationError

from hocket.plan.congestion import Congestion, Dcqcn
from hocket.plan.names import names_of

GBPS = 10**9


def parameters_of(written: object, line_rate_bps: int = 100 * GBPS) -> dict[str, Any]:
    """All parameters of `written` on a path that 50 kB fill."""
    parameters = Congestion.model_validate(written).parameters(line_rate_bps, 50_000)
    return {each.name: each.value for each in parameters}


def sources(written: object) -> dict[str, str]:
    """The source of each parameter."""
    return {
        each.name: each.source for each in Congestion.model_validate(written).parameters(100 * GBPS, 50_000)
    }


@pytest.mark.parametrize(
    "policy",
    ["pfc-only", "dcqcn", "dctcp", "timely", "hpcc", "hpcc-pint", "static-window", "receiver-driven"],
)
def test_a_name_alone_is_that_control_with_the_recommended_preset(policy: str) -> None:
    assert parameters_of(policy)["policy"] == policy
    assert parameters_of(policy) == parameters_of({policy: {}})


@pytest.mark.parametrize(
    ("papers", "nics", "simulators"),
    [
        ({"T": "300 us"}, {"rp_time_reset": 300}, {"RP_TIMER": 300}),
        ({"B": "2097088 B"}, {"rp_byte_reset": 32_767}, {"byte_counter": "2097088 B"}),
        ({"B": "off"}, {"rp_byte_reset": 0}, {"byte_counter": "off"}),
        ({"F": 5}, {"rp_threshold": 5}, {"FAST_RECOVERY_TIMES": 5}),
        ({"R_AI": "5 Mbps"}, {"rp_ai_rate": 5}, {"RATE_AI": "5Mb/s"}),
        ({"R_HAI": "50 Mbps"}, {"rp_hai_rate": 50}, {"RATE_HAI": "50Mb/s"}),
        # 1 - 1020/1024 = 1/256
        ({"g": 1 / 256}, {"rp_dce_tcp_g": 1020}, {"EWMA_GAIN": 0.00390625}),
        ({"alpha_timer": "1 us"}, {"rp_dce_tcp_rtt": 1}, {"ALPHA_RESUME_INTERVAL": 1.0}),
        ({"cut_check": "4 us"}, {"rp_rate_reduce_monitor_period": 4}, {"RATE_DECREASE_INTERVAL": 4}),
        ({"cut_divisor": 2}, {"rp_gd": 11}, {}),
        ({"least_kept": 0.5}, {"rp_min_dec_fac": 50}, {}),
        ({"initial_alpha": 1}, {"rp_initial_alpha_value": 1023}, {}),
        ({"clamp_target_rate": True}, {"rp_clamp_tgt_rate": 1}, {"CLAMP_TARGET_RATE": 1}),
        ({"clamp_target_after_timer": False}, {"rp_clamp_tgt_rate_ati": 0}, {}),
        ({"min_rate": "100 Mbps"}, {"rp_min_rate": 100}, {"MIN_RATE": "100Mb/s"}),
        ({"rate_on_first_cnp": "off"}, {"rp_rate_to_set_on_first_cnp": 0}, {}),
    ],
)
def test_a_parameter_of_dcqcn_is_the_same_in_every_spelling(
    papers: dict[str, Any], nics: dict[str, Any], simulators: dict[str, Any]
) -> None:
    found = parameters_of({"dcqcn": papers})
    assert found == parameters_of({"dcqcn": nics})
    if simulators:
        assert found == parameters_of({"dcqcn": simulators})


def test_the_spellings_of_the_other_controls() -> None:
    assert parameters_of({"dctcp": {"g": 0.25}}) == parameters_of({"dctcp": {"EWMA_GAIN": 0.25}})
    assert parameters_of({"timely": {"T_low": "10 us"}}) == parameters_of({"timely": {"low": "10 us"}})
    assert parameters_of({"hpcc": {"eta": 0.9}}) == parameters_of({"hpcc": {"U_TARGET": 0.9}})
    assert parameters_of({"hpcc-pint": {"PINT_LOG_BASE": 1.1}})["log_base"] == 1.1


def test_presets_differ_where_their_sources_differ() -> None:
    def dcqcn(preset: str, **given: object) -> dict[str, Any]:
        return parameters_of({"dcqcn": {"preset": preset, **given}})

    assert dcqcn("mlx5")["increase_timer_ps"] == 300 * 10**6
    assert dcqcn("hotnets22")["increase_timer_ps"] == 125 * 10**6
    assert dcqcn("hotnets22", increase_timer="300 us") == dcqcn("mlx5")
    assert dcqcn("sigcomm15")["cut_check_ps"] is None
    assert dcqcn("sigcomm15")["byte_counter"] == 10_000_000
    # 20 Mbps per 100 Gbps
    assert parameters_of("dcqcn", 400 * GBPS)["additive_increase_bps"] == 80 * 10**6


def test_each_parameter_has_its_source() -> None:
    found = sources({"dcqcn": {"preset": "mlx5", "T": "55 us"}})
    assert found["increase_timer_ps"] == "plan"
    assert found["gain"].startswith("mlx5: ConnectX NICs as shipped")


def test_credit_starts_with_the_bytes_that_fill_the_path() -> None:
    assert parameters_of("receiver-driven")["unsolicited_bytes"] == 50_000
    assert parameters_of({"receiver-driven": {"unsolicited": "0 B"}})["unsolicited_bytes"] == 0


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("cubic", "must be one of 'pfc-only', 'dcqcn'"),
        ({}, "must name exactly one congestion control"),
        ({"dcqcn": {}, "hpcc": {}}, "must name exactly one congestion control"),
        (3, "must be one of 'pfc-only'"),
    ],
)
def test_an_unknown_congestion_control_is_refused(written: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Congestion.model_validate(written)


def test_every_parameter_of_dcqcn_is_declared_and_known_to_the_engine() -> None:
    engine = Congestion.model_validate("dcqcn").parameters(100 * GBPS, 50_000)
    assert list(names_of(Dcqcn)) == [each.name for each in engine if each.name != "policy"]
