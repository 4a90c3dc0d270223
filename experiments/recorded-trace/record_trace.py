"""Record a profiler trace of PyTorch: rank 0 of two that train with DistributedDataParallel on CPUs.

Needs CPU PyTorch. The ranks use Gloo over loopback, and no packet leaves the machine.
"""

from __future__ import annotations

import argparse
import gzip
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

WORLD_SIZE = 2
PORT = 29519
# Iterations before the recording: DDP makes its buckets, Gloo opens its connections.
WARM_UP_ITERATIONS = 2
WIDTH = 400
LAYERS = 6
BATCH_SIZE = 512
# Two layers of 0.64 MB each fill a bucket, so that an iteration has three all-reduces that are alike.
BUCKET_MB = 1


def train(rank: int, iterations: int, path: Path) -> None:
    """Train as `rank`; rank 0 writes its profiler trace to `path`, compressed."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=BUCKET_MB)
    optimiser = torch.optim.Adam(model.parameters())
    # `wait` and `warmup` are not recorded; together they are the warm-up.
    steps = schedule(wait=WARM_UP_ITERATIONS - 1, warmup=1, active=iterations)

    def write(profiler: profile) -> None:
        if rank == 0:
            with tempfile.NamedTemporaryFile(suffix=".json") as written:
                profiler.export_chrome_trace(written.name)
                # Without the time of compression, the same trace gives the same bytes.
                path.write_bytes(gzip.compress(Path(written.name).read_bytes(), mtime=0))

    with profile(
        activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=True, on_trace_ready=write
    ) as profiler:
        for _ in range(WARM_UP_ITERATIONS + iterations):
            optimiser.zero_grad()
            model(torch.randn(BATCH_SIZE, WIDTH)).sum().backward()
            optimiser.step()
            profiler.step()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json.gz")
    parser.add_argument("--iterations", type=int, default=6)
    arguments = parser.parse_args()
    torch.multiprocessing.spawn(train, (arguments.iterations, arguments.out), WORLD_SIZE)


if __name__ == "__main__":
    main()
