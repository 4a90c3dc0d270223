"""Goodput: samples per second times the statistical efficiency of a sample in a large batch.

The models are those of Pollux (OSDI'21 §3); details that the paper leaves open are as in the authors' release
(adaptdl 0.2.11).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SAMPLED_BATCH_SIZES = 50
"""The number of batch sizes that `best` tries. Source: adaptdl 0.2.11."""

# The release replaces zeros of the paper with this value, so that its fit can take logarithms.
_NEXT_TO_ZERO = 1e-8

# Tolerance for batch sizes that are integers up to rounding. Source: adaptdl 0.2.11.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Throughput:
    """Iteration time from compute and network time, which overlap more the higher `overlap` is.

    OSDI'21 §3.2. Times are in seconds. The network time depends on whether workers are on one node or on
    several, but not on racks, links or other jobs.
    """

    compute_s: float
    """α_c"""
    compute_per_sample_s: float
    """β_c, per sample of a worker's batch."""
    across_s: float
    """α_n, of two workers on two nodes."""
    across_per_worker_s: float
    """β_n, for each worker beyond two."""
    local_s: float
    """α_r, of two workers on one node."""
    local_per_worker_s: float
    """β_r"""
    overlap: float
    """γ from 1 (one after the other) to 10 (almost the longer of both)."""

    def iteration_s(self, nodes: Integers, workers: Integers, batch_size: Integers) -> Floats:
        """(T_grad^γ + T_sync^γ)^(1/γ), with `batch_size` samples for each worker. Arrays broadcast."""
        # `select` takes the first that is true: workers on several nodes are also several workers.
        placements = [nodes > 1, workers > 1]
        start_s = np.select(placements, [self.across_s, self.local_s], _NEXT_TO_ZERO)
        slopes_s = [self.across_per_worker_s, self.local_per_worker_s]
        per_worker_s = np.select(placements, slopes_s, _NEXT_TO_ZERO)
        network_s = start_s + per_worker_s * np.maximum(workers - 2, _NEXT_TO_ZERO)
        compute_s = self.compute_s + self.compute_per_sample_s * batch_size
        powers = compute_s**self.overlap + network_s**self.overlap
        return np.asarray(powers ** (1 / self.overlap), dtype=np.float64)


@dataclass(frozen=True)
class Goodput:
    """Throughput × statistical efficiency of a job that starts with batches of `first_batch` samples, M_0."""

    throughput: Throughput
    noise_scale: float
    """φ, in samples."""
    first_batch: int

    def efficiency(self, batch: Floats | Integers) -> Floats:
        """Progress per sample in a `batch` of all workers, relative to the first batch: (φ + M_0) / (φ + M).

        Source: OSDI'21 §3.1.

        >>> noise = Goodput(Throughput(0, 1, 0, 0, 0, 0, 1), noise_scale=1_000, first_batch=100)
        >>> noise.efficiency(np.array([100, 1_200])).tolist()
        [1.0, 0.5]
        """
        return np.asarray(
            (self.noise_scale + self.first_batch) / (self.noise_scale + batch), dtype=np.float64
        )

    def of(self, nodes: Integers, workers: Integers, batch_size: Integers) -> Floats:
        """Goodput in samples of the first batch per second, at `batch_size` per worker. Arrays broadcast."""
        batch = workers * batch_size
        return batch / self.throughput.iteration_s(nodes, workers, batch_size) * self.efficiency(batch)

    def best(
        self, nodes: Integers, workers: Integers, largest_batch: int, limits: tuple[int, int]
    ) -> tuple[Floats, Integers]:
        """The highest goodput and its batch size per worker within `limits`, for each element of `nodes` and
        `workers`.

        Tries 50 batches in geometric progression up to `largest_batch`, none below the first batch; a single
        worker keeps the first (adaptdl 0.2.11 without accumulation). The goodput is 0 where no batch size is
        within the limits.
        """
        smallest = np.maximum(self.first_batch, limits[0] * workers)
        batches = np.geomspace(smallest, largest_batch, SAMPLED_BATCH_SIZES)
        batch_size = np.ceil(batches / workers - _ROUNDING).astype(np.int64)
        batch_size = np.where(workers == 1, self.first_batch, batch_size)
        within = (limits[0] <= batch_size) & (batch_size <= limits[1])
        goodput = np.where(within, self.of(nodes, workers, batch_size), 0.0)
        chosen = np.argmax(goodput, axis=0), np.arange(len(workers))
        return goodput[chosen], batch_size[chosen]
