"""Reads workload text: a header with the parallelism, the number of layers, and a line for each layer."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hocket.errors import InputError
from hocket.text_inputs import (
    NANOSECOND_PS,
    Mistakes,
    bounded_time_ps,
    read_words,
    real,
    whole,
)
from hocket.training.simai.policies import DLRM, LAYER_POLICIES, POLICIES, TABLES_LAYER, GroupName, Policy
from hocket.training.workload import CollectiveKind
from hocket.units import LARGEST, shown

MAX_GPUS = 1_048_576
"""The limit on the GPUs of a workload."""

# SimAI reads counts by `std::stoi`, as 32-bit integers.
_LARGEST_COUNT = 2**31 - 1

_KINDS: dict[str, CollectiveKind] = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
    "BROADCAST": "broadcast",
}
_SUFFIXES: dict[str, GroupName] = {"_EP": "expert", "_DP_EP": "expert-data"}
_EXCHANGE = re.compile(rf"({'|'.join(_KINDS)})({'|'.join(_SUFFIXES)})?")

# The columns of a layer, in order.
_COLUMNS = (
    "name",
    "dependency",
    "forward compute",
    "forward exchange",
    "forward bytes",
    "input gradient compute",
    "input gradient exchange",
    "input gradient bytes",
    "weight gradient compute",
    "weight gradient exchange",
    "weight gradient bytes",
    "update time",
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Collective:
    """The exchange after a compute.

    `bytes` are those that nccl-tests counts: for an all-gather the gathered size, which AICB writes and SimAI
    divides by the number of ranks.
    """

    kind: CollectiveKind
    group: GroupName
    bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """One layer: three computes in picoseconds, each with the exchange after it."""

    name: str
    policy: Policy
    forward_ps: int
    forward: Collective | None
    input_gradient_ps: int
    input_gradient: Collective | None
    weight_gradient_ps: int
    weight_gradient: Collective | None
    update_ps: int


@dataclass(frozen=True, slots=True)
class Header:
    """The first line. Unspecified values are `None`, or 1 for degrees of parallelism and microbatches.

    `checkpoints` and `initiates` are indices of layers: when the backward pass comes to one of `initiates`,
    the forward pass is repeated from the checkpoint before it. `last_bottom` is the index of a DLRM's last
    layer that does not need the output of the embedding tables. Stages send `pipeline_bytes` to each other
    for each microbatch.
    """

    policy: str
    tensor: int | None = None
    expert: int = 1
    pipeline: int = 1
    microbatches: int = 1
    gpus: int | None = None
    pipeline_bytes: int = 0
    checkpoints: tuple[int, ...] = ()
    initiates: tuple[int, ...] = ()
    last_bottom: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadText:
    """A workload file, each line checked."""

    path: Path
    header: Header
    rows: tuple[Row, ...]


def read_text(path: Path) -> WorkloadText:
    """Reads and checks a file. Raises `InputError` with the line and column of every mistake."""
    mistakes = Mistakes(path)
    lines = read_words(path)
    if len(lines) < 2:
        raise InputError(
            f"{path}: has {len(lines)} lines; at least the parallelism and the number of layers are needed"
        )
    (first, words), (second, counted), *rest = lines
    header = _header(words, first, len(rest), mistakes)
    mistakes.check()
    rows = tuple(_row(words, line, place, header, mistakes) for place, (line, words) in enumerate(rest))
    count = _value(
        mistakes, second, "number of layers", lambda: whole(" ".join(counted), 1, _LARGEST_COUNT), 0
    )
    # 0 stands for a number that could not be read, which is already among the mistakes.
    if count not in (0, len(rows)):
        mistakes.add(second, f"gives {count} layers, but {len(rows)} follow")
    mistakes.check()
    return WorkloadText(path, header, tuple(row for row in rows if row is not None))


def _header(words: Sequence[str], line: int, layers: int, mistakes: Mistakes) -> Header:
    policy = words[0]
    if policy not in POLICIES:
        mistakes.add(line, f"{shown(policy)} is not a known parallelism; known: {', '.join(POLICIES)}")
        # A placeholder: the caller raises the mistake before it uses the header.
        return Header("MICRO")
    reader = _HeaderReader(line, layers, mistakes)
    reader.read(words[1:])
    counts = reader.counts
    # SimAI reads these keys only for transformers. To ignore them here would silently simulate another job.
    for key in ("ep", "pp", "ga") if not POLICIES[policy].has_experts else ():
        if counts.get(key, 1) > 1:
            mistakes.add(line, f"{key}: is {counts[key]}; must be 1 for {policy}")
    for key, places in reader.lists.items():
        if places and policy != "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
            mistakes.add(line, f"{key}: is only for HYBRID_TRANSFORMER_FWD_IN_BCKWD, not {policy}")
    header = Header(
        policy=policy,
        tensor=counts.get("model_parallel_npu_group"),
        expert=counts.get("ep", 1),
        pipeline=counts.get("pp", 1),
        microbatches=counts.get("ga", 1),
        gpus=counts.get("all_gpus"),
        pipeline_bytes=counts.get("pp_comm", 0),
        checkpoints=reader.lists.get("checkpoints", ()),
        initiates=reader.lists.get("checkpoint_initiates", ()),
        last_bottom=counts.get("dlrm_last_bottom_layer"),
    )
    _check_places(header, line, layers, mistakes)
    return header


def _check_places(header: Header, line: int, layers: int, mistakes: Mistakes) -> None:
    """Adds a mistake for each layer that the header needs but the file does not have."""
    for place in header.initiates:
        if not any(checkpoint <= place for checkpoint in header.checkpoints):
            mistakes.add(
                line, f"checkpoint_initiates: layer {place}, counted from 0, has no checkpoint before it"
            )
    if header.policy in DLRM and header.last_bottom is None:
        mistakes.add(line, "DLRM_LAST_BOTTOM_LAYER is missing")
    if header.last_bottom is not None and header.last_bottom >= layers:
        mistakes.add(
            line, f"DLRM_LAST_BOTTOM_LAYER: is {header.last_bottom}; the layers are 0 to {layers - 1}"
        )


# The smallest and the largest value of each key of the header; keys are in lower case.
_COUNTS = {
    "model_parallel_npu_group": (1, MAX_GPUS),
    "ep": (1, MAX_GPUS),
    "pp": (1, MAX_GPUS),
    # Virtual stages: only SimAI's estimate of pipeline bubbles, which divides by them, uses their number.
    "vpp": (0, _LARGEST_COUNT),
    "ga": (1, _LARGEST_COUNT),
    "all_gpus": (1, MAX_GPUS),
    "pp_comm": (0, LARGEST),
    "dlrm_last_bottom_layer": (0, _LARGEST_COUNT),
}
_LISTS = ("checkpoints", "checkpoint_initiates")
_ALIASES = {"expert_parallel_npu_group": "ep"}


class _HeaderReader:
    """Parses a header's keys and values. A key ends with a colon, which some generators leave out."""

    def __init__(self, line: int, layers: int, mistakes: Mistakes) -> None:
        self.counts: dict[str, int] = {}
        self.lists: dict[str, tuple[int, ...]] = {}
        self._line = line
        self._layers = layers
        self._mistakes = mistakes

    def read(self, words: Sequence[str]) -> None:
        """Reads all keys up to the first mistake, after which keys and values cannot be distinguished."""
        place = 0
        # Older files of a DLRM have the number without its key.
        if words and words[0].isdecimal():
            words = ["DLRM_LAST_BOTTOM_LAYER:", *words]
        while place < len(words):
            written = words[place].removesuffix(":")
            key = _ALIASES.get(written.lower(), written.lower())
            if key in _LISTS:
                taken = self._list(written, words[place + 1 :])
                self.lists[key] = taken or ()
                place += 2 + len(taken or ())
            elif key in _COUNTS:
                taken = self._number(written, words[place + 1 : place + 2], *_COUNTS[key])
                self.counts[key] = taken[0] if taken else 0
                place += 2
            else:
                known = ", ".join((*_COUNTS, *_LISTS))
                self._mistakes.add(self._line, f"{shown(written)} is not a known key; known: {known}")
                return
            if taken is None:
                return

    def _number(self, key: str, words: Sequence[str], least: int, most: int) -> tuple[int, ...] | None:
        if not words:
            self._mistakes.add(self._line, f"{key}: has no value")
            return None
        return _value(self._mistakes, self._line, key, lambda: (_number(words[0], least, most),), None)

    def _list(self, key: str, words: Sequence[str]) -> tuple[int, ...] | None:
        """Reads a count, then as many indices of layers."""
        count = self._number(key, words[:1], 0, self._layers)
        if count is None:
            return None
        places = words[1 : 1 + count[0]]
        if len(places) < count[0]:
            self._mistakes.add(self._line, f"{key}: gives {count[0]} layers, but {len(places)} follow")
            return None
        most = self._layers - 1
        return _value(
            self._mistakes, self._line, key, lambda: tuple(_number(place, 0, most) for place in places), None
        )


def _row(words: Sequence[str], line: int, place: int, header: Header, mistakes: Mistakes) -> Row | None:
    is_customized = header.policy == "HYBRID_CUSTOMIZED"
    columns = len(_COLUMNS) + is_customized
    # With a column too many or too few, it is unknown which one each value belongs to.
    if len(words) != columns:
        mistakes.add(line, f"has {len(words)} columns; a layer of {header.policy} has {columns}")
        return None
    policy = POLICIES[header.policy]
    if header.policy in DLRM and place == 0:
        policy = TABLES_LAYER
    if is_customized:
        if words[-1] not in LAYER_POLICIES:
            known = ", ".join(LAYER_POLICIES)
            mistakes.add(
                line, f"column {columns}: {shown(words[-1])} is not a layer's parallelism; known: {known}"
            )
            return None
        policy = POLICIES[words[-1]]

    def time_ps(column: int) -> int:
        return _value(
            mistakes, line, _column(column), lambda: bounded_time_ps(words[column], NANOSECOND_PS), 0
        )

    def exchange(column: int, group: GroupName | None) -> Collective | None:
        size = _value(mistakes, line, _column(column + 1), lambda: _number(words[column + 1], 0, LARGEST), 0)
        named = _value(mistakes, line, _column(column), lambda: _exchange(words[column], group, policy), None)
        # AICB writes a collective of 0 bytes where a layer has nothing to exchange.
        return Collective(*named, size) if named is not None and size else None

    # Reserved, but must be a number: generators write -1.
    _value(mistakes, line, _column(1), lambda: real(words[1]), None)
    return Row(
        name=words[0],
        policy=policy,
        forward_ps=time_ps(2),
        forward=exchange(3, policy.passes),
        input_gradient_ps=time_ps(5),
        input_gradient=exchange(6, policy.passes),
        weight_gradient_ps=time_ps(8),
        weight_gradient=exchange(9, policy.weights),
        update_ps=time_ps(11),
    )


def _column(column: int) -> str:
    """The name of a column in messages, counted from 1."""
    return f"column {column + 1}, {_COLUMNS[column]}"


def _exchange(text: str, group: GroupName | None, policy: Policy) -> tuple[CollectiveKind, GroupName] | None:
    """The collective and its group; `None` for no exchange."""
    if text == "NONE":
        return None
    match = _EXCHANGE.fullmatch(text)
    if match is None:
        known = ", ".join(_KINDS)
        raise InputError(
            f"{shown(text)} is not supported; known: NONE, {known}, each also with _EP or _DP_EP"
        )
    kind, suffix = match.groups()
    if suffix is not None and not policy.has_experts:
        raise InputError(f"{shown(text)} names experts, which only HYBRID_TRANSFORMER supports")
    used = _SUFFIXES[suffix] if suffix is not None else group
    if used is None:
        raise InputError(f"must be NONE, as this parallelism exchanges nothing here: got {shown(text)}")
    return _KINDS[kind], used


def _number(text: str, least: int, most: int) -> int:
    """A whole number, which some generators write as a fraction: 25165824.0."""
    value = real(text)
    if value.denominator == 1 and least <= value <= most:
        return int(value)
    raise InputError(f"must be a whole number from {least} to {most}: got {shown(text)}")


def _value(mistakes: Mistakes, line: int, what: str, parse: Callable[[], Value], instead: Value) -> Value:
    """The result of `parse`; if it raises, adds a mistake at `what` and returns `instead`."""
    try:
        return parse()
    except InputError as error:
        mistakes.add(line, f"{what}: {error}")
        return instead
