"""Responses of Prometheus: which series is chosen, what is not a counter, and what scrapes cannot show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.profiling.prometheus import profile_prometheus

SENT = "node_infiniband_port_data_transmitted_bytes_total"
PERIOD_S = 0.8
UP_S = 0.3
BYTES_PER_S = 2.5e9


def sent_bytes(time_s: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str]:
    """Bytes that a job has sent by `time_s` (n), at 300 of every 800 ms, as Prometheus writes them."""
    iteration, phase_s = np.divmod(time_s, PERIOD_S)
    total = (iteration * UP_S + np.minimum(phase_s, UP_S)) * BYTES_PER_S
    return [f"{value:.0f}" for value in total]


def samples(interval_s: float = 0.05, seconds: float = 60.0) -> list[list[Any]]:
    time_s = np.arange(0.0, seconds, interval_s)
    return [
        [round(1.7e9 + time, 3), value]
        for time, value in zip(time_s.tolist(), sent_bytes(time_s), strict=True)
    ]


def series(values: list[list[Any]], name: str | None = SENT, **labels: str) -> dict[str, Any]:
    return {"metric": {**({} if name is None else {"__name__": name}), **labels}, "values": values}


def response(path: Path, *result: dict[str, Any]) -> Path:
    path.write_text(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(result)}})
    )
    return path


def test_a_counter_scraped_every_50_ms_shows_the_job(tmp_path: Path) -> None:
    path = response(tmp_path / "sent.json", series(samples(), device="mlx5_0", port="1"))
    profile = profile_prometheus(path)
    assert profile.name == "sent"
    assert profile.period_s == pytest.approx(PERIOD_S, rel=2e-3)
    assert profile.phases[0].duration_s == pytest.approx(UP_S, rel=0.03)
    # node_exporter's counters are in bytes already, not in words of four.
    assert profile.phases[0].rate_bps == pytest.approx(8 * BYTES_PER_S, rel=0.03)
    assert profile.confidence > 0.5
    assert profile.notes == ()


def test_a_step_below_the_scrape_interval_repeats_values_and_changes_nothing(tmp_path: Path) -> None:
    repeated = [[time + 0.01 * place, value] for time, value in samples() for place in range(5)]
    profile = profile_prometheus(response(tmp_path / "sent.json", series(repeated)))
    assert profile.period_s == pytest.approx(PERIOD_S, rel=2e-3)
    assert profile.phases[0].duration_s == pytest.approx(UP_S, rel=0.1)


def test_the_known_counter_is_used_and_a_port_is_chosen_by_its_labels(tmp_path: Path) -> None:
    path = response(
        tmp_path / "sent.json",
        series([[0, "1"]], "up", instance="a"),
        series([[0, "1"]], instance="a:9100", device="mlx5_0"),
        series(samples(), instance="a:9100", device="mlx5_1"),
        series([[0, "1"]], instance="b:9100", device="mlx5_1"),
    )
    for interface in ("a:9100/mlx5_1", "mlx5_1/a:9100"):
        assert profile_prometheus(path, interface=interface).period_s == pytest.approx(PERIOD_S, rel=2e-3)
    with pytest.raises(
        InputError, match=r"3 series of node_infin.*'a:9100/mlx5_0', 'a:9100/mlx5_1', 'b:9100/mlx5_1'"
    ):
        profile_prometheus(path)
    with pytest.raises(InputError, match="2 series 'mlx5_1'"):
        profile_prometheus(path, interface="mlx5_1")
    with pytest.raises(InputError, match="no series 'mlx5_2'"):
        profile_prometheus(path, interface="mlx5_2")
    with pytest.raises(InputError, match=r"no metric 'down'; the metrics are 'up', 'node_infiniband"):
        profile_prometheus(path, column="down")


def test_a_sum_of_counters_is_a_counter_without_a_name(tmp_path: Path) -> None:
    profile = profile_prometheus(response(tmp_path / "job.json", series(samples(), None, instance="a")))
    assert profile.period_s == pytest.approx(PERIOD_S, rel=2e-3)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([[k, f"{k % 3}"] for k in range(60)], "it falls in 19 of 59 steps"),
        ([[k, f"{k / 4}"] for k in range(60)], "it has fractions, such as 0.25"),
    ],
)
def test_a_rate_is_not_a_counter(tmp_path: Path, values: list[list[Any]], why: str) -> None:
    path = response(tmp_path / "rate.json", series(values, None, device="mlx5_0"))
    with pytest.raises(InputError, match=f"is not a counter: {why}; query the counter itself, not its rate"):
        profile_prometheus(path)


LIMIT = "readings 15 s apart show no iteration shorter than 60 s; one of 250 ms needs a reading every 62.5 ms"


def test_an_apparent_iteration_in_scrapes_15_seconds_apart_gets_no_confidence(tmp_path: Path) -> None:
    profile = profile_prometheus(response(tmp_path / "sent.json", series(samples(15.0, 3600.0))))
    # A scrape every 18.75 iterations: every fourth one falls on the same phase.
    assert profile.period_s == pytest.approx(60.0, rel=0.01)
    assert profile.confidence < 0.1
    assert any(note.startswith(LIMIT) for note in profile.notes)


def test_scrapes_in_step_with_the_iterations_show_no_period_and_the_error_explains_why(
    tmp_path: Path,
) -> None:
    path = response(tmp_path / "sent.json", series(samples(15.2, 3600.0)))
    with pytest.raises(InputError, match=r"nothing repeats; readings 15\.2 s apart show no iteration"):
        profile_prometheus(path)


def matrix(result: str) -> str:
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"status":"error","errorType":"bad_data","error":"parse error"}', "query failed: 'parse error'"),
        ('{"status":"success","data":{"resultType":"vector","result":[]}}', "the result is a 'vector'"),
        (matrix(""), "has no series"),
        (matrix("{}"), "missing required field"),
        (matrix('{"metric":{},"values":[[0,1]]}'), "is not a response of Prometheus"),
        (matrix('{"metric":{},"values":[[0,"NaN"]]}'), "sample 1 is 'NaN'"),
        (matrix('{"metric":{},"values":[[1,"1"],[0,"2"]]}'), "do not increase"),
        (matrix('{"metric":{},"values":[]}'), "0 readings"),
        ("{", "is not a response of Prometheus"),
        ("", "is not a response of Prometheus"),
        ("[1]", "is not a response of Prometheus"),
    ],
)
def test_any_other_response_is_refused_with_a_reason(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "response.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        profile_prometheus(path)


SAMPLES = st.lists(
    st.tuples(
        st.floats() | st.integers(),
        st.text(max_size=5) | st.integers(-(2**70), 2**70).map(str) | st.floats().map(str),
    ),
    max_size=40,
)


@given(SAMPLES, st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3))
def test_any_samples_yield_a_profile_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], labels: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("responses") / "response.json"
    path.write_text(matrix(json.dumps({"metric": labels, "values": values})))
    try:
        profile = profile_prometheus(path)
    except InputError:
        return
    assert 0 <= profile.confidence <= 1
