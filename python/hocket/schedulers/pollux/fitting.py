"""The throughput model of a job, fitted to its iteration times on an idle network.

Pollux fits its model to what it has seen of a running job; Hocket fits it to the profile of the catalogue or
of `[[models]]`, so that both see the same iterations.
"""

from functools import cache

import numpy as np

from hocket.profiles import PS_PER_S
from hocket.schedulers.pollux.goodput import Floats, Throughput
from hocket.workloads import Model

# Batch sizes that a model is profiled with, spread over the catalogue's range.
_PROFILED_BATCH_SIZES = 5

# adaptdl 0.2.11 assumes that network time across nodes is at least so many times that within one, if it has
# not seen both. Profiles do not tell them apart either.
_ACROSS_TO_LOCAL = 1.1

# A fit with both coefficients has to be better by so much, in squares of relative errors.
_BETTER = 1e-9


@cache
def fitted_throughput(
    model: Model, strategy: str | None, batch_size: int, sizes: tuple[int, ...]
) -> Throughput:
    """The throughput of a job that was submitted with `batch_size`, on the numbers of workers `sizes`.

    Compute time is how long an iteration on the fewest workers takes, over the batch sizes of `model`, and
    network time how much longer one on more workers takes, with the batch size of the job. In profiles
    communication that backpropagation hides costs no time, so that the two do not overlap (γ = 1). α
    and β are at least 0 and minimise the squares of relative errors, as the logarithms in Pollux's fit do.
    """

    def iteration_s(workers: int, batch_size: int) -> float:
        return model.profile(batch_size, workers, strategy).period_ps / PS_PER_S

    limits = model.batch_size_limits()
    batch_sizes = sorted({round(each) for each in np.geomspace(*limits, _PROFILED_BATCH_SIZES)})
    times_s = np.array([iteration_s(sizes[0], each) for each in batch_sizes])
    compute_s, per_sample_s = _least_squares([[1, each] for each in batch_sizes], times_s, times_s)

    several = [workers for workers in sizes if workers > 1]
    times_s = np.array([iteration_s(workers, batch_size) for workers in several])
    longer_s = times_s - (compute_s + per_sample_s * batch_size)
    across_s, per_worker_s = _least_squares([[1, workers - 2] for workers in several], longer_s, times_s)
    return Throughput(
        compute_s,
        per_sample_s,
        across_s,
        per_worker_s,
        across_s / _ACROSS_TO_LOCAL,
        per_worker_s / _ACROSS_TO_LOCAL,
        overlap=1.0,
    )


def _least_squares(terms: list[list[int]], sums: Floats, scale: Floats) -> list[float]:
    """Two coefficients of at least 0 with which the terms of each row add up to its sum, with the least
    squares of errors over `scale`; of fits as good as each other, the one with fewer coefficients above 0.
    """
    rows = np.array(terms, dtype=np.float64).reshape(-1, 2) / scale[:, None]
    wanted = sums / scale
    best, least = [0.0, 0.0], float((wanted**2).sum())
    for used in ([0], [1], [0, 1]):
        found = np.linalg.lstsq(rows[:, used], wanted, rcond=None)[0]
        error = float(((rows[:, used] @ found - wanted) ** 2).sum())
        if (found >= 0).all() and error < least - _BETTER:
            least = error
            best = [0.0, 0.0]
            for place, value in zip(used, found, strict=True):
                best[place] = float(value)
    return best
