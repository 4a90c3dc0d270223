"""Measures how long a profiler trace of PyTorch takes to profile: about 100 MB, generated here.

python benches/profile.py
"""

import gzip
import json
import resource
import tempfile
import time
from pathlib import Path

from hocket.profiling.timelines import profile_timeline, read_kineto

ITERATIONS = 40
LAYERS = 100
PERIOD_US = 400_000.0
# The number of ATen operations and CUDA calls per kernel in recorded profiler traces.
CALLS_PER_KERNEL = 3


def trace() -> bytes:
    """An FSDP job as JSON: an all-gather for each layer in the forward and in the backward pass, and a
    reduce-scatter for each layer in the backward pass.
    """
    events: list[dict[str, object]] = []
    for iteration in range(ITERATIONS):
        for layer in range(2 * LAYERS):
            begin_us = 4e15 + iteration * PERIOD_US + layer * 0.9 * PERIOD_US / (2 * LAYERS)
            _kernel(events, "ncclDevKernel_AllGather_RING_LL", begin_us, 400.0, "_allgather_base", 1 << 24)
            for part in range(12):
                _kernel(
                    events, "void cutlass::Kernel<cutlass_80_tensorop>", begin_us + 400 + 110 * part, 100.0
                )
            if layer >= LAYERS:
                _kernel(
                    events,
                    "ncclDevKernel_ReduceScatter_Sum_f32",
                    begin_us + 500,
                    300.0,
                    "_reduce_scatter_base",
                    1 << 24,
                )
    return json.dumps(
        {"schemaVersion": 1, "distributedInfo": {"world_size": 8}, "traceEvents": events}
    ).encode()


def _kernel(
    events: list[dict[str, object]], name: str, ts: float, dur: float, collective: str = "", elements: int = 0
) -> None:
    """Adds a kernel, and the calls that launch it, to `events`; `collective` is that of an NCCL kernel."""
    number = len(events)
    for call in range(CALLS_PER_KERNEL):
        args = {"External id": number, "Ev Idx": number + call, "Sequence number": call, "Fwd thread id": 0}
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::linear",
                "pid": 1,
                "tid": 1,
                "ts": ts - 9,
                "dur": 5.125,
            }
            | {"args": args}
        )
    grid = {"grid": [8, 1, 1], "block": [512, 1, 1], "est. achieved occupancy %": 31, "warps per SM": 1.185}
    known = {
        "Collective name": collective,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": 8,
        "dtype": "BFloat16",
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }
    args = {
        "External id": number,
        "device": 0,
        "stream": 20 if collective else 7,
        "correlation": number,
        **grid,
    }
    events.append(
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
        | {"args": args | known if collective else args}
    )


def main() -> None:
    content = trace()
    with tempfile.TemporaryDirectory() as directory:
        for name, written in (("trace.json", content), ("trace.json.gz", gzip.compress(content, 1))):
            path = Path(directory) / name
            path.write_bytes(written)
            # Time of the processor, on which other work has little effect.
            before = time.process_time()
            profile = profile_timeline(read_kineto(path))
            took_s = time.process_time() - before
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name}: {len(content) / 1e6:.0f} MB in {took_s:.2f} s, peak {peak_mb:.0f} MB; "
                f"period {profile.period_s * 1e3:.1f} ms, confidence {profile.confidence:.2f}"
            )


if __name__ == "__main__":
    main()
