"""Chakra execution traces (MLCommons), one `.et` file for each rank, as the workload of a training job.

`read_chakra` is all that is used from outside. Reading is `nodes` (with the messages of `schema`); who
communicates with whom `communicators`; what a rank does `programs`; whether ranks fit together `agreement`.
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
"""The name under which generators put the communicators beside the traces."""

# How what PyTorch itself writes comes, alone or packed.
_OTHER_SUFFIXES = (".json", ".gz", ".tgz", ".zip")

_NAME = re.compile(r"(?P<name>.*)\.(?P<rank>0|[1-9][0-9]{0,8})\.et", re.DOTALL)


def read_chakra(
    source: str | Path | Sequence[str | Path],
    *,
    groups: str | Path | None = None,
    roofline: Roofline | None = None,
    dimensions: Sequence[int] | None = None,
) -> Workload:
    """The workload in the traces of `source`: a directory with files `NAME.RANK.et`, what their paths begin
    with up to the rank, one file, or several. There must be a file for each rank from 0.

    `groups` is ASTRA-sim's file of communicators, for traces that name them; without it, `comm_group.json` in
    the directory is taken, and what PyTorch wrote into the traces comes before both. `roofline` gives the
    time of computes without a duration. `dimensions` says how many ranks each dimension of the topology has,
    for traces whose collectives involve only some.

    A node that the trace gives to the CPU takes no time, unless the trace has no compute but on the CPU. A
    collective of no bytes or of a single rank takes none either. Raises `InputError` with file, node and
    reason: for files that are missing or damaged, dependencies that are missing or go round, and ranks that
    do not fit together.
    """
    files = _files(source)
    if groups is None and (beside := files[0].parent / GROUPS_FILE).is_file():
        groups = beside
    check_dimensions(dimensions, len(files))
    named = {} if groups is None else read_groups(Path(groups), len(files))
    communicators = Communicators(len(files), named, dimensions)
    agreement = Agreement(communicators)
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
        raise InputError(f"{files[0].parent}: no node of the traces takes any time on a GPU or communicates")
    return Workload(
        programs=tuple(programs),
        groups=tuple(communicators.groups),
        ranks=tuple(
            Rank(number, tuple(its_groups))
            for number, its_groups in zip(numbers, _with_all(used, communicators.groups), strict=True)
        ),
    )


def _with_all(used: list[list[int]], groups: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """By rank: the groups that its program uses in the order of its communicators, then all others that it is
    in.
    """
    communicators = [dict.fromkeys(its_groups) for its_groups in used]
    for group, members in enumerate(groups):
        for rank in members:
            communicators[rank].setdefault(group)
    return [list(its_groups) for its_groups in communicators]


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The file of each rank, in their order. Raises `InputError` where one is missing or there are two."""
    if isinstance(source, str | Path):
        where, found = f"{source}", _found(Path(source))
    else:
        where, found = "traces", [path for each in source for path in _found(Path(each))]
    if not found:
        raise InputError(f"{where}: none is given")
    ranks: dict[int, Path] = {}
    names = set()
    for path in found:
        match = _NAME.fullmatch(path.name)
        if match is None:
            hint = f"; {CONVERTED}" if path.suffix in _OTHER_SUFFIXES else ""
            raise InputError(f"{path}: must be named such as NAME.RANK.et, with the number of the rank{hint}")
        rank = int(match["rank"])
        if rank in ranks:
            raise InputError(f"{path}: is rank {rank}, as is {ranks[rank]}")
        ranks[rank] = path
        names.add(match["name"])
    if len(names) > 1:
        some = " and ".join(sorted(names)[:2])
        raise InputError(
            f"{where}: has traces of several jobs, {some}; say which, such as {sorted(names)[0]}"
        )
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise InputError(f"{where}: the file of rank {missing} is missing; the highest rank is {max(ranks)}")
    return [ranks[rank] for rank in range(len(ranks))]


def _found(source: Path) -> list[Path]:
    """The files of a directory, those whose paths begin with `source` up to the rank, or `source` itself."""
    try:
        is_folder = source.is_dir()
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
        raise InputError(f"{source}: no trace; the file of rank 0 of a job is named such as NAME.0.et{hint}")
    return files
