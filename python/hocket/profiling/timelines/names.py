"""Names in profiler traces: kinds of collectives, and the sizes of data types."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KINDS: Mapping[str, str] = {
    "allreduce": "all-reduce",
    "allreducesparse": "all-reduce",
    "allgather": "all-gather",
    "allgatherbase": "all-gather",
    "allgatherintotensor": "all-gather",
    "reducescatter": "reduce-scatter",
    "reducescatterbase": "reduce-scatter",
    "reducescattertensor": "reduce-scatter",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-all",
    "alltoallbase": "all-to-all",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "send-recv",
    "send": "send",
    "isend": "send",
    "recv": "recv",
    "irecv": "recv",
    "recvanysource": "recv",
    "barrier": "barrier",
}
# Longer names first, since "ReduceScatter" contains "Reduce".
_IN_KERNELS = tuple(sorted(_KINDS, key=len, reverse=True))

# ATen's scalar types (PyTorch `c10/core/ScalarType.h`), NCCL's data types (`nccl.h`) and their names in C++.
_DTYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8", "i8", "u8"), 1),
    **dict.fromkeys(("unsigned char", "signed char"), 1),
    **dict.fromkeys(
        ("float8e4m3fn", "float8e5m2", "float8e4m3fnuz", "float8e5m2fnuz", "f8e4m3", "f8e5m2"), 1
    ),
    **dict.fromkeys(
        ("short", "half", "bfloat16", "int16", "uint16", "float16", "f16", "bf16", "short int"), 2
    ),
    **dict.fromkeys(("int", "float", "int32", "uint32", "float32", "i32", "u32", "f32", "complexhalf"), 4),
    **dict.fromkeys(("long", "double", "int64", "uint64", "float64", "i64", "u64", "f64", "long int"), 8),
    **dict.fromkeys(("complexfloat", "complex64"), 8),
    **dict.fromkeys(("complexdouble", "complex128"), 16),
}


def collective_kind(name: str) -> str | None:
    """The kind of the collective that PyTorch calls `name`; None if it is not a collective.

    >>> collective_kind("_allgather_base"), collective_kind("nccl:all_reduce"), collective_kind("wait")
    ('all-gather', 'all-reduce', None)
    """
    plain = re.sub(r"[^a-z]", "", name.rpartition(":")[2].lower()).removesuffix("coalesced")
    return _KINDS.get(plain)


def kernel_kind(name: str) -> str:
    """The kind of the collective that NCCL's kernel `name` performs; "collective" if the name does not tell.

    >>> kernel_kind("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    'reduce-scatter'
    >>> kernel_kind("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)")
    'send-recv'
    """
    plain = re.sub(r"[^a-z]", "", name.partition("(")[0].lower())
    return next((_KINDS[each] for each in _IN_KERNELS if each in plain), "collective")


def dtype_bytes(name: str) -> int | None:
    """Bytes per element of the data type `name`, as spelled by PyTorch, C++ or NCCL; None if unknown.

    >>> dtype_bytes("c10::BFloat16"), dtype_bytes("Float"), dtype_bytes("ncclFloat64"), dtype_bytes("text")
    (2, 4, 8, None)
    """
    plain = name.rpartition(":")[2].lower().removeprefix("nccl").removeprefix("torch.").replace("_", "")
    return _DTYPE_BYTES.get(plain)
