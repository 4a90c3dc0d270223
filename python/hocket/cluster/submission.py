"""A job as submitted, whether it comes from a table, a generator or another cluster's trace."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from hocket.errors import InputError
from hocket.profiles import WorkloadProfile
from hocket.schedulers import ClusterJob
from hocket.units import shown
from hocket.workloads import Model


@dataclass(frozen=True)
class Submission:
    """A job as submitted; its batch size and workers are valid for its model and strategy."""

    name: str | None
    """`None` for a job that is named after its model."""
    model: Model
    batch_size: int
    """Per GPU."""
    workers: int
    arrival_ps: int
    iterations: int
    """Its work, as a number of iterations on `workers` workers."""
    min_workers: int
    """The smallest number of workers to which a scheduler may shrink it."""
    max_workers: int
    """The largest number of workers to which a scheduler may grow it."""
    strategy: str | None = None

    @property
    def profile(self) -> WorkloadProfile:
        """One iteration of the job as submitted, on an idle network."""
        return self.model.profile(self.batch_size, self.workers, self.strategy)

    @property
    def gpu_ps(self) -> int:
        """The GPU time that it takes alone and as submitted, in picoseconds."""
        return self.workers * self.iterations * self.profile.period_ps

    def job(self, name: str, gpus: int) -> ClusterJob:
        """The job called `name` on a cluster of `gpus` GPUs; it never changes its strategy."""
        strategy = self.model.strategy_for(self.workers, self.strategy)
        largest = min(self.max_workers, gpus)
        return ClusterJob(
            name=name,
            model=self.model.name,
            batch_size=self.batch_size,
            strategy=strategy.name,
            arrival_ps=self.arrival_ps,
            requested=self.workers,
            sizes=tuple(count for count in strategy.workers.value if self.min_workers <= count <= largest),
            # Fixed at submission, so that the work does not depend on the workers that a scheduler assigns.
            samples=self.iterations * self.workers * self.batch_size,
            trained=self.model,
        )


def sizes_of(model: Model, strategy: str | None, fewest: int, most: int) -> tuple[int, ...]:
    """The numbers of workers from `fewest` to `most` on which `model` runs with `strategy`, ascending.

    If `strategy` is `None`, those of all its strategies.
    """
    offered = [each for name, each in model.strategies.items() if strategy in (None, name)]
    return tuple(sorted({n for each in offered for n in each.workers.value if fewest <= n <= most}))


def check_fits_cluster(model: Model, workers: int, gpus: int) -> None:
    """Raises `InputError` if `workers` exceeds `gpus`, the number of GPUs in the cluster."""
    if workers > gpus:
        raise InputError(
            f"{model.name} on {workers} workers is larger than the cluster, which has {gpus} GPUs"
        )


def named(submissions: Sequence[Submission], gpus: int) -> tuple[ClusterJob, ...]:
    """The jobs of `submissions` in order of arrival; simultaneous ones keep their order.

    Jobs without a name are named after their model; if there are several of one model, they get the suffixes
    -A, -B, … in order of arrival (as in NSDI'24 Fig 12).
    """
    ordered = sorted(submissions, key=lambda each: each.arrival_ps)
    taken = {each.name for each in ordered if each.name is not None}
    unnamed_of_model = Counter(each.model.name for each in ordered if each.name is None)
    names = {model: _names(model, count, taken) for model, count in unnamed_of_model.items()}
    return tuple(each.job(each.name or next(names[each.model.name]), gpus) for each in ordered)


def _names(model: str, count: int, taken: Collection[str | None]) -> Iterator[str]:
    """Names for `count` jobs of `model` that are not in `taken`."""
    if count == 1 and model not in taken:
        yield model
        return
    number = 0
    while True:
        name = f"{model}-{_letters(number)}"
        if name not in taken:
            yield name
        number += 1


def _letters(number: int) -> str:
    """The letters for `number`, counted from 0: A to Z, then AA, AB and so on."""
    # Bijective base 26, which has no digit for zero: Z is followed by AA and not by BA.
    text = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, len(ascii_uppercase))
        text = ascii_uppercase[letter] + text
    return text


def check_names(submissions: Sequence[Submission]) -> None:
    """Raises `InputError` if two of `submissions` have the same name."""
    seen: set[str] = set()
    for name in (each.name for each in submissions if each.name is not None):
        if name in seen:
            raise InputError(f"{shown(name)} is the name of two jobs")
        seen.add(name)
