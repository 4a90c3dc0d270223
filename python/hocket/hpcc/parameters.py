"""Converts the settings of a study, and the constants of its simulator, to parameters of the packet engine.

Each value has its source: a key of `config.txt`, the simulator's default for a key, or a reason.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hocket import _hocket
from hocket.errors import InputError, check_choice
from hocket.hpcc.config import Config, Dcqcn, Dctcp, Hpcc, HpccPint, Timely
from hocket.hpcc.study import RESERVE_BYTES
from hocket.plan import congestion
from hocket.plan.names import names_of
from hocket.plan.parameters import Marking, Parameter
from hocket.text_inputs import MICROSECOND_PS

Arithmetic = Literal["reference", "exact"]
FrameSizes = Literal["reference", "rocev2"]
Headroom = Literal["three-delays", "computed"]


@dataclass(frozen=True)
class Fidelity:
    """Whether a run imitates the simulator or is exact, for each of three aspects.

    `arithmetic`: times rounded to nanoseconds and NICs that wake up late (docs/validation/engines.md), or
    picoseconds and NICs that do not. `frames`: the simulator's header bytes, or those of RoCEv2 on Ethernet.
    `headroom`: a link's rate × three times its delay, or the value required by IEEE 802.1Qbb. Raises
    `InputError` for any other value.
    """

    name: str
    arithmetic: Arithmetic
    frames: FrameSizes
    headroom: Headroom

    def __post_init__(self) -> None:
        check_choice("arithmetic", self.arithmetic, get_args(Arithmetic))
        check_choice("frames", self.frames, get_args(FrameSizes))
        check_choice("headroom", self.headroom, get_args(Headroom))


REFERENCE = Fidelity("reference", "reference", "reference", "three-delays")
"""The arithmetic of HPCC-style simulators."""

EXACT = Fidelity("exact", "exact", "rocev2", "computed")
"""Exact times, and frames with their real sizes."""


Parameters: TypeAlias = list[Parameter]

_SIMULATOR = "the HPCC simulator; no key sets it"
_PAPER = "the paper; no key sets it"
_UNUSED = "no packet carries this telemetry"
_MAPS = ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP")
# Data: Ethernet 2 (in ASTRA-sim's port; the original has 14), IPv4 20, UDP 8, sequence number 4 and priority
# group 2. ACK: 2 + 20 + 12, padded to 46 bytes besides Ethernet's 2. PAUSE: 2 + 20 + 9. HPCC's telemetry has
# room for 5 hops whatever the path, 5 × 8 bytes and a count of 2.
_FRAMES = {
    "data_header_bytes": 36,
    "ack_bytes": 34,
    "least_ack_bytes": 48,
    "pause_bytes": 31,
    "stamp_bytes": 8,
    "hops_bytes": 42,
    "load_bytes": 2,
}


def model_parameters(config: Config, fidelity: Fidelity) -> Parameters:
    """The parameters of hosts and switches, in the order in which the manifest lists them."""
    source = _Source(config)
    chosen = f"fidelity {fidelity.name}"
    marking = [Marking(each.rate_bps, each.kmin_bytes, each.kmax_bytes, each.pmax) for each in config.marking]
    frames = _FRAMES if fidelity.frames == "reference" else _hocket.rocev2_frames()
    unit, base = Parameter("telemetry_unit", 1, _UNUSED), Parameter("pint_base", 1.05, _UNUSED)
    match config.congestion_control:
        case Hpcc(int_multi=multiplier):
            unit = Parameter("telemetry_unit", multiplier, source("INT_MULTI"))
        case HpccPint(log_base=log_base):
            base = Parameter("pint_base", log_base, source("PINT_LOG_BASE"))
    return [
        Parameter("mtu_bytes", config.payload_bytes, source("PACKET_PAYLOAD_SIZE")),
        *(Parameter(name, value, chosen) for name, value in frames.items()),
        Parameter("ack_every", 1, source("L2_ACK_INTERVAL")),
        # The least time between two NACKs for the same gap.
        Parameter("nack_interval_ps", 500 * MICROSECOND_PS, _SIMULATOR),
        Parameter("cnp", None, f"acknowledgements carry the marks: {_SIMULATOR}"),
        Parameter("pause_holds_acks", not config.ack_ignores_pause, source("ACK_HIGH_PRIO")),
        # The simulator has no such timeout: it never retransmits the packets lost at the end of a flow.
        Parameter("retransmit_timeout_ps", 4000 * MICROSECOND_PS, "matters where a link fails"),
        Parameter("buffer_bytes", config.buffer_bytes, source("BUFFER_SIZE")),
        Parameter("reserve_bytes", RESERVE_BYTES, _SIMULATOR),
        Parameter("headroom", fidelity.headroom, chosen),
        # The threshold is the free shared buffer, shifted right by 3 bits: α = 1/8.
        Parameter("dynamic_threshold", -3, _SIMULATOR),
        Parameter("resume_offset_bytes", 3072, _SIMULATOR),
        Parameter("pfc", True, _SIMULATOR),
        Parameter("marking", marking, source("ENABLE_QCN", *(_MAPS if config.ecn else ()))),
        Parameter("scheduling", "round-robin", _SIMULATOR),
        Parameter("cut_through", False, _SIMULATOR),
        unit,
        base,
        Parameter("arithmetic", fidelity.arithmetic, chosen),
    ]


def policy_parameters(config: Config) -> Parameters:
    """The congestion control of all flows: its name, then its parameters.

    Raises `InputError` for a setting that is valid but not supported by the engine.
    """
    source = _Source(config)
    control = config.congestion_control
    match control:
        case Dcqcn():
            name, parameters = "dcqcn", _dcqcn(control, source)
        case Dctcp():
            name, parameters = (
                "dctcp",
                [
                    Parameter("gain", control.gain, source("EWMA_GAIN")),
                    Parameter(
                        "additive_increase_bps", control.additive_increase_bps, source("DCTCP_RATE_AI")
                    ),
                    Parameter("min_rate_bps", control.min_rate_bps, source("MIN_RATE")),
                ],
            )
        case Timely():
            name, parameters = "timely", _timely(control, source)
        case Hpcc():
            name, parameters = "hpcc", _hpcc(control, source)
        case HpccPint():
            if control.probability < 1:
                raise InputError(
                    f"PINT_PROB: {control.probability:g} is not supported, only 1: "
                    "each packet carries telemetry"
                )
            base = Parameter("log_base", control.log_base, source("PINT_LOG_BASE"))
            name, parameters = "hpcc-pint", [*_hpcc(control, source), base]
        case _:
            name, parameters = "pfc-only", []
    return [Parameter("policy", name, source("CC_MODE")), *parameters]


def window_parameters(config: Config) -> Parameters:
    """The limit on bytes in flight, and whether all flows use the network's longest base round-trip time."""
    source = _Source(config)
    window = config.window
    if window is None:
        # HPCC over PINT always uses the network's longest; without a window nothing else reads this value.
        return [
            Parameter("window", "unlimited", source("HAS_WIN")),
            Parameter("longest_rtt_for_all", True, _SIMULATOR),
        ]
    kind = "path-full-scaled" if window.follows_rate else "path-full"
    return [
        Parameter("window", kind, source("HAS_WIN", "VAR_WIN")),
        Parameter("longest_rtt_for_all", window.global_rtt, source("GLOBAL_T")),
    ]


class _Source:
    """Returns the source of a value from its keys; a key that the file leaves out is marked as a default."""

    def __init__(self, config: Config) -> None:
        self._missing = {each.key for each in config.defaults}

    def __call__(self, *keys: str) -> str:
        return ", ".join(f"{key} (the simulator's default)" if key in self._missing else key for key in keys)


# Parameters that no key of `config.txt` sets.
_FIXED_DCQCN = {
    "byte_counter": (None, _SIMULATOR),
    "initial_alpha": (1.0, _PAPER),
    "cut_divisor": (2.0, _PAPER),
    "least_kept": (0.0, _SIMULATOR),
    "clamp_target_after_timer": (True, _SIMULATOR),
    "rate_on_first_cnp_bps": (None, _SIMULATOR),
    "adaptive": (False, _SIMULATOR),
}


def _dcqcn(control: Dcqcn, source: _Source) -> Parameters:
    return [
        Parameter(name, *_FIXED_DCQCN[name])
        if names.study is None
        else Parameter(name, getattr(control, name), source(names.study.name))
        for name, names in names_of(congestion.Dcqcn).items()
    ]


def _timely(control: Timely, source: _Source) -> Parameters:
    return [
        Parameter("gain", 0.875, _SIMULATOR),
        Parameter("decrease", 0.8, _SIMULATOR),
        Parameter("low_ps", 50 * MICROSECOND_PS, _SIMULATOR),
        Parameter("high_ps", 500 * MICROSECOND_PS, _SIMULATOR),
        Parameter("min_rtt_ps", 20 * MICROSECOND_PS, _SIMULATOR),
        Parameter("additive_increase_bps", control.additive_increase_bps, source("RATE_AI")),
        Parameter("hyper_increase_bps", control.hyper_increase_bps, source("RATE_HAI")),
        Parameter("min_rate_bps", control.min_rate_bps, source("MIN_RATE")),
    ]


def _hpcc(control: Hpcc | HpccPint, source: _Source) -> Parameters:
    return [
        Parameter("target_utilisation", control.target_utilisation, source("U_TARGET")),
        Parameter("max_additive_steps", control.max_stage, source("MI_THRESH")),
        Parameter("additive_increase_bps", control.additive_increase_bps, source("RATE_AI")),
        Parameter("min_rate_bps", control.min_rate_bps, source("MIN_RATE")),
        Parameter("fast_react", control.fast_react, source("FAST_REACT")),
    ]
