"""Where PyTorch tells that communication starts: in the communication hook of `DistributedDataParallel`, and
for anything else, FSDP among it, in the functions of `torch.distributed` that it calls.

What is there depends on PyTorch's version, so features are looked up, not versions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hocket_agent.communication import Communication

# FSDP of PyTorch 2 calls all_gather_into_tensor and reduce_scatter_tensor, of 1.13 the two of the same
# meaning with `_base`; tensor, pipeline and expert parallelism use the others. Not isend and irecv: PyTorch
# compares what a P2POp is given with the functions themselves.
_COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "_all_gather_base",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "batch_isend_irecv",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "_reduce_scatter_base",
    "send",
)


def is_ddp(model: Any) -> bool:
    """Whether it is a `DistributedDataParallel`; FSDP's hooks, of the same name, are other ones."""
    parallel = sys.modules.get("torch.nn.parallel")
    return parallel is not None and isinstance(model, parallel.DistributedDataParallel)


def watch_ddp(model: Any, communication: Communication, state: Any = None, hook: Any = None) -> None:
    """Tells `communication` of each bucket. The model's hook becomes one that then calls `hook`, or, without
    one, the all-reduce that the model does by itself.

    `RuntimeError` if the model has a hook already.
    """
    inner = hook or _all_reduce_hook()

    def ended(future: Any) -> Any:
        communication.span_ended()
        return future.value()

    def watched(state: Any, bucket: Any) -> Any:
        if bucket.buffer().is_cuda:
            # Its future is done when the GPU has been told, not when the bytes have arrived.
            communication.started()
            return inner(state, bucket)
        communication.span_started()
        return inner(state, bucket).then(ended)

    # DistributedDataParallel refuses annotations that are not its own classes.
    watched.__annotations__.clear()
    model.register_comm_hook(state, watched)


def _all_reduce_hook() -> Any:
    """What a model without a hook does."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    return allreduce_hook


def watch_collectives(communication: Communication) -> Callable[[], None]:
    """Tells `communication` of each collective that any code calls as `torch.distributed.NAME`, or by a name
    that a module has for that function by now. What is returned takes that back.

    `ImportError` if PyTorch has not been imported.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None:
        raise ImportError("torch.distributed is not imported")
    originals = [getattr(distributed, name) for name in _COLLECTIVES if hasattr(distributed, name)]
    replaced = list(_holders(originals))
    watched = {id(original): _watched(original, communication) for original in originals}
    for names, name, original in replaced:
        names[name] = watched[id(original)]

    def undo() -> None:
        for names, name, original in replaced:
            names[name] = original

    return undo


def _holders(functions: list[Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Where modules have one of `functions`: their names, which of them, and the function.

    Megatron-Core has names of its own for some. PyTorch's own modules call them within each other, which
    counts once.
    """
    known = {id(function) for function in functions}
    for title, module in list(sys.modules.items()):
        if title == "torch.distributed" or title.partition(".")[0] != "torch":
            names = getattr(module, "__dict__", {})
            for name, value in list(names.items()):
                if id(value) in known:
                    yield names, name, value


def _watched(original: Callable[..., Any], communication: Communication) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        communication.started()
        return original(*args, **kwargs)

    return watched
