"""The settings of a study: every key of `config.txt` with its meaning, its unit and its limits.

The keys and defaults are those of the HPCC simulator (`simulation/mix/config_doc.txt` and its code) and of
its descendants in ASTRA-sim and SimAI. An unknown key is an error; a key that has no effect here is listed
with the reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias, TypeVar

from hocket.errors import InputError
from hocket.text_inputs import (
    MICROSECOND_PS,
    NANOSECOND_PS,
    SECOND_PS,
    Mistakes,
    bounded_time_ps,
    rate_bps,
    read_words,
    real,
    time_ps,
    whole,
)
from hocket.units import LARGEST, shown

MAX_PAYLOAD_BYTES = 65_459
"""The largest payload of a packet: an IPv4 datagram of 65,535 bytes less 20 (IPv4), 8 (UDP), 4 (sequence
number), 2 (priority group) and 42 (HPCC's telemetry)."""

BUFFER_UNIT_BYTES = 2**20
"""The unit of BUFFER_SIZE."""

THRESHOLD_UNIT_BYTES = 1000
"""The unit of KMIN_MAP and KMAX_MAP."""

LINK_DOWN_ORIGIN_PS = 2 * SECOND_PS
"""The origin of LINK_DOWN's time: the simulators add its microseconds to two seconds, when the flows of their
examples start."""

# A terabyte of buffer, and thresholds of up to four.
_MAX_BUFFER_UNITS = 2**20
_MAX_THRESHOLD_UNITS = 2**32
_MAX_COUNT = 2**31 - 1
_MAX_RATES = 64
# The engine counts the steps of fast recovery in a byte.
_MAX_RECOVERY_STEPS = 254

# Mode 12 is that of the shipped config: no branch of the simulators handles it, so rates stay at line rate.
_CC_MODES: Mapping[int, str] = {
    1: "dcqcn",
    3: "hpcc",
    7: "timely",
    8: "dctcp",
    10: "hpcc-pint",
    12: "pfc-only",
}

# A key of another control than CC_MODE's is listed as without effect, and its value is not checked.
_CONTROLS_THAT_READ: Mapping[str, tuple[str, ...]] = {
    "ALPHA_RESUME_INTERVAL": ("dcqcn",),
    "RATE_DECREASE_INTERVAL": ("dcqcn",),
    "CLAMP_TARGET_RATE": ("dcqcn",),
    "RP_TIMER": ("dcqcn",),
    "FAST_RECOVERY_TIMES": ("dcqcn",),
    "EWMA_GAIN": ("dcqcn", "dctcp"),
    "RATE_AI": ("dcqcn", "hpcc", "timely", "hpcc-pint"),
    "RATE_HAI": ("dcqcn", "timely"),
    "MIN_RATE": ("dcqcn", "hpcc", "timely", "dctcp", "hpcc-pint"),
    "DCTCP_RATE_AI": ("dctcp",),
    "FAST_REACT": ("hpcc", "hpcc-pint"),
    "U_TARGET": ("hpcc", "hpcc-pint"),
    "MI_THRESH": ("hpcc", "hpcc-pint"),
    "INT_MULTI": ("hpcc",),
    "MULTI_RATE": ("hpcc",),
    "SAMPLE_FEEDBACK": ("hpcc",),
    "PINT_LOG_BASE": ("hpcc-pint",),
    "PINT_PROB": ("hpcc-pint",),
}

_ONLY_VALUES: Mapping[str, tuple[int, str]] = {
    "L2_BACK_TO_ZERO": (0, "losses are recovered by going back to the lost packet"),
    "ERROR_RATE_PER_LINK": (0, "no frame is corrupted"),
    "NIC_TOTAL_PAUSE_TIME": (0, "NICs make no pauses of their own"),
    "RATE_BOUND": (1, "NICs pace flows at the rate that congestion control gives"),
    "MULTI_RATE": (0, "HPCC keeps one rate for all hops"),
    "SAMPLE_FEEDBACK": (0, "HPCC looks at the telemetry of every packet"),
    "ENABLE_PFC": (1, "PFC is always on"),
    "ENABLE_QBB": (1, "PFC is always on"),
    "ENABLE_IRN": (0, "losses are recovered by going back to the lost packet"),
    "NIC_DEQUEUE_MODE": (0, "NICs serve their flows packet by packet in turn"),
    "NVLS_ENABLE": (0, "switches do not reduce"),
}
"""Keys with a single supported value: that value, and what the engine does."""

_MONITORS = "a monitor of the simulator; the tables of the run have its records"
_TRACES = "packet-level traces in the simulator's own format are not written"
_WITHOUT_EFFECT: Mapping[str, str] = {
    "USE_DYNAMIC_PFC_THRESHOLD": "the simulators ignore it; PFC thresholds are always dynamic",
    "PAUSE_TIME": "a pause lasts until it is revoked, whatever its time",
    "L2_CHUNK_SIZE": "with L2_BACK_TO_ZERO 0 and an ACK per packet nothing is counted in chunks",
    "ENABLE_TRACE": _TRACES,
    "TRACE_FILE": _TRACES,
    "TRACE_OUTPUT_FILE": _TRACES,
    "SEND_OUTPUT_FILE": _MONITORS,
    "BW_MON_FILE": _MONITORS,
    "RATE_MON_FILE": _MONITORS,
    "CNP_MON_FILE": _MONITORS,
    "MON_START": _MONITORS,
    "MON_END": _MONITORS,
    "QP_MON_INTERVAL": _MONITORS,
    "BW_MON_INTERVAL": _MONITORS,
    "DATA_RATE": "each link of the topology has its own rate",
    "LINK_DELAY": "each link of the topology has its own delay",
    "APP_START_TIME": "each flow has its own start",
    "APP_STOP_TIME": "flows end when their bytes are acknowledged",
}

_MARKING = ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP")
_WINDOW = ("GLOBAL_T", "VAR_WIN")
_MONITOR = ("QLEN_MON_FILE", "QLEN_MON_START", "QLEN_MON_END", "QLEN_MON_INTERVAL")
_KNOWN = {
    *("TOPOLOGY_FILE", "FLOW_FILE", "FCT_OUTPUT_FILE", "PFC_OUTPUT_FILE", *_MONITOR),
    *("SIMULATOR_STOP_TIME", "CC_MODE", "HAS_WIN", *_WINDOW, "ENABLE_QCN", *_MARKING),
    *("PACKET_PAYLOAD_SIZE", "L2_ACK_INTERVAL", "ACK_HIGH_PRIO", "BUFFER_SIZE", "LINK_DOWN"),
    *_CONTROLS_THAT_READ,
    *_ONLY_VALUES,
    *_WITHOUT_EFFECT,
}

_T = TypeVar("_T")


@dataclass(frozen=True)
class PfcOnly:
    """No congestion control: each flow sends at line rate unless its window or PFC stops it."""


@dataclass(frozen=True)
class Dcqcn:
    """CC_MODE 1. `alpha_timer_ps` is ALPHA_RESUME_INTERVAL, `cut_check_ps` RATE_DECREASE_INTERVAL,
    `increase_timer_ps` RP_TIMER, and `gain` EWMA_GAIN.
    """

    alpha_timer_ps: int
    cut_check_ps: int
    increase_timer_ps: int
    clamp_target_rate: bool
    gain: float
    fast_recovery_steps: int
    additive_increase_bps: int
    hyper_increase_bps: int
    min_rate_bps: int


@dataclass(frozen=True)
class Dctcp:
    """CC_MODE 8. `additive_increase_bps` is DCTCP_RATE_AI."""

    gain: float
    additive_increase_bps: int
    min_rate_bps: int


@dataclass(frozen=True)
class Timely:
    """CC_MODE 7. No keys set its other constants."""

    additive_increase_bps: int
    hyper_increase_bps: int
    min_rate_bps: int


@dataclass(frozen=True)
class Hpcc:
    """CC_MODE 3.

    `target_utilisation` is η of Algorithm 1 (Li et al., SIGCOMM'19), `max_stage` its maxStage; `int_multi`
    multiplies the units of bytes and queue length in the telemetry, which have few bits.
    """

    target_utilisation: float
    max_stage: int
    fast_react: bool
    int_multi: int
    additive_increase_bps: int
    min_rate_bps: int


@dataclass(frozen=True)
class HpccPint:
    """CC_MODE 10. `log_base` is that of the encoding, `probability` the share of packets that carry
    telemetry."""

    target_utilisation: float
    max_stage: int
    fast_react: bool
    log_base: float
    probability: float
    additive_increase_bps: int
    min_rate_bps: int


CongestionControl: TypeAlias = PfcOnly | Dcqcn | Dctcp | Timely | Hpcc | HpccPint


@dataclass(frozen=True)
class Marking:
    """ECN on ports of one rate, depending on the bytes that a packet leaves behind in the queue.

    No packet is marked up to `kmin_bytes`, and every packet above `kmax_bytes`; in between the probability
    grows linearly from 0 to `pmax`.
    """

    rate_bps: int
    kmin_bytes: int
    kmax_bytes: int
    pmax: float


@dataclass(frozen=True)
class Window:
    """A limit on the bytes of a flow in flight: base round-trip time × bottleneck rate.

    With `global_rtt` (GLOBAL_T), all flows use the largest base round-trip time of the network; with
    `follows_rate` (VAR_WIN), the window shrinks in proportion to the flow's rate.
    """

    global_rtt: bool
    follows_rate: bool


@dataclass(frozen=True)
class LinkDown:
    """All links between two nodes fail, in both directions, at `time_ps` after the start of the run."""

    time_ps: int
    a: int
    b: int


@dataclass(frozen=True)
class QueueMonitor:
    """A file of queue lengths, sampled every `interval_ps` from `start_ps` to `end_ps`."""

    file: PurePosixPath
    start_ps: int
    end_ps: int
    interval_ps: int


class Ignored(NamedTuple):
    """A setting that has no effect, with the reason."""

    key: str
    value: str
    why: str


class Default(NamedTuple):
    """A setting that the file leaves out, with the HPCC simulator's default."""

    key: str
    value: str


@dataclass(frozen=True)
class Config:
    """The settings of a study, checked as far as this is possible without its other files.

    `topology_file` and `flow_file` are as written; `fct_file` and `pfc_file` are relative to the directory of
    the run. `ecn` is true if switches mark packets; `marking` ascends by rate and is empty without `ecn`.
    With `ack_ignores_pause`, hosts send ACKs while their priority is paused; otherwise ACKs wait. `stop_ps`
    is at most `hocket.units.LARGEST`, which stands for never.
    """

    path: Path
    topology_file: str
    flow_file: str
    fct_file: PurePosixPath
    pfc_file: PurePosixPath
    queue_monitor: QueueMonitor | None
    congestion_control: CongestionControl
    window: Window | None
    ecn: bool
    marking: tuple[Marking, ...]
    payload_bytes: int
    buffer_bytes: int
    ack_ignores_pause: bool
    link_down: LinkDown | None
    stop_ps: int
    defaults: tuple[Default, ...]
    ignored: tuple[Ignored, ...]


def read_config(path: Path) -> Config:
    """The settings in `path`, whose lines are a key and its values.

    A setting that the file leaves out has the HPCC simulator's default, or is an error if that is unusable.
    Raises `InputError` with all mistakes.
    """
    keys = _Keys(path)
    settings = _settings(keys)
    keys.mistakes.check()
    return settings


class _Keys:
    """The lines of one file by key; its methods parse and check the values.

    For a wrong value, a method adds a mistake and returns a valid stand-in, so that all mistakes are found
    before `mistakes` refuses the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mistakes = Mistakes(path)
        self.given: dict[str, tuple[int, list[str]]] = {}
        self.taken: set[str] = set()
        self.defaults: list[Default] = []
        self.without_effect: dict[str, str] = {}
        for number, (key, *words) in read_words(path):
            # A mistyped key that is ignored would silently run another study.
            if key not in _KNOWN:
                close = get_close_matches(key.upper(), _KNOWN, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                self.mistakes.add(number, f"{shown(key)} is not a known key{hint}")
            elif key in self.given:
                self.mistakes.add(number, f"{key} is given twice, first in line {self.given[key][0]}")
            else:
                self.given[key] = (number, words)

    def refuse(self, key: str, text: str) -> None:
        """Adds a mistake about the value of `key`."""
        self.mistakes.add(self.given[key][0] if key in self.given else 0, f"{key}: {text}")

    def words(self, key: str) -> list[str]:
        """All words of `key`; none if it is left out."""
        self.taken.add(key)
        return self.given[key][1] if key in self.given else []

    def take(self, key: str, read: Callable[[str], _T], default: str | None, stand_in: _T) -> _T:
        """The single value of `key`, parsed by `read`. If `key` is left out, the value is the simulator's
        `default`; without one, this is a mistake.
        """
        words = self.words(key)
        if key not in self.given:
            if default is None:
                self.mistakes.add(0, f"{key} is missing; the simulator has no usable default for it")
                return stand_in
            self.defaults.append(Default(key, default))
            return read(default)
        if len(words) != 1:
            self.refuse(key, f"takes 1 value: got {len(words)}")
            return stand_in
        try:
            return read(words[0])
        except InputError as error:
            self.refuse(key, str(error))
            return stand_in

    def integer(self, key: str, lowest: int, highest: int, default: str | None = None) -> int:
        """A whole number from `lowest` to `highest`."""
        return self.take(key, lambda word: whole(word, lowest, highest), default, highest)

    def flag(self, key: str, default: str) -> bool:
        """0 or 1."""
        return self.integer(key, 0, 1, default) == 1

    def share(self, key: str, default: str | None = None) -> float:
        """A number above 0 and at most 1."""
        return self.take(key, lambda word: float(_between(word, Fraction(0), Fraction(1))), default, 1.0)

    def microseconds(self, key: str, default: str | None = None) -> int:
        """A time above 0 in microseconds, as picoseconds."""

        def read(word: str) -> int:
            value = bounded_time_ps(word, MICROSECOND_PS)
            if value == 0:
                raise InputError(f"must be above 0: got {shown(word)}")
            return value

        return self.take(key, read, default, 1)

    def rate(self, key: str, default: str | None = None) -> int:
        """A rate above 0, in bits per second."""
        return self.take(key, rate_bps, default, 1)

    def file(self, key: str, default: str | None = None) -> str:
        """The name of a file, as written."""
        return self.take(key, _printable, default, "")

    def output(self, key: str, default: str | None = None) -> PurePosixPath:
        """The name of an output file, relative to the directory of the run. Of an absolute path, or one with
        `..`, only the last part is kept."""

        # A study may be somebody else's: it must not write outside the directory of its run.
        def read(word: str) -> PurePosixPath:
            name = PurePosixPath(_printable(word))
            if not name.name:
                raise InputError(f"must name a file: got {shown(word)}")
            return PurePosixPath(name.name) if name.is_absolute() or ".." in name.parts else name

        return self.take(key, read, default, PurePosixPath(key))

    def rate_map(self, key: str, read: Callable[[str], _T]) -> dict[int, _T]:
        """Values by link rate in bits per second, from `n rate value rate value …`."""
        values: dict[int, _T] = {}
        words = self.words(key)
        if key not in self.given:
            self.mistakes.add(0, f"{key} is missing; ENABLE_QCN 1 needs it")
            return values
        try:
            count = whole(words[0] if words else "", 1, _MAX_RATES)
            if len(words) != 1 + 2 * count:
                raise InputError(
                    f"{count} rates take {2 * count} values after their number: got {len(words) - 1}"
                )
            for rate_word, word in zip(words[1::2], words[2::2], strict=True):
                rate = rate_bps(rate_word)
                if rate in values:
                    raise InputError(f"has the rate {shown(rate_word)} twice")
                values[rate] = read(word)
        except InputError as error:
            self.refuse(key, str(error))
        return values

    def ignored(self, control: str) -> tuple[Ignored, ...]:
        """The settings without effect if `control` is the congestion control, in the order of the file."""
        ignored = []
        for key, (_, words) in self.given.items():
            if key in self.without_effect:
                why = self.without_effect[key]
            elif key in self.taken:
                continue
            elif key in _CONTROLS_THAT_READ:
                readers = " and ".join(_CONTROLS_THAT_READ[key])
                why = f"only for {readers}, but CC_MODE chooses {control}"
            elif key in _WINDOW:
                why = "with HAS_WIN 0 there is no window"
            elif key in _MARKING:
                why = "with ENABLE_QCN 0 nothing is marked"
            else:
                why = _WITHOUT_EFFECT[key]
            ignored.append(Ignored(key, " ".join(words), why))
        return tuple(ignored)


def _printable(word: str) -> str:
    if not word.isprintable():
        raise InputError(f"must be printable: got {shown(word)}")
    return word


def _between(word: str, above: Fraction, highest: Fraction) -> Fraction:
    value = real(word)
    if not above < value <= highest:
        raise InputError(f"must be above {above} and at most {highest}: got {shown(word)}")
    return value


def _settings(keys: _Keys) -> Config:
    topology_file, flow_file = keys.file("TOPOLOGY_FILE"), keys.file("FLOW_FILE")
    fct_file, pfc_file = keys.output("FCT_OUTPUT_FILE", "fct.txt"), keys.output("PFC_OUTPUT_FILE", "pfc.txt")
    stop_ps = keys.take("SIMULATOR_STOP_TIME", _stop_ps, "3.01", LARGEST)
    control = keys.take("CC_MODE", _control_name, "1", "pfc-only")
    _only_what_is_modelled(keys, control)
    ecn = keys.flag("ENABLE_QCN", "1")
    payload = keys.integer("PACKET_PAYLOAD_SIZE", 1, MAX_PAYLOAD_BYTES, "1000")
    _acknowledgement_per_packet(keys, payload)
    monitor = _queue_monitor(keys, stop_ps)
    _different_outputs(keys, fct_file, pfc_file, monitor)
    return Config(
        path=keys.path,
        topology_file=topology_file,
        flow_file=flow_file,
        fct_file=fct_file,
        pfc_file=pfc_file,
        queue_monitor=monitor,
        congestion_control=_congestion_control(keys, control),
        window=_window(keys, control),
        ecn=ecn,
        marking=_marking(keys) if ecn else (),
        payload_bytes=payload,
        buffer_bytes=keys.integer("BUFFER_SIZE", 1, _MAX_BUFFER_UNITS, "16") * BUFFER_UNIT_BYTES,
        ack_ignores_pause=keys.flag("ACK_HIGH_PRIO", "0"),
        link_down=_link_down(keys, stop_ps),
        stop_ps=stop_ps,
        # Last, after all keys that have an effect were taken.
        defaults=tuple(keys.defaults),
        ignored=keys.ignored(control),
    )


def _stop_ps(word: str) -> int:
    # Files of this family write 40000000000000 seconds for "never".
    value = min(time_ps(word, SECOND_PS), LARGEST)
    if value == 0:
        raise InputError(f"must be above 0: got {shown(word)}")
    return value


def _control_name(word: str) -> str:
    mode = whole(word, 0, _MAX_COUNT)
    if mode not in _CC_MODES:
        known = ", ".join(f"{mode} ({name})" for mode, name in _CC_MODES.items())
        raise InputError(f"{mode} is not supported; known: {known}")
    return _CC_MODES[mode]


def _only_what_is_modelled(keys: _Keys, control: str) -> None:
    for key, (value, what) in _ONLY_VALUES.items():
        if control not in _CONTROLS_THAT_READ.get(key, (control,)):
            continue
        if key in keys.given:
            given = keys.take(key, real, None, Fraction(value))
            if given != value:
                keys.refuse(key, f"{keys.words(key)[0]} is not supported, only {value}: {what}")
            keys.without_effect[key] = f"the only supported value: {what}"
        elif key == "MULTI_RATE":
            keys.refuse(key, f"is missing, but the simulator's default, 1, is not supported, only 0: {what}")
    # The simulators too need a time above 0, although their pauses have no timer.
    if "PAUSE_TIME" in keys.given and keys.take("PAUSE_TIME", real, None, Fraction(1)) <= 0:
        keys.refuse("PAUSE_TIME", f"must be above 0: got {shown(keys.words('PAUSE_TIME')[0])}")
    keys.without_effect["PAUSE_TIME"] = _WITHOUT_EFFECT["PAUSE_TIME"]


def _acknowledgement_per_packet(keys: _Keys, payload: int) -> None:
    """Refuses an L2_ACK_INTERVAL that is more than a packet's `payload`.

    It is in bytes, and the simulators count anew after each packet: every smaller value is an ACK per packet.
    """

    def read(word: str) -> int:
        interval = whole(word, 0, _MAX_COUNT)
        if interval == 0:
            raise InputError("0 turns ACKs off, and no flow would end; 1 is an ACK per packet")
        if interval > payload:
            raise InputError(
                f"{interval} bytes are more than a packet's {payload}, which is not supported; "
                "1 is an ACK per packet"
            )
        return interval

    keys.take("L2_ACK_INTERVAL", read, None, 1)


def _congestion_control(keys: _Keys, control: str) -> CongestionControl:
    match control:
        case "dcqcn":
            return Dcqcn(
                alpha_timer_ps=keys.microseconds("ALPHA_RESUME_INTERVAL", "55"),
                cut_check_ps=keys.microseconds("RATE_DECREASE_INTERVAL", "4"),
                increase_timer_ps=keys.microseconds("RP_TIMER"),
                clamp_target_rate=keys.flag("CLAMP_TARGET_RATE", "0"),
                gain=keys.share("EWMA_GAIN"),
                fast_recovery_steps=keys.integer("FAST_RECOVERY_TIMES", 0, _MAX_RECOVERY_STEPS, "5"),
                additive_increase_bps=keys.rate("RATE_AI"),
                hyper_increase_bps=keys.rate("RATE_HAI"),
                min_rate_bps=keys.rate("MIN_RATE", "100Mb/s"),
            )
        case "dctcp":
            return Dctcp(
                gain=keys.share("EWMA_GAIN"),
                additive_increase_bps=keys.rate("DCTCP_RATE_AI", "1000Mb/s"),
                min_rate_bps=keys.rate("MIN_RATE", "100Mb/s"),
            )
        case "timely":
            return Timely(
                additive_increase_bps=keys.rate("RATE_AI"),
                hyper_increase_bps=keys.rate("RATE_HAI"),
                min_rate_bps=keys.rate("MIN_RATE", "100Mb/s"),
            )
        case "hpcc":
            return Hpcc(
                target_utilisation=keys.share("U_TARGET", "0.95"),
                max_stage=keys.integer("MI_THRESH", 0, _MAX_COUNT, "5"),
                fast_react=keys.flag("FAST_REACT", "1"),
                int_multi=keys.integer("INT_MULTI", 1, _MAX_COUNT, "1"),
                additive_increase_bps=keys.rate("RATE_AI"),
                min_rate_bps=keys.rate("MIN_RATE", "100Mb/s"),
            )
        case "hpcc-pint":
            return HpccPint(
                target_utilisation=keys.share("U_TARGET", "0.95"),
                max_stage=keys.integer("MI_THRESH", 0, _MAX_COUNT, "5"),
                fast_react=keys.flag("FAST_REACT", "1"),
                log_base=keys.take("PINT_LOG_BASE", _log_base, "1.05", 2.0),
                probability=keys.share("PINT_PROB", "1.0"),
                additive_increase_bps=keys.rate("RATE_AI"),
                min_rate_bps=keys.rate("MIN_RATE", "100Mb/s"),
            )
        case _:
            return PfcOnly()


def _log_base(word: str) -> float:
    return float(_between(word, Fraction(1), Fraction(2**16)))


def _window(keys: _Keys, control: str) -> Window | None:
    if not keys.flag("HAS_WIN", "1"):
        # Queues divided by the window are part of HPCC's utilisation; PINT's switches compute their own.
        if control == "hpcc":
            keys.refuse("HAS_WIN", "must be 1 for HPCC, which divides the queue by the window: got 0")
        return None
    return Window(global_rtt=keys.flag("GLOBAL_T", "1"), follows_rate=keys.flag("VAR_WIN", "0"))


def _marking(keys: _Keys) -> tuple[Marking, ...]:
    """The thresholds of the rates that are in all three maps.

    A rate that is missing in one matters only if a switch has a port of it, which `load_study` checks.
    """

    def threshold(word: str) -> int:
        return whole(word, 0, _MAX_THRESHOLD_UNITS) * THRESHOLD_UNIT_BYTES

    def probability(word: str) -> float:
        value = real(word)
        if not 0 <= value <= 1:
            raise InputError(f"a probability is from 0 to 1: got {shown(word)}")
        return float(value)

    kmin, kmax = keys.rate_map("KMIN_MAP", threshold), keys.rate_map("KMAX_MAP", threshold)
    pmax = keys.rate_map("PMAX_MAP", probability)
    for rate in kmin.keys() & kmax.keys():
        if kmin[rate] > kmax[rate]:
            keys.refuse(
                "KMIN_MAP",
                f"{kmin[rate] // THRESHOLD_UNIT_BYTES} for the rate {rate} is above the "
                f"{kmax[rate] // THRESHOLD_UNIT_BYTES} of KMAX_MAP",
            )
    # Sorted: the intersection of sets has no order of its own.
    rates = sorted(kmin.keys() & kmax.keys() & pmax.keys())
    return tuple(Marking(rate, kmin[rate], kmax[rate], pmax[rate]) for rate in rates)


def _link_down(keys: _Keys, stop_ps: int) -> LinkDown | None:
    words = keys.words("LINK_DOWN")
    if "LINK_DOWN" not in keys.given:
        return None
    if len(words) != 3:
        keys.refuse("LINK_DOWN", f"takes 3 values, microseconds and two nodes: got {len(words)}")
        return None
    try:
        after_us, a, b = (whole(word, 0, LARGEST) for word in words)
    except InputError as error:
        keys.refuse("LINK_DOWN", str(error))
        return None
    time = LINK_DOWN_ORIGIN_PS + after_us * MICROSECOND_PS
    # "LINK_DOWN 0 0 0", as shipped, means that no link fails.
    if after_us == 0:
        return None
    if time >= stop_ps:
        keys.without_effect["LINK_DOWN"] = (
            f"its time, 2 s + {after_us} us after the start, is after the end of the run: SIMULATOR_STOP_TIME"
        )
        return None
    return LinkDown(time, a, b)


def _queue_monitor(keys: _Keys, stop_ps: int) -> QueueMonitor | None:
    def read(word: str) -> int:
        return time_ps(word, NANOSECOND_PS)

    def interval(word: str) -> int:
        return whole(word, 1, _MAX_COUNT) * NANOSECOND_PS

    if "QLEN_MON_FILE" not in keys.given:
        keys.without_effect |= dict.fromkeys(_MONITOR, "without QLEN_MON_FILE nothing is written")
        return None
    file = keys.output("QLEN_MON_FILE")
    # Nanoseconds. The simulator's default is two seconds, when the flows of its examples start.
    start_ps = keys.take("QLEN_MON_START", read, "2000000000", 0)
    end_ps = keys.take("QLEN_MON_END", read, "2100000000", 0)
    why = None
    if start_ps >= stop_ps:
        why = "the monitor would start after the end of the run: QLEN_MON_START, SIMULATOR_STOP_TIME"
    elif start_ps > end_ps:
        why = "the monitor would end before it starts: QLEN_MON_START, QLEN_MON_END"
    if why:
        keys.without_effect |= dict.fromkeys(_MONITOR, why)
        return None
    interval_ps = keys.take("QLEN_MON_INTERVAL", interval, "100", 1)
    return QueueMonitor(file, start_ps, min(end_ps, LARGEST), interval_ps)


def _different_outputs(
    keys: _Keys, fct_file: PurePosixPath, pfc_file: PurePosixPath, monitor: QueueMonitor | None
) -> None:
    files = [("FCT_OUTPUT_FILE", fct_file), ("PFC_OUTPUT_FILE", pfc_file)]
    files += [("QLEN_MON_FILE", monitor.file)] if monitor else []
    times = Counter(file for _, file in files)
    for index, (key, file) in enumerate(files):
        if times[file] > 1 and file in [other for _, other in files[:index]]:
            keys.refuse(key, f"{shown(str(file))} is also the name of another output")
