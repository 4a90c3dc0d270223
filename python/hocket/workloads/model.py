"""A model, from the catalogue or a user's own: its limits, and its parallelisation strategies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from hocket.errors import InputError
from hocket.profiles import WorkloadProfile
from hocket.units import shown
from hocket.workloads.nic import with_nic
from hocket.workloads.sourced import Sourced
from hocket.workloads.strategies import LINE_RATE_BPS, Strategy


@dataclass(frozen=True, eq=False)
class Model:
    """A model with its parallelisation strategies, such as one of NSDI'24 Table 3."""

    name: str
    memory_mb: Sourced[tuple[int, int]]
    batch_sizes: Sourced[tuple[int, int]]
    parallelisation: Sourced[str]
    field_of_use: Sourced[str]
    strategies: Mapping[str, Strategy]
    reference: tuple[int, int]
    """The batch size and number of workers shown in the catalogue's table."""
    more_batch_sizes: tuple[Sourced[int], ...] = field(default=())
    """Batch sizes that the papers use outside Table 3's range; they extend it."""
    measured_nic_bps: int | None = LINE_RATE_BPS.value
    """The rate of the NIC that the strategies' profiles were measured with; `None` if rates are to stay as
    measured."""
    nic_bps: int = LINE_RATE_BPS.value
    """The rate of the NIC that the model sends through."""
    speed: Fraction = Fraction(1)
    """The speed of its GPUs relative to those of the measurement."""

    def behind(self, nic_bps: int) -> "Model":
        """The model with NICs of this rate."""
        return self if nic_bps == self.nic_bps else replace(self, nic_bps=nic_bps)

    def profile(self, batch_size: int, workers: int, strategy: str | None = None) -> WorkloadProfile:
        """One iteration at `batch_size` per GPU on `workers`, by `strategy` or the first that runs on them.

        Raises `InputError` as `strategy_for` does.
        """
        # Exact fractions take long, and the jobs of a trace have few models and sizes.
        key = batch_size, workers, strategy
        if key not in self._profiles:
            self._profiles[key] = self._new_profile(batch_size, workers, strategy)
        return self._profiles[key]

    @cached_property
    def _profiles(self) -> dict[tuple[int, int, str | None], WorkloadProfile]:
        return {}

    def _new_profile(self, batch_size: int, workers: int, strategy: str | None) -> WorkloadProfile:
        measured = self.strategy_for(workers, strategy).profile(batch_size, workers)
        if self.measured_nic_bps is None:
            # Equal rates leave the phases' rates as measured; only the speed of the GPUs counts.
            return with_nic(measured, self.nic_bps, self.nic_bps, self.speed)
        return with_nic(measured, self.nic_bps, self.measured_nic_bps, self.speed)

    def batch_size_limits(self) -> tuple[int, int]:
        """The smallest and the largest batch size per GPU, from the papers or from the user's model."""
        smallest, largest = self.batch_sizes.value
        more = [each.value for each in self.more_batch_sizes]
        return min([smallest, *more]), max([largest, *more])

    def check_batch_size(self, batch_size: int) -> None:
        """Raises `InputError` if `batch_size` is outside the range of this model."""
        smallest, largest = self.batch_size_limits()
        if not smallest <= batch_size <= largest:
            raise InputError(
                f"{shown(batch_size)} is outside {self._whose} batch sizes for {self.name}, "
                f"{smallest} to {largest}"
            )

    def check_strategy(self, strategy: str | None) -> None:
        """Raises `InputError` if `strategy` is given and not one of this model's."""
        if strategy is not None and strategy not in self.strategies:
            known = ", ".join(self.strategies)
            raise InputError(f"{shown(strategy)} is not a strategy of {self.name}; known: {known}")

    def check_workers(self, workers: int, strategy: str | None = None) -> None:
        """Raises `InputError` if `strategy`, or without one every strategy, does not run on `workers`."""
        self.strategy_for(workers, strategy)

    def strategy_for(self, workers: int, strategy: str | None = None) -> Strategy:
        """The strategy named, or the first that runs on `workers`.

        Raises `InputError` if there is none.
        """
        self.check_strategy(strategy)
        offered = [each for name, each in self.strategies.items() if strategy in (None, name)]
        for each in offered:
            if workers in each.workers.value:
                return each
        # Of all strategies that were considered, since another one may support what this job needs.
        allowed = sorted({count for each in offered for count in each.workers.value})
        raise InputError(
            f"{shown(workers)} is outside {self._whose} numbers of workers for {self.name}, "
            f"{_ranges(allowed)}"
        )

    @property
    def _whose(self) -> str:
        return "the given" if self.batch_sizes.kind == "given" else "the catalogue's"


def _ranges(counts: list[int]) -> str:
    if len(counts) > 1 and counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return ", ".join(str(count) for count in counts)
