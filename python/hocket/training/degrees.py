"""How GPUs are divided by data, tensor and pipeline parallelism: numbering of ranks, and communicators."""

from dataclasses import dataclass, fields

from hocket.errors import InputError
from hocket.training.workload import Rank
from hocket.units import shown


@dataclass(frozen=True, slots=True)
class Parallel:
    """Degrees of parallelism: number of replicas, parts of each layer, and stages of the chain of layers.

    `data=None` means as many replicas as the GPUs allow.
    """

    data: int | None = None
    tensor: int = 1
    pipeline: int = 1


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of parallelism with the number of replicas known.

    Ranks are numbered as Megatron-LM does: tensor fastest, then data, then pipeline.
    """

    data: int
    tensor: int
    pipeline: int

    def rank(self, tensor: int, data: int, stage: int) -> int:
        """The rank of part `tensor` of the layers of `stage`, in replica `data`."""
        return tensor + self.tensor * (data + self.data * stage)


def divide(gpus: int, parallel: Parallel) -> Degrees:
    """The degrees of `parallel` on `gpus` GPUs.

    Raises `InputError` if a degree is below 1 or their product is not `gpus`.

    >>> divide(16, Parallel(tensor=4, pipeline=2))
    Degrees(data=2, tensor=4, pipeline=2)
    """
    if gpus < 1:
        raise InputError(f"gpus: {shown(gpus)} is below 1")
    for each in fields(parallel):
        degree = getattr(parallel, each.name)
        if degree is not None and degree < 1:
            raise InputError(f"parallel: {each.name} = {shown(degree)} is below 1")
    replica = parallel.tensor * parallel.pipeline
    # At least 1, so that the message shows a product that the reader can check.
    data = parallel.data if parallel.data is not None else max(gpus // replica, 1)
    if data * replica != gpus:
        raise InputError(
            f"parallel: data = {data} × tensor = {parallel.tensor} × pipeline = {parallel.pipeline} is "
            f"{data * replica} GPUs; the job has {gpus}"
        )
    return Degrees(data, parallel.tensor, parallel.pipeline)


@dataclass(frozen=True, slots=True)
class CommunicatorIndices:
    """The index of each communicator in a rank's list; `None` for a group of one rank, which needs none.

    `embedding` joins the first and the last stage, which both have the token embedding; only they are in it.
    """

    tensor: int | None
    data: int | None
    pipeline: int | None
    embedding: int | None


def communicator_indices(degrees: Degrees, *, tied: bool) -> CommunicatorIndices:
    """The communicators of `degrees`; `tied` tells whether the first and the last stage share weights."""
    # `embedding` is last because middle stages lack it: the other indices are then the same on every stage.
    needed = (degrees.tensor > 1, degrees.data > 1, degrees.pipeline > 1, tied and degrees.pipeline > 1)
    return CommunicatorIndices(*(sum(needed[:i]) if each else None for i, each in enumerate(needed)))


def layout(
    degrees: Degrees, indices: CommunicatorIndices
) -> tuple[tuple[tuple[int, ...], ...], tuple[Rank, ...]]:
    """All groups, kind by kind in the order of `CommunicatorIndices`, and all ranks in order.

    A rank's program is that of its stage. A pipeline's group is in the order of its stages, so that the index
    of a peer is its stage.
    """
    tensor, data, stages = range(degrees.tensor), range(degrees.data), range(degrees.pipeline)
    rank = degrees.rank
    # The order of groups within a kind must match the positions `within_kind` that ranks compute below.
    kinds: list[list[tuple[int, ...]]] = [
        [tuple(rank(t, d, s) for t in tensor) for s in stages for d in data],
        [tuple(rank(t, d, s) for d in data) for s in stages for t in tensor],
        [tuple(rank(t, d, s) for s in stages) for d in data for t in tensor],
        [(rank(t, d, 0), rank(t, d, stages[-1])) for d in data for t in tensor],
    ]
    groups: list[tuple[int, ...]] = []
    first: list[int | None] = []
    for index, members in zip(
        (indices.tensor, indices.data, indices.pipeline, indices.embedding), kinds, strict=True
    ):
        first.append(None if index is None else len(groups))
        groups += members if index is not None else []
    ranks = []
    for s in stages:
        for d in data:
            for t in tensor:
                replica = d * degrees.tensor + t
                within_kind = (s * degrees.data + d, s * degrees.tensor + t, replica, replica)
                is_member = (True, True, True, s in (0, stages[-1]))
                communicators = tuple(
                    start + position
                    for start, position, member in zip(first, within_kind, is_member, strict=True)
                    if start is not None and member
                )
                ranks.append(Rank(s, communicators))
    return tuple(groups), tuple(ranks)
