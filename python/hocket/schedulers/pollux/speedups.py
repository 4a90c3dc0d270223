"""The best goodput of a job for each number of workers, and the batch size that achieves it."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from hocket.schedulers.pollux.fitting import fitted_throughput
from hocket.schedulers.pollux.goodput import Goodput
from hocket.schedulers.state import ClusterJob
from hocket.workloads import Model


@dataclass(frozen=True)
class Best:
    """The best goodput of a job on given workers."""

    goodput: float
    """In samples of the first batch per second."""
    batch_size: int
    """Per worker."""


@dataclass(frozen=True)
class Goodputs:
    """The best goodputs of a job by its number of workers, on one node and across several."""

    on_one_node: dict[int, Best]
    across_nodes: dict[int, Best]

    def on(self, workers: int, nodes: int) -> Best:
        """The best goodput on `workers`, one of the job's sizes, spread over `nodes`."""
        return (self.across_nodes if nodes > 1 else self.on_one_node)[workers]


def goodputs(job: ClusterJob, noise_scale: float, tune_batch_size: bool) -> Goodputs:
    """The best goodputs of `job` on each number of workers that it can run on.

    Its first batch is its submitted batch size times its smallest number of workers: Pollux starts a job on
    one worker (OSDI'21 §4.1), but not all models of the catalogue run on one.
    """
    return _goodputs(job.definition, job.strategy, job.batch_size, job.sizes, noise_scale, tune_batch_size)


@cache
def _goodputs(
    model: Model,
    strategy: str | None,
    batch_size: int,
    sizes: tuple[int, ...],
    noise_scale: float,
    tuned: bool,
) -> Goodputs:
    throughput = fitted_throughput(model, strategy, batch_size, sizes)
    function = Goodput(throughput, noise_scale, batch_size * sizes[0])
    limits = model.batch_size_limits() if tuned else (batch_size, batch_size)
    return Goodputs(_by_size(function, sizes, 1, limits), _by_size(function, sizes, 2, limits))


def _by_size(
    function: Goodput, sizes: tuple[int, ...], nodes: int, limits: tuple[int, int]
) -> dict[int, Best]:
    workers = np.array(sizes)
    # One worker is on one node, also where the table is for several.
    spread = np.minimum(nodes, workers)
    if limits[0] == limits[1]:
        batch_sizes = np.full(len(sizes), limits[0])
        found = function.of(spread, workers, batch_sizes), batch_sizes
    else:
        found = function.best(spread, workers, limits[1] * sizes[-1], limits)
    return {
        size: Best(float(goodput), int(batch_size))
        for size, goodput, batch_size in zip(sizes, *found, strict=True)
    }
