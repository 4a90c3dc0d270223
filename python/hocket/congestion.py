"""What governs the flows of a job on the packet engine: a congestion control, its preset, and what a plan
says otherwise.

Parameters have their names of the papers; those of NVIDIA's NICs (mlx5) and of HPCC-style simulators are
understood too, in the units in which they stand there.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_validator,
)

from hocket import _hocket
from hocket.errors import InputError
from hocket.parameters import Parameter
from hocket.schema import Number, Spelling, Table, integer, number, respelt, whole
from hocket.units import (
    Bytes,
    PositiveDurationPs,
    PositiveRateBps,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_rate,
    shown,
)

Fraction = Annotated[Number, Field(gt=0, le=1)]
Part = Annotated[Number, Field(ge=0, le=1)]
Steps = Annotated[StrictInt, Field(ge=0, le=254)]
Preset = Literal["recommended", "mlx5", "sigcomm15", "hotnets22"]

_PRESETS: dict[Preset, str] = {
    "recommended": "the scripts of HPCC's simulator (SIGCOMM'19), for the rate of the NIC",
    "mlx5": "what ConnectX NICs are shipped with (NVIDIA, DCQCN CC parameters, DOCA 3.4, November 2026)",
    "sigcomm15": "DCQCN, SIGCOMM'15 §5 and §6, for 40 Gbps",
    "hotnets22": "HotNets'22 §2: ConnectX-5 as shipped, with a rate-increase timer of 125 µs",
}

_SOURCES = {
    "static-window": "HOTI'22 §VI: the largest with which no PAUSE is sent, from all flows that may meet",
    "receiver-driven": "what fills the way; 7 messages at a time, Homa, SIGCOMM'18 §3.5",
}


def _or_off(read: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: "off" if value == 0 and not isinstance(value, bool) else read(value)


def _flag(value: object) -> object:
    return value if isinstance(value, bool) else integer(value, 0, 1) == 1


def _same(value: object) -> object:
    return value


def _us(value: object) -> object:
    """Microseconds, whole or not."""
    microseconds = number(value)
    if not 0 <= microseconds <= 2**31:
        raise InputError(f"must be between 0 and 2147483648 microseconds: got {shown(value)}")
    return f"{round(microseconds * 10**6)} ps"


# Whole numbers in the NIC's own units: Linux `drivers/infiniband/hw/mlx5/cong.c`, and NVIDIA's "DCQCN CC
# parameters".
_MLX5 = {
    "rp_time_reset": Spelling("increase_timer", whole("us")),
    "rp_byte_reset": Spelling("byte_counter", _or_off(whole("B", 64))),
    "rp_threshold": Spelling("fast_recovery_steps", _same),
    "rp_ai_rate": Spelling("additive_increase", whole("Mbps")),
    "rp_hai_rate": Spelling("hyper_increase", whole("Mbps")),
    "rp_dce_tcp_g": Spelling("gain", lambda value: 1 - integer(value, 0, 1023) / 1024),
    "rp_dce_tcp_rtt": Spelling("alpha_timer", whole("us")),
    "rp_initial_alpha_value": Spelling("initial_alpha", lambda value: integer(value, 0, 1023) / 1023),
    "rp_rate_reduce_monitor_period": Spelling("cut_check", whole("us")),
    "rp_gd": Spelling("cut_divisor", lambda value: 2.0 ** (integer(value, 10, 40) - 10)),
    "rp_min_dec_fac": Spelling("least_kept", lambda value: integer(value, 0, 100) / 100),
    "rp_clamp_tgt_rate": Spelling("clamp_target_rate", _flag),
    "rp_clamp_tgt_rate_ati": Spelling("clamp_target_after_timer", _flag),
    "rp_min_rate": Spelling("min_rate", whole("Mbps")),
    "rp_rate_to_set_on_first_cnp": Spelling("rate_on_first_cnp", _or_off(whole("Mbps"))),
}
# Keys of the HPCC simulator's `config.txt`; the names of the papers stand beside them.
_INCREASES = {
    "RATE_AI": Spelling("additive_increase", _same),
    "RATE_HAI": Spelling("hyper_increase", _same),
    "MIN_RATE": Spelling("min_rate", _same),
}


_PAPER_DCQCN = {
    "T": "increase_timer",
    "B": "byte_counter",
    "F": "fast_recovery_steps",
    "R_AI": "additive_increase",
    "R_HAI": "hyper_increase",
    "g": "gain",
}
_MAY_BE_OFF = ("byte_counter", "cut_check_ps", "rate_on_first_cnp_bps")


def _quantity_or_off(
    parse: Callable[[Any], int], write: Callable[[int], str], example: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity above 0, or "off", which is held as 0."""

    def read(value: object) -> int:
        if value == "off":
            return 0
        found = parse(value)
        if found == 0:
            raise InputError(f'must be above 0, or "off": got {shown(value)}')
        return found

    return (
        BeforeValidator(read),
        PlainSerializer(lambda value: write(value) if value else "off", return_type=str),
        WithJsonSchema({"type": "string", "examples": [example, "off"]}),
    )


BytesOrOff = Annotated[int, *_quantity_or_off(parse_bytes, format_bytes, "10 MB")]
DurationPsOrOff = Annotated[int, *_quantity_or_off(parse_duration, format_duration, "4 us")]
WindowBytes = Annotated[Bytes, Field(ge=1)]
RateBpsOrOff = Annotated[int, *_quantity_or_off(parse_rate, format_rate, "1 Gbps")]


class _Control(Table):
    """The parameters of a congestion control that a plan gives; the others are those of its preset."""

    @model_validator(mode="before")
    @classmethod
    def _in_our_spelling(cls, given: object) -> object:
        return respelt(given, cls._spellings())

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        return {}

    def preset_name(self) -> Preset:
        """Where parameters come from that are not given."""
        return "recommended"

    def given(self) -> dict[str, Any]:
        """What the plan says, by the engine's name of the parameter, in its units."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set - {"preset"})
        values = ((name, getattr(self, name)) for name in names)
        return {name: None if name in _MAY_BE_OFF and value == 0 else value for name, value in values}


class PfcOnly(_Control):
    """Line rate; PAUSE frames alone hold a flow back."""


class Dcqcn(_Control):
    """DCQCN (SIGCOMM'15)."""

    preset: Preset | None = None
    increase_timer_ps: PositiveDurationPs | None = Field(default=None, alias="increase_timer")
    byte_counter: BytesOrOff | None = None
    fast_recovery_steps: Steps | None = None
    additive_increase_bps: PositiveRateBps | None = Field(default=None, alias="additive_increase")
    hyper_increase_bps: PositiveRateBps | None = Field(default=None, alias="hyper_increase")
    gain: Fraction | None = None
    alpha_timer_ps: PositiveDurationPs | None = Field(default=None, alias="alpha_timer")
    initial_alpha: Part | None = None
    cut_check_ps: DurationPsOrOff | None = Field(default=None, alias="cut_check")
    cut_divisor: Annotated[Number, Field(ge=1)] | None = None
    least_kept: Part | None = None
    clamp_target_rate: StrictBool | None = None
    clamp_target_after_timer: StrictBool | None = None
    min_rate_bps: PositiveRateBps | None = Field(default=None, alias="min_rate")
    rate_on_first_cnp_bps: RateBpsOrOff | None = Field(default=None, alias="rate_on_first_cnp")
    adaptive: StrictBool | None = None

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        return {
            **_MLX5,
            **_INCREASES,
            **{name: Spelling(key, _same) for name, key in _PAPER_DCQCN.items()},
            "RP_TIMER": Spelling("increase_timer", _us),
            "EWMA_GAIN": Spelling("gain", _same),
            "ALPHA_RESUME_INTERVAL": Spelling("alpha_timer", _us),
            "RATE_DECREASE_INTERVAL": Spelling("cut_check", _us),
            "FAST_RECOVERY_TIMES": Spelling("fast_recovery_steps", _same),
            "CLAMP_TARGET_RATE": Spelling("clamp_target_rate", _flag),
        }

    def preset_name(self) -> Preset:
        return self.preset or "recommended"


class Dctcp(_Control):
    """DCTCP (SIGCOMM'10), as a rate."""

    gain: Fraction | None = None
    additive_increase_bps: PositiveRateBps | None = Field(default=None, alias="additive_increase")
    min_rate_bps: PositiveRateBps | None = Field(default=None, alias="min_rate")

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        return {
            "g": Spelling("gain", _same),
            "EWMA_GAIN": Spelling("gain", _same),
            "DCTCP_RATE_AI": Spelling("additive_increase", _same),
            "MIN_RATE": _INCREASES["MIN_RATE"],
        }


class Timely(_Control):
    """TIMELY (SIGCOMM'15)."""

    gain: Fraction | None = None
    decrease: Fraction | None = None
    low_ps: PositiveDurationPs | None = Field(default=None, alias="low")
    high_ps: PositiveDurationPs | None = Field(default=None, alias="high")
    min_rtt_ps: PositiveDurationPs | None = Field(default=None, alias="min_rtt")
    additive_increase_bps: PositiveRateBps | None = Field(default=None, alias="additive_increase")
    hyper_increase_bps: PositiveRateBps | None = Field(default=None, alias="hyper_increase")
    min_rate_bps: PositiveRateBps | None = Field(default=None, alias="min_rate")

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        names = {
            "alpha": "gain",
            "beta": "decrease",
            "T_low": "low",
            "T_high": "high",
            "D_minRTT": "min_rtt",
            "delta": "additive_increase",
        }
        return {**{name: Spelling(key, _same) for name, key in names.items()}, **_INCREASES}


class Hpcc(_Control):
    """HPCC (SIGCOMM'19)."""

    target_utilisation: Fraction | None = None
    max_additive_steps: Steps | None = None
    additive_increase_bps: PositiveRateBps | None = Field(default=None, alias="additive_increase")
    min_rate_bps: PositiveRateBps | None = Field(default=None, alias="min_rate")
    fast_react: StrictBool | None = None

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        return {
            "eta": Spelling("target_utilisation", _same),
            "U_TARGET": Spelling("target_utilisation", _same),
            "maxStage": Spelling("max_additive_steps", _same),
            "MI_THRESH": Spelling("max_additive_steps", _same),
            "RATE_AI": _INCREASES["RATE_AI"],
            "MIN_RATE": _INCREASES["MIN_RATE"],
            "FAST_REACT": Spelling("fast_react", _flag),
        }


class HpccPint(Hpcc):
    """HPCC over PINT (SIGCOMM'20)."""

    log_base: Annotated[Number, Field(ge=1.001, le=2)] | None = None

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        return {**super()._spellings(), "PINT_LOG_BASE": Spelling("log_base", _same)}


class StaticWindow(_Control):
    """A window set once from the known pattern (HOTI'22 §VI)."""

    window_bytes: WindowBytes | None = Field(default=None, alias="window")


class ReceiverDriven(_Control):
    """Credit that the receiver grants (pHost, CoNEXT'15; Homa, SIGCOMM'18)."""

    unsolicited_bytes: Bytes | None = Field(default=None, alias="unsolicited")
    overcommitment: Annotated[StrictInt, Field(ge=1, le=2**31)] | None = None
    outstanding_bytes: WindowBytes | None = Field(default=None, alias="outstanding")


class Congestion(Table):
    """One congestion control: its name alone, or a table of its name to a table of parameters."""

    pfc_only: PfcOnly | None = Field(default=None, alias="pfc-only")
    dcqcn: Dcqcn | None = None
    dctcp: Dctcp | None = None
    timely: Timely | None = None
    hpcc: Hpcc | None = None
    hpcc_pint: HpccPint | None = Field(default=None, alias="hpcc-pint")
    static_window: StaticWindow | None = Field(default=None, alias="static-window")
    receiver_driven: ReceiverDriven | None = Field(default=None, alias="receiver-driven")

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if isinstance(given, Mapping):
            if len(given) != 1:
                raise InputError(f"must name one congestion control, of {', '.join(known)}: got {len(given)}")
            return given
        if given not in known:
            names = ", ".join(map(repr, known))
            raise InputError(
                f"must be one of {names}, or a table from one to its parameters: got {shown(given)}"
            )
        return {given: {}}

    @property
    def policy(self) -> str:
        """Its name."""
        return self._chosen()[0]

    def parameters(self, line_rate_bps: int, path_bytes: int) -> list[Parameter]:
        """Its name and all parameters, for flows from a NIC of this rate on a way that so many bytes fill."""
        policy, control = self._chosen()
        preset, given = control.preset_name(), control.given()
        default = _SOURCES.get(policy, f"{preset}: {_PRESETS[preset]}")
        parameters = [Parameter("policy", policy, "plan")]
        for key, value in _hocket.congestion_preset(policy, preset, line_rate_bps, path_bytes).items():
            if key in given:
                parameters.append(Parameter(key, given[key], "plan"))
            else:
                parameters.append(Parameter(key, value, default))
        return parameters

    def _chosen(self) -> tuple[str, _Control]:
        for name, field in type(self).model_fields.items():
            control = getattr(self, name)
            if control is not None:
                return field.alias or name, control
        raise AssertionError("a checked plan names a congestion control")
