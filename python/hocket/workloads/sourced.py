"""A value of the catalogue together with where it is from."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")


Kind = Literal["paper", "calculation", "calibration", "given"]


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and where it is from: printed in a paper, calculated from parameters, calibrated, or given by a
    user.
    """

    value: T
    kind: Kind
    source: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.source}"
