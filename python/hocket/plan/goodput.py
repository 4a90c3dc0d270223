"""The goodput that links lose to contention between jobs: a key of `[link]` and `[fabric]`."""

from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from hocket.errors import InputError
from hocket.units import shown

TESTBED_GOODPUT = (0.92, 0.59)
"""The goodput of the papers' testbed where two, and where more jobs contend for a link, as a fraction of its
capacity. `experiments/contended-goodput` fits it to HotNets'22 Table 1 and NSDI'24 Table 2.
"""

_MOST_SHARES = 64
"""More jobs on one link have the goodput of the last share; the papers have at most three."""

Goodput = tuple[float, ...]
"""The fraction of a link's capacity that jobs get together while they demand more than it has: for two jobs,
three and so on, the last one also for all larger numbers. Without any, nothing is lost.
"""


def _parse(value: object) -> Literal["testbed"] | Goodput:
    if value == "testbed":
        return "testbed"
    if not isinstance(value, list | tuple):
        raise InputError(
            'must be "testbed" or a list of fractions of the capacity, for two jobs, three and so on, such '
            f"as [0.9, 0.8]: got {shown(value)}"
        )
    if not 1 <= len(value) <= _MOST_SHARES:
        raise InputError(f"must have 1 to {_MOST_SHARES} fractions: got {len(value)}")
    for jobs, share in enumerate(value, 2):
        if not _is_share(share):
            raise InputError(f"the fraction for {jobs} jobs must be above 0, at most 1: got {shown(share)}")
    return tuple(map(float, value))


def _is_share(value: object) -> bool:
    # The engine counts in billionths.
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-9 <= value <= 1


ContendedGoodput = Annotated[
    Literal["testbed"] | Goodput,
    PlainValidator(_parse),
    PlainSerializer(lambda value: value if isinstance(value, str) else list(value)),
    WithJsonSchema(
        {
            "oneOf": [
                {"const": "testbed"},
                {
                    "type": "array",
                    "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    "minItems": 1,
                    "maxItems": _MOST_SHARES,
                },
            ]
        }
    ),
]
"""A `Goodput` by name or one by one."""


def goodput_of(setting: Literal["testbed"] | Goodput | None) -> Goodput:
    """The fractions that `setting` stands for; none if it is `None`.

    >>> goodput_of("testbed"), goodput_of(None)
    ((0.92, 0.59), ())
    """
    match setting:
        case None:
            return ()
        case "testbed":
            return TESTBED_GOODPUT
        case _:
            return setting
