"""Divides the GPUs of a workload file into groups, also if there are fewer GPUs than in the file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hocket.errors import InputError
from hocket.training.simai.policies import GroupName
from hocket.training.simai.source import MAX_GPUS, WorkloadText
from hocket.training.workload import Rank
from hocket.units import shown

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Number of ranks that share a layer, of replicas, of ranks that divide experts, and of stages.

    Ranks are numbered as Megatron-LM numbers them: tensor fastest, then data, then pipeline.
    """

    tensor: int
    data: int
    expert: int
    pipeline: int

    @property
    def gpus(self) -> int:
        """The number of ranks."""
        return self.tensor * self.data * self.pipeline

    def size(self, group: GroupName) -> int:
        """The number of ranks in each group of this name."""
        sizes: dict[GroupName, int] = {
            "all": self.gpus,
            "tensor": self.tensor,
            "data": self.data,
            "expert": self.expert,
            "expert-data": self.data // self.expert,
            "pipeline": self.pipeline,
        }
        return sizes[group]

    def groups(self, group: GroupName) -> Iterator[Members]:
        """All groups of this name; each rank belongs to one."""
        tensors, replicas, stages = range(self.tensor), range(self.data), range(self.pipeline)
        match group:
            case "all":
                yield tuple(range(self.gpus))
            case "pipeline":
                for replica in replicas:
                    for tensor in tensors:
                        yield tuple(self._rank(tensor, replica, stage) for stage in stages)
            case "tensor":
                for stage in stages:
                    for replica in replicas:
                        yield tuple(self._rank(tensor, replica, stage) for tensor in tensors)
            case "data" | "expert" | "expert-data":
                for stage in stages:
                    for among in self._replicas(group):
                        for tensor in tensors:
                            yield tuple(self._rank(tensor, replica, stage) for replica in among)

    def stage(self, rank: int) -> int:
        """The stage of the pipeline that a rank belongs to."""
        return rank // (self.tensor * self.data)

    def _replicas(self, group: GroupName) -> list[range]:
        """The replicas in each group: all, neighbours that divide experts, or those with the same experts."""
        match group:
            case "expert":
                starts = range(0, self.data, self.expert)
                return [range(start, start + self.expert) for start in starts]
            case "expert-data":
                return [range(first, self.data, self.expert) for first in range(self.expert)]
            case _:
                return [range(self.data)]

    def _rank(self, tensor: int, replica: int, stage: int) -> int:
        return tensor + self.tensor * (replica + self.data * stage)


def degrees_of(text: WorkloadText, gpus: int | None, tensor: int | None, pipeline: int | None) -> Degrees:
    """The degrees of a file; arguments override its values.

    With fewer GPUs there are fewer replicas: groups of replicas shrink, all others keep their size. With
    fewer stages and no number of GPUs, each stage keeps its GPUs.

    Raises `InputError` naming the value that is missing or does not divide.
    """
    header, path = text.header, text.path
    for name, value in (("gpus", gpus), ("tensor", tensor), ("pipeline", pipeline)):
        if value is not None and not 1 <= value <= MAX_GPUS:
            raise InputError(f"{path}: {name}: must be from 1 to {MAX_GPUS}: got {shown(value)}")
    stages = pipeline if pipeline is not None else header.pipeline
    if stages > header.pipeline:
        raise InputError(f"{path}: pipeline: {stages} stages are more than the file's pp, {header.pipeline}")
    # `all_gpus` counts the GPUs of all stages in the file.
    if gpus is None:
        gpus = _all_gpus(text) // header.pipeline * stages
    shared = tensor if tensor is not None else header.tensor
    if shared is None:
        # Without tensor groups the number makes no difference, and a file may leave it out.
        if any(row.policy.is_divided for row in text.rows):
            raise InputError(
                f"{path}: model_parallel_NPU_group, the number of ranks that share a layer, is missing; "
                "give it as `tensor`"
            )
        shared = 1
    if gpus % (shared * stages):
        raise InputError(
            f"{path}: {gpus} GPUs do not divide into {stages} stages of {shared} ranks that share a layer "
            "(model_parallel_NPU_group × pp)"
        )
    replicas = gpus // (shared * stages)
    if replicas % header.expert:
        raise InputError(
            f"{path}: {gpus} GPUs are {replicas} replicas, which do not divide into groups of "
            f"{header.expert} with all experts (ep); the fewest GPUs are {shared * stages * header.expert}"
        )
    return Degrees(shared, replicas, header.expert, stages)


def _all_gpus(text: WorkloadText) -> int:
    gpus = text.header.gpus
    if gpus is None:
        raise InputError(f"{text.path}: all_gpus is missing; give the number of GPUs as `gpus`")
    if gpus % text.header.pipeline:
        raise InputError(
            f"{text.path}: all_gpus: {gpus} do not divide into {text.header.pipeline} stages (pp)"
        )
    return gpus


class Communicators:
    """The groups in use and their indices in a rank's list; groups of one rank are left out."""

    def __init__(self, degrees: Degrees, used: Iterable[GroupName]) -> None:
        self._degrees = degrees
        several = [group for group in used if degrees.size(group) > 1]
        self._places = {group: place for place, group in enumerate(dict.fromkeys(several))}

    def place(self, group: GroupName) -> int | None:
        """The group's index in a rank's list; `None` for a group of one rank, which exchanges nothing."""
        return self._places.get(group)

    def layout(self) -> tuple[tuple[Members, ...], tuple[Rank, ...]]:
        """All groups and all ranks; a rank runs the program of its stage."""
        # Kind by kind, so that each rank's list has the order of the indices that `place` returns.
        groups: list[Members] = []
        of_rank: list[list[int]] = [[] for _ in range(self._degrees.gpus)]
        for name in self._places:
            for members in self._degrees.groups(name):
                for rank in members:
                    of_rank[rank].append(len(groups))
                groups.append(members)
        ranks = (Rank(self._degrees.stage(rank), tuple(numbers)) for rank, numbers in enumerate(of_rank))
        return tuple(groups), tuple(ranks)
