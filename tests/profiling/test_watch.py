"""Watching a port: counters in a simulated sysfs, times of readings, recordings."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from hocket.errors import InputError
from hocket.profiling import profile_counters
from hocket.profiling.watch import (
    CONGESTION_COUNTERS,
    INFINIBAND_COUNTERS,
    INTERFACE_COUNTERS,
    OpenPort,
    Port,
    find_port,
    open_port,
    poll,
    watch,
)

PERIOD_S = 0.18
UP_S = 0.06
BYTES_PER_S = 1.25e9


class Clock:
    """A simulated clock that advances by each sleep, and by 1 µs each time it is read."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Job(OpenPort):
    """A port on which a job sends for 60 ms of every 180 ms, on the simulated clock."""

    def __init__(self, clock: Clock, ends_at_s: float = float("inf")) -> None:
        super().__init__(Port("eth7", {}, None))
        self.names = INTERFACE_COUNTERS
        self.clock, self.ends_at_s = clock, ends_at_s

    def read(self) -> tuple[int, ...]:
        time_s = self.clock.now_ns / 1e9
        if time_s > self.ends_at_s:
            raise InputError(f"{self.title}: its counters can no longer be read: No such device")
        iteration, phase_s = divmod(time_s, PERIOD_S)
        sent = (iteration * UP_S + min(phase_s, UP_S)) * BYTES_PER_S
        return round(sent), 0


def write(folder: Path, values: dict[str, int]) -> None:
    folder.mkdir(parents=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A simulated sysfs: an adapter with one port, one with two, and two interfaces."""
    infiniband, interfaces = tmp_path / "class" / "infiniband", tmp_path / "class" / "net"
    for port in ("mlx5_0/ports/1", "mlx5_1/ports/1", "mlx5_1/ports/2"):
        write(infiniband / port / "counters", dict.fromkeys(INFINIBAND_COUNTERS, 7))
        write(infiniband / port / "hw_counters", {"lifespan": 20, **dict.fromkeys(CONGESTION_COUNTERS, 3)})
    for interface in ("eth0", "lo"):
        write(interfaces / interface / "statistics", {"tx_bytes": 11, "rx_bytes": 13, "tx_errors": 0})
    return tmp_path


def test_a_roce_device_is_read_in_words_and_an_interface_in_bytes(sysfs: Path) -> None:
    with open_port("mlx5_0", sysfs=sysfs) as port:
        assert (port.title, port.names, port.read()) == ("mlx5_0:1", INFINIBAND_COUNTERS, (7, 7))
        assert port.lifespan_s == 0.02
    with open_port("eth0", sysfs=sysfs) as port:
        assert (port.title, port.names, port.read()) == ("eth0", INTERFACE_COUNTERS, (11, 13))
        assert port.lifespan_s is None


def test_every_read_returns_the_current_values(sysfs: Path) -> None:
    with open_port("eth0", sysfs=sysfs) as port:
        (sysfs / "class/net/eth0/statistics/tx_bytes").write_text("12\n")
        assert port.read() == (12, 13)


def test_congestion_counters_come_after_the_bytes(sysfs: Path) -> None:
    with open_port("mlx5_1:2", congestion=True, sysfs=sysfs) as port:
        assert port.names == (*INFINIBAND_COUNTERS, *CONGESTION_COUNTERS)
        assert port.read() == (7, 7, 3, 3, 3)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("eth1", r"eth1: no such device; the devices are 'mlx5_0', 'mlx5_1', 'eth0', 'lo'"),
        ("../net/eth0", "no such device"),
        ("", "no such device"),
        ("mlx5_0:2", "mlx5_0: no port 2; its ports are '1'"),
        ("mlx5_0:", "mlx5_0: no port 1; its ports are '1'"),
        ("mlx5_1", "mlx5_1: has ports '1', '2'; name one of them, such as mlx5_1:1"),
    ],
)
def test_the_error_for_a_missing_device_or_port_lists_what_there_is(
    sysfs: Path, device: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        find_port(device, sysfs=sysfs)


def test_a_counter_that_is_missing_is_named_with_its_folder(sysfs: Path) -> None:
    (sysfs / "class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent").unlink()
    assert find_port("mlx5_0", sysfs=sysfs).title == "mlx5_0:1"
    with pytest.raises(InputError, match=r"mlx5_0:1: counter np_cnp_sent is not in .*hw_counters"):
        find_port("mlx5_0", congestion=True, sysfs=sysfs)


def test_an_interface_counts_no_cnps(sysfs: Path) -> None:
    with pytest.raises(InputError, match="eth0: is a network interface, which counts no CNPs"):
        find_port("eth0", congestion=True, sysfs=sysfs)


def test_a_counter_that_is_not_a_number_is_refused(sysfs: Path) -> None:
    (sysfs / "class/net/lo/statistics/rx_bytes").write_text("many\n")
    with (
        open_port("lo", sysfs=sysfs) as port,
        pytest.raises(InputError, match="lo: a counter is not a number"),
    ):
        port.read()


def test_readings_keep_to_the_interval() -> None:
    clock = Clock()
    times_ns = [reading.time_ns for reading in poll(lambda: (0,), 0.01, 0.1, clock=clock, sleep=clock.sleep)]
    assert len(times_ns) == 11
    steps_ns = [after - before for before, after in itertools.pairwise(times_ns)]
    assert all(abs(step_ns - 10_000_000) < 10_000 for step_ns in steps_ns)


def test_after_a_late_reading_the_interval_starts_anew() -> None:
    clock = Clock()
    late = [True]

    def sleep(seconds: float) -> None:
        clock.sleep(seconds + (0.035 if late.pop() else 0.0))
        late.append(False)

    times_ns = [reading.time_ns for reading in poll(lambda: (0,), 0.01, 0.1, clock=clock, sleep=sleep)]
    steps_ms = [round((after - before) / 1e6) for before, after in itertools.pairwise(times_ns)]
    assert steps_ms == [45, 10, 10, 10, 10, 10]


def test_a_watched_job_has_its_period_and_rate() -> None:
    clock = Clock()
    reported: list[tuple[float, float, float]] = []
    recording = watch(
        Job(clock),
        interval_s=0.01,
        seconds=20,
        on_progress=lambda *progress: reported.append(progress),
        clock=clock,
        sleep=clock.sleep,
    )
    profile = recording.profile()
    assert profile.name == "eth7"
    assert profile.period_s == pytest.approx(PERIOD_S, rel=1e-3)
    assert profile.phases[0].rate_bps == pytest.approx(8 * BYTES_PER_S, rel=0.02)
    assert recording.stopped is None
    assert len(reported) >= 35
    # It sends at 10 Gbps for a third of the time; each half second contains 2 or 3 iterations.
    assert sum(sent for _, sent, _ in reported) / len(reported) == pytest.approx(10e9 / 3, rel=0.05)


def test_the_saved_file_contains_the_readings(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "new" / "series.csv"
    recording = watch(Job(clock), interval_s=0.01, seconds=3, save=path, clock=clock, sleep=clock.sleep)
    assert pl.read_csv(path).cast(pl.UInt64).equals(recording.frame())
    assert profile_counters(path).period_s == pytest.approx(PERIOD_S, rel=1e-3)


def test_no_recording_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    path.write_text("mine")
    with pytest.raises(InputError, match="exists already; recordings are not overwritten"):
        watch(Job(Clock()), interval_s=0.01, seconds=1, save=path)
    assert path.read_text() == "mine"


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/series\.csv: cannot be written"):
        watch(Job(Clock()), interval_s=0.01, seconds=1, save=tmp_path / "file" / "series.csv")


def interrupts(clock: Clock, at_s: float) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now_ns > at_s * 1e9:
            raise KeyboardInterrupt

    return sleep


def test_ctrl_c_keeps_the_readings(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "series.csv"
    recording = watch(Job(clock), interval_s=0.01, save=path, clock=clock, sleep=interrupts(clock, 4.0))
    assert recording.stopped == "interrupted"
    assert recording.seconds == pytest.approx(3.0, abs=0.02)
    assert pl.read_csv(path).height == len(recording.time_ns)


def test_a_port_that_disappears_ends_the_recording_and_keeps_it() -> None:
    clock = Clock()
    recording = watch(Job(clock, ends_at_s=5.0), interval_s=0.01, clock=clock, sleep=clock.sleep)
    assert recording.stopped == "eth7: its counters can no longer be read: No such device"
    assert recording.profile().period_s == pytest.approx(PERIOD_S, rel=1e-3)


def test_a_port_that_cannot_be_read_at_all_is_an_error() -> None:
    clock = Clock()
    with pytest.raises(InputError, match="No such device"):
        watch(Job(clock, ends_at_s=0.0), interval_s=0.01, clock=clock, sleep=clock.sleep)


def test_congestion_counters_are_added_up_across_a_wrap(sysfs: Path) -> None:
    clock = Clock()
    sent = iter([2**32 - 2, 2**32 - 1, 3, 4])
    counter = sysfs / "class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent"

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        counter.write_text(f"{next(sent)}\n")

    counter.write_text(f"{next(sent)}\n")
    with open_port("mlx5_0", congestion=True, sysfs=sysfs) as port:
        recording = watch(port, interval_s=0.01, seconds=0.03, clock=clock, sleep=sleep)
    # From 2^32 − 2 to 2^32 + 4.
    assert recording.congestion() == {
        "np_cnp_sent": 6,
        "rp_cnp_handled": 0,
        "np_ecn_marked_roce_packets": 0,
    }


@pytest.fixture
def namespace() -> Iterator[str]:
    """A temporary network namespace with one pair of interfaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    name = f"hk-watch-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not allow network namespaces")
    try:
        pair = ["link", "add", "inner", "type", "veth", "peer", "name", "other"]
        subprocess.run(["ip", "-n", name, *pair], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_port_of_another_namespace_is_read_from_outside(namespace: str) -> None:
    with open_port("inner", namespace=namespace) as port:
        before = port.read()
        for device in ("inner", "other"):
            subprocess.run(["ip", "-n", namespace, "link", "set", device, "up"], check=True)
        # An interface that comes up announces itself, so the counters may have grown.
        assert len(before) == 2
        assert all(later >= earlier for later, earlier in zip(port.read(), before, strict=True))
    with pytest.raises(InputError, match=r"eth0: no such device; the devices are 'inner', 'lo', 'other'"):
        open_port("eth0", namespace=namespace)
    assert "inner" not in os.listdir("/sys/class/net")


def test_a_missing_namespace_is_an_error() -> None:
    with pytest.raises(InputError, match="hk-none: no such network namespace"):
        open_port("eth0", namespace="hk-none")
