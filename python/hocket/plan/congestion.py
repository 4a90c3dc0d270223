"""The congestion control of a job's flows on the packet engine: its preset, and the parameters that a plan
overrides.

Parameters have the names of the papers. The names of NVIDIA's NICs (mlx5) and of HPCC-style simulators are
accepted too, with the units that they have there.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hocket import _hocket
from hocket.errors import InputError
from hocket.plan.names import (
    Names,
    StudyKey,
    flag,
    names_of,
    nic_blocks_or_off,
    nic_complement,
    nic_count,
    nic_flag,
    nic_mbps,
    nic_mbps_or_off,
    nic_microseconds,
    nic_power_of_two,
    nic_share,
    study_microseconds,
)
from hocket.plan.parameters import Parameter
from hocket.plan.schema import (
    AS_SHORT_AS_FILES,
    Number,
    Spelling,
    Table,
    constructor,
    respelt,
)
from hocket.plan.table_errors import tables_in
from hocket.units import (
    Bytes,
    DurationLike,
    PositiveDurationPs,
    PositiveRateBps,
    RateLike,
    SizeLike,
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
# The engine counts steps in 8 bits, and DCQCN's hyper increase needs a count above that of fast recovery.
Steps = Annotated[StrictInt, Field(ge=0, le=254)]
Preset = Literal["recommended", "mlx5", "sigcomm15", "hotnets22"]

_PRESETS: dict[Preset, str] = {
    "recommended": "the scripts of HPCC's simulator (SIGCOMM'19), for the rate of the NIC",
    "mlx5": "ConnectX NICs as shipped (NVIDIA, DCQCN CC parameters, DOCA 3.4, November 2026)",
    "sigcomm15": "DCQCN, SIGCOMM'15 §5 and §6, for 40 Gbps",
    "hotnets22": "HotNets'22 §2: ConnectX-5 as shipped, with a rate-increase timer of 125 µs",
}

# Controls without presets: their defaults follow from the paths of the flows.
_SOURCES = {
    "static-window": "HOTI'22 §VI: the largest with which no PAUSE is sent even if all flows meet",
    "receiver-driven": "the bytes that fill the path; 7 messages at a time, Homa, SIGCOMM'18 §3.5",
}


# "off" is held as 0 for these keys, because `None` already means that the plan does not give them; the engine
# takes `None` for "off".
_CAN_BE_OFF = ("byte_counter", "cut_check_ps", "rate_on_first_cnp_bps")


def _quantity_or_off(
    parse: Callable[[Any], int], write: Callable[[int], str], example: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A field that reads a quantity above 0, or "off", which is held as 0."""

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


def _describe_other_names(schema: dict[str, Any], control: type[Table]) -> None:
    for name, names in names_of(control).items():
        key = control.model_fields[name].alias or name
        for alias, unit in names.aliases():
            in_unit = f", in units of {unit}" if unit else ""
            schema["properties"][alias] = {"description": f"Another name of `{key}`{in_unit}."}


class _Control(Table):
    """The parameters of a congestion control that a plan gives; its preset has the others."""

    model_config = ConfigDict(json_schema_extra=_describe_other_names)

    @model_validator(mode="before")
    @classmethod
    def _in_our_spelling(cls, given: object) -> object:
        return respelt(given, cls._spellings())

    @classmethod
    def _spellings(cls) -> Mapping[str, Spelling]:
        spellings: dict[str, Spelling] = {}
        for name, names in names_of(cls).items():
            spellings |= names.spellings(cls.model_fields[name].alias or name)
        return spellings

    def preset_name(self) -> Preset:
        """The preset that parameters come from if they are not given."""
        return "recommended"

    def given(self) -> dict[str, Any]:
        """The parameters that the plan gives, by the engine's name and in its units; `None` for "off"."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set - {"preset"})
        values = ((name, getattr(self, name)) for name in names)
        return {name: None if name in _CAN_BE_OFF and value == 0 else value for name, value in values}


class PfcOnly(_Control):
    """Flows send at line rate; only PAUSE frames hold them back."""

    @constructor
    def __init__(self) -> None: ...


class Dcqcn(_Control):
    """DCQCN (SIGCOMM'15)."""

    preset: Preset | None = None
    """Where parameters that are not given come from; by default `"recommended"`."""
    increase_timer_ps: Annotated[
        PositiveDurationPs | None,
        Names(
            "T",
            nic_microseconds("rp_time_reset"),
            study_microseconds("RP_TIMER"),
        ),
    ] = Field(default=None, alias="increase_timer")
    """Time between two increases."""
    byte_counter: Annotated[
        BytesOrOff | None,
        Names("B", nic_blocks_or_off("rp_byte_reset")),
    ] = None
    """Bytes on the wire between two increases, counted beside the timer; `"off"` for no byte counter."""
    fast_recovery_steps: Annotated[
        Steps | None, Names("F", nic_count("rp_threshold"), StudyKey("FAST_RECOVERY_TIMES"))
    ] = None
    """Steps of fast recovery before additive increase."""
    additive_increase_bps: Annotated[
        PositiveRateBps | None, Names("R_AI", nic_mbps("rp_ai_rate"), StudyKey("RATE_AI"))
    ] = Field(default=None, alias="additive_increase")
    """What the target rate gains in a step of additive increase."""
    hyper_increase_bps: Annotated[
        PositiveRateBps | None, Names("R_HAI", nic_mbps("rp_hai_rate"), StudyKey("RATE_HAI"))
    ] = Field(default=None, alias="hyper_increase")
    """What the target rate gains in a step of hyper increase."""
    gain: Annotated[
        Fraction | None,
        Names("g", nic_complement("rp_dce_tcp_g"), StudyKey("EWMA_GAIN")),
    ] = None
    """How far one update moves alpha."""
    alpha_timer_ps: Annotated[
        PositiveDurationPs | None,
        Names(
            nic=nic_microseconds("rp_dce_tcp_rtt", most=131_071),
            study=study_microseconds("ALPHA_RESUME_INTERVAL"),
        ),
    ] = Field(default=None, alias="alpha_timer")
    """Time between two updates of alpha."""
    initial_alpha: Annotated[
        Part | None, Names(nic=nic_share("rp_initial_alpha_value", "of 1023", 1023, least=1))
    ] = None
    """Alpha at the first CNP."""
    cut_check_ps: Annotated[
        DurationPsOrOff | None,
        Names(
            nic=nic_microseconds("rp_rate_reduce_monitor_period"),
            study=study_microseconds("RATE_DECREASE_INTERVAL"),
        ),
    ] = Field(default=None, alias="cut_check")
    """Time between checks for cuts; `"off"` cuts at each CNP."""
    cut_divisor: Annotated[
        Annotated[Number, Field(ge=1)] | None,
        Names(nic=nic_power_of_two("rp_gd")),
    ] = None
    """A cut removes alpha ÷ this of the rate."""
    least_kept: Annotated[
        Part | None,
        Names(nic=nic_share("rp_min_dec_fac", "%", 100)),
    ] = None
    """Smallest part of the rate that a cut leaves."""
    clamp_target_rate: Annotated[
        StrictBool | None,
        Names(
            nic=nic_flag("rp_clamp_tgt_rate"),
            study=StudyKey("CLAMP_TARGET_RATE", flag),
        ),
    ] = None
    """Whether every cut lowers the target rate; otherwise only the first after an increase does."""
    clamp_target_after_timer: Annotated[
        StrictBool | None,
        Names(nic=nic_flag("rp_clamp_tgt_rate_ati")),
    ] = None
    """Whether an increase by the timer lets the next cut lower the target rate, as one by bytes does."""
    min_rate_bps: Annotated[
        PositiveRateBps | None, Names(nic=nic_mbps("rp_min_rate"), study=StudyKey("MIN_RATE"))
    ] = Field(default=None, alias="min_rate")
    """Rate that no cut goes below."""
    rate_on_first_cnp_bps: Annotated[
        RateBpsOrOff | None, Names(nic=nic_mbps_or_off("rp_rate_to_set_on_first_cnp"))
    ] = Field(default=None, alias="rate_on_first_cnp")
    """Rate and target rate at the first CNP; `"off"` leaves them."""
    adaptive: Annotated[StrictBool | None, Names()] = None
    """Multiply increases by 1 + sent ÷ total of the communication phase (HotNets'22 §4(i))."""

    @constructor
    def __init__(
        self,
        *,
        preset: Preset | None = None,
        increase_timer: DurationLike | None = None,
        byte_counter: SizeLike | None = None,
        fast_recovery_steps: int | None = None,
        additive_increase: RateLike | None = None,
        hyper_increase: RateLike | None = None,
        gain: float | None = None,
        alpha_timer: DurationLike | None = None,
        initial_alpha: float | None = None,
        cut_check: DurationLike | None = None,
        cut_divisor: float | None = None,
        least_kept: float | None = None,
        clamp_target_rate: bool | None = None,
        clamp_target_after_timer: bool | None = None,
        min_rate: RateLike | None = None,
        rate_on_first_cnp: RateLike | None = None,
        adaptive: bool | None = None,
    ) -> None: ...

    def preset_name(self) -> Preset:
        return self.preset or "recommended"


class Dctcp(_Control):
    """DCTCP (SIGCOMM'10), as a rate."""

    gain: Annotated[Fraction | None, Names(paper="g", study=StudyKey("EWMA_GAIN"))] = None
    """How far one window of data moves alpha."""
    additive_increase_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("DCTCP_RATE_AI"))] = Field(
        default=None, alias="additive_increase"
    )
    """What the rate gains per window of data in which it is not cut."""
    min_rate_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("MIN_RATE"))] = Field(
        default=None, alias="min_rate"
    )
    """Rate that no cut goes below."""

    @constructor
    def __init__(
        self,
        *,
        gain: float | None = None,
        additive_increase: RateLike | None = None,
        min_rate: RateLike | None = None,
    ) -> None: ...


class Timely(_Control):
    """TIMELY (SIGCOMM'15)."""

    gain: Annotated[Fraction | None, Names(paper="alpha")] = None
    """Weight of the newest difference of round-trip times in their moving average."""
    decrease: Annotated[Fraction | None, Names(paper="beta")] = None
    """How strongly the gradient and the excess over `high` cut."""
    low_ps: Annotated[PositiveDurationPs | None, Names(paper="T_low")] = Field(default=None, alias="low")
    """Round trips shorter than this always gain rate."""
    high_ps: Annotated[PositiveDurationPs | None, Names(paper="T_high")] = Field(default=None, alias="high")
    """Round trips longer than this always cut."""
    min_rtt_ps: Annotated[PositiveDurationPs | None, Names(paper="D_minRTT")] = Field(
        default=None, alias="min_rtt"
    )
    """What differences of round-trip times are measured against."""
    additive_increase_bps: Annotated[
        PositiveRateBps | None, Names(paper="delta", study=StudyKey("RATE_AI"))
    ] = Field(default=None, alias="additive_increase")
    """What the rate gains per round trip."""
    hyper_increase_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("RATE_HAI"))] = Field(
        default=None, alias="hyper_increase"
    )
    """What it gains instead after five gains in a row."""
    min_rate_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("MIN_RATE"))] = Field(
        default=None, alias="min_rate"
    )
    """Rate that no cut goes below."""

    @constructor
    def __init__(
        self,
        *,
        gain: float | None = None,
        decrease: float | None = None,
        low: DurationLike | None = None,
        high: DurationLike | None = None,
        min_rtt: DurationLike | None = None,
        additive_increase: RateLike | None = None,
        hyper_increase: RateLike | None = None,
        min_rate: RateLike | None = None,
    ) -> None: ...


class Hpcc(_Control):
    """HPCC (SIGCOMM'19)."""

    target_utilisation: Annotated[Fraction | None, Names(paper="eta", study=StudyKey("U_TARGET"))] = None
    """Target utilisation, as a fraction of the bottleneck's rate."""
    max_additive_steps: Annotated[Steps | None, Names(paper="maxStage", study=StudyKey("MI_THRESH"))] = None
    """Steps of additive increase before the rate is multiplied although the path is below its target; 0
    always multiplies."""
    additive_increase_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("RATE_AI"))] = Field(
        default=None, alias="additive_increase"
    )
    """What every update adds to the rate."""
    min_rate_bps: Annotated[PositiveRateBps | None, Names(study=StudyKey("MIN_RATE"))] = Field(
        default=None, alias="min_rate"
    )
    """Rate that it never falls below."""
    fast_react: Annotated[StrictBool | None, Names(study=StudyKey("FAST_REACT", flag))] = None
    """Whether every acknowledgement moves the rate, or only one per round trip."""

    @constructor
    def __init__(
        self,
        *,
        target_utilisation: float | None = None,
        max_additive_steps: int | None = None,
        additive_increase: RateLike | None = None,
        min_rate: RateLike | None = None,
        fast_react: bool | None = None,
    ) -> None: ...


class HpccPint(Hpcc):
    """HPCC over PINT (SIGCOMM'20)."""

    log_base: Annotated[
        Annotated[Number, Field(ge=1.001, le=2)] | None, Names(study=StudyKey("PINT_LOG_BASE"))
    ] = None
    """Base of the logarithm in which PINT sends the utilisation."""

    @constructor
    def __init__(
        self,
        *,
        target_utilisation: float | None = None,
        max_additive_steps: int | None = None,
        additive_increase: RateLike | None = None,
        min_rate: RateLike | None = None,
        fast_react: bool | None = None,
        log_base: float | None = None,
    ) -> None: ...


class StaticWindow(_Control):
    """A window set once from the known pattern (HOTI'22 §VI)."""

    window_bytes: WindowBytes | None = Field(default=None, alias="window")
    """Size of the window; by default the largest with which no PAUSE is ever sent."""

    @constructor
    def __init__(self, *, window: SizeLike | None = None) -> None: ...


class ReceiverDriven(_Control):
    """Credit that the receiver grants (pHost, CoNEXT'15; Homa, SIGCOMM'18)."""

    unsolicited_bytes: Bytes | None = Field(default=None, alias="unsolicited")
    """Bytes that are sent without credit; by default what fills the path."""
    overcommitment: Annotated[StrictInt, Field(ge=1, le=2**31)] | None = None
    """Number of messages that a receiver grants credit to at once; by default 7 (Homa, SIGCOMM'18 §3.5)."""
    outstanding_bytes: WindowBytes | None = Field(default=None, alias="outstanding")
    """Credit of a message that may be outstanding; by default what fills the path."""

    @constructor
    def __init__(
        self,
        *,
        unsolicited: SizeLike | None = None,
        overcommitment: int | None = None,
        outstanding: SizeLike | None = None,
    ) -> None: ...


Control = PfcOnly | Dcqcn | Dctcp | Timely | Hpcc | HpccPint | StaticWindow | ReceiverDriven
"""A congestion control with parameters."""

Policy = Literal[
    "pfc-only", "dcqcn", "dctcp", "timely", "hpcc", "hpcc-pint", "static-window", "receiver-driven"
]
"""The name of a congestion control."""


class Congestion(Table):
    """One congestion control: its name alone, or a table that maps its name to a table of parameters."""

    pfc_only: PfcOnly | None = Field(default=None, alias="pfc-only")
    """Line rate, and PAUSE frames."""
    dcqcn: Dcqcn | None = None
    """DCQCN (SIGCOMM'15)."""
    dctcp: Dctcp | None = None
    """DCTCP (SIGCOMM'10), as a rate."""
    timely: Timely | None = None
    """TIMELY (SIGCOMM'15)."""
    hpcc: Hpcc | None = None
    """HPCC (SIGCOMM'19)."""
    hpcc_pint: HpccPint | None = Field(default=None, alias="hpcc-pint")
    """HPCC over PINT (SIGCOMM'20)."""
    static_window: StaticWindow | None = Field(default=None, alias="static-window")
    """A window set once from the known pattern (HOTI'22 §VI)."""
    receiver_driven: ReceiverDriven | None = Field(default=None, alias="receiver-driven")
    """Credit that the receiver grants (pHost, CoNEXT'15; Homa, SIGCOMM'18)."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        names = [field.alias or name for name, field in cls.model_fields.items()]
        return {"anyOf": [{"type": "string", "enum": names}, handler(schema)]}

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if isinstance(given, cls):
            return given
        if isinstance(given, _Control):
            # By exact type, because `HpccPint` is also an `Hpcc`.
            return {
                field.alias or name: given
                for name, field in cls.model_fields.items()
                if type(given) in tables_in(field.annotation)
            }
        if isinstance(given, Mapping):
            if len(given) != 1:
                raise InputError(
                    f"must name exactly one congestion control, of {', '.join(known)}: got {len(given)}"
                )
            return given
        if given not in known:
            names = ", ".join(map(repr, known))
            raise InputError(
                f"must be one of {names}, or a table that maps one of them to its parameters: "
                f"got {shown(given)}"
            )
        return {given: {}}

    @model_serializer(mode="wrap")
    def _written(self, table: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        written = table(self)
        is_name = info.context == AS_SHORT_AS_FILES and list(written.values()) == [{}]
        return self.policy if is_name else written

    @property
    def policy(self) -> str:
        """The name of the congestion control."""
        return self._chosen()[0]

    def parameters(self, line_rate_bps: int, path_bytes: int) -> list[Parameter]:
        """The name and all parameters, for flows from a NIC of `line_rate_bps` on a path that `path_bytes`
        fill.
        """
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

    def _chosen(self) -> "tuple[_hocket._Policy, _Control]":
        for name, field in type(self).model_fields.items():
            control = getattr(self, name)
            if control is not None:
                return cast("_hocket._Policy", field.alias or name), control
        raise AssertionError("a checked plan names a congestion control")
