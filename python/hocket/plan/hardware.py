"""The `[host]` and `[switch]` tables of a plan: how hosts and switches work on the packet engine, with the
sources of their defaults.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_validator,
)

from hocket.errors import InputError
from hocket.plan.schema import (
    Number,
    Spelling,
    Table,
    constructor,
    default,
    respelt,
    size_within,
    whole,
)
from hocket.plan.table_errors import KeyPath, Mistake, TableError
from hocket.units import (
    Bytes,
    DurationLike,
    DurationPs,
    PositiveDurationPs,
    PositiveRateBps,
    Quantity,
    RateLike,
    SizeLike,
    format_bytes,
    parse_bytes,
    parse_duration,
    shown,
)

PRIORITIES = 8
"""Classes of traffic on a link: IEEE 802.1Q."""

# The packet engine counts the bytes of a port in 32 bits.
_LARGEST_BUFFER = 2**32 - 1
_HPCC = "HPCC, SIGCOMM'19 §5.1"
_SIMULATOR = "HPCC's simulator (SIGCOMM'19)"
_RULES = ("computed", "three-delays")
_ORDERS = ("strict", "round-robin")


def _read_headroom(value: object) -> object:
    value = str(value) if isinstance(value, Quantity) else value
    if isinstance(value, str):
        if value in _RULES:
            return value
        # The error below names all choices; that of `parse_bytes` would name sizes only.
        with suppress(InputError):
            return parse_bytes(value)
    raise InputError(f'must be "computed", "three-delays" or bytes such as "50 kB": got {shown(value)}')


def _read_scheduling(value: object) -> object:
    if isinstance(value, str) and value in _ORDERS:
        return value
    if isinstance(value, dict) and list(value) == ["weighted"]:
        weights = value["weighted"]
        # `isinstance` would accept true as 1. The packet engine holds a weight in 16 bits.
        if (
            isinstance(weights, list | tuple)
            and len(weights) == PRIORITIES
            and all(type(weight) is int and 1 <= weight <= 65_535 for weight in weights)
        ):
            return tuple(weights)
    raise InputError(
        f'must be "strict", "round-robin" or {{ weighted = [w0, …, w7] }} with {PRIORITIES} whole weights '
        f"from 1 to 65535: got {shown(value)}"
    )


Headroom = Annotated[
    str | int,
    BeforeValidator(_read_headroom),
    PlainSerializer(lambda value: value if isinstance(value, str) else format_bytes(value), return_type=str),
    WithJsonSchema({"type": "string", "examples": [*_RULES, "50 kB"]}),
]
Scheduling = Annotated[
    str | tuple[int, ...],
    BeforeValidator(_read_scheduling),
    PlainSerializer(
        lambda value: value if isinstance(value, str) else {"weighted": list(value)}, return_type=object
    ),
    WithJsonSchema(
        {
            "oneOf": [
                {"enum": list(_ORDERS)},
                {
                    "type": "object",
                    "properties": {
                        "weighted": {
                            "type": "array",
                            "items": {"type": "integer", "minimum": 1, "maximum": 65_535},
                            "minItems": PRIORITIES,
                            "maxItems": PRIORITIES,
                        }
                    },
                    "required": ["weighted"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Marking(Table):
    """ECN marking by WRED at ports of one rate; KMIN_MAP, KMAX_MAP and PMAX_MAP of HPCC-style settings."""

    rate_bps: PositiveRateBps = Field(alias="rate")
    """Rate of the ports that this entry is for."""
    minimum_bytes: Bytes = Field(alias="minimum")
    """K_min: queue length below which no packet is marked."""
    maximum_bytes: Bytes = Field(alias="maximum")
    """K_max: queue length above which every packet is marked."""
    probability: Annotated[Number, Field(ge=0, le=1)]
    """P_max: marking probability at K_max."""

    @constructor
    def __init__(
        self, *, rate: RateLike, minimum: SizeLike, maximum: SizeLike, probability: float
    ) -> None: ...


_MARKING = Marking(rate="25 Gbps", minimum="100 kB", maximum="400 kB", probability=0.2)


class Switch(Table):
    """The settings of every switch of the fabric."""

    buffer_bytes: Annotated[int, *size_within(1_000, _LARGEST_BUFFER)] = default(
        parse_bytes("32 MB"), f"{_HPCC}: 32 MB shared by all ports", "buffer"
    )
    """Packet buffer, shared by all ports."""
    reserve_bytes: Annotated[int, *size_within(0, _LARGEST_BUFFER)] = default(
        parse_bytes("4 KiB"), f"{_SIMULATOR}: 4 KB for each ingress port and class", "reserve"
    )
    """Part of the buffer that each ingress port and class has to itself."""
    headroom: Headroom = default("computed", "IEEE 802.1Qbb Annex O, from each port's rate, delay and frames")
    """Buffer for what arrives after a PAUSE, for each ingress port and class: `"computed"`,
    `"three-delays"` or bytes."""
    dynamic_threshold: Annotated[StrictInt, Field(ge=-12, le=4)] = default(
        -3, f"{_SIMULATOR}: PAUSE above 1/8 of the free buffer; SONiC's dynamic_th"
    )
    """A PAUSE is sent once an ingress port and class hold more than 2 to this power × the free part of the
    shared buffer."""
    resume_offset_bytes: Annotated[int, *size_within(0, _LARGEST_BUFFER)] = default(
        3_072, f"{_SIMULATOR}: 3 KB below the threshold", "resume_offset"
    )
    """How far below the threshold the sender is resumed."""
    pfc: StrictBool = default(True, "Hocket: RoCE's usual setting, nothing is lost")
    """Whether PAUSE frames are sent. Without them, what does not fit is lost and sent again."""
    marking: Annotated[tuple[Marking, ...], Field(max_length=100)] = default(
        (_MARKING,), f"{_HPCC}: 100 and 400 KB at 25 Gbps, in proportion at other rates"
    )
    """ECN marking by port rate. Ports of other rates take the next lower entry in proportion; an empty
    list turns ECN off."""
    scheduling: Scheduling = default("strict", "Hocket: 0 first, as on the flow engine")
    """Order of the classes: `"strict"` serves class 0 first; `"round-robin"`; or a weight for each of the
    eight classes."""
    cut_through: StrictBool = default(False, f"{_SIMULATOR}: store and forward")
    """Whether a packet may leave once its headers have arrived, over a link no faster than the one it came
    by."""
    telemetry_unit: Annotated[StrictInt, Field(ge=1, le=64)] = default(1, f"{_SIMULATOR}: INT_MULTI 1")
    """Unit of HPCC's telemetry, × 128 bytes sent and × 80 bytes queued."""
    pint_base: Annotated[Number, Field(ge=1.0001, le=2)] = default(1.05, f"{_SIMULATOR}: PINT_LOG_BASE 1.05")
    """Base of PINT's logarithm."""

    @constructor
    def __init__(
        self,
        *,
        buffer: SizeLike | None = None,
        reserve: SizeLike | None = None,
        headroom: Literal["computed", "three-delays"] | SizeLike | None = None,
        dynamic_threshold: int | None = None,
        resume_offset: SizeLike | None = None,
        pfc: bool | None = None,
        marking: Sequence[Marking] | None = None,
        scheduling: Literal["strict", "round-robin"]
        | Mapping[Literal["weighted"], Sequence[int]]
        | None = None,
        cut_through: bool | None = None,
        telemetry_unit: int | None = None,
        pint_base: float | None = None,
    ) -> None: ...

    @model_validator(mode="after")
    def _is_ordered(self) -> "Switch":
        mistakes: list[Mistake] = []
        for index, marking in enumerate(self.marking):
            path: KeyPath = ("marking", index)
            if marking.minimum_bytes > marking.maximum_bytes:
                least, most = format_bytes(marking.minimum_bytes), format_bytes(marking.maximum_bytes)
                mistakes.append(((*path, "minimum"), f"{least} is above maximum, {most}"))
            if any(marking.rate_bps == other.rate_bps for other in self.marking[:index]):
                mistakes.append(((*path, "rate"), "is given twice"))
        if mistakes:
            raise TableError(mistakes)
        return self


_NIC_SPELLINGS = {"np_min_time_between_cnps": Spelling("cnp_interval", whole("us"))}


def _describe_nic_spellings(schema: dict[str, Any]) -> None:
    for other, spelling in _NIC_SPELLINGS.items():
        text = f"Another name of `{spelling.key}`, in units of us."
        schema["properties"][other] = {"type": "integer", "minimum": 0, "description": text}


class Host(Table):
    """The settings of every host of the fabric."""

    model_config = ConfigDict(json_schema_extra=_describe_nic_spellings)

    @model_validator(mode="before")
    @classmethod
    def _in_our_spelling(cls, given: object) -> object:
        return respelt(given, _NIC_SPELLINGS)

    mtu_bytes: Annotated[int, *size_within(64, 9_216)] = default(
        parse_bytes("4096 B"), "InfiniBand's largest path MTU, which RoCE has with jumbo frames", "mtu"
    )
    """Data in a full packet. Papers often simulate 1,000 B, at four times the work."""
    ack_every: Annotated[StrictInt, Field(ge=1, le=1_024)] = default(1, f"{_SIMULATOR}: L2_ACK_INTERVAL 1")
    """Packets per acknowledgement."""
    nack_interval_ps: DurationPs = default(parse_duration("500 us"), f"{_SIMULATOR}: 500 µs", "nack_interval")
    """Shortest time between two NACKs of a flow."""
    notification: Literal["packets", "acks"] = default("packets", "RoCEv2: congestion notification packets")
    """What carries congestion marks back: `"packets"` (CNPs) or `"acks"` (acknowledgements)."""
    cnp_interval_ps: DurationPs = default(
        parse_duration("4 us"), "mlx5: np_min_time_between_cnps is 4 µs", "cnp_interval"
    )
    """Shortest time between two CNPs of a flow; also `np_min_time_between_cnps`, in whole µs."""
    cnp_priority: Annotated[StrictInt, Field(ge=0, le=PRIORITIES - 1)] = default(
        7, "Hocket: the last class, which carries CNPs alone"
    )
    """Class of CNPs, which goes before all others."""
    pause_holds_acks: StrictBool = default(True, "Hocket: acknowledgements belong to the paused class")
    """Whether PAUSE holds back a host's acknowledgements too."""
    retransmit_timeout_ps: PositiveDurationPs = default(
        parse_duration("4 ms"), "InfiniBand: 4.096 µs × 2^10, rounded", "retransmit_timeout"
    )
    """Time without progress after which a sender goes back."""

    @constructor
    def __init__(
        self,
        *,
        mtu: SizeLike | None = None,
        ack_every: int | None = None,
        nack_interval: DurationLike | None = None,
        notification: Literal["packets", "acks"] | None = None,
        cnp_interval: DurationLike | None = None,
        cnp_priority: int | None = None,
        pause_holds_acks: bool | None = None,
        retransmit_timeout: DurationLike | None = None,
    ) -> None: ...
