"""Fits the throughput model of a job to its iteration times on an idle network.

Pollux fits its model to measurements of the running job; Hocket fits it to the profile of the catalogue or of
`[[models]]`, so that the scheduler and the simulation use the same iterations.
"""

from functools import cache

import numpy as np

from hocket.profiles import PS_PER_S
from hocket.schedulers.pollux.goodput import Floats, Throughput
from hocket.workloads import Model

# The number of batch sizes that a model is profiled with, spread geometrically over its range. T_grad has two
# coefficients only, and models of `[[models]]` may have to be simulated for each batch size.
_PROFILED_BATCH_SIZES = 5

# adaptdl 0.2.11 assumes at least this ratio of network time across nodes to that within one, if it has not
# measured both. Profiles do not distinguish the two either.
_ACROSS_TO_LOCAL = 1.1

# A fit with both coefficients must reduce the sum of squared relative errors by more than this, so that
# rounding does not decide.
_BETTER = 1e-9


@cache
def fitted_throughput(
    model: Model, strategy: str | None, batch_size: int, sizes: tuple[int, ...]
) -> Throughput:
    """The throughput of a job that was submitted with `batch_size`, on the numbers of workers `sizes`.

    Compute time is the duration of an iteration on the fewest workers, over the batch sizes of `model`;
    network time is the additional duration on more workers, at the batch size of the job. In profiles,
    communication hidden behind backpropagation takes no time, so the two do not overlap (γ = 1). α and β are
    at least 0 and minimise the squared relative errors, as the logarithms in Pollux's fit do.
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
    """Two non-negative coefficients of `terms` that fit `sums` with the least squared errors relative to
    `scale`.

    Of equally good fits, the one with fewer positive coefficients is returned.
    """
    # Without `reshape`, the empty terms of a job that never has several workers would have one dimension.
    rows = np.array(terms, dtype=np.float64).reshape(-1, 2) / scale[:, None]
    wanted = sums / scale
    best, least = [0.0, 0.0], float((wanted**2).sum())
    # The non-negative optimum is the ordinary one of its positive coefficients, and there are few such sets.
    for used in ([0], [1], [0, 1]):
        coefficients = np.linalg.lstsq(rows[:, used], wanted, rcond=None)[0]
        error = float(((rows[:, used] @ coefficients - wanted) ** 2).sum())
        if (coefficients >= 0).all() and error < least - _BETTER:
            least = error
            best = [0.0, 0.0]
            for place, value in zip(used, coefficients, strict=True):
                best[place] = float(value)
    return best
