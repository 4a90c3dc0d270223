"""The recorded runs of an ns-3 based simulator that the packet engine is held against: where they are, and
what they say.

A directory of them has one folder per case, in it one per congestion control (`dcqcn`, or `dcqcn__shipped`
for another set of parameters) with the inputs and the completion times; `summary.csv` has the totals of each
run, `seeds.csv` those of the runs with other random numbers.
"""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hocket.errors import InputError
from hocket.hpcc import Study, load_study

DEFAULT = Path("../shared/reference/ns3")
"""Where the recorded runs lie beside a checkout."""

_INPUTS = ("config.txt", "topology.txt", "flow.txt")


@dataclass(frozen=True)
class Totals:
    """What is compared, of one run. `marks` counts marked packets that hosts received; `peak_queue_bytes` is
    the longest queue of any switch's port."""

    mean_fct_ns: float
    max_fct_ns: float
    pauses: float
    marks: float
    peak_queue_bytes: float


@dataclass(frozen=True)
class Case:
    """One recorded run with its repetitions.

    `recorded` has one entry per random seed that it was run with. `hops_per_s` are the packet-hops per
    second of processor time that the simulator reached; NaN if nobody wrote them down.
    """

    name: str
    policy: str
    parameters: str
    directory: Path
    recorded: tuple[Totals, ...]
    hops_per_s: float

    @property
    def folder(self) -> str:
        """Case and folder, as in `incast8/dcqcn__shipped`."""
        return f"{self.name}/{self.directory.name}"

    @property
    def has_inputs(self) -> bool:
        """Whether the run can be repeated."""
        return self.directory.is_dir()

    @contextmanager
    def study(self) -> Iterator[Study]:
        """The study that was run. Its inputs are there for as long as the context is."""
        with tempfile.TemporaryDirectory(prefix="hocket-") as unpacked:
            for name in _INPUTS:
                _unpack(self.directory / name, Path(unpacked) / name)
            yield load_study(Path(unpacked) / "config.txt")

    def completions(self) -> pl.DataFrame:
        """The recorded completion times: `flow`, its place in the file of flows, and `fct_ns`."""
        with tempfile.TemporaryDirectory(prefix="hocket-") as unpacked:
            path = Path(unpacked) / "fct.csv"
            _unpack(self.directory / "fct.csv", path)
            return pl.read_csv(path, columns=["flow", "fct_ns"])


def read_recorded(directory: str | Path) -> list[Case]:
    """All runs in the `summary.csv` of `directory`, in its order, also those without a folder of inputs.

    Raises `InputError` if there are none.
    """
    directory = Path(directory)
    if not (directory / "summary.csv").is_file():
        raise InputError(
            f"{directory.resolve()}: has no summary.csv. `hocket validate` compares with recorded runs of "
            "astra-network-ns3, an ns-3 based descendant of the HPCC simulator: inputs, completion times and "
            "totals. They are not part of this repository; name their directory with --reference"
        )
    try:
        summary = pl.read_csv(directory / "summary.csv")
        seeds = pl.read_csv(directory / "seeds.csv")
        return [_case(directory, row, seeds) for row in summary.to_dicts()]
    except (OSError, pl.exceptions.PolarsError, KeyError, TypeError) as error:
        raise InputError(f"{directory}: cannot be read as recorded runs: {error}") from None


def _case(directory: Path, row: dict[str, object], seeds: pl.DataFrame) -> Case:
    case, policy, parameters = str(row["case"]), str(row["cc"]), str(row["set"])
    folder = policy if parameters == "main" else f"{policy}__{parameters}"
    single = Totals(
        mean_fct_ns=_number(row["avg_fct_us"]) * 1e3,
        max_fct_ns=_number(row["max_fct_us"]) * 1e3,
        pauses=_number(row["pfc_pauses"]),
        marks=_number(row["ecn_marked_pkts"]),
        peak_queue_bytes=_number(row["max_queue_kb"]) * 1e3,
    )
    repeated = [
        Totals(
            mean_fct_ns=each["avg_fct_ns"],
            max_fct_ns=each["max_fct_ns"],
            # The repetitions did not count them.
            pauses=single.pauses,
            marks=each["ecn_marked"],
            peak_queue_bytes=each["max_port_queue_bytes"],
        )
        for each in seeds.filter(case=case, cc=folder).to_dicts()
    ]
    return Case(
        name=case,
        policy=policy,
        parameters=parameters,
        directory=directory / case / folder,
        recorded=tuple(repeated or [single]),
        hops_per_s=_number(row["pkt_hops_per_cpu_s"]),
    )


def _number(value: object) -> float:
    """A number of `summary.csv`, NaN where there is none."""
    return float(value) if isinstance(value, int | float) else float("nan")


def _unpack(source: Path, target: Path) -> None:
    packed = source.with_name(f"{source.name}.gz")
    if source.exists():
        shutil.copyfile(source, target)
    elif packed.exists():
        with gzip.open(packed) as compressed, target.open("wb") as plain:
            shutil.copyfileobj(compressed, plain)
    else:
        raise InputError(f"{source}: no such file, nor {packed.name}")
