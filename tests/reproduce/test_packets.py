"""R3, and collectives of HOTI'22 and jobs of HotNets'22 on the packet engine at sizes that take seconds."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from tests.reproduce.conftest import quiet

from hocket_reproduce.targets import (
    Reproduction,
    cross,
    h1,
    h6,
    h7,
    packets,
    r4,
    r5,
    testbed,
)
from hocket_reproduce.targets.measure import overlaps
from hocket_reproduce.targets.packets import (
    DCQCN,
    DCTCP,
    PFC_ONLY,
    Control,
    Network,
    PacketRun,
    Sends,
)

Rerun = Callable[[str], Reproduction]


def run(network: Network, control: Control, *steps: Sends) -> PacketRun:
    (ran,) = packets.run_steps(network, [control], steps, 1_000_000, quiet)
    return ran


def verdicts(reproduction: Reproduction) -> dict[str, float | str]:
    return {row.quantity: row.ours for row in reproduction.rows}


def test_a_message_alone_takes_its_packets_and_one_round_trip() -> None:
    ran = run(packets.one_switch(2), PFC_ONLY, packets.incast(2, 10**6))
    # 1,000 packets of 1,082 bytes at 200 Gbps; the last crosses a second link, its ACK of 86 bytes two, with
    # 500 ns each.
    expected_s = 1_001 * 1_082 * 8 / 200e9 + 2 * 86 * 8 / 200e9 + 4 * 500e-9
    assert ran.ended_s == pytest.approx(expected_s, abs=1e-11)


@pytest.mark.parametrize("rotated", [True, False])
def test_an_all_to_all_sends_one_part_from_each_gpu_to_each_other(rotated: bool) -> None:
    sends = packets.all_to_all(5, 1_000, rotated=rotated)
    pairs = set(zip(sends.src.tolist(), sends.dst.tolist(), strict=True))
    assert pairs == {(src, dst) for src in range(5) for dst in range(5) if src != dst}
    assert sends.bytes.tolist() == [200] * 20


def test_in_a_rotated_all_to_all_no_two_gpus_send_to_the_same_gpu_at_once() -> None:
    by_step = packets.all_to_all(6, 600).dst.reshape(6, 5).T
    assert all(len(set(step.tolist())) == 6 for step in by_step)


def test_steps_follow_each_other_and_their_tables_have_one_clock() -> None:
    step = packets.incast(3, 10**5)
    one, two = (run(packets.one_switch(3), PFC_ONLY, *[step] * steps) for steps in (1, 2))
    assert two.step_ends_s == pytest.approx((one.ended_s, 2 * one.ended_s))
    starts_s = two.tables["flows"]["start_s"].to_numpy()
    assert starts_s == pytest.approx([0.0] * 2 + [one.ended_s] * 2)
    assert two.counters["packet_hops"] == 2 * one.counters["packet_hops"]


def test_a_queue_length_is_the_last_sample() -> None:
    samples = pl.DataFrame({"at_s": [1e-3, 3e-3], "switch": ["switch"] * 2, "bytes": [2 * 10**6, 0]})
    ran = PacketRun({"switch_queues": samples}, {}, (0.004,), 0.0)
    queue_mb = packets.switch_queue_mb(ran, "switch", np.array([0.0, 1.0, 2.9, 3.0, 9.0]))
    assert queue_mb.tolist() == [0.0, 2.0, 2.0, 0.0, 0.0]


def test_an_interrupted_run_ends_all_runs() -> None:
    def interrupt(doing: str) -> None:
        raise KeyboardInterrupt

    controls = [PFC_ONLY] * 3
    with pytest.raises(KeyboardInterrupt):
        packets.run_steps(packets.one_switch(8), controls, [packets.incast(8, 10**7)], 10**6, interrupt)


def test_pfc_alone_pauses_where_a_window_or_dcqcn_does_not(rerun: Rerun) -> None:
    ours = verdicts(rerun("R3"))
    assert ours["PFC only: PAUSE frames"] == "many"
    assert ours["PFC only: the queue stays high"] == "yes"
    for name in ("DCQCN", "DCTCP", "HPCC", "HPCC-PINT"):
        assert ours[f"{name}: PAUSE frames"] == "none"


def test_seven_windows_bound_the_queue_where_no_control_acts(rerun: Rerun) -> None:
    ours = verdicts(rerun("R3"))
    # Seven senders have 52 packets each in flight, a few of them on wires.
    for quantity in ("PFC only, window: longest queue", "DCQCN, window: longest queue"):
        assert ours[quantity] == pytest.approx(7 * 52 * 1_082e-6, rel=0.15)
    windowed, free = (ours[f"{name}: longest queue"] for name in ("DCQCN, window", "DCTCP, no window"))
    assert isinstance(windowed, float)
    assert isinstance(free, float)
    assert free > 10 * windowed


def test_an_all_reduce_on_one_switch_is_two_all_to_alls_without_queues() -> None:
    measured = r4.measure(8, 8 * 10**5, (PFC_ONLY, DCQCN), quiet)
    for collectives in measured.values():
        assert collectives.all_reduce_ms == pytest.approx(2 * collectives.all_to_all_ms, rel=1e-6)
        assert collectives.longest_port_bytes == 1_082
    unrotated = run(packets.one_switch(8), PFC_ONLY, packets.all_to_all(8, 8 * 10**5, rotated=False))
    assert packets.peak_mb(unrotated, "switch") > 2 * packets.peak_mb(measured["PFC only"].ran, "switch")


def test_four_chunks_make_four_peaks_at_over_subscribed_tors() -> None:
    full, over = r5.shapes(4, 8, 4)
    control = (PFC_ONLY, DCTCP)
    measured = {shape.name: r5.measure(shape, 16 * 10**6, control, quiet) for shape in (full, over)}
    for name in ("PFC only", "DCTCP"):
        ran = measured["2:1"][name]
        times_ms = np.arange(0, 1e3 * ran.ended_s, 0.01)
        assert r5.peaks(packets.switch_queue_mb(ran, "tor 0", times_ms)) == packets.CHUNKS
        assert ran.ended_s > 1.5 * measured["1:1"][name].ended_s


def test_full_bisection_means_equal_rates_up_and_down() -> None:
    for shape, ratio in zip(r5.shapes(2, 8, 4), (1, 2), strict=True):
        up = [cable for cable in shape.network.cables if cable["a"] >= shape.network.gpus]
        assert shape.network.gpus == ratio * len(up)


def test_a_peak_is_a_rise_from_an_almost_empty_queue() -> None:
    assert r5.peaks(np.array([0.0, 5.0, 0.0, 4.0, 3.9, 4.1, 0.0, 0.2, 0.0])) == 2
    assert r5.peaks(np.zeros(3)) == 0


def test_shares_on_packets_fill_the_link_and_favour_the_shorter_timer() -> None:
    shares = h1.shares_gbps((125, 300), seeds=2)
    assert shares.sum(axis=1) == pytest.approx([50.0, 50.0], rel=0.02)
    assert np.all(shares[:, 0] > 1.5 * shares[:, 1])


def test_on_packets_unequal_timers_slide_two_jobs_apart() -> None:
    overlap = overlaps(h1.packet_runs(0.0, iterations=10)["unfair"], "J1", "J2")
    assert overlap[0] == pytest.approx(1.0)
    assert overlap[-1] < h1.SEPARATED


def test_on_packets_a_queue_per_job_is_better_than_sharing_one() -> None:
    assert h6.slowdown_on_packets(2, 2, iterations=5) < h6.slowdown_on_packets(2, None, iterations=5)


def test_on_packets_shifts_keep_jobs_apart() -> None:
    jobs = h7.fig_3_jobs()
    shifted = h7.measure_packets(jobs, {"J1": 0.0, "J2": 0.1275}, iterations=4)
    assert shifted.overlap == 0.0
    assert h7.measure_packets(jobs, None, iterations=4).overlap > 0.5


def test_a_job_alone_takes_equally_long_on_both_engines() -> None:
    (alone,) = [each for each in cross.scenarios() if each.name == "one job"]
    flow_ms, packet_ms = cross.measure(alone, iterations=2).times_ms("J1")
    # The packet engine adds the delays of the last packet and of its acknowledgement.
    assert packet_ms == pytest.approx(flow_ms, rel=1e-4)
    assert np.all(packet_ms >= flow_ms)


def test_every_job_runs_dcqcn_with_its_own_timer() -> None:
    assert testbed.dcqcn(100)["dcqcn"]["increase_timer"] == "100 us"
    (first, second) = testbed.with_timers([{"name": "a"}, {"name": "b"}], (100, 125), adaptive=True)
    assert first["congestion"] == testbed.dcqcn(100, adaptive=True)
    assert second["congestion"] == testbed.dcqcn(125, adaptive=True)
