"""One rank of a small job, run by the installed PyTorch: prints its agent's status and its weights.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=… python3 ddp_job.py HOW ITERATIONS

HOW its gradients are all-reduced: by DistributedDataParallel (`plain`, and `unseen` by the agent), by a hook
of its own (`hook`), or by the job itself (`functions`).
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hocket_agent import Agent


def halved(_: object, bucket: dist.GradBucket) -> torch.futures.Future:
    """A communication hook of a user's own: gradients, summed and halved."""
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0] / 2)


def pass_on(activations: torch.Tensor) -> None:
    """Pipeline parallelism: each rank sends to the next."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(activations)
    sends = dist.P2POp(dist.isend, activations, (rank + 1) % ranks)
    receives = dist.P2POp(dist.irecv, received, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()
    assert received.equal(activations)


def train(how: str, iterations: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    agent = Agent.from_environment()
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8))
    if how == "functions":
        agent.attach(model)
    else:
        model = DistributedDataParallel(model, bucket_cap_mb=0.01)
        if how != "unseen":
            agent.attach(model, hook=halved if how == "hook" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(iterations):
        with agent.iteration():
            # Stands in for computation on a GPU.
            time.sleep(0.02)
            optimizer.zero_grad()
            model(torch.randn(4, 64, generator=batches)).square().mean().backward()
            if how == "functions":
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
                pass_on(torch.ones(8))
            optimizer.step()
    agent.close()
    weights = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(json.dumps({"status": agent.status(), "weights": weights}))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(sys.argv[1], int(sys.argv[2]))
    dist.destroy_process_group()
