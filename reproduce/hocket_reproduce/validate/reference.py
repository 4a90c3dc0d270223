"""The recorded runs of an ns-3 based simulator that the packet engine is compared with: their files and
totals.

Their directory has one folder per case, with one folder per congestion control (`dcqcn`, or `dcqcn__shipped`
for another set of parameters) for the inputs and the completion times. `summary.csv` has the totals of each
run, `seeds.csv` those of runs with other random seeds.
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
"""The directory of recorded runs, beside a checkout."""

_INPUTS = ("config.txt", "topology.txt", "flow.txt")


@dataclass(frozen=True)
class Totals:
    """The totals of one run that are compared. `marks` is the number of marked packets that hosts received,
    `peak_queue_bytes` the longest queue of any switch's port."""

    mean_fct_ns: float
    max_fct_ns: float
    pauses: float
    marks: float
    peak_queue_bytes: float


@dataclass(frozen=True)
class Case:
    """One recorded run with its repetitions.

    `recorded` has one entry per random seed. `hops_per_s` is the simulator's speed in packet-hops per second
    of processor time; NaN if it was not recorded.
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
        """Whether the run's inputs are there, so that it can be repeated."""
        return self.directory.is_dir()

    @contextmanager
    def study(self) -> Iterator[Study]:
        """The study that was run; its unpacked inputs exist within the context."""
        with tempfile.TemporaryDirectory(prefix="hocket-") as unpacked:
            for name in _INPUTS:
                _unpack(self.directory / name, Path(unpacked) / name)
            yield load_study(Path(unpacked) / "config.txt")

    def completions(self) -> pl.DataFrame:
        """The recorded completion times: `flow` (its index in the file of flows) and `fct_ns`."""
        with tempfile.TemporaryDirectory(prefix="hocket-") as unpacked:
            path = Path(unpacked) / "fct.csv"
            _unpack(self.directory / "fct.csv", path)
            return pl.read_csv(path, columns=["flow", "fct_ns"])


def read_recorded(directory: str | Path) -> list[Case]:
    """All runs in the `summary.csv` of `directory`, in its order, including those without a folder of inputs.

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
            # The repetitions did not record PAUSE frames.
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
    """A number of `summary.csv`; NaN for an empty cell."""
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
