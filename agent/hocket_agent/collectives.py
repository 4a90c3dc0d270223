"""Observes when PyTorch starts communication: by the communication hook of `DistributedDataParallel`, and for
anything else, including FSDP, by wrapping the functions of `torch.distributed`.

Which functions exist depends on PyTorch's version, so they are looked up by name rather than by version.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hocket_agent.communication import Communication

# FSDP of PyTorch 2 calls all_gather_into_tensor and reduce_scatter_tensor; in 1.13 it calls the equivalents
# named `_base`. Tensor, pipeline and expert parallelism use the others. isend and irecv must stay unwrapped:
# PyTorch compares the function in a P2POp with the originals.
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
    """Whether the model is a `DistributedDataParallel`. The method `register_comm_hook` does not show this:
    FSDP has it as well, for hooks with another signature.
    """
    parallel = sys.modules.get("torch.nn.parallel")
    return parallel is not None and isinstance(model, parallel.DistributedDataParallel)


def watch_ddp(model: Any, communication: Communication, state: Any = None, hook: Any = None) -> None:
    """Registers a hook that reports each bucket to `communication` and then calls `hook`, or without one the
    model's usual all-reduce.

    Raises `RuntimeError` if the model already has a hook.
    """
    inner = hook or _all_reduce_hook()

    def ended(future: Any) -> Any:
        communication.span_ended()
        return future.value()

    def watched(state: Any, bucket: Any) -> Any:
        if bucket.buffer().is_cuda:
            # On a GPU the future completes when the work is enqueued, not when the bytes have arrived.
            communication.started()
            return inner(state, bucket)
        communication.span_started()
        return inner(state, bucket).then(ended)

    # DistributedDataParallel refuses annotations that are not its own classes.
    watched.__annotations__.clear()
    model.register_comm_hook(state, watched)


def _all_reduce_hook() -> Any:
    """The all-reduce of a model without a hook."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    return allreduce_hook


def watch_collectives(communication: Communication) -> Callable[[], None]:
    """Reports to `communication` each collective called as `torch.distributed.NAME`, or under a name by which
    a module has already imported it. Returns a function that undoes this.

    Raises `ImportError` if PyTorch has not been imported.
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
    """Every module attribute that is one of `functions`, as (module's namespace, name, function).

    Megatron-Core imports some under names of its own. PyTorch's own modules are left alone: they call one
    collective from within another, which would count twice.
    """
    # By identity: comparing any attribute of any module could run its code.
    known = {id(function) for function in functions}
    # Copied, since another thread may import modules meanwhile.
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
