"""The moves of one program, and the notes on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hocket.schedulers.monkeytree.ring_jobs import RingJob, Spread


@dataclass(frozen=True)
class Move:
    """What a step does to a job."""

    job: str
    workers: int
    """The number of workers that change their rack."""
    before: Spread
    after: Spread
    price_gpu_s: float
    """0 for a job that is not running yet, or that an earlier step of the round moves."""

    @classmethod
    def of(cls, job: RingJob, before: Spread, after: Spread) -> "Move":
        """The move of `job` between two spreads."""
        workers = sum((Counter(after) - Counter(before)).values())
        return cls(job.name, workers, before, after, job.price_gpu_s)


@dataclass(frozen=True)
class Step:
    """The solution of one program that is carried out."""

    moves: tuple[Move, ...]
    saved_gpu_s: float
    """The predicted loss of all jobs before, minus that after it."""
    proven: bool

    @property
    def price_gpu_s(self) -> float:
        """What its migrations cost."""
        return sum(move.price_gpu_s for move in self.moves)

    @property
    def notes(self) -> Mapping[str, Any]:
        """For the table of decisions."""
        return {
            "jobs": {
                move.job: {
                    "moves workers": move.workers,
                    "from": _written(move.before),
                    "to": _written(move.after),
                    "costs GPU-s": round(move.price_gpu_s, 3),
                }
                for move in self.moves
            },
            "saves GPU-s": round(self.saved_gpu_s, 3),
            "costs GPU-s": round(self.price_gpu_s, 3),
            "proven": self.proven,
        }


def _written(spread: Spread) -> str:
    """
    >>> _written({3: 1, 0: 2})
    '2 in rack 0 + 1 in rack 3'
    """
    return " + ".join(f"{count} in rack {rack}" for rack, count in sorted(spread.items()))
