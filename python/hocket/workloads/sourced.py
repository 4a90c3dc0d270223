"""A value of the catalogue together with its source."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")


Kind = Literal["paper", "calculation", "calibration", "given"]


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and its source: a paper, a calculation from parameters, a calibration, or a user."""

    value: T
    kind: Kind
    source: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.source}"
