"""Compute times of GPUs: matrix products run at a share of the peak, all else at the speed of memory."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

PS_PER_S = 10**12

PRODUCT_EFFICIENCY = Fraction(2, 5)
"""The share of the tensor cores' peak at which matrix products run. Large models train at 30 to 50% of it
(Narayanan et al., SC'21, Table 1: 44 to 52%, all overheads included); `EFFECTIVE_FLOPS` of
`hocket.workloads.strategies` takes the same 40%."""

MEMORY_EFFICIENCY = Fraction(5, 6)
"""The share of the memory bandwidth that a copy reaches: 750 of 900 GB/s on a V100 (Jia et al., arXiv
1804.06826)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Peaks of one GPU from its data sheet, without sparsity.

    `mixed_flops` and `single_flops` are the floating point operations per second of matrix products on 16 and
    32 bit data (TF32 where tensor cores support it), `memory_bytes_per_s` the bandwidth of its memory.
    """

    name: str
    mixed_flops: int
    single_flops: int
    memory_bytes_per_s: int
    source: str

    def product_ps(
        self, flops: Fraction | int, weight_bytes: Fraction | int, value_bytes: Literal[2, 4]
    ) -> int:
        """The time of a matrix product of `flops`, rounded to a picosecond: at least the time to read its
        weights; 0 if there is no product.
        """
        if flops == 0:
            return 0
        peak = self.mixed_flops if value_bytes == 2 else self.single_flops
        # Few samples leave the tensor cores waiting for weights, each of which is read once.
        computing = Fraction(flops) * PS_PER_S / (peak * PRODUCT_EFFICIENCY)
        return round(max(computing, self._memory(weight_bytes)))

    def memory_ps(self, size: Fraction | int) -> int:
        """The time of kernels that read and write `size` bytes of memory, rounded to a picosecond."""
        return round(self._memory(size))

    def _memory(self, size: Fraction | int) -> Fraction:
        return Fraction(size) * PS_PER_S / (self.memory_bytes_per_s * MEMORY_EFFICIENCY)


V100 = Gpu(
    "V100",
    mixed_flops=125 * 10**12,
    # Its tensor cores have no TF32, so this is FP32 on the other cores.
    single_flops=15_700 * 10**9,
    memory_bytes_per_s=900 * 10**9,
    source="NVIDIA V100 data sheet (2020), SXM2",
)
A100 = Gpu(
    "A100",
    mixed_flops=312 * 10**12,
    single_flops=156 * 10**12,
    memory_bytes_per_s=1_555 * 10**9,
    source="NVIDIA A100 data sheet (2020), 40 GB; single precision by TF32",
)
H100 = Gpu(
    "H100",
    mixed_flops=989 * 10**12,
    single_flops=494 * 10**12,
    memory_bytes_per_s=3_350 * 10**9,
    source="NVIDIA H100 data sheet (2023), SXM5; single precision by TF32",
)
GPUS = {gpu.name: gpu for gpu in (V100, A100, H100)}
"""The GPUs by name."""
