"""Chakra execution traces (MLCommons), one `.et` file for each rank, as the workload of a training job.

`read_chakra` is the public function. `nodes` reads files with the messages of `schema`, `communicators` finds
the groups of ranks, `programs` the operations of each rank, and `agreement` checks that ranks are consistent.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from hocket.errors import InputError
from hocket.training.chakra.agreement import Agreement
from hocket.training.chakra.communicators import (
    Communicators,
    check_dimensions,
    named_in_trace,
    read_groups,
)
from hocket.training.chakra.nodes import CONVERTED, read_nodes
from hocket.training.chakra.programs import Roofline, program_of
from hocket.training.workload import Operation, Rank, Workload

__all__ = ["GROUPS_FILE", "Roofline", "read_chakra"]

GROUPS_FILE = "comm_group.json"
"""The name of the file of communicators that generators write beside the traces."""

# Suffixes of PyTorch's own execution traces, plain or compressed.
_OTHER_SUFFIXES = (".json", ".gz", ".tgz", ".zip")

# Without leading zeros, so that a rank has one name; `DOTALL`, as names of files may contain line breaks.
_NAME = re.compile(r"(?P<name>.*)\.(?P<rank>0|[1-9][0-9]{0,8})\.et", re.DOTALL)


def read_chakra(
    source: str | Path | Sequence[str | Path],
    *,
    groups: str | Path | None = None,
    roofline: Roofline | None = None,
    dimensions: Sequence[int] | None = None,
) -> Workload:
    """The workload of the traces in `source`: a directory with files `NAME.RANK.et`, the part of their paths
    before the rank, one file, or several. There must be a file for each rank from 0.

    `groups` is ASTRA-sim's file of communicators, for traces that name them; its default is `comm_group.json`
    in the directory. Process groups that PyTorch wrote into the traces override both. `roofline` gives the
    time of computes without a duration. `dimensions` is the number of ranks along each dimension of the
    topology, for traces whose collectives involve only some dimensions.

    Computes on the CPU take no time, unless all computes of the trace are on the CPU. A collective of no
    bytes or of a single rank takes none either.

    Raises `InputError` with file, node and reason for files that are missing or damaged, dependencies that
    are missing or form a cycle, and ranks that are inconsistent.
    """
    files = _files(source)
    if groups is None and (beside := files[0].parent / GROUPS_FILE).is_file():
        groups = beside
    check_dimensions(dimensions, len(files))
    named = {} if groups is None else read_groups(Path(groups), len(files))
    communicators = Communicators(len(files), named, dimensions)
    agreement = Agreement(communicators)
    # Ranks with equal operations share a program: thousands of data parallel ranks have few different ones.
    programs: dict[tuple[Operation, ...], int] = {}
    numbers: list[int] = []
    used: list[list[int]] = []
    for rank, path in enumerate(files):
        nodes = read_nodes(path, rank)
        program = program_of(nodes, rank, communicators, named_in_trace(nodes, len(files)), roofline)
        agreement.add(rank, program)
        numbers.append(programs.setdefault(tuple(program.operations), len(programs)))
        used.append(program.groups)
    agreement.check()
    if not any(programs):
        raise InputError(f"{files[0].parent}: no node of the traces computes on a GPU or communicates")
    return Workload(
        programs=tuple(programs),
        groups=tuple(communicators.groups),
        ranks=tuple(
            Rank(number, tuple(communicators_of_rank))
            for number, communicators_of_rank in zip(
                numbers, _with_all(used, communicators.groups), strict=True
            )
        ),
    )


def _with_all(used: list[list[int]], groups: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """For each rank, the groups that its program uses, in the order of its communicators, then the remaining
    groups that it is a member of.
    """
    communicators = [dict.fromkeys(groups_of_rank) for groups_of_rank in used]
    for group, members in enumerate(groups):
        for rank in members:
            communicators[rank].setdefault(group)
    return [list(groups_of_rank) for groups_of_rank in communicators]


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files in the order of ranks. Raises `InputError` if a rank has no file or two."""
    if isinstance(source, str | Path):
        where, paths = f"{source}", _traces_at(Path(source))
    else:
        where, paths = "traces", [path for each in source for path in _traces_at(Path(each))]
    if not paths:
        raise InputError(f"{where}: none are given; name a directory or at least one file")
    ranks: dict[int, Path] = {}
    names = set()
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match is None:
            hint = f"; {CONVERTED}" if path.suffix in _OTHER_SUFFIXES else ""
            raise InputError(f"{path}: must be named NAME.RANK.et, where RANK is a number{hint}")
        rank = int(match["rank"])
        if rank in ranks:
            raise InputError(f"{path}: is a second file of rank {rank}; the first is {ranks[rank]}")
        ranks[rank] = path
        names.add(match["name"])
    if len(names) > 1:
        some = " and ".join(sorted(names)[:2])
        raise InputError(f"{where}: has traces of several jobs, {some}; name one, such as {sorted(names)[0]}")
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise InputError(f"{where}: the file of rank {missing} is missing; the highest rank is {max(ranks)}")
    return [ranks[rank] for rank in range(len(ranks))]


def _traces_at(source: Path) -> list[Path]:
    """The files of a directory, those whose paths before the rank are `source`, or `source` itself."""
    try:
        is_folder = source.is_dir()
        # A missing file named `.et` is a file, so that the message is about it and not about its directory.
        if not is_folder and (source.suffix == ".et" or source.is_file()):
            return [source]
        folder, names = (source, ".*") if is_folder else (source.parent, re.escape(source.name) + r"\.[0-9]+")
        files = sorted(
            path for path in folder.glob("*.et") if re.fullmatch(names + r"\.et", path.name, re.DOTALL)
        )
        others = any(path.name != GROUPS_FILE for path in source.glob("*.json"))
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read: {error}") from None
    if not files:
        hint = f"; {CONVERTED}" if others or source.suffix in _OTHER_SUFFIXES else ""
        raise InputError(f"{source}: has no trace; the file of rank 0 must be named NAME.0.et{hint}")
    return files
